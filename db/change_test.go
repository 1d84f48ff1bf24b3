package db_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/testonly/movestest"
)

// run is the open run of a connector.
func (b *base) run(id int32) uuid.UUID {
	b.Helper()
	return one[uuid.UUID](b, `SELECT run_id FROM connectors WHERE id = $1`, id)
}

// ends completes the run of a connector that is SYNCING.
func (b *base) ends(id int32) {
	b.Helper()
	run := b.run(id)
	b.whole(run, 1, `{"cursor":2}`)
	b.moves("completed", `SELECT verdict FROM moves.complete($1)`, run)
}

func TestPlainSQLIsPlanned(t *testing.T) {
	b := newBase(t)
	for columns, plan := range map[string]string{
		`refresh_freq_minutes) VALUES ('docs', 'web', 1, 60`:                     `c.due_reason = 'new' AND c.next_sync_at <= clock_timestamp()`,
		`refresh_freq_minutes) VALUES ('docs', 'web', 1, 0`:                      `c.due_reason = 'new' AND c.next_sync_at <= clock_timestamp()`,
		`refresh_freq_minutes) VALUES ('docs', 'web', 1, NULL`:                   `c.due_reason IS NULL AND c.next_sync_at IS NULL AND NOT c.needs_plan`,
		`schedule_cron) VALUES ('docs', 'web', 1, '0 3 * * *'`:                   `c.needs_plan AND c.next_sync_at IS NULL`,
		`trigger_requested_at) VALUES ('docs', 'web', 1, now()`:                  `c.due_reason = 'manual' AND c.next_sync_at <= clock_timestamp()`,
		`status, refresh_freq_minutes) VALUES ('docs', 'web', 1, 'DISABLED', 60`: `c.next_sync_at IS NULL AND NOT c.needs_plan`,
		`last_sync_at, refresh_freq_minutes) VALUES ('docs', 'web', 1, now(), 60`: `c.due_reason = 'schedule'
			AND c.next_sync_at = moves.interval_slot(c.id, c.last_sync_at, 60, 10) AND c.slot_at = c.next_sync_at`,
		`last_sync_at, refresh_freq_minutes) VALUES ('docs', 'web', 1, now(), 0`: `c.next_sync_at IS NULL`,
	} {
		id := one[int32](b, `INSERT INTO connectors (name, type, user_id, `+columns+`) RETURNING id`)
		b.holds(id, plan+` AND c.config_version > 0 AND c.state = '{}'`)
	}
}

func TestTheScheduleAtRestIsPlannedAgain(t *testing.T) {
	b := newBase(t)
	for change, plan := range map[string]string{
		`refresh_freq_minutes = 120`:                               `c.next_sync_at = moves.interval_slot(c.id, c.last_sync_at, 120, 10) AND c.due_reason = 'schedule'`,
		`refresh_freq_minutes = 0`:                                 `c.next_sync_at IS NULL AND c.due_reason IS NULL`,
		`refresh_freq_minutes = NULL`:                              `c.next_sync_at IS NULL AND c.due_reason IS NULL`,
		`refresh_freq_minutes = NULL, schedule_cron = '0 3 * * *'`: `c.needs_plan AND c.next_sync_at IS NULL`,
		`name = 'other', max_retries = 9`:                          `c.next_sync_at = moves.interval_slot(c.id, c.last_sync_at, 60, 10) AND c.state = '{"cursor":1}'`,
	} {
		id := b.synced()
		b.exec(`UPDATE connectors SET `+change+` WHERE id = $1`, id)
		b.holds(id, plan)
	}
}

func TestTheScheduleInFlightCountsFromTheVerdict(t *testing.T) {
	b := newBase(t)
	id := b.in("SYNCING")
	run := b.run(id)
	b.exec(`UPDATE connectors SET refresh_freq_minutes = 5 WHERE id = $1`, id)
	b.holds(id, `c.status = 'SYNCING' AND c.run_id = '`+run.String()+`' AND r.status = 'running' AND c.next_sync_at IS NULL`)
	b.ends(id)
	b.holds(id, `c.next_sync_at = moves.interval_slot(c.id, c.last_sync_at, 5, 10)`)

	cron := b.in("PENDING")
	b.force(`UPDATE connectors SET planned_through = now() WHERE id = $1`, cron)
	b.exec(`UPDATE connectors SET refresh_freq_minutes = NULL, schedule_cron = '* * * * *' WHERE id = $1`, cron)
	b.holds(cron, `c.status = 'PENDING' AND NOT c.needs_plan AND c.planned_through = c.updated_at`)
}

// changes are those after which documents of before neither count nor stay.
var changes = []string{
	`config = '{"url":"https://example.org"}'`, `scope = 'org'`, `scope = 'group', scope_id = 'sales'`, `user_id = 2`, `type = 'file'`,
}

