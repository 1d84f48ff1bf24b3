package audit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/chaos/source"
	"github.com/echomind/sync/testonly/movestest"
)

const (
	verdict = "one verdict for each run"
	claims  = "every claim opens its run"
	passed  = "every slot that came is answered"
	slots   = "every cron slot once"
	// planStays is what a run with parameters does not touch.
	planStays = "a run with parameters leaves the plan"
)

func TestARunWithoutOneVerdictIsFound(t *testing.T) {
	for part, forge := range map[string]func(l *lab, run uuid.UUID){
		"was written again": func(l *lab, run uuid.UUID) {
			movestest.Force(l.t, l.pool, `UPDATE runs SET reason = 'another' WHERE id = $1`, run)
		},
		"opened 2 times": func(l *lab, run uuid.UUID) {
			l.do(open, 99, run, "new", nil)
		},
		"ended 2 times": func(l *lab, run uuid.UUID) {
			l.do(`INSERT INTO runs SELECT (jsonb_populate_record(r, '{"completed_at": "2001-01-01 00:00+00"}')).* FROM runs r WHERE id = $1`, run)
		},
		"vanished": func(l *lab, run uuid.UUID) { movestest.Force(l.t, l.pool, `DELETE FROM runs WHERE id = $1`, run) },
		"is open": func(l *lab, _ uuid.UUID) {
			l.claim(l.add("synthetic", source.Config{}))
		},
		"closed without a verdict": func(l *lab, _ uuid.UUID) {
			id := l.add("synthetic", source.Config{})
			l.claim(id)
			l.together(func(do func(string, ...any)) {
				do(`UPDATE connectors SET status = 'ACTIVE', run_id = NULL WHERE id = $1`, id)
				do(`DELETE FROM open_runs`)
			})
		},
		"does not say why": func(l *lab, _ uuid.UUID) {
			id := l.add("synthetic", source.Config{})
			l.claim(id)
			l.together(func(do func(string, ...any)) {
				do(`SELECT moves.end_runs(ARRAY[run_id], 'failed', NULL) FROM connectors WHERE id = $1`, id)
				do(`UPDATE connectors SET status = 'ACTIVE', run_id = NULL WHERE id = $1`, id)
			})
		},
		"picked up by 2 tries": func(l *lab, _ uuid.UUID) {
			id := l.add("synthetic", source.Config{})
			run := l.claim(id)
			l.pickUp(id, time.Hour)
			l.do(`UPDATE open_runs SET try_id = NULL, picked_up_at = NULL`)
			l.force(`UPDATE connectors SET status = 'PENDING' WHERE id = $1`, id)
			l.finish(id, run, 1)
		},
	} {
		t.Run(part, func(t *testing.T) {
			l := newLab(t)
			id := l.add("synthetic", source.Config{})
			run := l.claim(id)
			l.finish(id, run, 1)
			require.Empty(t, l.audit(verdict).Violations)
			forge(l, run)
			l.finds(verdict, part)
		})
	}
}

// open opens a run, and takes its connector as a claim does, in two statements.
const (
	open = `INSERT INTO open_runs (id, connector_id, user_id, type, trigger, slot, due_at, started_at, dispatched_at, config_version)
		SELECT $2, $1, coalesce(c.user_id, 1), coalesce(c.type, 'web'), $3, $4, clock_timestamp(), clock_timestamp(), clock_timestamp(), coalesce(c.config_version, 1)
		FROM (SELECT) one LEFT JOIN connectors c ON c.id = $1`
	take = `UPDATE connectors SET status = 'PENDING', run_id = $2, next_sync_at = NULL, due_reason = NULL, slot_at = NULL,
		needs_plan = false WHERE id = $1`
)

