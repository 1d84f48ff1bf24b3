//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/echomind/sync/testonly/testkit"
)

// condition adds one, and the type of jobs that have it asked.
func (s *stage) condition(name, query string) {
	s.Helper()
	s.exec(`INSERT INTO connector_types (name, kind) VALUES ('refresh', 'job') ON CONFLICT DO NOTHING`)
	s.exec(`INSERT INTO conditions (name, query) VALUES ($1, $2)`, name, query)
}

// counted makes a table that conditions may read: what they are about.
func (s *stage) counted(n int) {
	s.Helper()
	s.exec(`CREATE TABLE public.changes (n int NOT NULL); GRANT SELECT ON public.changes TO echomind_conditions`)
	s.exec(`INSERT INTO changes VALUES ($1)`, n)
}

const enough = `SELECT n >= ($1->>'least')::int FROM changes;`

// ask asks all conditions that are due.
func (s *stage) ask(scheduler *Scheduler) {
	s.Helper()
	s.do(scheduler.Ask(s.Context()))
}

func (s *stage) claimJobs(scheduler *Scheduler) []Trigger {
	s.Helper()
	claimed, err := scheduler.Claim(s.Context(), "refresh", 0, 1000)
	s.do(err)
	return claimed
}

func (s *stage) job(columns row) int32 {
	s.Helper()
	all := row{"type": "refresh", "condition": "enough", "config": `{"least": 50}`}
	for name, value := range columns {
		all[name] = value
	}
	return s.connector(all)
}

func TestAJobRunsWhereItsConditionIsMetAndIsSkippedWhereNot(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.counted(10)
	s.condition("enough", enough)
	id := s.synced(row{"type": "refresh", "condition": "enough", "config": `{"least": 50}`, "schedule_cron": "0 * * * *"})
	other := s.synced(row{"type": "refresh", "condition": "enough", "config": `{"least": 5}`, "refresh_freq_minutes": 60, "spread_percent": 0})
	scheduler := s.scheduler()
	for hour := 13; hour <= 15; hour++ {
		s.at(utc(fmt.Sprintf("2026-02-02 %d:00", hour)))
		if hour == 13 && len(s.claimJobs(scheduler)) != 0 {
			t.Error("a connector is claimed whose condition was not asked")
		}
		s.ask(scheduler)
		if hour == 13 {
			want(s.stage, true, `SELECT condition_met_at IS NOT NULL AND NOT asks_condition AND slot_at = next_sync_at FROM connectors WHERE id = $1`, other)
			if got := s.claimJobs(scheduler); len(got) != 1 || got[0].ID != other {
				t.Errorf("claimed %v, want the one whose condition is met", got)
			}
			s.isLedger(other, "running 02 13:00")
			want(s.stage, true, `SELECT condition_met_at IS NULL FROM connectors WHERE id = $1`, other)
		}
		s.isNext(id, fmt.Sprintf("2026-02-02 %d:00", hour+1))
	}
	s.isLedger(id)
	want(s.stage, "condition `enough` not met 3 13:00-15:00", `SELECT reason || ' ' || count || to_char(first_slot AT TIME ZONE 'UTC', ' HH24:MI') ||
		to_char(last_slot AT TIME ZONE 'UTC', '-HH24:MI') FROM unmet_slots WHERE connector_id = $1`, id)
	s.exec(`UPDATE changes SET n = 50`)
	s.at(utc("2026-02-02 16:00"))
	s.ask(scheduler)
	if n := len(s.claimJobs(scheduler)); n != 1 {
		t.Errorf("%d are claimed, want the one whose condition is met now", n)
	}
	s.isLedger(id, "skipped: condition `enough` not met 02 13:00-02 15:00 x3", "running 02 16:00")
	want(s.stage, 0, `SELECT count(*)::int FROM unmet_slots`)
	want(s.stage, 0, `SELECT count(*)::int FROM open_runs WHERE connector_id = $1 AND dispatches > 1`, id)
}

