//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"
)

func TestASlotThatItsUserTakesAwayBeforeTheClaimIsMissed(t *testing.T) {
	for reason, take := range map[string]string{
		"schedule changed before it could be claimed":  `UPDATE connectors SET refresh_freq_minutes = 5 WHERE id = $1`,
		"disabled before it could be claimed":          `SELECT moves.disable($1)`,
		"connector deleted before it could be claimed": `DELETE FROM connectors WHERE id = $1`,
	} {
		t.Run(reason, func(t *testing.T) {
			s := setStage(t)
			id := s.connector(row{"last_sync_at": time.Now()})
			slot := time.Now().Add(-time.Minute).Truncate(time.Microsecond)
			s.force(`UPDATE connectors SET next_sync_at = $2, slot_at = $2, due_reason = 'schedule' WHERE id = $1`, id, slot)
			s.exec(take, id)
			want(s, true, `SELECT count(*) = 1 AND bool_and(status = 'missed' AND reason = $2 AND slot = $3 AND slot_last = $3
				AND missed_count = 1 AND trigger = 'schedule') FROM runs WHERE connector_id = $1`, id, reason, slot)
			s.do(s.scheduler().Tick(t.Context()))
			want(s, 1, `SELECT count(*) FROM scheduler_runs`) // the slot has one verdict
		})
	}
}

// takes are what users may do to the slots of a cron schedule, and the reason that is written of each.
var takes = map[string]string{
	`UPDATE connectors SET schedule_cron = '0 3 * * *' WHERE id = $1`:                                 "schedule changed before it could be claimed",
	`UPDATE connectors SET schedule_cron = NULL, refresh_freq_minutes = 5 WHERE id = $1`:              "schedule changed before it could be claimed",
	`UPDATE connectors SET time_zone = 'Asia/Tokyo' WHERE id = $1`:                                    "schedule changed before it could be claimed",
	`UPDATE connectors SET schedule_cron = '0 3 * * *', config = '{"url":"https://b"}' WHERE id = $1`: "schedule changed before it could be claimed",
	`UPDATE connectors SET schedule_cron = '0 3 * * *', trigger_requested_at = now() WHERE id = $1`:   "schedule changed before it could be claimed",
	`SELECT moves.disable($1)`:             "disabled before it could be claimed",
	`DELETE FROM connectors WHERE id = $1`: "connector deleted before it could be claimed",
}

// All slots: also behind the one that was due, and those that passed while a run was under way, or in the pause after a failure.
func TestEverySlotOfACronScheduleThatItsUserTakesAwayIsMissed(t *testing.T) {
	for state, bring := range map[string]string{
		"due": `UPDATE connectors SET next_sync_at = planned_through + interval '1 minute', due_reason = 'schedule',
			slot_at = planned_through + interval '1 minute' WHERE id = $1`,
		"to be planned":   `UPDATE connectors SET needs_plan = true, next_sync_at = NULL, due_reason = NULL WHERE id = $1`,
		"after a failure": `UPDATE connectors SET status = 'ERROR', next_sync_at = now() + interval '1 hour', due_reason = 'retry', failure_count = 1 WHERE id = $1`,
		"in flight": `WITH r AS (INSERT INTO open_runs (id, connector_id, user_id, type, trigger, slot, due_at, started_at, dispatched_at, config_version)
			SELECT gen_random_uuid(), id, user_id, type, 'schedule', planned_through, planned_through, now(), now(), config_version
			FROM connectors WHERE id = $1 RETURNING id)
			UPDATE connectors SET status = 'PENDING', run_id = r.id, next_sync_at = NULL, due_reason = NULL, slot_at = NULL FROM r WHERE connectors.id = $1`,
	} {
		for take, reason := range takes {
			t.Run(state+": "+take, func(t *testing.T) {
				s := setStage(t)
				id := s.cronConnector("* * * * *", time.Hour)
				s.plan()
				s.force(`UPDATE connectors SET needs_plan = false, planned_through = date_trunc('minute', clock_timestamp()) - interval '10 minutes' WHERE id = $1`, id)
				s.force(bring, id)
				from := one[time.Time](s, `SELECT planned_through FROM connectors WHERE id = $1`, id)
				s.exec(take, id)
				s.do(s.scheduler().MissPassed(t.Context()))
				// The minute may have turned since.
				want(s, true, `SELECT count(*) = 1 AND bool_and(reason = $2 AND slot = $3::timestamptz + interval '1 minute'
					AND missed_count BETWEEN 10 AND 11 AND slot_last = $3::timestamptz + missed_count * interval '1 minute')
					FROM runs WHERE connector_id = $1 AND status = 'missed'`, id, reason, from)
				want(s, 0, `SELECT count(*) FROM passed_slots`)
				s.do(s.scheduler().Tick(t.Context()))
				s.plan()
				want(s, 1, `SELECT count(*) FROM scheduler_runs WHERE connector_id = $1 AND slot > $2`, id, from)
			})
		}
	}
}

