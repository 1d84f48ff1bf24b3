package scheduler

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// after writes that one runs after another.
func (s *stage) after(id, upstream int32) {
	s.Helper()
	s.exec(`INSERT INTO run_after (connector_id, upstream_id) VALUES ($1, $2)`, id, upstream)
}

// link is a connector without a schedule that runs after others.
func (s *stage) link(upstreams ...int32) int32 {
	s.Helper()
	id := s.connector(row{"refresh_freq_minutes": nil})
	for _, upstream := range upstreams {
		s.after(id, upstream)
	}
	return id
}

// runs has one run by hand, to its end.
func (s *stage) runs(id int32) {
	s.Helper()
	s.exec(`SELECT moves.trigger_sync($1)`, id)
	s.claim(s.scheduler())
	s.complete(id)
}

// follows looks at chains, and says whom a claim then takes.
func (s *stage) follows(scheduler *Scheduler) []int32 {
	s.Helper()
	s.do(scheduler.Follow(s.Context()))
	ids := []int32{}
	for _, t := range s.claim(scheduler) {
		ids = append(ids, t.ID)
	}
	return ids
}

func (s *stage) followed(scheduler *Scheduler, ids ...int32) {
	s.Helper()
	if got := s.follows(scheduler); fmt.Sprint(got) != fmt.Sprint(ids) {
		s.Errorf("claimed %v, want %v", got, ids)
	}
}

func TestAConnectorWithoutAScheduleRunsOnceForEachCompletionOfAllItsUpstreams(t *testing.T) {
	s := setStage(t)
	a, b := s.connector(row{"refresh_freq_minutes": nil}), s.connector(row{"refresh_freq_minutes": nil})
	id := s.link(a, b)
	scheduler := s.scheduler()
	s.followed(scheduler)
	s.runs(a)
	s.followed(scheduler)
	s.runs(a)
	s.followed(scheduler)
	s.runs(b)
	s.followed(scheduler, id)
	s.runs(b) // in flight, so that it is for the next
	s.complete(id)
	s.followed(scheduler)
	s.runs(a)
	s.followed(scheduler, id)
	s.complete(id)
	s.followed(scheduler)
	want(s, 2, `SELECT count(*)::int FROM runs WHERE connector_id = $1 AND trigger = 'upstream' AND status = 'completed'`, id)
}

func TestACompletionWaitsForWhoIsSwitchedOff(t *testing.T) {
	s := setStage(t)
	a := s.connector(row{"refresh_freq_minutes": nil})
	id := s.link(a)
	scheduler := s.scheduler()
	s.exec(`SELECT moves.disable($1)`, id)
	s.runs(a)
	s.followed(scheduler)
	s.exec(`SELECT moves.enable($1)`, id)
	// The answer is given, and whoever gave it dies; it is switched off and on again before the claim.
	s.do(scheduler.Follow(s.Context()))
	want(s, true, `SELECT upstreams_met_at IS NOT NULL AND due_at IS NOT NULL FROM connectors WHERE id = $1`, id)
	s.exec(`SELECT moves.disable($1)`, id)
	s.exec(`SELECT moves.enable($1)`, id)
	want(s, true, `SELECT upstreams_met_at IS NULL AND due_at IS NULL FROM connectors WHERE id = $1`, id)
	s.followed(s.scheduler(), id)
	s.complete(id)
	s.followed(scheduler)
}

func TestATriggerAsksNoUpstreamAndConsumesNothing(t *testing.T) {
	s := setStage(t)
	a := s.connector(row{"refresh_freq_minutes": nil})
	id := s.link(a)
	s.runs(id)
	s.followed(s.scheduler())
	s.runs(a)
	s.followed(s.scheduler(), id)
}

func TestASkippedRunCountsWhereAnyDoes(t *testing.T) {
	s := setStage(t)
	a := s.connector(row{"refresh_freq_minutes": nil})
	completed, anyOne := s.link(a), s.link(a)
	s.exec(`UPDATE run_after SET accepts = 'any' WHERE connector_id = $1`, anyOne)
	scheduler := s.scheduler()
	s.exec(`SELECT moves.trigger_sync($1)`, a)
	try := s.syncing(a, time.Minute)
	want(s, 1, `SELECT count(*)::int FROM moves.skip_all(jsonb_build_array(jsonb_build_object('run', $1::text, 'try', $2::text))) k WHERE k.skipped`, try.Run.String(), try.ID.String())
	s.followed(scheduler, anyOne)
	s.runs(a)
	s.complete(anyOne)
	if got := s.follows(scheduler); len(got) != 2 {
		t.Errorf("claimed %v, want %v and %v", got, completed, anyOne)
	}
}

