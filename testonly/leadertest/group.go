// Package leadertest holds elections among candidates of one test, and the contract that every elector keeps.
package leadertest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/testonly/testkit"
)

// stopTimeout bounds how long a candidate may take to stop.
const stopTimeout = 10 * time.Second

// Candidate is what a candidate says of itself, as leader.Candidate does.
type Candidate interface {
	IsLeader(ctx context.Context) error
	Check(ctx context.Context) error
}

// New makes a candidate, and what runs work whenever it is elected, as leader.Elector does.
type New func(t *testing.T, log *slog.Logger, gauge prometheus.Gauge) (
	c Candidate, run func(ctx context.Context, work func(context.Context) error) error)

// Group are the candidates of one election.
type Group struct {
	t       *testing.T
	working atomic.Int32
	most    atomic.Int32
	mu      sync.Mutex
	members []*Member
}

// NewGroup is an election without candidates.
func NewGroup(t *testing.T) *Group { return &Group{t: t} }

// MostAtOnce is how many candidates have worked at the same time at most.
func (g *Group) MostAtOnce() int { return int(g.most.Load()) }

// Member is one candidate.
type Member struct {
	Candidate
	Gauge prometheus.Gauge
	// Terms are the contexts of its terms.
	Terms chan context.Context
	// Fail ends its work with an error.
	Fail chan error

	group *Group
	slow  atomic.Pointer[chan struct{}]
	end   context.CancelFunc
	ended chan struct{}
	err   error
}

// Join starts a candidate, which stops at the latest with the test.
func (g *Group) Join(elector New) *Member {
	g.t.Helper()
	m := &Member{
		Gauge: prometheus.NewGauge(prometheus.GaugeOpts{Name: "leader"}),
		Terms: make(chan context.Context, 100), Fail: make(chan error, 1), group: g, ended: make(chan struct{}),
	}
	candidate, run := elector(g.t, testkit.Logger(g.t), m.Gauge)
	m.Candidate = candidate
	var ctx context.Context
	ctx, m.end = context.WithCancel(context.Background())
	go func() {
		defer close(m.ended)
		m.err = run(ctx, m.work)
	}()
	g.mu.Lock()
	g.members = append(g.members, m)
	g.mu.Unlock()
	g.t.Cleanup(m.Stop)
	return m
}

func (m *Member) work(ctx context.Context) error {
	n := m.group.working.Add(1)
	defer m.group.working.Add(-1)
	for most := m.group.most.Load(); n > most && !m.group.most.CompareAndSwap(most, n); most = m.group.most.Load() {
	}
	m.Terms <- ctx
	select {
	case <-ctx.Done():
	case err := <-m.Fail:
		return err
	}
	if slow := m.slow.Load(); slow != nil {
		<-*slow
	}
	return nil
}

// Linger lets the work go on after the end of its context until the returned function is called.
func (m *Member) Linger() (end func()) {
	slow := make(chan struct{})
	m.slow.Store(&slow)
	return sync.OnceFunc(func() { close(slow) })
}

// Ask asks the candidate to stop.
func (m *Member) Ask() { m.end() }

// Ended waits until the candidate has stopped, and returns the error of its Run.
func (m *Member) Ended() error {
	select {
	case <-m.ended:
	case <-time.After(stopTimeout):
		m.group.t.Error("a candidate does not stop")
	}
	return m.err
}

// Stop stops the candidate and waits until it has.
func (m *Member) Stop() {
	m.end()
	_ = m.Ended()
}

// Leads says whether it leads.
func (m *Member) Leads() bool { return m.IsLeader(context.Background()) == nil }

// Term is the context of its next term, which must begin in time.
func (m *Member) Term(within time.Duration) context.Context {
	m.group.t.Helper()
	select {
	case term := <-m.Terms:
		return term
	case <-time.After(testkit.Patience(within)):
		m.group.t.Fatalf("not elected within %s; the election says %v", within, m.Check(context.Background()))
		return nil
	}
}

// Leader waits until exactly one candidate leads.
func (g *Group) Leader(within time.Duration) *Member {
	g.t.Helper()
	var leads *Member
	testkit.Eventually(g.t, within, func() error {
		leaders := 0
		for _, m := range g.members {
			if m.Leads() {
				leads = m
				leaders++
			}
		}
		if leaders != 1 {
			return fmt.Errorf("%d leaders", leaders)
		}
		return nil
	})
	return leads
}

// Others are the candidates that are not m.
func (g *Group) Others(m *Member) []*Member {
	var others []*Member
	for _, o := range g.members {
		if o != m {
			others = append(others, o)
		}
	}
	return others
}

// Over waits until a term has ended.
func Over(term context.Context, t *testing.T, within time.Duration) time.Duration {
	t.Helper()
	begun := time.Now()
	select {
	case <-term.Done():
	case <-time.After(testkit.Patience(within)):
		t.Fatalf("the term has not ended within %s", within)
	}
	return time.Since(begun)
}