// Whenever it is planned: a run, or the pause after a failure, may last longer than a slot.
func TestTheSlotsOfAChangedScheduleCountFromTheChange(t *testing.T) {
	for change, sql := range map[string]string{
		"the schedule":              `UPDATE connectors SET schedule_cron = '*/2 * * * *' WHERE id = $1`,
		"the time zone":             `UPDATE connectors SET time_zone = 'Asia/Tokyo' WHERE id = $1`,
		"schedule and source":       `UPDATE connectors SET schedule_cron = '*/2 * * * *', config = '{"url":"https://b"}' WHERE id = $1`,
		"schedule and trigger":      `UPDATE connectors SET schedule_cron = '*/2 * * * *', trigger_requested_at = now() WHERE id = $1`,
		"switched off and on again": `SELECT moves.disable($1), moves.enable($1)`,
	} {
		t.Run(change, func(t *testing.T) {
			s := setStage(t)
			id := s.cronConnector("* * * * *", time.Hour)
			s.plan()
			before := one[time.Time](s, `SELECT clock_timestamp()`)
			s.exec(sql, id)
			want(s, true, `SELECT planned_through BETWEEN $2 AND clock_timestamp() FROM connectors WHERE id = $1`, id, before)
			through := one[time.Time](s, `SELECT planned_through FROM connectors WHERE id = $1`, id)
			s.plan()
			want(s, through, `SELECT planned_through FROM connectors WHERE id = $1`, id)
		})
	}
}

func TestNoSlotIsAnsweredTwiceWhereTheClockStepsBackAndItsScheduleIsChanged(t *testing.T) {
	for change, sql := range map[string]string{
		"the schedule":              `UPDATE connectors SET schedule_cron = '*/2 * * * *' WHERE id = $1`,
		"switched off and on again": `SELECT moves.disable($1), moves.enable($1)`,
	} {
		for answered, by := range map[string]string{
			"claimed": `UPDATE connectors SET slots_through = $2, planned_through = $2 WHERE id = $1`,
			"missed":  `UPDATE connectors SET slots_through = $2 WHERE id = $1`,
		} {
			t.Run(change+", "+answered, func(t *testing.T) {
				s := setStage(t)
				id := s.cronConnector("* * * * *", time.Hour)
				s.plan()
				ahead := time.Now().Add(time.Hour).Truncate(time.Microsecond) // where the clock was
				s.force(by, id, ahead)
				s.exec(sql, id)
				want(s, true, `SELECT planned_through = $2 AND slots_through = $2 FROM connectors WHERE id = $1`, id, ahead)
			})
		}
	}
}

// The clock was ahead when the first connector's slots were claimed, and stepped back before it was deleted.
func TestASlotOfADeletedConnectorIsNoAnswerToOneOfTheSameID(t *testing.T) {
	s := setStage(t)
	id := s.cronConnector("* * * * *", 0)
	s.plan()
	slot := time.Now().Add(-10 * time.Minute).Truncate(time.Minute)
	s.force(`INSERT INTO runs (id, connector_id, type, trigger, slot, due_at, started_at, completed_at, status, reason, config_version)
		SELECT gen_random_uuid(), id, type, 'schedule', $2, $2, $2, $2, 'superseded', 'connector deleted', config_version FROM connectors WHERE id = $1`, id, slot)
	answered := `SELECT count(*) FROM runs WHERE status = 'missed' AND $1 BETWEEN slot AND slot_last`
	s.exec(`DELETE FROM connectors WHERE id = $1`, id)
	s.exec(`DELETE FROM passed_slots`)
	s.exec(`INSERT INTO connectors (id, name, type, user_id, schedule_cron) VALUES ($1, 'again', 'web', 1, '* * * * *')`, id)
	s.plan()
	s.force(`UPDATE connectors SET planned_through = $2, slots_through = clock_timestamp() WHERE id = $1`, id, slot.Add(-time.Minute))
	s.exec(`UPDATE connectors SET schedule_cron = NULL WHERE id = $1`, id)
	s.do(s.scheduler().MissPassed(t.Context()))
	want(s, 1, answered, slot)

	s.exec(`UPDATE connectors SET refresh_freq_minutes = 1 WHERE id = $1`, id)
	s.force(`UPDATE connectors SET slot_at = $2, next_sync_at = $2, due_reason = 'schedule', slots_through = clock_timestamp(),
		added_version = config_version + 1, config_version = config_version + 1 WHERE id = $1`, id, slot)
	s.exec(`UPDATE connectors SET refresh_freq_minutes = 60 WHERE id = $1`, id)
	want(s, 2, answered, slot)
}

