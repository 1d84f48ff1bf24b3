package db_test

import (
	"errors"
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

// ofJobs makes what is of the type web a job.
func (b *base) ofJobs() {
	b.Helper()
	b.exec(`UPDATE connector_types SET kind = 'job' WHERE name = 'web'`)
}

// Of every move out of PENDING or SYNCING it is said here what becomes of the parameters.
func TestParametersLastUntilARunThatHasThemIsThrough(t *testing.T) {
	b := newBase(t)
	b.ofJobs()
	spent := []string{"finish", "end_job", "skip", "complete", "complete_all", "skip_all", "cancel", "pick_up", "pick_up_all"}
	kept := []string{"release", "postpone", "fail", "complete, cut", "complete_all, cut", "complete, cut to wait", "complete_all, cut to wait",
		"abandon", "fail_lost_in_transit", "fail_not_taken"}
	withdrawn := []string{"disable", "fail, the last time", "complete, cut the last time", "complete_all, cut the last time",
		"abandon, the last time", "fail_not_taken, the last time"}
	b.endEach(gemini, func(name string, from lifecycle.Status, id int32, run uuid.UUID) {
		switch stands := one[bool](b, `SELECT next_parameters IS NOT NULL FROM connectors WHERE id = $1`, id); {
		case slices.Contains(spent, name), slices.Contains(withdrawn, name):
			if stands {
				t.Errorf("%s from %s: the next run has parameters", name, from)
			}
		case name == "rescue":
			b.holds(id, `c.next_parameters IS NULL AND r.trigger = 'rescue' AND r.parameters = '{"provider": "gemini"}'`)
		case !slices.Contains(kept, name):
			t.Errorf("%s: say what becomes of the parameters", name)
		default:
			b.holds(id, ofGemini)
		}
		if n := one[int](b, `SELECT count(*) FROM runs WHERE id = $1 AND parameters IS NULL`, run); n != 0 {
			t.Errorf("%s from %s: the ledger does not say with what it ran", name, from)
		}
	})
}

func TestParametersThatComeAfterTheClaimAreOfTheNextRun(t *testing.T) {
	b := newBase(t)
	b.ofJobs()
	id := b.in("PENDING")
	b.exec(gemini, id)
	movestest.PickUp(t, b.conn, id, b.run(id), time.Minute)
	b.holds(id, `c.trigger_requested_at IS NOT NULL AND r.trigger_requested_at IS NULL AND r.parameters IS NULL AND `+ofGemini)
	b.ends(id)
	b.holds(id, `c.due_reason = 'manual' AND `+ofGemini)
	b.exec(`SELECT moves.trigger_sync($1)`, id) // leaves them
	b.holds(id, ofGemini)
	b.syncing(id)
	b.exec(`SELECT moves.trigger_sync($1, parameters => '{"provider": null}')`, id)
	b.exec(`SELECT moves.release(id, try_id) FROM open_runs WHERE connector_id = $1`, id)
	b.holds(id, `r.parameters = '{"provider": "gemini"}' AND c.next_parameters = '{"provider": null}'`)
	b.exec(`SELECT moves.trigger_sync($1, parameters => '{}')`, id)
	b.holds(id, `c.next_parameters IS NULL`)

	again := b.in("PENDING")
	b.exec(gemini, again)
	b.moves("true", `SELECT moves.cancel(run_id) FROM connectors WHERE id = $1`, again)
	b.holds(again, `c.due_reason = 'manual' AND `+ofGemini)
	for _, change := range changes {
		b.exec(gemini, again)
		b.exec(`UPDATE connectors SET `+change+` WHERE id = $1`, again)
		b.holds(again, `c.next_parameters IS NULL`)
	}
	b.refused("connectors_moved_only", `UPDATE connectors SET next_parameters = '{}' WHERE id = $1`, again)
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
		if with {
			b.exec(gemini, id)
		}
		b.syncing(id)
		b.exec(`SELECT moves.trigger_sync($1, parameters => '{"provider": "ollama"}')`, id)
		b.force(`SELECT moves.claim_again(c) FROM connectors c WHERE id = $1`, id)
		b.holds(id, `c.next_parameters = '{"provider": "ollama"}' AND r.trigger = 'rescue' AND r.parameters IS `+map[bool]string{true: "NOT NULL", false: "NULL"}[with])
	}
}
