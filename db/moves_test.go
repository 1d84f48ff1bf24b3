package db_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/movestest"
)

// move is a call of a function that changes where a connector stands.
type move struct {
	// call makes the move for connector $1, whose open run is $2 and whose try is $3, and answers whether it did.
	call string
	// to says for each status where it leads; from any other it answers false and changes nothing.
	to map[lifecycle.Status]lifecycle.Status
	// before prepares the ground, by force.
	before string
}

const lostWorker = `UPDATE workers SET expires_at = now() - interval '1 s' WHERE id =
	(SELECT worker_id FROM open_runs WHERE connector_id = $1)`

// lostAgain is a lost worker of a run that was picked up after another loss.
const lostAgain = lostWorker + `), again AS (UPDATE open_runs SET fails_if_lost = true WHERE connector_id = $1`

// silent names the workers that have not beaten since they were looked at.
const silent = `(SELECT coalesce(jsonb_agg(jsonb_build_object('id', id, 'beats', beats)), '[]') FROM workers)`

// cutShort makes an open run one that was cut, and is fully stored.
const cutShort = `cut = 'slow', drain_seq = 7, worker_id = NULL, total = 2, stored = 2, whole = true
	WHERE connector_id = $1 AND try_id IS NOT NULL`

// cutToWait is cutShort of a run whose source has asked to wait.
var cutToWait = strings.Replace(cutShort, "cut =", "waits_until = now() + interval '1 hour', cut =", 1)

// asking makes a connector one whose condition is to be asked, where it is due.
const asking = `UPDATE connectors SET condition = 'never', due_reason = CASE WHEN next_sync_at IS NOT NULL THEN 'schedule' END WHERE id = $1`

