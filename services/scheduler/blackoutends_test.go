//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"context"
	"slices"
	"testing"
	"time"
)

// often are windows with an hour between them.
const often = `[{"name": "a", "start": "2026-01-01T00:00", "end": "2026-01-01T05:00", "rule": "FREQ=DAILY"},
	{"name": "b", "start": "2026-01-01T06:00", "end": "2026-01-01T11:00", "rule": "FREQ=DAILY"},
	{"name": "c", "start": "2026-01-01T12:00", "end": "2026-01-01T17:00", "rule": "FREQ=DAILY"},
	{"name": "d", "start": "2026-01-01T18:00", "end": "2026-01-01T23:00", "rule": "FREQ=DAILY"}]`

func TestABatchAfterAnOutageUnderWindowsThatSkipHasABoundedNumberOfLines(t *testing.T) {
	const connectors, most = 24, mostBatchLines + mostAnswers
	s := setClock(t, utc("2026-02-06 07:10"))
	s.blackout("often", "skip", often, nil)
	for range connectors {
		s.synced(row{"schedule_cron": "*/30 * * * *"})
	}
	before := one[int](s.stage, `SELECT count(*) FROM runs`)
	s.at(utc("2026-02-20 11:30"))
	claimed, scheduler := 0, s.scheduler()
	for batches := 0; claimed < connectors; batches++ {
		some, err := scheduler.Claim(t.Context(), "web", 0, 500)
		s.do(err)
		lines := one[int](s.stage, `SELECT count(*) FROM runs`)
		if len(some) == 0 || lines-before > most {
			t.Fatalf("batch %d claims %d, and has %d lines", batches, len(some), lines-before)
		}
		claimed, before = claimed+len(some), lines
		if batches == 0 && claimed == connectors {
			t.Fatalf("all have %d lines, which bounds nothing", lines)
		}
	}
}

func TestALookAfterAnOutageUnderWindowsThatSkipWritesABoundedNumberOfLinesAtOnce(t *testing.T) {
	const connectors, most = 24, mostBatchLines + mostAnswers
	for name, look := range map[string]struct {
		added func(s simulated)
		at    func(s simulated, scheduler *Scheduler)
	}{
		"at conditions": {func(s simulated) {
			s.synced(row{"schedule_cron": "*/30 * * * *", "catch_up": "none", "condition": "yes"})
		}, func(s simulated, scheduler *Scheduler) { s.ask(scheduler) }},
		"at chains": {func(s simulated) {
			id := s.synced(row{"schedule_cron": "*/30 * * * *", "deadline_minutes": 20})
			s.after(id, s.byHand())
		}, func(s simulated, scheduler *Scheduler) {
			s.follow(scheduler)
			select {
			case <-scheduler.chainWake:
			default:
				s.Error("nobody goes on with the rest")
			}
			s.follow(scheduler)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := setClock(t, utc("2026-02-06 07:10"))
			s.ofJobs()
			s.exec(`INSERT INTO conditions (name, query) VALUES ('yes', 'SELECT true')`)
			s.blackout("often", "skip", often, nil)
			for range connectors {
				look.added(s)
			}
			s.plan()
			s.at(utc("2026-02-20 10:15"))
			look.at(s, s.scheduler())
			want(s.stage, connectors, `SELECT count(*) FROM connectors WHERE next_sync_at > clock_timestamp()`)
			lines := one[[]int](s.stage, `SELECT array_agg(n) FROM (SELECT count(*) n FROM runs GROUP BY xmin::text) t`)
			if len(lines) < 2 || slices.Max(lines) > most {
				t.Errorf("lines of each transaction: %d", lines)
			}
		})
	}
}

// mostAnswers is how many lines one connector may have: two for each change of a calendar.
const mostAnswers = 2 * 400