func TestAClaimWithoutItsOwnRunIsFound(t *testing.T) {
	forge := func(l *lab, id int32, reason string, slot *time.Time) {
		run := uuid.New()
		l.together(func(do func(string, ...any)) {
			do(open, id, run, reason, slot)
			do(take, id, run)
		})
	}
	for part, act := range map[string]func(l *lab){
		"opened no run": func(l *lab) { l.force(take, l.add("synthetic", source.Config{}), uuid.New()) },
		"claimed and opened no run": func(l *lab) { // but in another transaction
			id, run := l.add("synthetic", source.Config{}), uuid.New()
			l.do(open, id, run, "new", nil)
			l.force(take, id, run)
		},
		"nobody claimed its connector": func(l *lab) {
			l.do(open, l.add("synthetic", source.Config{}), uuid.New(), "new", nil)
		},
		`was due for "new"`: func(l *lab) { forge(l, l.add("synthetic", source.Config{}), "manual", nil) },
		"which is not in the ledger": func(l *lab) {
			forge(l, l.addScheduled("refresh_freq_minutes", 1, source.Config{}), "schedule", nil)
		},
		"is not in the ledger": func(l *lab) { // a later one answers it, and none is missed
			later := time.Now()
			forge(l, l.addScheduled("refresh_freq_minutes", 1, source.Config{}), "schedule", &later)
		},
	} {
		t.Run(part, func(t *testing.T) {
			l := newLab(t)
			l.claim(l.add("synthetic", source.Config{}))
			l.claim(l.addScheduled("refresh_freq_minutes", 1, source.Config{}))
			f := l.audit(claims)
			require.Empty(t, f.Violations)
			require.Equal(t, 2, f.Checked)
			act(l)
			l.finds(claims, part)
		})
	}
}

// claimBefore claims one that was planned five minutes ago and is due for its third slot since, for another moment. It says that the third was missed.
func (l *lab) claimBefore(after time.Duration) {
	l.t.Helper()
	planned := time.Now().Add(-5 * time.Minute).Truncate(time.Minute)
	slot, due := planned.Add(after), planned.Add(3*time.Minute)
	id := l.addScheduled("schedule_cron", "* * * * *", source.Config{})
	l.force(`UPDATE connectors SET needs_plan = false, planned_through = $2, next_sync_at = $3, slot_at = $3, due_reason = 'schedule' WHERE id = $1`, id, planned, due)
	l.do(`SELECT moves.claim(jsonb_build_array(jsonb_build_object('id', $1::int, 'run_id', gen_random_uuid(), 'slot', $2::timestamptz, 'through', $3::timestamptz,
		'passed', jsonb_build_array(jsonb_build_object('verdict', 'missed', 'reason', 'too late', 'first', $3, 'last', $3, 'count', 1)))), clock_timestamp())`, id, slot, due)
}

func TestARunForASlotBeforeTheDueOneIsFoundUnlessAWindowHadIt(t *testing.T) {
	l := newLab(t)
	l.do(`INSERT INTO calendars (name, time_zone, entries) VALUES ('ever', 'UTC', '[{"name": "always", "start": "2020-01-01", "rule": "FREQ=DAILY"}]')`)
	l.do(`INSERT INTO blackouts (name, calendar, mode, user_id) VALUES ('w', 'ever', 'skip', 99)`)
	l.do(`DELETE FROM blackouts`)
	l.claimBefore(time.Minute)
	require.Empty(t, l.audit(claims).Violations)
	l.claimBefore(0)
	l.finds(claims, "was due")
}

func TestARunForASlotBeforeTheDueOneIsFoundWhereNoWindowEverWas(t *testing.T) {
	l := newLab(t)
	l.claimBefore(time.Minute)
	l.finds(claims, "no blackout window had it")
}

func TestARunForAMomentOfAPlanThatIsNoSlotIsFound(t *testing.T) {
	l := newLab(t)
	l.claimBefore(90 * time.Second)
	l.finds(slots, "which never came")
}

func TestARunWithParametersThatTouchesThePlanIsFound(t *testing.T) {
	for part, spoil := range map[string]string{
		"from ACTIVE to PENDING":  `UPDATE connectors SET kept_plan = '{}', status = 'PENDING', run_id = gen_random_uuid(), next_sync_at = NULL, due_reason = NULL`,
		"from PENDING to SYNCING": `UPDATE connectors SET status = 'SYNCING', wanted = NOT wanted`,
		"from PENDING to ACTIVE":  `UPDATE connectors SET status = 'ACTIVE', run_id = NULL, kept_plan = NULL, failure_count = failure_count + 1`,
	} {
		t.Run(part, func(t *testing.T) {
			l := newLab(t)
			id := l.add("capped", source.Config{})
			l.do(`UPDATE connector_types SET kind = 'job' WHERE name = 'capped'`)
			l.finish(id, l.claim(id), 1)
			if !strings.HasPrefix(part, "from ACTIVE") {
				l.do(`SELECT moves.trigger_sync($1, parameters => '{"seed": 5}')`, id)
				l.do(`SELECT moves.claim(jsonb_build_array(jsonb_build_object('id', $1::int, 'run_id', gen_random_uuid(), 'asked', true)), clock_timestamp())`, id)
			}
			require.Empty(t, l.audit(planStays).Violations)
			l.force(spoil)
			l.finds(planStays, part)
		})
	}
}