var moveTable = map[string]move{
	"claim": {call: `SELECT moves.claim(jsonb_build_array(jsonb_build_object('id', $1::int, 'run_id', gen_random_uuid())), now()) = 1
		WHERE (SELECT next_sync_at IS NOT NULL FROM connectors WHERE id = $1)`,
		to: map[lifecycle.Status]lifecycle.Status{lifecycle.Active: lifecycle.Pending, lifecycle.Error: lifecycle.Pending}},
	"pick_up": {call: `SELECT moves.pick_up($1, $2, gen_random_uuid())`,
		to: map[lifecycle.Status]lifecycle.Status{lifecycle.Pending: lifecycle.Syncing}},
	"pick_up_all": {call: `SELECT taken FROM moves.pick_up_all(jsonb_build_array(jsonb_build_object('connector', $1, 'run', $2,
		'try', gen_random_uuid())), gen_random_uuid(), '15 s')`,
		to: map[lifecycle.Status]lifecycle.Status{lifecycle.Pending: lifecycle.Syncing}},
	"release": {call: `SELECT moves.release($2, $3)`,
		to: map[lifecycle.Status]lifecycle.Status{lifecycle.Pending: lifecycle.Active, lifecycle.Syncing: lifecycle.Active}},
	"postpone": {call: `SELECT moves.postpone($2, $3, '1 hour', 'the source asked us to wait')`,
		to: map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Active}},
	"fail": {call: `SELECT moves.fail($2, $3, 'transient', 'no')`,
		to: map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Error}},
	"fail, the last time": {call: `SELECT moves.fail($2, $3, 'transient', 'no')`, before: `UPDATE connectors SET max_retries = 1 WHERE id = $1`,
		to: map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Disabled}},
	"fail_refused": {call: `SELECT moves.fail_refused($2, $3, 'no', 'ab12')`,
		to: map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Error}},
	"fail_refused, the last time": {call: `SELECT moves.fail_refused($2, $3, 'no', 'ab12')`, before: `UPDATE connectors SET max_retries = 1 WHERE id = $1`,
		to: map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Error}},
	"finish": {call: `SELECT moves.finish($2, $3)`,
		to: map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Active}},
	"skip": {call: `SELECT moves.skip($2, $3, NULL, NULL, 0)`,
		to: map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Active}},
	"skip_all": {call: `SELECT skipped FROM moves.skip_all(jsonb_build_array(jsonb_build_object('run', $2, 'try', $3)))`,
		to: map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Active}},
	"end_job": {call: `SELECT moves.end_job($2, $3, '{}')`,
		before: `UPDATE connector_types SET kind = CASE WHEN $1::int > 0 THEN 'job' END WHERE name = 'web'`,
		to:     map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Active}},
	"complete": {call: `SELECT true FROM moves.complete($2)`,
		before: `UPDATE open_runs SET total = 0, whole = true WHERE connector_id = $1`,
		to:     map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Active}},
	"complete, cut": {call: `SELECT verdict = 'failed' FROM moves.complete($2)`, before: `UPDATE open_runs SET ` + cutShort,
		to: map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Error}},
	"complete, cut the last time": {call: `SELECT verdict = 'failed' FROM moves.complete($2)`,
		before: `WITH last AS (UPDATE connectors SET max_retries = 1 WHERE id = $1) UPDATE open_runs SET ` + cutShort,
		to:     map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Disabled}},
	"complete, cut to wait": {call: `SELECT verdict = 'superseded' FROM moves.complete($2)`, before: `UPDATE open_runs SET ` + cutToWait,
		to: map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Active}},
	"complete_all": {call: `SELECT verdict IS NOT NULL FROM moves.complete_all(ARRAY[$2])`,
		before: `UPDATE open_runs SET total = 0, whole = true WHERE connector_id = $1`,
		to:     map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Active}},
	"complete_all, cut": {call: `SELECT coalesce(verdict = 'failed', false) FROM moves.complete_all(ARRAY[$2])`,
		before: `UPDATE open_runs SET ` + cutShort,
		to:     map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Error}},
	"complete_all, cut the last time": {call: `SELECT coalesce(verdict = 'failed', false) FROM moves.complete_all(ARRAY[$2])`,
		before: `WITH last AS (UPDATE connectors SET max_retries = 1 WHERE id = $1) UPDATE open_runs SET ` + cutShort,
		to:     map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Disabled}},
	"complete_all, cut to wait": {call: `SELECT coalesce(verdict = 'superseded', false) FROM moves.complete_all(ARRAY[$2])`,
		before: `UPDATE open_runs SET ` + cutToWait,
		to:     map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Active}},
	"rescue": {call: `SELECT true FROM moves.rescue(` + silent + `, '1 hour', 10)`, before: lostWorker,
		to: map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Pending}},
	"abandon": {call: `SELECT true FROM moves.abandon(` + silent + `, '1 hour', 10)`,
		before: `WITH gone AS (` + lostAgain + `) UPDATE connectors SET failure_count = 1 WHERE id = $1`,
		to:     map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Error}},
	"abandon, the last time": {call: `SELECT true FROM moves.abandon(` + silent + `, '1 hour', 10)`,
		before: `WITH gone AS (` + lostAgain + `) UPDATE connectors SET max_retries = 1 WHERE id = $1`,
		to:     map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Disabled}},
	"fail_lost_in_transit": {call: `SELECT true FROM moves.fail_lost_in_transit(ARRAY[$2::uuid], 8, 9)`,
		before: `UPDATE open_runs SET worker_id = NULL, drain_seq = 7 WHERE connector_id = $1 AND try_id IS NOT NULL`,
		to:     map[lifecycle.Status]lifecycle.Status{lifecycle.Syncing: lifecycle.Error}},
	"fail_not_taken": {call: `SELECT true FROM moves.fail_not_taken(10)`,
		before: `UPDATE open_runs SET not_taken = 10 WHERE connector_id = $1`,
		to:     map[lifecycle.Status]lifecycle.Status{lifecycle.Pending: lifecycle.Error}},
	"fail_not_taken, the last time": {call: `SELECT true FROM moves.fail_not_taken(10)`,
		before: `WITH gone AS (UPDATE open_runs SET not_taken = 10 WHERE connector_id = $1) UPDATE connectors SET max_retries = 1 WHERE id = $1`,
		to:     map[lifecycle.Status]lifecycle.Status{lifecycle.Pending: lifecycle.Disabled}},
	"plan, of one whose condition is not met": {call: `SELECT moves.plan(jsonb_build_array(jsonb_build_object('id', $1::int, 'unmet', 'not met'))) = 1
		WHERE (SELECT status = 'ERROR' FROM connectors WHERE id = $1)`, before: asking,
		to: map[lifecycle.Status]lifecycle.Status{lifecycle.Error: lifecycle.Active}},
	"plan, of a bad schedule": {call: `SELECT moves.plan(jsonb_build_array(jsonb_build_object('id', $1::int, 'problem', 'no', 'bad', true))) = 1`,
		before: `UPDATE connectors SET needs_plan = true, next_sync_at = NULL, due_reason = NULL WHERE id = $1 AND status IN ('ACTIVE', 'ERROR')`,
		to:     map[lifecycle.Status]lifecycle.Status{lifecycle.Active: lifecycle.Disabled, lifecycle.Error: lifecycle.Disabled}},
	"fail_conditions": {call: `SELECT moves.fail_conditions(jsonb_build_array(jsonb_build_object('id', $1::int, 'problem', 'no'))) = 1
		WHERE (SELECT status <> 'ERROR' FROM connectors WHERE id = $1)`, before: asking,
		to: map[lifecycle.Status]lifecycle.Status{lifecycle.Active: lifecycle.Error}},
	"fail_conditions, the last time": {call: `SELECT moves.fail_conditions(jsonb_build_array(jsonb_build_object('id', $1::int, 'problem', 'no'))) = 1`,
		before: strings.Replace(asking, "SET", "SET max_retries = 1,", 1),
		to:     map[lifecycle.Status]lifecycle.Status{lifecycle.Active: lifecycle.Disabled, lifecycle.Error: lifecycle.Disabled}},
	"cancel": {call: `SELECT moves.cancel($2)`,
		to: map[lifecycle.Status]lifecycle.Status{lifecycle.Pending: lifecycle.Active, lifecycle.Syncing: lifecycle.Active}},
	"disable": {call: `SELECT moves.disable($1)`, to: map[lifecycle.Status]lifecycle.Status{
		lifecycle.Active: lifecycle.Disabled, lifecycle.Pending: lifecycle.Disabled, lifecycle.Syncing: lifecycle.Disabled,
		lifecycle.Error: lifecycle.Disabled}},
	"enable": {call: `SELECT moves.enable($1)`,
		to: map[lifecycle.Status]lifecycle.Status{lifecycle.Disabled: lifecycle.Active}},
}

