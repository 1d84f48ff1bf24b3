package db_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/movestest"
)

const (
	gemini = `SELECT moves.trigger_sync($1, parameters => '{"provider": "gemini"}')`
	// ofGemini is a connector whose next run has its parameters.
	ofGemini = `c.next_parameters = '{"provider": "gemini"}'`
)

// ofJobs makes what is of the types web and file a job.
func (b *base) ofJobs() {
	b.Helper()
	b.exec(`UPDATE connector_types SET kind = 'job' WHERE name IN ('web', 'file')`)
}

// ofItsOwn is where a connector stands by itself: all that a run with parameters leaves alone.
const ofItsOwn = `(to_jsonb(c) - ARRAY['next_parameters', 'parameters_due_at', 'due_at', 'kept_plan', 'run_id', 'max_retries'])::text`

// stands is what is written down before a run with parameters, to be compared with after it.
func (b *base) stands(id int32) string {
	b.Helper()
	return one[string](b, `SELECT `+ofItsOwn+` FROM connectors c WHERE id = $1`, id)
}

// withParameters is the try of a run with parameters.
func (b *base) withParameters(id int32) lifecycle.Try {
	b.Helper()
	return movestest.PickUp(b, b.conn, id, movestest.ClaimAsked(b, b.conn, id), time.Minute)
}

// Of every move out of PENDING or SYNCING it is said here what becomes of the parameters, and that the rest is as it was.
func TestARunWithParametersLeavesItsConnectorWhereItStood(t *testing.T) {
	b := newBase(t)
	b.ofJobs()
	spent := []string{"finish", "end_job", "skip", "complete", "complete_all", "skip_all", "cancel", "fail", "fail_refused", "fail_refused, the last time", "complete, cut", "complete_all, cut",
		"abandon", "fail_lost_in_transit", "fail_not_taken", "disable", "fail, the last time", "complete, cut the last time",
		"complete_all, cut the last time", "abandon, the last time", "fail_not_taken, the last time"}
	again := []string{"release", "postpone", "complete, cut to wait", "complete_all, cut to wait"}
	goesOn := []string{"pick_up", "pick_up_all", "skip_all"}
	for before, stand := range map[string]func() int32{
		"at rest":         b.synced,
		"in a backoff":    func() int32 { return b.in("ERROR") },
		"failed for good": func() int32 { id := b.synced(); b.fail(id, "permanent"); return id },
		"new, and planned": func() int32 {
			id := b.connector()
			b.force(`UPDATE connectors SET next_sync_at = now() + interval '1 day' WHERE id = $1`, id)
			return id
		},
		"put off": func() int32 {
			id := b.synced()
			try := b.syncing(id)
			b.moves("true", `SELECT moves.postpone($1, $2, '1 hour', 'the source asked us to wait')`, try.Run, try.ID)
			return id
		},
	} {
		stood := map[int32]string{}
		b.endEachOf(func() int32 {
			id := stand()
			stood[id] = b.stands(id)
			b.exec(gemini, id)
			return id
		}, func(name string, from lifecycle.Status, id int32, run uuid.UUID) {
			what := name + " from " + string(from) + ", " + before
			switch {
			case name == "rescue":
				b.holds(id, `c.next_parameters IS NULL AND r.trigger = 'rescue' AND r.parameters = '{"provider": "gemini"}' AND c.kept_plan IS NOT NULL`)
				return
			case slices.Contains(goesOn, name):
				b.holds(id, `c.status = 'SYNCING' AND c.kept_plan IS NOT NULL AND c.next_parameters IS NULL`)
				return
			case slices.Contains(spent, name):
				b.holds(id, `c.next_parameters IS NULL AND c.parameters_due_at IS NULL`)
			case slices.Contains(again, name):
				b.holds(id, ofGemini+` AND (c.parameters_due_at > clock_timestamp()) = `+fmt.Sprint(name != "release"))
			default:
				t.Errorf("%s: say what becomes of the parameters", name)
			}
			if n := one[int](b, `SELECT count(*) FROM runs WHERE id = $1 AND parameters IS NOT NULL AND status IS NOT NULL`, run); n != 1 {
				t.Errorf("%s: the ledger does not say with what it ran", what)
			}
			b.holds(id, `c.run_id IS NULL AND c.kept_plan IS NULL`)
			if after := b.stands(id); name != "disable" && after != stood[id] {
				t.Errorf("%s: it stood\n%s\nand stands\n%s", what, stood[id], after)
			}
		})
	}
}

