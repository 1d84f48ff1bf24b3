//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"fmt"
	"testing"
	"time"
)

// office is 08:00 to 18:00 of each day.
const office = `[{"name": "Büro", "start": "2026-01-01T08:00", "end": "2026-01-01T18:00", "rule": "FREQ=DAILY"}]`

// blackout adds a window of a calendar of the same name, without a spread unless columns have one.
func (s simulated) blackout(name, mode, entries string, columns row) {
	s.Helper()
	s.calendar(name, "UTC", entries)
	all := row{"spread_minutes": 0, "user_id": nil, "type": nil, "provider": nil, "except_connectors": nil}
	for column, value := range columns {
		all[column] = value
	}
	s.exec(`INSERT INTO blackouts (name, calendar, mode, spread_minutes, user_id, type, provider, except_connectors) VALUES ($1, $1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (name) DO UPDATE SET mode = EXCLUDED.mode, spread_minutes = EXCLUDED.spread_minutes, user_id = EXCLUDED.user_id, type = EXCLUDED.type,
			provider = EXCLUDED.provider, except_connectors = EXCLUDED.except_connectors`,
		name, mode, all["spread_minutes"], all["user_id"], all["type"], all["provider"], all["except_connectors"])
}

func (s simulated) release() {
	s.Helper()
	s.do(s.scheduler().Release(s.Context()))
}

func TestSlotsOfAWindowThatSkipsAreOneLineThatNamesItAndItsEnd(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.blackout("office", "skip", office, nil)
	id := s.synced(row{"schedule_cron": "0 * * * *"})
	for hour := 8; hour <= 18; hour++ {
		s.at(utc(fmt.Sprintf("2026-02-06 %02d:00", hour)))
		s.look()
	}
	s.isLedger(id, "skipped: blackout `office` until 2026-02-06T18:00Z 06 08:00-06 17:00 x10", "running 06 18:00")
}

func TestAnIntervalWhoseSlotAWindowSkipsComesBehindIt(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.blackout("office", "skip", office, nil)
	id := s.synced(row{"refresh_freq_minutes": 60, "spread_percent": 0})
	s.at(utc("2026-02-06 08:10"))
	s.look()
	s.isNext(id, "2026-02-06 18:00")
	s.at(utc("2026-02-06 18:00"))
	s.look()
	s.isLedger(id, "skipped: blackout `office` until 2026-02-06T18:00Z 06 08:10-06 08:10 x1", "running 06 18:00")
}

func TestSlotsThatAWindowDefersWaitForItsEndAndCatchUpAsEver(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.blackout("office", "defer", office, nil)
	latest := s.synced(row{"schedule_cron": "0 * * * *"})
	all := s.synced(row{"schedule_cron": "0 * * * *", "catch_up": "all", "catch_up_most": 2})
	late := s.synced(row{"schedule_cron": "0 * * * *", "deadline_minutes": 30})
	s.at(utc("2026-02-06 08:00"))
	if n := s.look(); n != 0 {
		t.Errorf("%d were claimed inside", n)
	}
	for _, id := range []int32{latest, all, late} {
		s.isNext(id, "2026-02-06 18:00")
		want(s.stage, true, `SELECT slot_at = '2026-02-06 08:00Z' FROM connectors WHERE id = $1`, id)
	}
	s.at(utc("2026-02-06 18:00"))
	s.look()
	s.isLedger(latest, "missed: passed before it could be claimed 06 08:00-06 17:00 x10", "running 06 18:00")
	s.isLedger(all, "missed: passed before it could be claimed 06 08:00-06 16:00 x9", "running 06 17:00")
	s.isLedger(late, "missed: too late 06 08:00-06 17:00 x10", "running 06 18:00")
}

func TestADeferredConnectorIsNotLookedAtBeforeTheEnd(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.blackout("office", "defer", office, nil)
	for range 20 {
		s.synced(row{"schedule_cron": "0 * * * *"})
	}
	s.at(utc("2026-02-06 08:00"))
	s.look()
	want(s.stage, 20, `SELECT count(*) FROM blackout_holds WHERE blackout = 'office' AND until = '2026-02-06 18:00Z'`)
	s.at(utc("2026-02-06 17:59"))
	want(s.stage, 0, `SELECT count(*) FROM connectors WHERE due_at <= clock_timestamp() OR needs_plan`)
}

func TestTheEndOfAWindowIsNoStampede(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.blackout("office", "defer", office, row{"spread_minutes": 60})
	for range 60 {
		s.synced(row{"schedule_cron": "0 9 * * *"})
	}
	s.at(utc("2026-02-06 09:00"))
	s.look()
	want(s.stage, true, `SELECT min(next_sync_at) >= '2026-02-06 18:00Z' AND max(next_sync_at) < '2026-02-06 19:00Z' FROM connectors`)
	want(s.stage, true, `SELECT max(n) <= 8 FROM (SELECT count(*) AS n FROM connectors GROUP BY date_bin('6 minutes', next_sync_at, '2026-02-06 18:00Z')) g`)
}