func TestAnUnmetSlotBehindWhichOneWasClosedIsALineOfItsOwn(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:30"))
	s.counted(10)
	s.condition("enough", enough)
	s.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('lunch', 'UTC', '[{"name": "lunch", "start": "2026-02-02T14:00", "end": "2026-02-02T14:30"}]')`)
	id := s.synced(row{"type": "refresh", "condition": "enough", "config": `{"least": 50}`, "schedule_cron": "0 * * * *", "calendar": "lunch", "calendar_use": "exclude"})
	s.at(utc("2026-02-02 14:40")) // nobody has asked at 13:00
	s.ask(s.scheduler())
	s.at(utc("2026-02-02 15:00"))
	s.ask(s.scheduler())
	s.exec(`UPDATE changes SET n = 50`)
	s.at(utc("2026-02-02 16:00"))
	s.ask(s.scheduler())
	s.claimJobs(s.scheduler())
	s.isLedger(id, "skipped: condition `enough` not met 02 13:00-02 13:00 x1", "skipped: calendar `lunch`: lunch 02 14:00-02 14:00 x1",
		"skipped: condition `enough` not met 02 15:00-02 15:00 x1", "running 02 16:00")
}

func TestThreeDaysOfChecksAreFewLinesOfTheLedger(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.counted(10)
	s.condition("enough", enough)
	id := s.synced(row{"type": "refresh", "condition": "enough", "config": `{"least": 50}`, "schedule_cron": "*/30 * * * *"})
	scheduler := s.scheduler()
	began := utc("2026-02-02 12:00")
	for i := range 3 * 24 * 2 {
		s.at(began.Add(time.Duration(i+1) * 30 * time.Minute))
		s.ask(scheduler)
	}
	want(s.stage, true, `SELECT count(*) BETWEEN 2 AND 4 FROM runs WHERE connector_id = $1`, id)
	want(s.stage, 3*24*2, `SELECT (SELECT sum(missed_count) FROM runs WHERE connector_id = $1)::int + (SELECT count FROM unmet_slots WHERE connector_id = $1)`, id)
	want(s.stage, true, `SELECT bool_and(slot > coalesce(before, '-infinity') AND slot_last >= slot) FROM (
		SELECT slot, slot_last, lag(slot_last) OVER (ORDER BY slot) AS before FROM runs WHERE connector_id = $1) r`, id)
	s.exec(`DELETE FROM connectors WHERE id = $1`, id)
	want(s.stage, 3*24*2, `SELECT sum(missed_count)::int FROM runs WHERE connector_id = $1 AND status = 'skipped'`, id)
	want(s.stage, 0, `SELECT count(*)::int FROM unmet_slots`)
}

func TestAConditionThatFailsIsAFailureOfItsJobAlone(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.counted(10)
	s.condition("enough", enough)
	s.condition("unsure", `SELECT n > 5 FROM changes WHERE n > ($1->>'least')::int`)
	s.condition("secret", `SELECT count(*) > 0 FROM connector_secrets`)
	bad := s.synced(row{"type": "refresh", "condition": "enough", "config": `{"least": "many"}`, "schedule_cron": "0 * * * *", "max_retries": 2})
	unsure := s.synced(row{"type": "refresh", "condition": "unsure", "config": `{"least": 50}`, "refresh_freq_minutes": 60, "spread_percent": 0})
	secret := s.synced(row{"type": "refresh", "condition": "secret", "refresh_freq_minutes": 60, "max_retries": 1, "spread_percent": 0})
	good := s.synced(row{"type": "refresh", "condition": "enough", "config": `{"least": 1}`, "schedule_cron": "0 * * * *"})
	scheduler := s.scheduler()
	s.at(utc("2026-02-02 13:00"))
	s.ask(scheduler)
	if got := s.claimJobs(scheduler); len(got) != 1 || got[0].ID != good {
		t.Errorf("claimed %v, want the good one", got)
	}
	want(s.stage, "ERROR 1 condition `enough` failed: invalid input syntax for type integer: \"many\"",
		`SELECT status || ' ' || failure_count || ' ' || status_message FROM connectors WHERE id = $1`, bad)
	want(s.stage, "failed condition failed schedule", `SELECT status || ' ' || reason || ' ' || trigger FROM runs WHERE connector_id = $1 AND slot IS NULL`, bad)
	want(s.stage, true, `SELECT due_reason = 'schedule' AND asks_condition AND slot_at = '2026-02-02 13:00Z' AND next_sync_at > slot_at FROM connectors WHERE id = $1`, bad)
	want(s.stage, "condition `unsure` has no answer: its query returned no row, or null", `SELECT error_message FROM runs WHERE connector_id = $1`, unsure)
	want(s.stage, "DISABLED disabled after 1 failures in a row: condition `secret` failed: permission denied for table connector_secrets; it may read what is granted to role echomind_conditions",
		`SELECT status || ' ' || status_message FROM connectors WHERE id = $1`, secret)
	s.isLedger(secret, "missed: disabled before it could be claimed 02 13:00-02 13:00 x1")

	s.at(utc("2026-02-02 13:05")) // the backoff is over, and the slot is answered
	s.exec(`UPDATE connectors SET max_retries = 5 WHERE id = $1`, bad)
	s.exec(`UPDATE changes SET n = 60`)
	s.ask(scheduler)
	want(s.stage, 2, `SELECT failure_count FROM connectors WHERE id = $1`, bad)
	if got := s.claimJobs(scheduler); len(got) != 1 || got[0].ID != unsure {
		t.Errorf("claimed %v, want the one whose condition has an answer now", got)
	}
	s.isLedger(unsure, "running 02 13:00")
	s.exec(`UPDATE connectors SET config = '{"least": 100}' WHERE id = $1`, bad)
	s.at(utc("2026-02-02 13:20"))
	s.ask(scheduler)
	want(s.stage, true, `SELECT status = 'ACTIVE' AND failure_count = 0 AND status_message IS NULL FROM connectors WHERE id = $1`, bad)
	s.isNext(bad, "2026-02-02 14:00")
}

func TestASlowConditionFailsItsJobsAndHoldsUpNobody(t *testing.T) {
	s := setStage(t)
	s.counted(10)
	s.condition("enough", enough)
	s.condition("slow", `SELECT pg_sleep(20) IS NULL`)
	s.exec(`UPDATE conditions SET timeout_ms = 100 WHERE name = 'slow'`)
	slow := s.job(row{"condition": "slow"})
	good := s.job(row{"config": `{"least": 1}`})
	plain := s.connector(nil)
	scheduler := s.scheduler(rarely)
	s.run(scheduler)
	testkit.Eventually(t, 20*time.Second, func() error {
		if n := one[int](s, `SELECT count(*)::int FROM open_runs WHERE connector_id = ANY ($1)`, []int32{good, plain}); n != 2 {
			return fmt.Errorf("%d of 2 are claimed", n)
		}
		return nil
	})
	testkit.Eventually(t, 20*time.Second, func() error {
		if m := one[string](s, `SELECT coalesce(status_message, '') FROM connectors WHERE id = $1`, slow); m != "condition `slow` took longer than 100ms" {
			return fmt.Errorf("it says %q", m)
		}
		return nil
	})
}

func TestWhatIsAskedForByHandAndTriesAfterAFailureAskNoCondition(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.counted(10)
	s.condition("enough", enough)
	id := s.synced(row{"type": "refresh", "condition": "enough", "config": `{"least": 50}`, "schedule_cron": "0 * * * *"})
	s.exec(`SELECT moves.trigger_sync($1)`, id)
	if n := len(s.claimJobs(s.scheduler())); n != 1 {
		t.Fatalf("%d are claimed, want the one that was triggered", n)
	}
	s.fail(id)
	s.at(utc("2026-02-02 12:30"))
	if n := len(s.claimJobs(s.scheduler())); n != 1 {
		t.Errorf("%d are claimed, want the one that is tried again", n)
	}
	s.completes(id)
	s.at(utc("2026-02-02 13:00"))
	s.exec(`SELECT moves.trigger_sync($1)`, id) // while its slot is due, and its condition to be asked
	if n := len(s.claimJobs(s.scheduler())); n != 1 {
		t.Errorf("%d are claimed, want the one that was triggered", n)
	}
	s.isLedger(id, "running 02 13:00")
}

func TestPoliciesComeBeforeTheCondition(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.counted(10)
	s.condition("enough", enough)
	id := s.synced(row{"type": "refresh", "condition": "enough", "config": `{"least": 50}`, "schedule_cron": "0 * * * *", "deadline_minutes": 30})
	s.at(utc("2026-02-02 15:45"))
	s.ask(s.scheduler())
	s.isLedger(id, "missed: too late 02 13:00-02 15:00 x3")
	s.isNext(id, "2026-02-02 16:00")
	s.at(utc("2026-02-02 18:10"))
	s.ask(s.scheduler())
	s.isLedger(id, "missed: too late 02 13:00-02 15:00 x3", "missed: too late 02 16:00-02 17:00 x2")
	want(s.stage, true, `SELECT first_slot = '2026-02-02 18:00Z' AND count = 1 FROM unmet_slots WHERE connector_id = $1`, id)
	s.at(utc("2026-02-02 19:00"))
	s.ask(s.scheduler())
	s.exec(`UPDATE connectors SET schedule_cron = '30 * * * *' WHERE id = $1`, id)
	s.isLedger(id, "missed: too late 02 13:00-02 15:00 x3", "missed: too late 02 16:00-02 17:00 x2", "skipped: condition `enough` not met 02 18:00-02 19:00 x2")
}

func TestANewOrChangedJobAsksBeforeItsFirstRun(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:10"))
	s.counted(10)
	s.condition("enough", enough)
	cron := s.job(row{"refresh_freq_minutes": nil, "schedule_cron": "0 * * * *", "run_at_once": true})
	interval, once := s.job(row{"spread_percent": 0}), s.job(row{"refresh_freq_minutes": 0})
	s.plan()
	s.ask(s.scheduler())
	s.isNext(cron, "2026-02-02 13:00")
	s.isNext(interval, "2026-02-02 13:10")
	s.isNext(once, "-")
	want(s.stage, 3, `SELECT count(*)::int FROM runs WHERE status = 'skipped' AND trigger = 'new' AND slot IS NULL AND missed_count = 1`)
	s.exec(`UPDATE connectors SET config = '{"least": 10}'`)
	s.ask(s.scheduler())
	if n := len(s.claimJobs(s.scheduler())); n != 3 {
		t.Errorf("%d are claimed, want all three", n)
	}
}

func TestAnAnswerThatIsTooOldIsAskedForAgain(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.counted(60)
	s.condition("enough", enough)
	id := s.synced(row{"type": "refresh", "condition": "enough", "config": `{"least": 50}`, "schedule_cron": "0 * * * *"})
	s.at(utc("2026-02-02 13:00"))
	s.ask(s.scheduler())
	s.at(utc("2026-02-02 13:06")) // the scheduler that was to claim it is gone
	s.exec(`UPDATE changes SET n = 0`)
	if n := len(s.claimJobs(s.scheduler())); n != 0 {
		t.Error("it is claimed for an old answer")
	}
	want(s.stage, true, `SELECT asks_condition AND slot_at = next_sync_at FROM connectors WHERE id = $1`, id)
	s.ask(s.scheduler())
	s.isNext(id, "2026-02-02 14:00")
	s.at(utc("2026-02-02 14:00"))
	s.exec(`UPDATE changes SET n = 60`)
	s.ask(s.scheduler())
	s.at(utc("2026-02-02 14:04"))
	if n := len(s.claimJobs(s.scheduler())); n != 1 {
		t.Error("it is not claimed for an answer that is not old")
	}
	s.isLedger(id, "skipped: condition `enough` not met 02 13:00-02 13:00 x1", "running 02 14:00")
}

func TestAChangeWhileItIsAskedIsAskedAboutAnew(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.counted(60)
	s.condition("enough", enough)
	id := s.synced(row{"type": "refresh", "condition": "enough", "config": `{"least": 50}`, "schedule_cron": "0 * * * *"})
	s.at(utc("2026-02-02 13:00"))
	old := one[int64](s.stage, `SELECT config_version FROM connectors WHERE id = $1`, id)
	s.exec(`UPDATE connectors SET config = '{"least": 100}' WHERE id = $1`, id)
	n, err := s.scheduler().writeAnswers(t.Context(), "enough", map[int32]reply{id: {due: utc("2026-02-02 13:00"), version: old, met: true}})
	s.do(err)
	if n != 0 {
		t.Error("what was said of another configuration is written down")
	}
	want(s.stage, true, `SELECT asks_condition FROM connectors WHERE id = $1`, id)
	first, second := s.scheduler(), s.scheduler()
	s.ask(first)
	s.ask(second)
	want(s.stage, 1, `SELECT count FROM unmet_slots WHERE connector_id = $1`, id)
}

func TestOnlyThoseForWhomAConditionIsMayUseIt(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.counted(60)
	s.condition("enough", enough)
	id := s.synced(row{"type": "refresh", "condition": "enough", "config": `{"least": 50}`, "schedule_cron": "0 * * * *"})
	s.exec(`UPDATE conditions SET user_ids = '{2}'`)
	s.at(utc("2026-02-02 13:00"))
	s.ask(s.scheduler())
	want(s.stage, "condition `enough` is not for user 1", `SELECT status_message FROM connectors WHERE id = $1`, id)
}

func TestOneBadConfigurationAmongManyFailsAlone(t *testing.T) {
	s := setStage(t)
	s.counted(60)
	s.condition("enough", enough)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, condition, config)
		SELECT 'c' || i, 'refresh', 1, 60, 'enough', jsonb_build_object('least', CASE WHEN i % 700 = 0 THEN 'x' ELSE (i % 100)::text END)
		FROM generate_series(1, 2100) i`)
	scheduler := s.scheduler()
	s.until(3+1278, func() { s.ask(scheduler) }, `SELECT count(*) FROM connectors WHERE status = 'ERROR' OR condition_met_at IS NOT NULL`)
	want(s, "3 failed, 1278 met, 819 not", `SELECT count(*) FILTER (WHERE status = 'ERROR') || ' failed, ' || count(*) FILTER (WHERE condition_met_at IS NOT NULL) || ' met, ' ||
		count(*) FILTER (WHERE status = 'ACTIVE' AND condition_met_at IS NULL) || ' not' FROM connectors`)
	if bad := one[string](s, `SELECT string_agg(DISTINCT error_message, '') FROM runs WHERE status = 'failed'`); !strings.Contains(bad, `type integer: "x"`) {
		t.Error(bad)
	}
}