func TestACheckpointOfARunWithParametersLeavesTheCursor(t *testing.T) {
	b := newBase(t)
	b.ofJobs()
	id := b.synced()
	b.force(`UPDATE connectors SET state = '{"cursor": 7}' WHERE id = $1`, id)
	b.exec(gemini, id)
	stood := b.stands(id)
	try := b.withParameters(id)
	b.exec(`INSERT INTO run_messages (try_id, no) SELECT $1, 1`, try.ID)
	b.exec(`INSERT INTO run_checkpoints (try_id, run_id, no, state, listing) VALUES ($1, $2, 1, '{"cursor": "of the dry run"}', '{"seen": {}}')`, try.ID, try.Run)
	b.exec(`UPDATE open_runs SET stored = 1 WHERE id = $1`, try.Run)
	b.moves("true", `SELECT passed FROM moves.advance($1)`, try.Run)
	b.holds(id, `r.checkpoint_no = 1 AND c.state = '{"cursor": 7}' AND c.listing IS NULL`)
	b.moves("true", `SELECT moves.fail($1, $2, 'permanent', 'no such provider')`, try.Run, try.ID)
	if after := b.stands(id); after != stood {
		t.Errorf("it stood\n%s\nand stands\n%s", stood, after)
	}
}

func TestWhatAPlainTriggerAllowsIsNotARunsWithParameters(t *testing.T) {
	b := newBase(t)
	b.ofJobs()
	id := b.synced()
	b.exec(gemini, id)
	run := movestest.ClaimAsked(b, b.conn, id)
	b.exec(`SELECT moves.trigger_sync($1, allow_deletions => true)`, id)
	try := movestest.PickUp(b, b.conn, id, run, time.Minute)
	b.holds(id, `r.deletions_allowed_at IS NULL`)
	b.moves("true", `SELECT moves.end_job($1, $2, '{}')`, try.Run, try.ID)
	b.syncing(id)
	b.holds(id, `r.deletions_allowed_at IS NOT NULL AND c.deletions_allowed_at IS NULL`)
}

func TestAPlainTriggerIsARunWithoutTheParameters(t *testing.T) {
	b := newBase(t)
	b.ofJobs()
	for _, state := range []string{"PENDING", "SYNCING"} {
		id := b.synced()
		b.exec(gemini, id)
		run := movestest.ClaimAsked(b, b.conn, id)
		try := lifecycle.Try{Run: run}
		if state == "SYNCING" {
			try = movestest.PickUp(b, b.conn, id, run, time.Minute)
		}
		b.exec(`SELECT moves.trigger_sync($1)`, id)
		if state == "PENDING" {
			try = movestest.PickUp(b, b.conn, id, run, time.Minute)
		}
		b.holds(id, `c.trigger_requested_at IS NOT NULL AND r.trigger_requested_at IS NULL`)
		b.moves("true", `SELECT moves.fail($1, $2, 'permanent', 'no such provider')`, try.Run, try.ID)
		b.holds(id, `c.status = 'ACTIVE' AND c.due_reason = 'manual' AND c.next_sync_at <= clock_timestamp() AND c.failure_count = 0 AND c.next_parameters IS NULL`)
		b.syncing(id)
		b.holds(id, `c.trigger_requested_at IS NULL AND r.trigger_requested_at IS NOT NULL AND r.parameters IS NULL AND c.wanted`)
	}
}