func (b *base) status(id int32) lifecycle.Status {
	b.Helper()
	return one[lifecycle.Status](b, `SELECT status FROM connectors WHERE id = $1`, id)
}

// everything is a connector, its open run and its ledger, in one text.
func (b *base) everything(id int32) string {
	b.Helper()
	return one[string](b, `SELECT jsonb_pretty(jsonb_build_object('connector', (SELECT to_jsonb(c) FROM connectors c WHERE id = $1),
		'runs', (SELECT jsonb_agg(to_jsonb(r) ORDER BY r.id) FROM scheduler_runs r WHERE connector_id = $1)))`, id)
}

func TestEachMoveLeadsFromWhereItMayAndChangesNothingElsewhere(t *testing.T) {
	b := newBase(t)
	b.exec(`UPDATE connector_types SET kind = 'job' WHERE name = 'web'`)
	b.exec(`INSERT INTO conditions (name, query) VALUES ('never', 'SELECT false')`)
	found := map[lifecycle.Move]bool{}
	for name, m := range moveTable {
		for _, from := range lifecycle.Statuses {
			id := b.in(string(from))
			b.force(`UPDATE connectors SET next_sync_at = now(), due_reason = 'manual' WHERE id = $1 AND status IN ('ACTIVE', 'ERROR')`, id)
			if m.before != "" {
				b.force(m.before, id)
			}
			var run, try *uuid.UUID
			_ = b.conn.QueryRow(t.Context(), `SELECT id, try_id FROM open_runs WHERE connector_id = $1`, id).Scan(&run, &try)
			if run == nil { // the one before
				run = new(one[uuid.UUID](b, `SELECT id FROM runs WHERE connector_id = $1 ORDER BY completed_at DESC LIMIT 1`, id))
			}
			before := b.everything(id)
			var moved *bool
			err := b.conn.QueryRow(t.Context(), `SELECT (`+m.call+` LIMIT 1) FROM (SELECT $1::int, $2::uuid, $3::uuid) p`, id, run, try).Scan(&moved)
			if err != nil {
				t.Fatalf("%s from %s: %v", name, from, err)
			}
			to, exists := m.to[from]
			switch is := b.status(id); {
			case exists && (moved == nil || !*moved || is != to):
				t.Errorf("%s: from %s to %s, want %s\n%s", name, from, is, to, before)
			case !exists && (moved != nil && *moved || b.everything(id) != before):
				t.Errorf("%s does not lead from %s, and changed\n%s\nto\n%s", name, from, before, b.everything(id))
			case exists:
				found[lifecycle.Move{From: from, To: to}] = true
			}
			b.exec(`DELETE FROM connectors WHERE id = $1`, id)
		}
	}
	for _, from := range lifecycle.Statuses {
		for _, to := range lifecycle.Statuses {
			pair := lifecycle.Move{From: from, To: to}
			_, known := lifecycle.Moves[pair]
			if found[pair] != known || one[bool](b, `SELECT moves.allowed($1, $2)`, from, to) != known {
				t.Errorf("%s to %s: a function leads there: %v; the code has it: %v", from, to, found[pair], known)
			}
		}
	}
}