// Nobody is asked.
func TestALoginThatPostgresRefusesIsNoFailureOfAJob(t *testing.T) {
	for name, change := range map[string]func(*url.URL){
		"login":    func(u *url.URL) { u.User = url.UserPassword("nobody_of_that_name", "x") },
		"database": func(u *url.URL) { u.Path = "/none_of_that_name" },
	} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			s.counted(100)
			s.condition("enough", enough)
			for range 5 {
				s.job(row{"max_retries": 1})
			}
			u, err := url.Parse(s.url)
			s.do(err)
			change(u)
			scheduler := s.scheduler(func(c *Config) { c.DatabaseDirectURL = u.String() })
			if err := scheduler.Ask(t.Context()); err == nil {
				t.Error("nobody is told")
			}
			want(s, 5, `SELECT count(*)::int FROM connectors WHERE status = 'ACTIVE' AND failure_count = 0`)
		})
	}
}

func TestAJobWhoseConditionFailedBeforeItsFirstRunIsDueOnceItsConfigurationIsMended(t *testing.T) {
	s := setStage(t)
	s.counted(100)
	s.condition("enough", `SELECT n >= ($1->>'least')::int FROM changes;`)
	id := s.job(row{"refresh_freq_minutes": nil, "schedule_cron": "* * * * *", "config": `{"least": "x"}`})
	s.force(`UPDATE connectors SET planned_through = clock_timestamp() - interval '1 minute' WHERE id = $1`, id)
	s.plan()
	s.ask(s.scheduler())
	want(s, "ERROR", `SELECT status FROM connectors WHERE id = $1`, id)
	s.exec(`UPDATE connectors SET config = '{"least": 5}' WHERE id = $1`, id)
	want(s, true, `SELECT next_sync_at <= clock_timestamp() FROM connectors WHERE id = $1`, id)
}