func TestParametersThatComeAfterTheClaimAreOfAnotherRun(t *testing.T) {
	b := newBase(t)
	b.ofJobs()
	id := b.in("PENDING")
	b.exec(gemini, id)
	movestest.PickUp(t, b.conn, id, b.run(id), time.Minute)
	b.holds(id, `c.trigger_requested_at IS NULL AND r.trigger_requested_at IS NULL AND r.parameters IS NULL AND c.due_at IS NULL AND `+ofGemini)
	b.ends(id)
	b.holds(id, `c.due_reason = 'schedule' AND c.next_sync_at > clock_timestamp() AND c.due_at <= clock_timestamp() AND `+ofGemini)
	b.exec(`SELECT moves.trigger_sync($1)`, id) // leaves them
	b.holds(id, `c.due_reason = 'manual' AND `+ofGemini)
	b.withParameters(id)
	b.ends(id)
	b.exec(gemini, id)
	try := b.withParameters(id)
	b.exec(`SELECT moves.trigger_sync($1, parameters => '{"provider": null}')`, id)
	b.moves("true", `SELECT moves.release($1, $2)`, try.Run, try.ID)
	b.holds(id, `r.parameters = '{"provider": "gemini"}' AND c.next_parameters = '{"provider": null}'`)
	b.exec(`SELECT moves.trigger_sync($1, parameters => '{}')`, id)
	b.holds(id, `c.next_parameters IS NULL AND c.due_at = c.next_sync_at AND c.trigger_requested_at IS NOT NULL`)

	again := b.in("PENDING")
	b.exec(gemini, again)
	b.moves("true", `SELECT moves.cancel(run_id) FROM connectors WHERE id = $1`, again)
	b.holds(again, `c.due_reason = 'schedule' AND c.due_at <= clock_timestamp() AND `+ofGemini)
	for _, change := range changes {
		b.exec(gemini, again)
		b.exec(`UPDATE connectors SET `+change+` WHERE id = $1`, again)
		b.holds(again, `c.next_parameters IS NULL AND c.parameters_due_at IS NULL`)
	}
	for _, column := range []string{`next_parameters = '{}'`, `parameters_due_at = now()`, `kept_plan = '{}'`} {
		b.refused("connectors_moved_only", `UPDATE connectors SET `+column+` WHERE id = $1`, again)
	}
}

func TestParametersThatNoRunMayHaveAreRefused(t *testing.T) {
	b := newBase(t)
	b.ofJobs()
	id := b.synced()
	b.force(`UPDATE connectors SET config = jsonb_build_object('key', $2::text, 'deep', jsonb_build_object('key', $2::text), 'url', 'https://a') WHERE id = $1`, id, sealedOld)
	before := b.everything(id)
	for what, parameters := range map[string]string{
		"an array": `[1]`, "null": `null`, "text": `"a"`, "too long": `{"a": "` + strings.Repeat("x", 16<<10) + `"}`,
		"a secret": `{"key": "mine"}`, "a secret taken away": `{"key": null}`, "above a secret": `{"deep": {"other": 1}}`,
		"an envelope": `{"other": "` + sealedOld + `"}`, "too deep": `{"a": ` + strings.Repeat(`{"a": `, 31) + "1" + strings.Repeat("}", 32),
	} {
		_, err := b.conn.Exec(t.Context(), `SELECT moves.trigger_sync($1, parameters => $2)`, id, parameters)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "22023" || !strings.HasPrefix(pg.Message, "trigger_sync: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := b.conn.Exec(t.Context(), `SELECT moves.trigger_sync($1, true, '{"a": 1}')`, id); err == nil {
		t.Error("one run deletes many documents, and none")
	}
	if after := b.everything(id); after != before {
		t.Errorf("a refused trigger changed\n%s\nto\n%s", before, after)
	}
	b.refused("connectors_trigger_disabled", gemini, b.in("DISABLED"))
	b.moves("nothing", `SELECT moves.trigger_sync(-1, parameters => '{"a": 1}')`)
}

// The examples of RFC 7396, appendix A, whose patch is an object.
func TestParametersAreAMergePatch(t *testing.T) {
	b := newBase(t)
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`}, {`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`}, {`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`}, {`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`}, {`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`}, {`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`}, {`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		b.moves("true", `SELECT config_merged($1::jsonb, $2::jsonb) = $3::jsonb`, c[0], c[1], c[2])
	}
	b.moves("true", `SELECT config_merged('{"a": 1}', NULL) = '{"a": 1}'`)
}