func TestAConnectorThatIsNotWhereItsRunIsIsFound(t *testing.T) {
	const flight = "in flight is an open run"
	for part, act := range map[string]func(l *lab, id int32){
		"it is ACTIVE in run  of": func(l *lab, id int32) {
			l.force(`UPDATE connectors SET status = 'ACTIVE', run_id = NULL WHERE id = $1`, id)
		},
		"open is run  of": func(l *lab, _ int32) { l.do(`DELETE FROM open_runs`) },
		"it is SYNCING": func(l *lab, id int32) {
			l.force(`UPDATE connectors SET status = 'SYNCING' WHERE id = $1`, id)
		},
		"it is PENDING": func(l *lab, _ int32) {
			l.do(`UPDATE open_runs SET picked_up_at = clock_timestamp(), try_id = gen_random_uuid()`)
		},
		"of type synthetic at version": func(l *lab, id int32) { // of another configuration than its run
			l.force(`UPDATE connectors SET config_version = config_version + 1 WHERE id = $1`, id)
		},
		"it is  in run": func(l *lab, id int32) { // its connector is gone
			l.do(`ALTER TABLE connectors DISABLE TRIGGER connectors_user_delete`)
			l.do(`DELETE FROM connectors WHERE id = $1`, id)
		},
	} {
		t.Run(part, func(t *testing.T) {
			l := newLab(t)
			id := l.add("synthetic", source.Config{})
			run := l.claim(id)
			l.finish(id, run, 1)
			l.trigger()
			l.claim(id)
			f := l.audit(flight)
			require.Empty(t, f.Violations)
			require.Equal(t, 4, f.Checked)
			act(l, id)
			l.finds(flight, part)
		})
	}
}

func TestAPassedSlotWithoutARowIsFound(t *testing.T) {
	away := map[string]string{
		"rescheduled":                `UPDATE connectors SET refresh_freq_minutes = 7 WHERE id = $1`,
		"without a schedule":         `UPDATE connectors SET refresh_freq_minutes = NULL WHERE id = $1`,
		"disabled":                   `SELECT moves.disable($1)`,
		"deleted":                    `DELETE FROM connectors WHERE id = $1`,
		"changed":                    `UPDATE connectors SET config = config || '{"changes": 9}' WHERE id = $1`,
		"triggered":                  `SELECT moves.trigger_sync($1)`,
		"changed and without a plan": `UPDATE connectors SET config = config || '{"changes": 9}', refresh_freq_minutes = NULL WHERE id = $1`,
	}
	for name, sql := range away {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.claim(l.addScheduled("refresh_freq_minutes", 1, source.Config{}))
			id := l.addScheduled("refresh_freq_minutes", 1, source.Config{})
			l.do(sql, id)
			if name == "changed" || name == "triggered" { // it stands, and is claimed
				l.claim(id)
			}
			f := l.audit(passed)
			require.Empty(t, f.Violations)
			require.Equal(t, 2, f.Checked)
			require.Empty(t, l.audit("no slot twice").Violations)
		})
	}
	l := newLab(t)
	id := l.addScheduled("refresh_freq_minutes", 1, source.Config{})
	l.force(`UPDATE connectors SET slot_at = NULL, due_reason = 'manual' WHERE id = $1`, id)
	l.finds(passed, "passed without a row")
}