func TestAWindowHoldsWhomItNamesAndNobodyElse(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.exec(`UPDATE connector_types SET provider = 'acme' WHERE name = 'web'`)
	mine, others := s.synced(row{"schedule_cron": "0 * * * *", "user_id": 7}), s.synced(row{"schedule_cron": "0 * * * *", "user_id": 8})
	drive := s.synced(row{"schedule_cron": "0 * * * *", "user_id": 7, "type": "onedrive"})
	for _, c := range []struct {
		columns row
		held    []int32
	}{
		{row{}, []int32{mine, others}},
		{row{"user_id": 7}, []int32{mine}},
		{row{"type": "web"}, []int32{mine, others}},
		{row{"type": "onedrive"}, nil},
		{row{"provider": "acme"}, []int32{mine, others}},
		{row{"provider": "microsoft"}, nil},
		{row{"provider": "acme", "user_id": 8}, []int32{others}},
		{row{"provider": "microsoft", "type": "web"}, nil},
		{row{"except_connectors": []int32{mine}}, []int32{others}},
	} {
		s.blackout("office", "defer", office, c.columns)
		s.at(utc("2026-02-06 08:00"))
		for _, id := range []int32{mine, others, drive} {
			s.force(`UPDATE connectors SET next_sync_at = '2026-02-06 08:00Z', due_reason = 'schedule', slot_at = next_sync_at WHERE id = $1`, id)
		}
		scheduler := s.scheduler()
		claimed := map[int32]bool{}
		rolled, err := s.servers.Pool.Begin(t.Context())
		s.do(err)
		triggers, _, err := scheduler.claim(t.Context(), rolled, atOnce, "web", 0, 10)
		s.do(err)
		s.do(rolled.Rollback(t.Context()))
		for _, one := range triggers {
			claimed[one.ID] = true
		}
		for _, id := range []int32{mine, others} {
			held := false
			for _, one := range c.held {
				held = held || one == id
			}
			if claimed[id] == held {
				t.Errorf("%v: connector %d is claimed: %v", c.columns, id, claimed[id])
			}
		}
	}
}

func TestWhatAnswersNoSlotWaitsForTheEndInEitherMode(t *testing.T) {
	for _, mode := range []string{"skip", "defer"} {
		t.Run(mode, func(t *testing.T) {
			s := setClock(t, utc("2026-02-06 07:10"))
			asked, retried := s.synced(row{"schedule_cron": "30 20 * * *"}), s.synced(row{"schedule_cron": "20 7 * * *"})
			s.at(utc("2026-02-06 07:20"))
			s.look()
			s.blackout("office", mode, office, nil)
			s.at(utc("2026-02-06 08:00"))
			s.fail(retried)
			fresh := s.connector(row{"refresh_freq_minutes": 60})
			s.exec(`SELECT moves.trigger_sync($1)`, asked)
			s.at(utc("2026-02-06 09:00"))
			if n := s.look(); n != 0 {
				t.Errorf("%d were claimed inside", n)
			}
			for _, id := range []int32{asked, retried, fresh} {
				s.isNext(id, "2026-02-06 18:00")
			}
			s.at(utc("2026-02-06 18:00"))
			if n := s.look(); n != 3 {
				t.Errorf("%d were claimed behind it", n)
			}
		})
	}
}

func TestARunWithParametersWaitsAndItsConnectorStandsAsItStood(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.ofJobs()
	s.blackout("office", "defer", office, nil)
	id := s.synced(row{"schedule_cron": "30 19 * * *"})
	s.at(utc("2026-02-06 09:00"))
	s.exec(dryRun, id)
	s.look()
	want(s.stage, true, `SELECT parameters_due_at = '2026-02-06 18:00Z' AND run_id IS NULL FROM connectors WHERE id = $1`, id)
	s.isNext(id, "2026-02-06 19:30")
	s.at(utc("2026-02-06 18:00"))
	s.look()
	s.isIn(id, true)
	s.completes(id)
	s.isNext(id, "2026-02-06 19:30")
}