func TestAClaimAnswersSlotsThatADeletedConnectorOfTheSameIDHasAnswered(t *testing.T) {
	s := setStage(t)
	id := s.cronConnector("* * * * *", 5*time.Minute+30*time.Second)
	s.force(`INSERT INTO runs (id, connector_id, type, trigger, slot, slot_last, missed_count, due_at, started_at, completed_at, status, reason, config_version)
		SELECT gen_random_uuid(), id, type, 'schedule', planned_through, clock_timestamp(), 6, planned_through, clock_timestamp(), clock_timestamp(),
			'missed', 'overdue', added_version - 1 FROM connectors WHERE id = $1`, id)
	s.force(`UPDATE connectors SET slots_through = clock_timestamp() + interval '1 minute' WHERE id = $1`, id)
	s.plan()
	s.claim(s.scheduler())
	want(s, 1, `SELECT count(*) FROM scheduler_runs WHERE connector_id = $1 AND status = 'running' AND slot IS NOT NULL`, id)
	want(s, 1, `SELECT count(*) FROM scheduler_runs WHERE connector_id = $1 AND status = 'missed' AND missed_count BETWEEN 4 AND 5`, id)
}

func TestWhatIsCountedAsPassedDoesNotComeAgain(t *testing.T) {
	s := setStage(t)
	id := s.cronConnector("* * * * *", time.Hour)
	s.plan()
	s.exec(`UPDATE connectors SET time_zone = 'Asia/Tokyo' WHERE id = $1`, id)
	want(s, true, `SELECT slots_through = (SELECT through FROM passed_slots) AND planned_through >= slots_through
		FROM connectors WHERE id = $1`, id)
}

func TestTheSlotsOfANewScheduleCountFromItsBeginning(t *testing.T) {
	s := setStage(t)
	s.exec(`INSERT INTO connectors (name, type, user_id, schedule_cron, last_sync_at) VALUES ('one', 'web', 1, '* * * * *', now())`)
	want(s, true, `SELECT planned_through BETWEEN created_at AND clock_timestamp() FROM connectors`)
}

func TestAnIntervalsSlotThatIsChangedTogetherWithTheSourceIsMissedAndNoNewOneIsInvented(t *testing.T) {
	s := setStage(t)
	id := s.connector(row{"last_sync_at": time.Now()})
	slot := time.Now().Add(-2 * time.Hour).Truncate(time.Microsecond)
	s.force(`UPDATE connectors SET next_sync_at = $2, slot_at = $2, due_reason = 'schedule' WHERE id = $1`, id, slot)
	s.exec(`UPDATE connectors SET refresh_freq_minutes = NULL, schedule_cron = '* * * * *', config = '{"url":"https://b"}' WHERE id = $1`, id)
	want(s, true, `SELECT next_sync_at = $2 AND due_reason = 'changed' AND slot_at IS NULL FROM connectors WHERE id = $1`, id, slot)
	s.do(s.scheduler().Tick(t.Context()))
	want(s, true, `SELECT count(*) = 1 AND bool_and(slot = $2 AND missed_count = 1) FROM runs WHERE connector_id = $1`, id, slot)
}

func TestAScheduleThatIsAgesBehindHoldsUpNobody(t *testing.T) {
	s := setStage(t)
	for range 30 {
		s.cronConnector("* * * * *", time.Hour)
	}
	zones := []string{"UTC", "Europe/Berlin", "Africa/Casablanca"}
	s.exec(`UPDATE connectors SET time_zone = ($1::text[])[1 + id % 3]`, zones)
	s.force(`UPDATE connectors SET planned_through = '2000-01-01 00:00:30+00'`)
	fine := s.cronConnector("* * * * *", time.Hour)
	began := time.Now()
	s.plan()
	if claimed := s.claim(s.scheduler()); len(claimed) != 31 {
		t.Errorf("%d connectors were claimed, want 31", len(claimed))
	}
	t.Logf("30 schedules that are decades behind took %s", time.Since(began)) // 8 s end a claim
	want(s, true, `SELECT count(*) = 30 AND min(missed_count) > 14000000 FROM runs WHERE status = 'missed' AND slot < '2000-01-02'`)
	want(s, "PENDING", `SELECT status FROM connectors WHERE id = $1`, fine)
}