// Postgres's clock steps ahead, past a slot, and back.
func TestASlotThatAClockHadPassedForAMomentHasNotCome(t *testing.T) {
	l := newLab(t)
	id := l.addScheduled("refresh_freq_minutes", 1, source.Config{})
	l.force(`UPDATE connectors SET slot_at = NULL, due_reason = 'manual' WHERE id = $1`, id)
	const away = ` WHERE old_slot IS NOT NULL AND slot IS NULL AND op = 'UPDATE'`
	l.do(`UPDATE chaos.connector_events SET at = old_slot - interval '1 second'` + away)
	l.finds(passed, "passed without a row")
	l.opts.ClockStepped = time.Second
	l.finds(passed, "passed without a row")
	l.opts.ClockStepped = time.Hour
	require.Empty(t, l.audit(passed).Violations, "its transaction began before the clock stepped back")
	l.do(`UPDATE chaos.connector_events SET at = began` + away)
	l.do(`DELETE FROM connectors`)
	l.finds(passed, "passed without a row")
	l.do(`UPDATE chaos.connector_events SET at = (SELECT min(old_slot) FROM chaos.connector_events) - interval '1 second' WHERE op = 'DELETE'`)
	require.Empty(t, l.audit(passed).Violations, "it was deleted before the slot came again")
	l.opts.ClockStepped = 0
	l.finds(passed, "passed without a row")
}

// While the clock is ahead a slot is passed over by a rule whose line is written later; the clock steps back, and its user disables the connector before the slot comes.
func TestASlotThatWasStillToComeAfterTheClockHadSteppedBackHasNotCome(t *testing.T) {
	l := newLab(t)
	id := l.addScheduled("refresh_freq_minutes", 1, source.Config{})
	l.force(`UPDATE connectors SET slot_at = slot_at + interval '1 minute' WHERE id = $1`, id)
	l.disable(id)
	l.opts.ClockStepped = time.Hour
	l.finds(passed, "passed without a row")
	l.do(`UPDATE chaos.connector_events SET at = (SELECT min(old_slot) FROM chaos.connector_events) - interval '2 seconds' WHERE status = 'DISABLED'`)
	require.Empty(t, l.audit(passed).Violations)
	l.opts.ClockStepped = time.Second
	l.finds(passed, "passed without a row")
}

func TestAnIDThatIsAddedAgainIsAnotherConnector(t *testing.T) {
	l := newLab(t)
	id := l.addScheduled("refresh_freq_minutes", 1, source.Config{})
	l.do(`DELETE FROM connectors`)
	l.do(`INSERT INTO connectors (id, name, type, user_id, config, last_sync_at, refresh_freq_minutes)
		SELECT connector_id, 'again', 'synthetic', 1, '{}', due_at - interval '1 minute', 1 FROM runs`)
	l.claim(id)
	require.Empty(t, l.audit("no slot twice").Violations, "the slot is of two connectors")
	require.Empty(t, l.audit(claims).Violations)
	f := l.audit(passed)
	require.Empty(t, f.Violations)
	require.Equal(t, 2, f.Checked)
}

func TestASlotThatIsInTheLedgerTwiceIsFound(t *testing.T) {
	const missed = `INSERT INTO runs (id, connector_id, type, trigger, slot, slot_last, missed_count, due_at, started_at, completed_at,
			status, reason, config_version)
		SELECT gen_random_uuid(), connector_id, type, 'schedule', slot - $1 * interval '1 minute', slot - $2 * interval '1 minute', 1,
			clock_timestamp(), clock_timestamp(), clock_timestamp(), 'missed', 'passed', 1 FROM open_runs`
	l := newLab(t)
	l.claim(l.addScheduled("refresh_freq_minutes", 1, source.Config{}))
	l.do(missed, 3, 1)
	require.Empty(t, l.audit("no slot twice").Violations)
	l.do(missed, 5, 3)
	l.finds("no slot twice", "and so does")
	l = &lab{t: t, url: l.url, pool: l.pool}
	l.do(missed, 0, 0)
	require.Equal(t, 2, l.audit("no slot twice").Violated)
}