func TestWhomADeletedWindowLetsGoComesBeforeItsSlotIsTooLate(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.blackout("office", "defer", office, row{"spread_minutes": 60})
	for range 10 {
		s.synced(row{"schedule_cron": "0 8 * * *", "deadline_minutes": 30})
	}
	s.at(utc("2026-02-06 08:00"))
	s.look()
	s.at(utc("2026-02-06 08:05"))
	s.exec(`DELETE FROM blackouts`)
	s.release()
	want(s.stage, 10, `SELECT count(*) FROM connectors WHERE next_sync_at BETWEEN '2026-02-06 08:05Z' AND '2026-02-06 08:17:30Z'`)
}

func TestAWindowThatIsChangedMovesNoSlotThatOnlyBeginsWhereItEnded(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.blackout("office", "defer", office, row{"spread_minutes": 0})
	id := s.synced(row{"schedule_cron": "0 8,18 * * *"})
	s.at(utc("2026-02-06 08:00"))
	s.look() // it is held until 18:00
	s.exec(`UPDATE connectors SET schedule_cron = '0 18 * * *' WHERE id = $1`, id)
	s.plan()
	s.isNext(id, "2026-02-06 18:00")
	want(s.stage, true, `SELECT slot_at = next_sync_at FROM connectors WHERE id = $1`, id)
	s.at(utc("2026-02-06 09:00"))
	s.exec(`DELETE FROM blackouts`)
	s.release()
	s.isNext(id, "2026-02-06 18:00")
	want(s.stage, true, `SELECT slot_at = next_sync_at FROM connectors WHERE id = $1`, id)
}

func TestAWindowOfAProviderHoldsNoJobOfTheSystem(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.exec(`SELECT moves.add_system_job('tidy', 'tidy', 60)`)
	s.exec(`UPDATE connector_types SET provider = 'acme' WHERE name IN ('tidy', 'web')`)
	s.blackout("office", "defer", office, row{"provider": "acme"})
	web := s.synced(row{"schedule_cron": "0 8 * * *"})
	s.at(utc("2026-02-06 09:00"))
	s.look()
	want(s.stage, true, `SELECT status = 'ACTIVE' AND next_sync_at >= '2026-02-06 18:00Z' FROM connectors WHERE id = $1`, web)
	claimed, err := s.scheduler().Claim(t.Context(), "tidy", 0, 10)
	s.do(err)
	want(s.stage, 1, `SELECT $1::int`, len(claimed))
}

// Two schedulers that let go whom a window held, while rows whose time is over are there to forget.
func TestTwoSchedulersThatLetGoAtOnceWaitForEachOtherInOneOrder(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.blackout("office", "defer", office, nil)
	s.connector(nil)
	s.connector(nil)
	s.at(utc("2026-02-06 09:00"))
	s.look()
	want(s.stage, 2, `SELECT count(*) FROM blackout_holds`)
	s.exec(`UPDATE blackouts SET spread_minutes = 1`)
	s.at(utc("2026-02-06 19:30"))
	s.exec(`CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.6); RETURN NULL; END $$`)
	s.exec(`CREATE TRIGGER dawdle AFTER DELETE ON blackout_holds FOR EACH STATEMENT EXECUTE FUNCTION dawdle()`)
	done := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := s.servers.Pool.Exec(context.Background(), `SELECT moves.release_held(1)`)
			done <- err
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	want(s.stage, 0, `SELECT count(*) FROM blackout_holds`)
}

func TestASlotWhoseDeadlineIsShortenedWhileAWindowHoldsItComesBeforeItIsTooLate(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.blackout("morning", "defer", `[{"name": "b", "start": "2026-02-06T08:00", "end": "2026-02-06T09:00"}]`, row{"spread_minutes": 1440})
	id := s.synced(row{"id": 100003, "schedule_cron": "50 8 * * *"})
	s.at(utc("2026-02-06 08:50"))
	s.look()
	s.at(utc("2026-02-06 08:55"))
	s.exec(`UPDATE connectors SET deadline_minutes = 15 WHERE id = $1`, id)
	s.release()
	s.look()
	s.at(one[time.Time](s.stage, `SELECT next_sync_at FROM connectors WHERE id = $1`, id))
	s.look()
	s.isLedger(id, "running 06 08:50")
}
