//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"fmt"
	"testing"
	"time"
)

func TestAWaitingFollowerThatIsTriggeredAndCancelledWaitsOn(t *testing.T) {
	s := setStage(t)
	a, b := s.byHand(), s.byHand()
	id := s.link(a, b)
	scheduler := s.scheduler()
	s.runs(a)
	s.exec(`SELECT moves.trigger_sync($1)`, id)
	s.followed(scheduler, id)
	want(s, true, `SELECT moves.cancel(run_id) FROM connectors WHERE id = $1`, id)
	s.runs(b)
	s.followed(scheduler, id)
	try := s.pickUp(id, time.Minute)
	s.exec(`SELECT moves.trigger_sync($1)`, id) // asked for while it is read: once more, without
	want(s, true, `SELECT moves.finish($1, $2)`, try.Run, try.ID)
	s.followed(scheduler, id)
	s.complete(id)
	s.followed(scheduler)
}

func TestAFollowerChangedInFlightWhoseScheduleComesAndGoesUsesAllEndsAtOnce(t *testing.T) {
	s := setStage(t)
	a := s.byHand()
	id := s.link(a)
	scheduler := s.scheduler()
	s.runs(a)
	s.followed(scheduler, id)
	s.exec(`SELECT moves.pick_up($1, run_id, gen_random_uuid(), NULL, NULL) FROM connectors WHERE id = $1`, id)
	s.runs(a)
	s.exec(`UPDATE connectors SET config = '{"url": "https://c"}' WHERE id = $1`, id)
	s.exec(`UPDATE connectors SET refresh_freq_minutes = 60 WHERE id = $1`, id)
	s.exec(`UPDATE connectors SET refresh_freq_minutes = NULL WHERE id = $1`, id)
	s.followed(scheduler, id)
	s.complete(id)
	s.followed(scheduler)
}

// A schedule is given and taken away while it waits, is let go, and is in flight.
func TestAScheduleThatComesAndGoesLosesNoEnd(t *testing.T) {
	for _, when := range []string{"waits", "let go", "in flight"} {
		for _, schedule := range []string{`refresh_freq_minutes = 60, spread_percent = 0`, `refresh_freq_minutes = NULL, schedule_cron = '* * * * *'`} {
			t.Run(fmt.Sprint(when, schedule), func(t *testing.T) {
				s := setClock(t, utc("2026-02-02 12:00"))
				a := s.byHand()
				id := s.link(a)
				scheduler := s.scheduler()
				if when != "waits" {
					s.runs(a)
					s.follow(scheduler)
				}
				if when == "in flight" {
					s.followed(scheduler, id)
				}
				s.exec(`UPDATE connectors SET `+schedule+` WHERE id = $1`, id)
				s.plan()
				s.exec(`UPDATE connectors SET refresh_freq_minutes = NULL, schedule_cron = NULL WHERE id = $1`, id)
				s.plan()
				switch when {
				case "waits":
					s.followed(scheduler)
					s.runs(a)
					s.followed(scheduler, id)
				case "let go":
					s.followed(scheduler, id)
				}
				s.complete(id)
				s.plan()
				s.followed(scheduler)
				s.runs(a)
				s.followed(scheduler, id)
			})
		}
	}
}

func TestAFollowerWithAScheduleThatFailedForGoodAndWasChangedWaitsForItsUpstream(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	a := s.byHand()
	id := s.synced(row{"schedule_cron": "0 13 * * *"})
	s.after(id, a)
	scheduler := s.scheduler()
	s.runs(a)
	s.at(utc("2026-02-02 13:00"))
	s.followed(scheduler, id)
	try := s.pickUp(id, time.Minute)
	want(s.stage, true, `SELECT moves.fail($1, $2, 'permanent', 'gone')`, try.Run, try.ID)
	s.exec(`UPDATE connectors SET config = '{"url": "https://c"}' WHERE id = $1`, id)
	s.plan()
	s.followed(scheduler)
	s.runs(a)
	s.followed(scheduler, id)
	s.complete(id)
	s.plan()
	s.at(utc("2026-02-03 13:00"))
	s.followed(scheduler)
	s.runs(a)
	s.followed(scheduler, id)
}

func TestATimeoutOfAFollowerThatIsBusyIsItsOwn(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	a, b := s.byHand(), s.byHand()
	id := s.link(a, b)
	s.exec(`UPDATE run_after SET timeout_minutes = 30`)
	scheduler := s.scheduler()
	s.runs(a, b)
	s.followed(scheduler, id)
	s.runs(a)
	s.at(utc("2026-02-02 14:00")) // its sync takes two hours
	s.complete(id)
	s.runs(b)
	s.followed(scheduler, id)
}

// Its last upstream went while it was in flight, when nothing becomes of that.
func TestAFollowerOfNobodyThatIsDisabledInFlightFollowsNoMore(t *testing.T) {
	s := setStage(t)
	a := s.byHand()
	id := s.link(a)
	scheduler := s.scheduler()
	s.runs(a)
	s.followed(scheduler, id)
	s.exec(`DELETE FROM run_after`)
	s.follow(scheduler)
	want(s, true, `SELECT follows FROM connectors WHERE id = $1`, id)
	s.exec(`SELECT moves.disable($1, 'by its user')`, id)
	s.follow(scheduler)
	want(s, false, `SELECT follows FROM connectors WHERE id = $1`, id)
}