func TestAMoveWithAnotherTryOrAnOldRunChangesNothing(t *testing.T) {
	b := newBase(t)
	for _, name := range slices.Sorted(maps.Keys(moveTable)) {
		id := b.in("SYNCING")
		run := b.run(id)
		old := one[uuid.UUID](b, `SELECT id FROM runs WHERE connector_id = $1`, id)
		before := b.everything(id)
		for what, args := range map[string][2]uuid.UUID{"another try": {run, uuid.New()}, "an old run": {old, uuid.New()}} {
			switch name {
			case "pick_up", "pick_up_all", "release", "postpone", "fail", "fail_refused", "finish", "end_job", "skip", "skip_all":
				b.moves("false", `SELECT (`+moveTable[name].call+`) FROM (SELECT $1::int, $2::uuid, $3::uuid) p`, id, args[0], args[1])
			}
			if after := b.everything(id); after != before {
				t.Errorf("%s with %s changed\n%s\nto\n%s", name, what, before, after)
			}
		}
		for _, call := range []string{`SELECT moves.drain($1, $2, 1)`, `SELECT moves.cut($1, $2, 1, 1, 'slow')`, `SELECT moves.cut($1, $2, 1, 1, 'slow', '1 h')`, `SELECT moves.hold($1, $2)`,
			`SELECT moves.waits($1, $2, '1 min', 'the source asked us to wait')`, `SELECT moves.report($1, $2, 1, 2, 'half')`, `SELECT moves.replace_secret($1, $2, 'a', '` + sealedOld + `')`} {
			b.moves("false", call, run, uuid.New())
		}
	}
}

func TestDisableAndDeleteCloseTheOpenRun(t *testing.T) {
	b := newBase(t)
	for _, from := range []string{"ACTIVE", "PENDING", "SYNCING", "ERROR"} {
		id := b.in(from)
		b.moves("true", `SELECT moves.disable($1)`, id)
		b.holds(id, `c.run_id IS NULL AND c.next_sync_at IS NULL AND c.status_message = 'disabled by the user' AND NOT c.needs_plan`)
		b.closed(id, from, "disabled")
	}
	for _, from := range []string{"ACTIVE", "PENDING", "SYNCING", "ERROR", "DISABLED"} {
		id := b.in(from)
		b.exec(`DELETE FROM connectors WHERE id = $1`, id)
		b.closed(id, from, "connector deleted")
		if n := one[int](b, `SELECT count(*) FROM deleted_connectors WHERE id = $1`, id); n != 1 {
			t.Errorf("%s: semantic is not told to sweep", from)
		}
	}
}

// closed fails the test unless no run is open, and what was in flight is superseded for this reason.
func (b *base) closed(id int32, from, reason string) {
	b.Helper()
	inFlight := 0
	if from == "PENDING" || from == "SYNCING" {
		inFlight = 1
	}
	if n := one[int](b, `SELECT count(*) FROM open_runs WHERE connector_id = $1`, id); n != 0 {
		b.Errorf("%s: %d open runs", from, n)
	}
	if n := one[int](b, `SELECT count(*) FROM runs WHERE connector_id = $1 AND status = 'superseded' AND reason = $2`, id, reason); n != inFlight {
		b.Errorf("%s: %d runs are superseded, want %d", from, n, inFlight)
	}
}