func TestAScheduleWaitsForAFreshUpstreamAndGivesUp(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	a := s.connector(row{"refresh_freq_minutes": nil})
	id := s.synced(row{"schedule_cron": "0 * * * *"})
	s.exec(`INSERT INTO run_after (connector_id, upstream_id, max_age_minutes, timeout_minutes) VALUES ($1, $2, 30, 20)`, id, a)
	scheduler := s.scheduler()
	s.at(utc("2026-02-02 12:40"))
	s.runs(a)
	s.followed(scheduler)
	s.at(utc("2026-02-02 13:00"))
	s.followed(scheduler, id)
	s.complete(id)
	s.plan()
	s.at(utc("2026-02-02 14:00"))
	s.followed(scheduler)
	s.at(utc("2026-02-02 14:19"))
	s.followed(scheduler)
	s.at(utc("2026-02-02 14:20"))
	s.followed(scheduler)
	s.isNext(id, "2026-02-02 15:00")
	s.isLedger(id, "completed 02 13:00", fmt.Sprintf("missed: upstream %d did not complete 02 14:00-02 14:00 x1", a))
	s.at(utc("2026-02-02 15:00"))
	s.followed(scheduler)
	s.at(utc("2026-02-02 15:01"))
	s.runs(a)
	s.followed(scheduler, id)
}

func TestPoliciesComeBeforeUpstreamsAndTheseBeforeTheCondition(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	s.counted(10)
	s.condition("enough", enough)
	a := s.connector(row{"refresh_freq_minutes": nil})
	id := s.synced(row{"type": "refresh", "condition": "enough", "config": `{"least": 50}`, "schedule_cron": "0 * * * *", "deadline_minutes": 10})
	s.after(id, a)
	scheduler := s.scheduler()
	s.at(utc("2026-02-02 13:00"))
	s.ask(scheduler)
	s.do(scheduler.Follow(s.Context()))
	s.isLedger(id)
	s.at(utc("2026-02-02 13:11"))
	s.do(scheduler.Follow(s.Context()))
	s.isLedger(id, "missed: too late 02 13:00-02 13:00 x1")
	s.runs(a)
	s.at(utc("2026-02-02 14:00"))
	s.do(scheduler.Follow(s.Context()))
	want(s.stage, true, `SELECT upstreams_met_at IS NOT NULL AND asks_condition AND due_at IS NULL FROM connectors WHERE id = $1`, id)
	s.ask(scheduler)
	s.isNext(id, "2026-02-02 15:00")
	want(s.stage, true, `SELECT upstreams_met_at IS NULL FROM connectors WHERE id = $1`, id)
}

func TestAnUnmetConditionConsumesACompletion(t *testing.T) {
	s := setStage(t)
	s.counted(10)
	s.condition("enough", enough)
	a := s.connector(row{"refresh_freq_minutes": nil})
	id := s.job(row{"refresh_freq_minutes": nil})
	s.after(id, a)
	scheduler := s.scheduler()
	s.runs(a)
	for range 3 {
		s.do(scheduler.Follow(s.Context()))
		s.ask(scheduler)
	}
	want(s, 1, `SELECT count(*)::int FROM runs WHERE connector_id = $1 AND status = 'skipped'`, id)
	s.exec(`UPDATE changes SET n = 50`)
	s.runs(a)
	s.do(scheduler.Follow(s.Context()))
	s.ask(scheduler)
	if n := len(s.claimJobs(scheduler)); n != 1 {
		t.Errorf("%d are claimed, want 1", n)
	}
}