func TestACronSlotThatIsNotInTheLedgerOnceIsFound(t *testing.T) {
	const missed = `INSERT INTO runs (id, connector_id, type, trigger, slot, slot_last, missed_count, due_at,
			started_at, completed_at, status, reason, config_version)
		SELECT gen_random_uuid(), id, type, 'schedule', slot_at + $2 * interval '1 minute', slot_at + $3 * interval '1 minute', $4,
			clock_timestamp(), clock_timestamp(), clock_timestamp(), 'missed', 'passed', 1 FROM connectors WHERE id = $1`
	for part, rows := range map[string][][3]int{
		"":                         {{0, 4, 5}},
		"is in the ledger 0 times": {{0, 3, 4}},
		"is in the ledger 2 times": {{0, 4, 5}, {3, 3, 1}},
		"there are 5":              {{0, 4, 6}},
		"which never came":         {{0, 4, 5}, {-7, -6, 2}},
		"was planned by":           {{0, 4, 5}},
	} {
		t.Run(part, func(t *testing.T) {
			l := newLab(t)
			id := l.addScheduled("schedule_cron", "* * * * *", source.Config{})
			// Planned nine minutes ago; the claim comes five slots later.
			l.force(`UPDATE connectors SET needs_plan = false, due_reason = 'schedule',
				slot_at = date_trunc('minute', planned_through) + interval '1 minute',
				next_sync_at = date_trunc('minute', planned_through) + interval '1 minute' WHERE id = $1`, id)
			for _, r := range rows {
				l.do(missed, id, r[0], r[1], r[2])
			}
			l.force(`UPDATE connectors SET slot_at = slot_at + interval '5 minutes' WHERE id = $1`, id)
			l.claim(id)
			switch part {
			case "":
				f := l.audit(slots)
				require.Empty(t, f.Violations)
				require.Equal(t, 6, f.Checked)
				return
			case "was planned by":
				l.do(`UPDATE chaos.connector_events SET cron = 'never'`)
			}
			l.finds(slots, part)
		})
	}
}

func TestSlotsThatPassedBeforeAnIDWasAddedAgainAreTheFirstConnectors(t *testing.T) {
	l := newLab(t)
	id := l.add("synthetic", source.Config{})
	l.do(`UPDATE connectors SET refresh_freq_minutes = NULL, schedule_cron = '* * * * *' WHERE id = $1`, id)
	l.force(`UPDATE connectors SET needs_plan = false, planned_through = clock_timestamp() - interval '10 minutes' WHERE id = $1`, id)
	l.do(`DELETE FROM connectors`)
	l.do(`INSERT INTO connectors (id, name, type, user_id) VALUES ($1, 'again', 'synthetic', 1)`, id)
	f := l.audit("every cron slot once")
	require.NotEmpty(t, f.Violations, "nobody has counted them yet")
	l.do(`WITH p AS (SELECT id, date_trunc('minute', after) + interval '1 minute' AS first, date_trunc('minute', through) AS last FROM passed_slots)
		SELECT moves.miss_passed(jsonb_agg(jsonb_build_object('id', id, 'passed', jsonb_build_array(jsonb_build_object('verdict', 'missed', 'reason', 'x',
			'first', first, 'last', last, 'count', (extract(epoch FROM last - first) / 60)::integer + 1))))) FROM p WHERE last >= first`)
	f = l.audit("every cron slot once")
	require.Empty(t, f.Violations)
	require.GreaterOrEqual(t, f.Checked, 9)
}

func TestASlotOfAnIntervalWithinThePlanOfACronScheduleBeforeItIsNoneOfItsSlots(t *testing.T) {
	l := newLab(t)
	id := l.addScheduled("schedule_cron", "0 0 1 1 *", source.Config{})
	l.force(`UPDATE connectors SET needs_plan = false WHERE id = $1`, id)
	l.do(`UPDATE connectors SET schedule_cron = NULL, refresh_freq_minutes = 1 WHERE id = $1`, id)
	const passed = `INSERT INTO runs (id, connector_id, type, trigger, slot, slot_last, missed_count, due_at, started_at, completed_at, status, reason, config_version)
		SELECT gen_random_uuid(), id, type, 'schedule', at, at, 1, at, clock_timestamp(), clock_timestamp(), 'missed', 'passed', 1
		FROM (SELECT id, type, last_sync_at + $2::interval AS at FROM connectors WHERE id = $1) c`
	l.force(`UPDATE connectors SET needs_plan = false, due_reason = 'schedule', slot_at = last_sync_at + interval '1 minute', next_sync_at = clock_timestamp() WHERE id = $1`, id)
	l.do(passed, id, "1 minute")
	require.Empty(t, l.audit(slots).Violations)
	l.do(passed, id, "2 minutes")
	require.Equal(t, 1, l.audit(slots).Violated, "one that never came")
}