func TestEnablePlansFromNowAndForgetsFailures(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	b.force(`UPDATE connectors SET last_sync_at = now() - interval '10 hours' WHERE id = $1`, id)
	b.fail(id, "transient")
	b.moves("true", `SELECT moves.disable($1)`, id)
	b.moves("true", `SELECT moves.enable($1)`, id)
	b.holds(id, `c.failure_count = 0 AND c.status_message IS NULL AND c.due_reason = 'schedule'
		AND c.next_sync_at BETWEEN clock_timestamp() + interval '53 minutes' AND clock_timestamp() + interval '1 hour'`)

	for _, never := range []struct{ columns, plan string }{
		{`refresh_freq_minutes = NULL`, `c.next_sync_at IS NULL`},
		{`refresh_freq_minutes = 0`, `c.due_reason = 'new' AND c.next_sync_at <= clock_timestamp()`},
		{`refresh_freq_minutes = NULL, schedule_cron = '0 3 * * *'`, `c.needs_plan AND c.planned_through > c.updated_at`},
	} {
		id := b.connector()
		b.moves("true", `SELECT moves.disable($1)`, id)
		b.exec(`UPDATE connectors SET `+never.columns+` WHERE id = $1`, id)
		b.moves("true", `SELECT moves.enable($1)`, id)
		b.holds(id, never.plan)
	}
}

func TestAReleaseIsDueNowAndNoFailure(t *testing.T) {
	b := newBase(t)
	for _, from := range []string{"PENDING", "SYNCING"} {
		id := b.in(from)
		b.moves("true", `SELECT moves.release(id, try_id) FROM open_runs WHERE connector_id = $1`, id)
		b.holds(id, `c.due_reason = 'release' AND c.next_sync_at <= clock_timestamp() AND c.failure_count = 0 AND c.run_id IS NULL
			AND r.status = 'superseded' AND r.reason = 'released'`)
	}
}

func TestTheBackoffDoublesUpToAnHourWithJitter(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	b.exec(`UPDATE connectors SET max_retries = 1000 WHERE id = $1`, id)
	for n, minutes := range []float64{2, 4, 8, 16, 32, 60, 60, 60} {
		b.fail(id, "transient")
		wait := one[float64](b, `SELECT extract(epoch FROM next_sync_at - clock_timestamp())::float8 / 60 FROM connectors WHERE id = $1`, id)
		if wait < 0.79*minutes || wait > 1.2*minutes {
			t.Errorf("after %d failures the next try comes in %.1f minutes, want %.0f ± 20%%", n+1, wait, minutes)
		}
	}
	b.force(`UPDATE connectors SET failure_count = 900 WHERE id = $1`, id)
	b.fail(id, "transient")
	b.holds(id, `c.next_sync_at < clock_timestamp() + interval '73 minutes' AND c.failure_count = 901`)
	if spread := one[int](b, `SELECT count(DISTINCT (moves.failed(c, false)).next_sync_at - clock_timestamp())
		FROM connectors c, generate_series(1, 20) WHERE id = $1`, id); spread < 15 {
		t.Errorf("20 tries have %d different waits", spread)
	}
}

func TestAPermanentFailureWaitsForTheUser(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	b.fail(id, "permanent")
	b.holds(id, `c.status = 'ERROR' AND c.next_sync_at IS NULL AND c.due_reason IS NULL AND c.failure_count = 1
		AND r.reason = 'permanent failure' AND r.error_message = 'it broke'`)
	b.exec(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, id)
	b.holds(id, `c.due_reason = 'manual' AND c.next_sync_at <= clock_timestamp()`)
	b.fail(id, "permanent")
	b.exec(`UPDATE connectors SET config = '{"token":"new"}' WHERE id = $1`, id)
	b.holds(id, `c.due_reason = 'changed' AND c.next_sync_at <= clock_timestamp() AND c.failure_count = 0`)
}

func TestTooManyFailuresInARowDisable(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	b.exec(`UPDATE connectors SET max_retries = 3 WHERE id = $1`, id)
	b.fail(id, "transient")
	b.fail(id, "transient")
	b.holds(id, `c.status = 'ERROR'`)
	b.fail(id, "transient")
	b.holds(id, `c.status = 'DISABLED' AND c.next_sync_at IS NULL AND c.failure_count = 3 AND c.run_id IS NULL
		AND c.status_message = 'disabled after 3 failures in a row: it broke' AND r.status = 'failed'`)
}

