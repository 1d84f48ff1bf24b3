//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"testing"
	"time"
)

func TestAFollowerAtRestThatIsGivenAwayAndBackRunsAfterTheNextEnd(t *testing.T) {
	s := setStage(t)
	a := s.connector(row{"refresh_freq_minutes": nil, "scope": "org"})
	id := s.link(a)
	scheduler := s.scheduler()
	s.runs(a)
	s.follow(scheduler) // let go
	s.exec(`UPDATE connectors SET user_id = 2 WHERE id = $1`, id)
	s.followed(scheduler, id)
	s.exec(`UPDATE connectors SET user_id = 1 WHERE id = $1`, id) // in flight: it goes on
	s.followed(scheduler, id)
	s.complete(id)
	s.followed(scheduler)
	s.runs(a)
	s.followed(scheduler, id)
}

func TestChangesOfAcceptsAndAgeDoNotHaveEndsUsedAgain(t *testing.T) {
	s := setStage(t)
	a := s.byHand()
	id := s.link(a)
	scheduler := s.scheduler()
	s.exec(`UPDATE run_after SET accepts = 'skipped'`)
	s.exec(`SELECT moves.trigger_sync($1)`, a)
	try := s.syncing(a, time.Minute)
	want(s, true, `SELECT moves.skip($1, $2, NULL, 'same', 0)`, try.Run, try.ID)
	s.follow(scheduler) // let go for a skipped one
	s.exec(`UPDATE run_after SET accepts = 'completed'`)
	s.followed(scheduler, id)
	s.complete(id)
	s.exec(`UPDATE run_after SET accepts = 'skipped'`)
	s.followed(scheduler)
}

func TestANewUpstreamWhileItIsInFlightIsWaitedForNext(t *testing.T) {
	s := setStage(t)
	a, b := s.byHand(), s.byHand()
	id := s.link(a)
	scheduler := s.scheduler()
	s.runs(a)
	s.followed(scheduler, id)
	s.after(id, b)
	s.complete(id)
	s.runs(a)
	s.followed(scheduler)
	s.runs(b)
	s.followed(scheduler, id)
	s.exec(`DELETE FROM run_after WHERE upstream_id = $1`, a)
	s.complete(id)
	s.followed(scheduler)
	s.runs(b)
	s.followed(scheduler, id)
}