func TestAWindowThatIsDeletedOrChangedLetsGoWhomItHeld(t *testing.T) {
	for name, act := range map[string]string{
		"deleted":               `DELETE FROM blackouts`,
		"of another owner":      `UPDATE blackouts SET user_id = 99`,
		"but for it":            `UPDATE blackouts SET except_connectors = ARRAY(SELECT id FROM connectors)`,
		"its calendar is empty": `UPDATE calendars SET entries = '[]'`,
		"its owner is another":  `UPDATE blackouts SET user_id = 1`, // and the connectors change hands below
	} {
		t.Run(name, func(t *testing.T) {
			s := setClock(t, utc("2026-02-06 07:10"))
			s.blackout("office", "defer", office, nil)
			s.blackout("pause", "skip", office, row{"type": "web"})
			s.exec(`DELETE FROM blackouts WHERE name = 'pause'`)
			cron, interval := s.synced(row{"schedule_cron": "0 * * * *"}), s.synced(row{"refresh_freq_minutes": 60, "spread_percent": 0})
			s.at(utc("2026-02-06 08:10"))
			s.look()
			s.isNext(cron, "2026-02-06 18:00")
			s.isNext(interval, "2026-02-06 18:00")
			s.at(utc("2026-02-06 11:30"))
			s.release()
			s.isNext(cron, "2026-02-06 18:00") // nothing has changed
			s.exec(act)
			if name == "its owner is another" {
				s.exec(`UPDATE connectors SET user_id = 2`)
			}
			s.release()
			s.isNext(cron, "2026-02-06 11:30")
			s.isNext(interval, "2026-02-06 11:30")
			want(s.stage, 0, `SELECT count(*) FROM blackout_holds`)
			if name == "its owner is another" {
				return // its change is due, and not its slot
			}
			s.look()
			s.isLedger(cron, "missed: passed before it could be claimed 06 08:00-06 10:00 x3", "running 06 11:00")
		})
	}
}

func TestAnIntervalThatAWindowHasSkippedComesWhenTheWindowIsDeleted(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.blackout("office", "skip", office, row{"spread_minutes": 30})
	id := s.synced(row{"refresh_freq_minutes": 60, "spread_percent": 0})
	s.at(utc("2026-02-06 08:10"))
	s.look()
	s.exec(`DELETE FROM blackouts`)
	s.release()
	want(s.stage, true, `SELECT next_sync_at BETWEEN clock_timestamp() AND clock_timestamp() + interval '30 minutes' AND slot_at = next_sync_at FROM connectors WHERE id = $1`, id)
}

func TestAWindowThatIsAddedHoldsWhatIsDueAlready(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	id := s.synced(row{"schedule_cron": "20 7 * * *"})
	s.at(utc("2026-02-06 09:00"))
	s.blackout("office", "skip", office, nil)
	s.look()
	s.isNext(id, "2026-02-06 18:00") // its slot was before the window, and waits
	s.at(utc("2026-02-06 18:00"))
	s.look()
	s.isLedger(id, "running 06 07:20")
}

func TestARunInFlightGoesOnWhenAWindowBegins(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	id := s.synced(row{"schedule_cron": "50 7 * * *"})
	s.at(utc("2026-02-06 07:50"))
	s.look()
	s.blackout("office", "skip", office, nil)
	s.at(utc("2026-02-06 09:00"))
	s.look()
	s.completes(id)
	s.isLedger(id, "completed 06 07:50")
}

func TestWindowsThatOverlapHoldUntilTheLastOneEnds(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.blackout("early", "defer", `[{"name": "e", "start": "2026-02-06T08:00", "end": "2026-02-06T12:00"}]`, nil)
	s.blackout("late", "defer", `[{"name": "l", "start": "2026-02-06T10:00", "end": "2026-02-06T14:00"}]`, nil)
	id := s.synced(row{"schedule_cron": "0 9 * * *"})
	for _, c := range [][2]string{{"09:00", "12:00"}, {"12:00", "14:00"}} {
		s.at(utc("2026-02-06 " + c[0]))
		s.look()
		s.isNext(id, "2026-02-06 "+c[1])
	}
	s.exec(`DELETE FROM blackouts WHERE name = 'early'`)
	s.release()
	s.isNext(id, "2026-02-06 14:00")
	s.at(utc("2026-02-06 14:00"))
	s.look()
	s.isLedger(id, "running 06 09:00")
}

func TestAWindowWithoutAnEndHoldsAndLetsGoOnceItIsGone(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.blackout("ever", "defer", `[{"name": "always", "start": "2026-01-01", "rule": "FREQ=DAILY"}]`, nil)
	id := s.synced(row{"schedule_cron": "0 9 * * *"})
	s.at(utc("2026-02-06 09:00"))
	s.look()
	s.isNext(id, "2026-03-06 09:00")
	s.at(utc("2026-03-06 09:00"))
	s.look()
	s.isNext(id, "2026-04-06 09:00")
	s.exec(`DELETE FROM blackouts`)
	s.release()
	s.look()
	s.isLedger(id, "missed: passed before it could be claimed 06 09:00-05 09:00 x28", "running 06 09:00")
}