func TestARunThatIsTooLongCountsNoFailureOnceItHasAdvanced(t *testing.T) {
	b := newBase(t)
	for advanced, failures := range map[bool]int{false: 1, true: 0} {
		id := b.synced()
		try := b.syncing(id)
		b.exec(`UPDATE open_runs SET stored = 3, checkpoint_no = 3, advanced = $2 WHERE id = $1`, try.Run, advanced)
		b.moves("true", `SELECT moves.fail($1, $2, 'too_long', 'slow')`, try.Run, try.ID)
		b.holds(id, fmt.Sprintf(`c.status = 'ERROR' AND c.failure_count = %d AND c.due_reason = 'retry' AND r.status = 'failed'
			AND r.reason = 'took too long' AND (c.next_sync_at <= clock_timestamp()) = (%d = 0)`, failures, failures))
	}
}

func TestARunWhoseListingIsNotToBeBelievedLeavesNoState(t *testing.T) {
	b := newBase(t)
	for kind, state := range map[string]string{"transient": "kept", "relist": "none"} {
		id := b.synced()
		try := b.syncing(id)
		b.force(`UPDATE connectors SET state = '{"at": 1}', listing = '{"seen": {}}' WHERE id = $1`, id)
		b.moves("true", `SELECT moves.fail($1, $2, $3, 'it shows little')`, try.Run, try.ID, kind)
		b.holds(id, fmt.Sprintf(`c.status = 'ERROR' AND c.failure_count = 1 AND r.reason = 'transient failure'
			AND CASE WHEN c.state = '{}' AND c.listing IS NULL THEN 'none' ELSE 'kept' END = '%s'`, state))
	}
}

func TestASubscriberThatStoresItselfKeepsLedgerAndPlan(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	run, try := b.pending(id), uuid.New()
	b.moves("true", `SELECT moves.pick_up($1, $2, $3)`, id, run, try)
	b.holds(id, `r.picked_up_at IS NOT NULL AND r.status = 'running' AND r.worker_id IS NULL AND c.status = 'SYNCING'`)
	b.moves("true", `SELECT moves.hold($1, $2)`, run, try)
	b.moves("true", `SELECT moves.finish($1, $2, '{"page":2}')`, run, try)
	b.holds(id, `r.status = 'completed' AND r.completed_at IS NOT NULL AND c.run_id IS NULL AND c.state = '{"page":2}'
		AND c.next_sync_at = moves.interval_slot(c.id, c.last_sync_at, 60, 10) AND c.due_reason = 'schedule' AND c.failure_count = 0`)
	again := b.pending(id)
	for _, call := range []string{`SELECT moves.pick_up(` + fmt.Sprint(id) + `, $1, $2)`, `SELECT moves.finish($1, $2)`, `SELECT moves.release($1, $2)`} {
		b.moves("false", call, run, try)
	}
	b.holds(id, `c.status = 'PENDING' AND c.run_id = '`+again.String()+`' AND c.state = '{"page":2}'`)
}

// claimed claims a connector, for a run with parameters where one was asked for.
func (b *base) claimed(id int32) uuid.UUID {
	b.Helper()
	if one[bool](b, `SELECT next_parameters IS NOT NULL FROM connectors WHERE id = $1`, id) {
		return movestest.ClaimAsked(b, b.conn, id)
	}
	return b.pending(id)
}

// endEach makes every move out of PENDING and SYNCING of a connector whose run was asked for so, and has look see what came of it.
func (b *base) endEach(asked string, look func(name string, from lifecycle.Status, id int32, run uuid.UUID)) {
	b.Helper()
	b.endEachOf(func() int32 {
		id := b.synced()
		b.exec(asked, id)
		return id
	}, look)
}

// endEachOf is endEach for connectors that stand elsewhere.
func (b *base) endEachOf(stand func() int32, look func(name string, from lifecycle.Status, id int32, run uuid.UUID)) {
	b.Helper()
	for name, m := range moveTable {
		for _, from := range []lifecycle.Status{lifecycle.Pending, lifecycle.Syncing} {
			if _, leads := m.to[from]; !leads {
				continue
			}
			id := stand()
			var try *uuid.UUID
			run := b.claimed(id)
			if from == lifecycle.Syncing {
				try = new(movestest.PickUp(b, b.conn, id, run, 15*time.Second).ID)
			}
			if m.before != "" {
				b.force(m.before, id)
			}
			b.exec(`SELECT (`+m.call+` LIMIT 1) FROM (SELECT $1::int, $2::uuid, $3::uuid) p`, id, run, try)
			look(name, from, id, run)
			b.exec(`DELETE FROM connectors WHERE id = $1`, id)
		}
	}
}