func TestAScheduleThatGoesBeyondAllTimeSaysSo(t *testing.T) {
	s := setStage(t)
	far, fine := s.cronConnector("0 0 1 1 *", time.Hour), s.cronConnector(nightly, 48*time.Hour)
	s.force(`UPDATE connectors SET planned_through = '9998-12-31 12:00+00' WHERE id = $1`, far)
	s.plan()
	want(s, true, `SELECT NOT needs_plan AND next_sync_at IS NULL AND status = 'DISABLED' AND status_message LIKE '%never comes due;%' FROM connectors WHERE id = $1`, far)
	want(s, true, `SELECT NOT needs_plan AND next_sync_at IS NOT NULL AND status_message IS NULL FROM connectors WHERE id = $1`, fine)
}

func TestAPlanThatIsRefusedIsWrittenDownAndStopsNoOther(t *testing.T) {
	s := setStage(t)
	refused := s.cronConnector(nightly, time.Hour)
	for range 12 {
		s.cronConnector(nightly, time.Hour)
	}
	s.exec(fmt.Sprintf(`ALTER TABLE connectors ADD CONSTRAINT broken CHECK (id <> %d OR next_sync_at IS NULL)`, refused))
	s.do(s.scheduler(func(cfg *Config) { cfg.ClaimBatch = 5 }).Plan(t.Context()))
	want(s, 12, `SELECT count(*) FROM connectors WHERE NOT needs_plan AND next_sync_at IS NOT NULL AND status_message IS NULL`)
	want(s, true, `SELECT NOT needs_plan AND next_sync_at IS NULL AND status_message LIKE 'the schedule cannot be planned: %broken%'
		FROM connectors WHERE id = $1`, refused)
}

func TestAPlanThatSomebodyHoldsIsMadeWhenItIsFree(t *testing.T) {
	s := setStage(t)
	held := s.cronConnector(nightly, time.Hour)
	fine := s.cronConnector(nightly, time.Hour)
	holder, err := s.servers.Pool.Begin(t.Context())
	s.do(err)
	_, err = holder.Exec(t.Context(), `SELECT 1 FROM connectors WHERE id = $1 FOR UPDATE`, held)
	s.do(err)
	s.run(s.scheduler(rarely))
	planned := `SELECT count(*) FROM connectors WHERE NOT needs_plan AND id = $1`
	s.eventually(wakes, s.countIs(1, planned, fine))
	want(s, 0, planned, held)
	s.do(holder.Rollback(t.Context())) // nothing is notified
	s.eventually(pollEvery+5*time.Second, s.countIs(1, planned, held))
}

func TestACronConnectorWhoseFirstRunIsCancelledWaitsForItsNextSlot(t *testing.T) {
	s := setStage(t)
	id := s.connector(row{"schedule_cron": "0 3 1 1 *", "refresh_freq_minutes": nil, "run_at_once": true})
	s.plan()
	s.do(s.scheduler().Tick(t.Context()))
	want(s, "new", `SELECT trigger FROM open_runs WHERE connector_id = $1`, id)
	want(s, true, `SELECT moves.cancel(id) FROM open_runs`)
	s.plan()
	want(s, true, `SELECT due_reason = 'schedule' AND next_sync_at > now() AND slot_at = next_sync_at FROM connectors WHERE id = $1`, id)
}

func TestALookThatIsAlwaysWokenIsPaced(t *testing.T) {
	t.Parallel()
	const behind = 3
	wake := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looks, began := 0, time.Now()
	err := (&Scheduler{}).whenAsked(ctx, wake, "nothing", func(context.Context) error {
		if looks++; looks == wakesAtOnce+behind {
			cancel()
		}
		signal(wake)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// However slow the machine is, no more come in a time than those at once and so many a second.
	if took, least := time.Since(began), behind*time.Second/wakesPerSecond-time.Millisecond; took < least {
		t.Errorf("%d looks took %s, wanted at least %s", looks, took, least)
	}
}