func TestAChangeAtRestIsDueNowWithoutState(t *testing.T) {
	b := newBase(t)
	for _, change := range changes {
		id := b.synced()
		before := one[int64](b, `SELECT config_version FROM connectors WHERE id = $1`, id)
		b.exec(`UPDATE connectors SET `+change+` WHERE id = $1`, id)
		b.holds(id, `c.state = '{}' AND c.due_reason = 'changed' AND c.next_sync_at <= clock_timestamp() AND c.slot_at IS NULL`)
		if after := one[int64](b, `SELECT config_version FROM connectors WHERE id = $1`, id); after <= before {
			t.Errorf("%s: config_version %d after %d", change, after, before)
		}
	}
	manual := b.synced()
	b.exec(`UPDATE connectors SET refresh_freq_minutes = NULL WHERE id = $1`, manual)
	b.exec(`UPDATE connectors SET user_id = 2 WHERE id = $1`, manual)
	b.holds(manual, `c.state = '{}' AND c.next_sync_at IS NULL`)
	same := b.synced()
	b.exec(`UPDATE connectors SET config = config, user_id = user_id WHERE id = $1`, same)
	b.holds(same, `c.state = '{"cursor":1}' AND c.due_reason = 'schedule'`)
}

func TestAChangeInFlightReleasesTheConnector(t *testing.T) {
	b := newBase(t)
	for _, from := range []string{"PENDING", "SYNCING"} {
		for _, change := range changes {
			id := b.in(from)
			b.exec(`UPDATE connectors SET `+change+` WHERE id = $1`, id)
			b.holds(id, `c.status = 'ACTIVE' AND c.run_id IS NULL AND c.state = '{}'
				AND c.due_reason = 'changed' AND c.next_sync_at <= clock_timestamp() AND c.failure_count = 0
				AND r.status = 'superseded' AND r.reason = 'configuration changed' AND r.config_version < c.config_version`)
		}
	}
}

func TestAChangeWhileDisabledIsDueOnceItIsEnabled(t *testing.T) {
	b := newBase(t)
	id := b.in("DISABLED")
	b.exec(`UPDATE connectors SET user_id = 2 WHERE id = $1`, id)
	b.exec(`UPDATE connectors SET name = 'other' WHERE id = $1`, id)
	b.holds(id, `c.next_sync_at IS NULL AND c.state = '{}'`)
	b.moves("true", `SELECT moves.enable($1)`, id)
	b.holds(id, `c.due_reason = 'changed' AND c.next_sync_at <= clock_timestamp()`)

	waiting := b.synced()
	b.exec(`UPDATE connectors SET user_id = 2 WHERE id = $1`, waiting)
	b.moves("true", `SELECT moves.disable($1)`, waiting)
	b.moves("true", `SELECT moves.enable($1)`, waiting)
	b.holds(waiting, `c.due_reason = 'changed' AND c.next_sync_at <= clock_timestamp()`)

	manual := b.in("DISABLED")
	b.exec(`UPDATE connectors SET user_id = 2, refresh_freq_minutes = NULL WHERE id = $1`, manual)
	b.moves("true", `SELECT moves.enable($1)`, manual)
	b.holds(manual, `c.next_sync_at IS NULL AND c.due_reason IS NULL`)
}

const trigger = `UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`

func TestATriggerAtRestIsDueNow(t *testing.T) {
	b := newBase(t)
	for _, from := range []string{"ACTIVE", "ERROR"} {
		id := b.in(from)
		b.exec(trigger, id)
		b.holds(id, `c.due_reason = 'manual' AND c.next_sync_at <= clock_timestamp() AND c.slot_at IS NULL`)
	}
}

func TestWhatIsDueAlreadyKeepsItsPlaceAndItsSlot(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	b.force(`UPDATE connectors SET next_sync_at = now() - interval '1 hour', slot_at = now() - interval '1 hour' WHERE id = $1`, id)
	due := `c.due_reason = 'schedule' AND c.next_sync_at <= clock_timestamp() - interval '1 hour' AND c.slot_at = c.next_sync_at`
	b.exec(trigger, id)
	b.holds(id, due)
	b.exec(`UPDATE connectors SET user_id = 2 WHERE id = $1`, id)
	b.holds(id, due)
	b.exec(`UPDATE connectors SET refresh_freq_minutes = NULL WHERE id = $1`, id)
	b.holds(id, `c.next_sync_at <= clock_timestamp() AND c.due_reason = 'manual'`)
}

func TestATriggerBeforeThePickUpIsAnsweredByTheRun(t *testing.T) {
	b := newBase(t)
	id := b.in("PENDING")
	b.exec(trigger, id)
	movestest.PickUp(t, b.conn, id, b.run(id), time.Minute)
	b.holds(id, `c.trigger_requested_at IS NULL AND r.trigger_requested_at IS NOT NULL AND r.picked_up_at IS NOT NULL`)
	b.ends(id)
	b.holds(id, `c.due_reason = 'schedule'`)
}

