package leadertest

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/echomind/sync/testonly/testkit"
)

// Contract is what every elector of several candidates keeps. election makes one of the test's own; handover is how long
// a clean one takes at most.
func Contract(t *testing.T, handover time.Duration, election func(*testing.T) New) {
	for name, candidates := range map[string]int{"OfTwoCandidates": 2, "OfThreeCandidates": 3} {
		t.Run(name+"ExactlyOneLeadsUntilTheLastHasStopped", func(t *testing.T) {
			t.Parallel()
			g, elector := NewGroup(t), election(t)
			for range candidates {
				g.Join(elector)
			}
			for range candidates {
				first := g.Leader(handover)
				term := first.Term(time.Second)
				for _, other := range g.Others(first) {
					if other.Leads() || term.Err() != nil {
						t.Error("two lead")
					}
					testkit.Eventually(t, handover, func() error { return other.Check(t.Context()) })
				}
				first.Stop()
				g.forget(first)
			}
			if most := g.MostAtOnce(); most != 1 {
				t.Errorf("%d worked at once", most)
			}
		})
	}

	t.Run("ACleanStopHandsOverAtOnceButOnlyAfterTheWorkHasStopped", func(t *testing.T) {
		t.Parallel()
		g, elector := NewGroup(t), election(t)
		first := g.Join(elector)
		term := first.Term(handover)
		second := g.Join(elector)
		end := first.Linger()
		defer end()
		first.Ask()
		Over(term, t, time.Second)
		select {
		case <-second.Terms:
			t.Error("the next began before the work had stopped")
		case <-time.After(handover):
		}
		end()
		asked := time.Now()
		second.Term(handover)
		t.Logf("handed over in %s", time.Since(asked).Round(time.Millisecond))
	})

	t.Run("TheErrorOfTheWorkEndsTheCandidateAndHandsOver", func(t *testing.T) {
		t.Parallel()
		g, elector := NewGroup(t), election(t)
		first := g.Join(elector)
		first.Term(handover)
		second := g.Join(elector)
		broken := errors.New("broken")
		first.Fail <- broken
		if err := first.Ended(); !errors.Is(err, broken) {
			t.Errorf("Run returned %v", err)
		}
		second.Term(handover)
	})

	t.Run("AStandbyStopsAtOnce", func(t *testing.T) {
		t.Parallel()
		g, elector := NewGroup(t), election(t)
		first := g.Join(elector)
		first.Term(handover)
		second := g.Join(elector)
		testkit.Eventually(t, handover, func() error { return second.Check(t.Context()) })
		second.Stop()
		if !first.Leads() {
			t.Error("the leader does not lead any more")
		}
	})
}

// LeavesNothingBehind is the part of the contract that cannot run beside other tests.
func LeavesNothingBehind(t *testing.T, handover time.Duration, election func(*testing.T) New) {
	elector := election(t)
	before := goleak.IgnoreCurrent()
	g := NewGroup(t)
	first := g.Join(elector)
	first.Term(handover)
	second := g.Join(elector)
	first.Stop()
	second.Term(handover)
	second.Stop()
	goleak.VerifyNone(t, before)
}

func (g *Group) forget(m *Member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members = g.Others(m)
}
