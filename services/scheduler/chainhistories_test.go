//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// Random histories of a diamond: whoever looks, and dies where, fails for good and is mended, or is edited, nobody runs without a new end of each of its
// upstreams, and nobody waits for what has happened.
func TestNoEndIsLostNorUsedTwiceInAnyHistory(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { chainHistory(t, seed) })
	}
}

func chainHistory(t *testing.T, seed uint64) {
	s := setStage(t)
	a := s.byHand()
	b, c := s.link(a), s.link(a)
	d := s.link(b, c)
	all := []int32{a, b, c, d}
	s.exec(`UPDATE connectors SET max_retries = 1000`)
	upstreams := map[int32][]int32{b: {a}, c: {a}, d: {b, c}}
	fresh := map[[2]int32]bool{} // an end that the follower has not used
	uses := map[[2]int32]bool{}  // what its run uses once it is over
	random := rand.New(rand.NewPCG(seed, 2))
	inFlight, off := map[int32]bool{}, map[int32]bool{}
	broken := map[int32]bool{}                          // it has failed for good
	again, wanted := map[int32]bool{}, map[int32]bool{} // a sync that goes on; one that was asked for
	var told []string
	schedulers := []*Scheduler{s.scheduler(), s.scheduler()}
	back := func(id int32) { // the run has used nothing
		for _, up := range upstreams[id] {
			if e := [2]int32{id, up}; uses[e] {
				delete(uses, e)
				fresh[e] = true
			}
		}
	}
	for range 300 {
		id := all[random.IntN(4)]
		switch what := random.IntN(18); {
		case what == 0 && !inFlight[a] && id == a:
			s.exec(`SELECT moves.trigger_sync($1)`, a)
			told = append(told, "trigger")
		case what <= 2 && inFlight[id]:
			if random.IntN(2) == 0 {
				s.complete(id)
			} else {
				try := s.pickUp(id, time.Minute)
				want(s, true, `SELECT moves.finish($1, $2)`, try.Run, try.ID)
			}
			delete(inFlight, id)
			for down, ups := range upstreams {
				for _, up := range ups {
					if e := [2]int32{down, up}; up == id {
						fresh[e] = true
					} else if down == id {
						delete(uses, e)
					}
				}
			}
			told = append(told, fmt.Sprint("complete ", id))
		case what == 3 && inFlight[id] && id != a:
			s.exec(`SELECT moves.cancel(run_id) FROM connectors WHERE id = $1`, id)
			delete(inFlight, id)
			for _, up := range upstreams[id] {
				delete(uses, [2]int32{id, up})
			}
			told = append(told, fmt.Sprint("cancel ", id))
		case what == 4 && inFlight[id] && id != a:
			s.exec(`UPDATE connectors SET config = jsonb_build_object('url', gen_random_uuid()) WHERE id = $1`, id)
			delete(inFlight, id)
			again[id] = true
			told = append(told, fmt.Sprint("change ", id))
		case what == 5 && id != a:
			if off[id] = !off[id]; off[id] {
				s.exec(`SELECT moves.disable($1)`, id)
				back(id)
				delete(inFlight, id)
				delete(again, id)
				delete(wanted, id)
				delete(broken, id)
			} else {
				s.exec(`SELECT moves.enable($1)`, id)
			}
			told = append(told, fmt.Sprint("switch ", id))
		case what == 7 && inFlight[id] && id != a:
			try := s.pickUp(id, time.Minute)
			want(s, true, `SELECT moves.fail($1, $2, 'transient', 'away')`, try.Run, try.ID)
			s.force(`UPDATE connectors SET next_sync_at = clock_timestamp() WHERE id = $1`, id)
			delete(inFlight, id)
			again[id] = true
			told = append(told, fmt.Sprint("fail ", id))
		case what == 8 && !inFlight[id] && !off[id] && id != a:
			s.exec(`SELECT moves.trigger_sync($1)`, id)
			wanted[id] = true
			told = append(told, fmt.Sprint("trigger ", id))
		case what == 13 && inFlight[id] && id != a:
			try := s.pickUp(id, time.Minute)
			want(s, true, `SELECT moves.release($1, $2)`, try.Run, try.ID)
			delete(inFlight, id)
			again[id] = true
			told = append(told, fmt.Sprint("release ", id))
		case what == 14 && inFlight[id] && id != a:
			try := s.pickUp(id, time.Minute)
			want(s, true, `SELECT moves.fail($1, $2, 'permanent', 'gone')`, try.Run, try.ID)
			delete(inFlight, id)
			for _, up := range upstreams[id] {
				delete(uses, [2]int32{id, up})
			}
			broken[id] = true
			told = append(told, fmt.Sprint("break ", id))
		case what >= 15 && what <= 16 && broken[id] && !inFlight[id] && !off[id]:
			s.exec(`UPDATE connectors SET config = jsonb_build_object('url', gen_random_uuid()) WHERE id = $1`, id)
			delete(broken, id)
			told = append(told, fmt.Sprint("mend ", id))
		case what == 17 && id != a:
			s.exec(`UPDATE connectors SET name = name || $$x$$, user_id = 1 WHERE id = $1`, id)
			s.exec(`UPDATE run_after SET max_age_minutes = 500 + (random() * 100)::int WHERE connector_id = $1`, id)
			told = append(told, fmt.Sprint("edit ", id))
		case what == 6:
			s.do(schedulers[random.IntN(2)].Follow(s.Context())) // and dies before the claim
			told = append(told, "follow")
		default:
			scheduler := schedulers[random.IntN(2)]
			s.follow(scheduler)
			got := map[int32]bool{}
			for _, t := range s.claim(scheduler) {
				got[t.ID], inFlight[t.ID] = true, true
			}
			for down, ups := range upstreams {
				ended := true
				for _, up := range ups {
					ended = ended && fresh[[2]int32{down, up}]
				}
				runs := !off[down] && (!inFlight[down] || got[down]) && ((ended && !broken[down]) || again[down] || wanted[down])
				if got[down] != runs {
					t.Fatalf("connector %d claimed: %v, want %v, after %s", down, got[down], runs, strings.Join(told, ", "))
				}
				for _, up := range ups {
					if e := [2]int32{down, up}; runs && ended && !again[down] {
						delete(fresh, e)
						uses[e] = true
					}
				}
				if runs {
					delete(broken, down)
					delete(again, down)
					delete(wanted, down)
				}
			}
			told = append(told, "claim")
		}
	}
}