func TestATriggerDuringARunIsDueAfterIt(t *testing.T) {
	b := newBase(t)
	id := b.in("SYNCING")
	b.exec(trigger, id)
	b.ends(id)
	b.holds(id, `c.due_reason = 'manual' AND c.next_sync_at <= clock_timestamp() AND r.status = 'completed'`)
	failing := b.in("SYNCING")
	b.exec(trigger, failing)
	b.moves("true", `SELECT moves.fail(id, try_id, 'transient', 'no') FROM open_runs WHERE connector_id = $1`, failing)
	b.holds(failing, `c.due_reason = 'manual' AND c.next_sync_at <= clock_timestamp() AND c.failure_count = 1`)
}

func TestTriggeringADisabledConnectorIsRefused(t *testing.T) {
	b := newBase(t)
	id := b.in("DISABLED")
	b.refused("connectors_trigger_disabled", trigger, id)
	b.refused("connectors_trigger_disabled", `SELECT moves.trigger_sync($1)`, id)
	b.moves("true", `SELECT moves.enable($1)`, id)
	b.moves("true", `SELECT moves.trigger_sync($1) IS NOT NULL`, id)
	b.moves("nothing", `SELECT moves.trigger_sync(-1)`)
	b.holds(id, `c.due_reason = 'manual' AND c.next_sync_at <= clock_timestamp()`)
}

// A user has disabled a connector and does not commit.
func TestAVerdictWakesTheSchedulerWhoeverHoldsTheFlagOfItsType(t *testing.T) {
	b := newBase(t)
	first, second, third := b.in("SYNCING"), b.in("SYNCING"), b.in("SYNCING")
	b.exec(`INSERT INTO waiting_types SELECT name, true FROM connector_types ON CONFLICT (name) DO UPDATE SET waits = true`)
	user := b.other()
	user.exec(`BEGIN`)
	user.exec(`SELECT moves.disable($1)`, first)
	for _, id := range []int32{second, third} {
		if n := b.notified(`SELECT moves.disable($1)`, id); n != 1 {
			t.Errorf("%d notifications of a place that is free", n)
		}
	}
}

func TestANotificationSaysOfWhichTypeSomethingIsDueOrAPlaceFree(t *testing.T) {
	b := newBase(t)
	due, leaves := b.synced(), b.in("SYNCING")
	b.exec(`INSERT INTO waiting_types SELECT name, true FROM connector_types ON CONFLICT (name) DO UPDATE SET waits = true`)
	if types := b.told(trigger, due); !slices.Equal(types, []string{"web"}) {
		t.Errorf("a trigger told of %v", types)
	}
	// It is due as what it is now, and has left a place of what it was.
	if types := b.told(`UPDATE connectors SET type = 'file' WHERE id = $1`, leaves); !slices.Equal(types, []string{"file", "web"}) {
		t.Errorf("a change of type in flight told of %v", types)
	}
}

func TestSkippedTogetherTheyTellOfEachTypeOnce(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO waiting_types SELECT name, name = 'teams' FROM connector_types ON CONFLICT (name) DO UPDATE SET waits = EXCLUDED.waits`)
	for _, of := range []struct {
		kind string
		due  bool
	}{{"web", true}, {"web", true}, {"web", false}, {"teams", false}, {"teams", false}, {"onedrive", false}} {
		id := one[int32](b, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) VALUES ('docs', $1, 1, 60) RETURNING id`, of.kind)
		b.syncing(id)
		if of.due {
			b.exec(trigger, id)
		}
	}
	skips := `SELECT count(*) FROM moves.skip_all((SELECT jsonb_agg(jsonb_build_object('run', id, 'try', try_id)) FROM open_runs))`
	if types := b.told(skips); !slices.Equal(types, []string{"teams", "web"}) {
		t.Errorf("told of %v", types)
	}
}

func TestWhoIsDueOrGivesUpAPlaceNotifiesOncePerStatement(t *testing.T) {
	b := newBase(t)
	quiet, busy := b.synced(), map[bool]int32{true: b.in("SYNCING"), false: b.in("SYNCING")}
	for sql, n := range map[string]int{
		`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) SELECT 'a', 'teams', 1, 60 FROM generate_series(1, 50)`: 1,
		`INSERT INTO connectors (name, type, user_id) VALUES ('a', 'web', 1)`:                                                       0,
		`INSERT INTO connectors (name, type, user_id, schedule_cron) VALUES ('a', 'web', 1, '0 3 * * *')`:                           1,
		`UPDATE connectors SET name = 'b'`: 0,
	} {
		if got := b.notified(sql); got != n {
			t.Errorf("%s: %d notifications, want %d", sql, got, n)
		}
	}
	if n := b.notified(trigger, quiet); n != 1 {
		t.Errorf("a trigger: %d notifications", n)
	}
	for waits, n := range map[bool]int{true: 1, false: 0} { // only where somebody waits for a place of the type
		b.exec(`INSERT INTO waiting_types SELECT name, $1 FROM connector_types ON CONFLICT (name) DO UPDATE SET waits = EXCLUDED.waits`, waits)
		if got := b.notified(`DELETE FROM connectors WHERE id = $1`, busy[waits]); got != n {
			t.Errorf("a deleted connector that was in flight: %d notifications, want %d", got, n)
		}
	}
}