// A job stores nothing, and removes nothing of what a source has stored.
func TestASourceDoesNotBecomeAJobNorAJobASource(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO connector_types (name, kind) VALUES ('census', 'job'), ('count', 'job')`)
	source := b.synced()
	b.refused("connectors_kind_stays", `UPDATE connectors SET type = 'census' WHERE id = $1`, source)
	job := one[int32](b, `INSERT INTO connectors (name, type, user_id) VALUES ('j', 'census', 1) RETURNING id`)
	b.refused("connectors_kind_stays", `UPDATE connectors SET type = 'web' WHERE id = $1`, job)
	b.exec(`UPDATE connectors SET type = 'count' WHERE id = $1`, job)
}

func TestASourceRefusesParameters(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	before := b.everything(id)
	_, err := b.conn.Exec(t.Context(), gemini, id)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "22023" || !strings.Contains(pg.Message, "is a source: parameters are for jobs") {
		t.Error(err)
	}
	if after := b.everything(id); after != before {
		t.Errorf("a refused trigger changed\n%s\nto\n%s", before, after)
	}
}

// A trigger that comes while a run goes on asks for a run after it: not for its rescue.
func TestARescueHasTheParametersOfTheLostRun(t *testing.T) {
	b := newBase(t)
	b.ofJobs()
	for _, with := range []bool{true, false} {
		id := b.synced()
		stood := b.stands(id)
		if with {
			b.exec(gemini, id)
			b.withParameters(id)
		} else {
			b.syncing(id)
		}
		b.exec(`SELECT moves.trigger_sync($1, parameters => '{"provider": "ollama"}')`, id)
		b.force(`SELECT moves.claim_again(c) FROM connectors c WHERE id = $1`, id)
		b.holds(id, `c.next_parameters = '{"provider": "ollama"}' AND r.trigger = 'rescue' AND r.parameters IS `+map[bool]string{true: "NOT NULL", false: "NULL"}[with])
		if !with {
			continue
		}
		try := movestest.PickUp(b, b.conn, id, b.run(id), time.Minute)
		b.holds(id, `c.failure_count = 1`)
		b.exec(`UPDATE workers SET expires_at = now() - interval '1 s'`)
		b.exec(`SELECT moves.abandon(` + silent + `, '1 hour', 10)`) // it counts its own losses
		b.holds(id, `r.status = 'failed' AND r.reason = 'worker lost' AND r.id = '`+try.Run.String()+`' AND c.next_parameters = '{"provider": "ollama"}'`)
		if after := b.stands(id); after != stood {
			t.Errorf("it stood\n%s\nand stands\n%s", stood, after)
		}
	}
}

// A session's sixth claim may have a plan that is made for any: one that knows that they are due would read all that is due, for each row.
func TestAClaimOfRequestedRunsReadsNoOthersThatAreDue(t *testing.T) {
	b := newBase(t)
	b.ofJobs()
	b.exec(`ALTER TABLE connectors SET (autovacuum_enabled = false)`)
	b.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'c' || i, 'web', 1 + i % 100 FROM generate_series(1, 10000) i`)
	b.exec(`VACUUM ANALYZE connectors`)
	b.force(`UPDATE connectors SET next_parameters = '{"dry_run": true}', parameters_due_at = clock_timestamp() - interval '1 hour' + id * interval '1 ms'`)
	const batch = 100
	for range 8 {
		claims := one[string](b, `SELECT json_agg(json_build_object('id', id, 'run_id', gen_random_uuid(), 'asked', true))::text FROM moves.lock_due('web', 0, $1)`, batch)
		var plan []byte
		if err := b.conn.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT moves.claim($1::jsonb, clock_timestamp())`, claims).Scan(&plan); err != nil {
			t.Fatal(err)
		}
		var of []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		if err := json.Unmarshal(plan, &of); err != nil {
			t.Fatal(err)
		}
		if read := of[0].Plan.Hit + of[0].Plan.Read; read > 2*mostBuffers*batch {
			t.Errorf("a claim of %d reads %d buffers", batch, read)
		}
	}
}

func TestWhatARunWithParametersNamesAsItsCursorIsDropped(t *testing.T) {
	b := newBase(t)
	b.ofJobs()
	for name, call := range map[string]string{
		"skip":   `SELECT moves.skip($1, $2, '{"cursor": "of the dry run"}', NULL, 0)`,
		"finish": `SELECT moves.finish($1, $2, '{"cursor": "of the dry run"}')`,
	} {
		id := b.synced()
		b.force(`UPDATE connectors SET state = '{"cursor": 7}', listing = '{"seen": {}}' WHERE id = $1`, id)
		stood := b.stands(id)
		b.exec(gemini, id)
		try := b.withParameters(id)
		b.moves("true", call, try.Run, try.ID)
		if after := b.stands(id); after != stood {
			t.Errorf("%s: it stood\n%s\nand stands\n%s", name, stood, after)
		}
	}
}