func TestAWindowWhoseCalendarCannotBeReadHoldsNobody(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.blackout("broken", "defer", `[{"name": "w", "start": "yesterday"}]`, nil)
	s.blackout("office", "defer", office, row{"user_id": 7})
	id, held := s.synced(row{"schedule_cron": "0 9 * * *"}), s.synced(row{"schedule_cron": "0 9 * * *", "user_id": 7})
	s.at(utc("2026-02-06 09:00"))
	s.look()
	s.isLedger(id, "running 06 09:00")
	s.isNext(held, "2026-02-06 18:00")
}

func TestAJobOfTheSystemIsHeldByAWindowThatNamesItsType(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.exec(`SELECT moves.add_system_job('tidy', 'tidy', 60)`)
	id := one[int32](s.stage, `SELECT id FROM connectors WHERE type = 'tidy'`)
	s.at(utc("2026-02-06 09:00"))
	for _, c := range []struct {
		columns row
		claimed int
	}{{row{"type": "tidy"}, 0}, {row{"user_id": nil}, 1}} {
		s.blackout("office", "defer", office, c.columns)
		s.release()
		claimed, err := s.scheduler().Claim(t.Context(), "tidy", 0, 10)
		s.do(err)
		if len(claimed) != c.claimed {
			t.Errorf("%v: %d of connector %d were claimed", c.columns, len(claimed), id)
		}
	}
}

func TestWhoRunsAfterOthersWaitsForTheWindowWithThemMet(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	upstream, follower := s.synced(row{"schedule_cron": "30 7 * * *"}), s.synced(row{"schedule_cron": "0 8 * * *"})
	skipped := s.synced(row{"schedule_cron": "0 8 * * *"})
	for _, id := range []int32{follower, skipped} {
		s.exec(`INSERT INTO run_after (connector_id, upstream_id) VALUES ($1, $2)`, id, upstream)
	}
	s.blackout("pause", "skip", office, row{"except_connectors": []int32{upstream, follower}})
	s.blackout("office", "defer", office, row{"user_id": 1})
	s.at(utc("2026-02-06 07:30"))
	s.look()
	s.completes(upstream)
	s.at(utc("2026-02-06 08:00"))
	scheduler := s.scheduler()
	s.do(scheduler.Follow(t.Context()))
	s.look()
	s.isNext(follower, "2026-02-06 18:00")
	want(s.stage, true, `SELECT upstreams_met_at IS NOT NULL FROM connectors WHERE id = $1`, follower)
	s.isNext(skipped, "2026-02-07 08:00")
	s.at(utc("2026-02-06 18:00"))
	s.do(scheduler.Follow(t.Context()))
	s.look()
	s.isLedger(follower, "running 06 08:00")
}

func TestAJobThatIsHeldWhileItsConditionWasMetIsAskedAgain(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.ofJobs()
	s.exec(`INSERT INTO conditions (name, query) VALUES ('yes', 'SELECT true')`)
	s.blackout("office", "defer", office, nil)
	id := s.synced(row{"schedule_cron": "0 8 * * *", "condition": "yes"})
	s.at(utc("2026-02-06 08:00"))
	s.do(s.scheduler().Ask(t.Context()))
	s.isNext(id, "2026-02-06 18:00")
	want(s.stage, true, `SELECT asks_condition FROM connectors WHERE id = $1`, id)
	s.at(utc("2026-02-06 18:00"))
	s.do(s.scheduler().Ask(t.Context()))
	s.look()
	s.isLedger(id, "running 06 08:00")
}

func TestARowThatSomebodyHoldsKeepsNoOtherFromItsWindow(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.blackout("office", "defer", office, nil)
	var ids []int32
	for range 10 {
		ids = append(ids, s.synced(row{"schedule_cron": "0 9 * * *"}))
	}
	s.at(utc("2026-02-06 09:00"))
	s.look()
	s.exec(`DELETE FROM blackouts`)
	held, err := s.servers.Pool.Begin(t.Context())
	s.do(err)
	_, err = held.Exec(t.Context(), `SELECT FROM connectors WHERE id = $1 FOR UPDATE`, ids[3])
	s.do(err)
	s.do(s.scheduler(func(cfg *Config) { cfg.ClaimBatch = 4 }).Release(t.Context()))
	want(s.stage, 9, `SELECT count(*) FROM connectors WHERE due_at <= clock_timestamp()`)
	s.do(held.Rollback(t.Context()))
	s.release()
	want(s.stage, 10, `SELECT count(*) FROM connectors WHERE due_at <= clock_timestamp()`)
}

func TestHoldsThatAreOverAreForgotten(t *testing.T) {
	s := setClock(t, utc("2026-02-06 07:10"))
	s.blackout("office", "defer", office, nil)
	s.synced(row{"schedule_cron": "0 9 * * *"})
	s.at(utc("2026-02-06 09:00"))
	s.look()
	s.at(utc("2026-02-06 18:30").Add(time.Hour))
	s.release()
	want(s.stage, 0, `SELECT count(*) FROM blackout_holds`)
}