func TestAThousandRunAfterOneAndOneAfterAThousand(t *testing.T) {
	s := setStage(t)
	first := s.connector(row{"refresh_freq_minutes": nil})
	s.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'c', 'web', 1 FROM generate_series(1, 1000)`)
	last := s.connector(row{"refresh_freq_minutes": nil})
	s.exec(`INSERT INTO run_after (connector_id, upstream_id) SELECT id, $1 FROM connectors WHERE id NOT IN ($1, $2)`, first, last)
	s.exec(`INSERT INTO run_after (connector_id, upstream_id) SELECT $2, id FROM connectors WHERE id NOT IN ($1, $2)`, first, last)
	scheduler := s.scheduler()
	s.runs(first)
	if n := len(s.follows(scheduler)); n != 1000 {
		t.Errorf("%d are claimed, want 1,000", n)
	}
	s.exec(`SELECT moves.pick_up(connector_id, id, gen_random_uuid(), NULL, NULL) FROM open_runs`)
	s.followed(scheduler)
	s.exec(`SELECT moves.finish(id, try_id) FROM open_runs`)
	s.followed(scheduler, last)
}

func TestAChainOfTenEndsInTwoSeconds(t *testing.T) {
	s := setStage(t)
	first := s.connector(row{"refresh_freq_minutes": nil})
	last := first
	for range 9 {
		last = s.link(last)
	}
	s.run(s.scheduler(rarely))
	s.exec(`SELECT moves.trigger_sync($1)`, first)
	for id := first; id <= last; id++ {
		s.eventually(wakes, s.countIs(1, `SELECT count(*) FROM connectors WHERE id = $1 AND status = 'PENDING'`, id))
		s.exec(`SELECT moves.pick_up($1, run_id, $2, NULL, NULL) FROM connectors WHERE id = $1`, id, uuid.New())
		s.finish(id)
	}
	t.Log("it took", one[time.Duration](s, `SELECT max(completed_at) - min(started_at) FROM runs`))
}

// Random histories of a diamond: whoever is looked at, in whatever order, nobody runs without a new end of each of its upstreams, and nobody
// waits for what has happened.
func TestNoEndIsLostNorUsedTwiceInAnyHistory(t *testing.T) {
	s := setStage(t)
	a := s.connector(row{"refresh_freq_minutes": nil})
	b, c := s.link(a), s.link(a)
	d := s.link(b, c)
	upstreams := map[int32][]int32{b: {a}, c: {a}, d: {b, c}}
	fresh := map[[2]int32]bool{} // a completion that the downstream has not used
	random := rand.New(rand.NewPCG(1, 2))
	inFlight, off := map[int32]bool{}, map[int32]bool{}
	var history []string
	schedulers := []*Scheduler{s.scheduler(), s.scheduler()}
	for range 250 {
		id := []int32{a, b, c, d}[random.IntN(4)]
		switch what := random.IntN(6); {
		case what == 0 && !inFlight[a] && id == a:
			s.exec(`SELECT moves.trigger_sync($1)`, a)
			history = append(history, "trigger")
		case what == 1 && inFlight[id]:
			s.complete(id)
			delete(inFlight, id)
			for down, ups := range upstreams {
				for _, up := range ups {
					if up == id {
						fresh[[2]int32{down, up}] = true
					}
				}
			}
			history = append(history, fmt.Sprint("complete ", id))
		case what == 2 && id != a && !inFlight[id]:
			if off[id] = !off[id]; off[id] {
				s.exec(`SELECT moves.disable($1)`, id)
			} else {
				s.exec(`SELECT moves.enable($1)`, id)
			}
			history = append(history, fmt.Sprint("switch ", id))
		case what == 3:
			s.do(schedulers[random.IntN(2)].Follow(s.Context())) // and dies before the claim
			history = append(history, "follow")
		default:
			got := map[int32]bool{}
			for _, id := range s.follows(schedulers[random.IntN(2)]) {
				got[id] = true
			}
			for down, ups := range upstreams {
				all := !inFlight[down] && !off[down]
				for _, up := range ups {
					all = all && fresh[[2]int32{down, up}]
				}
				if got[down] != all {
					t.Fatalf("connector %d claimed: %v, want %v, after %s", down, got[down], all, strings.Join(history, ", "))
				}
				if all {
					for _, up := range ups {
						delete(fresh, [2]int32{down, up})
					}
				}
			}
			for id := range got {
				inFlight[id] = true
			}
			history = append(history, "claim")
		}
	}
}
