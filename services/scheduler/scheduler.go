// Package scheduler is the fire-and-forget trigger: it queries the connectors that are due, sets them PENDING, and
// publishes one ConnectorSyncRequest each. It subscribes to nothing, fetches nothing and waits for nobody.
//
// Beside the tick it watches, every few seconds, over what it has set in motion:
//
//	what has gone missing                     how it is told                                what is done
//	a message (died before publish, purged)   older than the oldest message of its subject  published again, same session
//	a worker                                  its lease has run out, and it is silent       claimed again, new session
//
// A worker that is lost again, and documents that are lost, are semantic's to settle. The tick, the plans of cron schedules
// and each look are loops of their own, and each type is claimed in a lane of its own, which publishes one batch while it claims the
// next: none holds up another. What is claimed and not yet published is bounded, over all types.
//
// Several schedulers at once are harmless: every step is a guarded statement, and safety comes from the database. An
// election (package leader) only saves work; while another leads, this scheduler does none of the above.
package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/leases"
	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
	"github.com/echomind/sync/services/scheduler/leader"
)

// Scheduler claims and dispatches.
type Scheduler struct {
	config     Config
	servers    *connect.Servers
	queries    *dbgen.Queries
	dispatcher *dispatcher
	metrics    *metrics
	ready      *telemetry.Readiness
	log        *slog.Logger
	wake       chan struct{} // asks for a tick
	planWake   chan struct{} // asks for plans
	passWake   chan struct{} // asks for the verdict of slots that passed
	askWake    chan struct{} // asks for conditions
	chainWake  chan struct{} // asks for chains
	replanWake chan struct{} // asks for changed calendars
	leases     *leases.Watch
	listening  *listening
	candidate  *leader.Candidate
	kubernetes Kubernetes
	lookTime   time.Duration
	looking    sync.Mutex
	behind     []string         // the types to which the last look for messages did not come; looking guards it
	unclaimed  *refusals[int32] // connectors whose claim is refused
	unanswered *refusals[int64] // passed slots whose verdict is refused
	unplanned  *refusals[int32] // connectors whose plan is refused
	unrescued  *refusals[int32] // connectors whose rescue is refused
	unreleased *refusals[int32] // connectors that wait for a concurrency key, and that cannot be made due
	keyring    keyring
	turns      *turns
	lanes      *lanes
	asking     *asking
	outage     outage
	calendars  *calendarCache
	wishes     wishes // the types for which a tick is asked
}

// Kubernetes makes the elector that a Lease decides; package leader/lease has the one there is.
type Kubernetes func(*leader.Candidate, leader.Config, *slog.Logger) (leader.Elector, error)

// errNoKubernetes is the error of the other programs, which do not carry client-go.
var errNoKubernetes = errors.New("SCHEDULER_LEADER_ELECTION=kubernetes: this program cannot; run the scheduler program, " +
	"or choose postgres or none")

// Run connects and works until ctx ends; it returns nil on a clean stop.
func Run(ctx context.Context, cfg Config, process connect.Process) error {
	return RunOn(nil)(ctx, cfg, process)
}

// RunOn is Run with an election by Kubernetes, where the configuration asks for one.
func RunOn(kubernetes Kubernetes) func(context.Context, Config, connect.Process) error {
	return func(ctx context.Context, cfg Config, process connect.Process) error {
		if err := cfg.Validate(); err != nil {
			return err
		}
		if cfg.Election.By == leader.ByKubernetes && kubernetes == nil {
			return errNoKubernetes
		}
		room.LimitHeap(0, process.Log)
		process.Off = !cfg.Enabled
		servers, err := connect.Open(ctx, cfg.Common, "scheduler", process)
		if err != nil {
			return err
		}
		s := New(cfg, servers, process)
		s.kubernetes = kubernetes
		return errors.Join(s.Run(ctx), servers.Close())
	}
}

// New makes a scheduler on open connections.
func New(cfg Config, servers *connect.Servers, process connect.Process) *Scheduler {
	log := process.Log.With("service", "scheduler")
	m := newMetrics(process.Metrics)
	s := &Scheduler{
		config: cfg, servers: servers, queries: dbgen.New(servers.Pool),
		dispatcher: newDispatcher(servers, m, log), metrics: m, ready: process.Ready, log: log,
		wake: make(chan struct{}, 1), planWake: make(chan struct{}, 1), passWake: make(chan struct{}, 1), askWake: make(chan struct{}, 1), chainWake: make(chan struct{}, 1), replanWake: make(chan struct{}, 1), listening: &listening{},
		candidate: leader.NewCandidate(log, m.leader), lookTime: lookTime,
		leases: leases.NewWatch(servers.Pool, seconds(cfg.LeaseSeconds), time.Now), unclaimed: newRefusals[int32](),
		unanswered: newRefusals[int64](), unplanned: newRefusals[int32](), unrescued: newRefusals[int32](), unreleased: newRefusals[int32](), turns: &turns{laps: map[string]*lap{}},
	}
	s.lanes, s.asking, s.calendars = newLanes(s), newAsking(s), &calendarCache{windows: blackoutCache{tell: func(window string, err error) {
		log.Error("a blackout window holds nobody, because its calendar cannot be read", "blackout", window, "err", err)
	}}}
	return s
}

// Run works until ctx ends.
func (s *Scheduler) Run(ctx context.Context) error {
	if !s.config.Enabled {
		s.log.Warn("SCHEDULER_ENABLED is false: nothing will be dispatched")
		<-ctx.Done()
		return nil
	}
	elector, err := s.elector()
	if err != nil {
		return err
	}
	s.ready.Note("scheduler.leadership", s.candidate.String) // after None has written to the candidate
	s.ready.Add("scheduler.listen", s.listening.check)
	ticker, err := gocron.NewScheduler(gocron.WithDistributedElector(s.candidate))
	if err != nil {
		return fmt.Errorf("make the ticker: %w", err)
	}
	_, err = ticker.NewJob(gocron.DurationJob(seconds(s.config.CheckIntervalSeconds)), gocron.NewTask(s.Wake),
		gocron.WithSingletonMode(gocron.LimitModeReschedule), gocron.WithName("tick"))
	if err != nil {
		return errors.Join(fmt.Errorf("plan the tick: %w", err), ticker.Shutdown())
	}
	ticker.Start()

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return elector.Run(ctx, s.lead) })
	group.Go(func() error { return s.listen(ctx, s.config.DirectURL()) }) // a standby too, so that it is ready to lead
	return errors.Join(group.Wait(), ticker.Shutdown())
}

func (s *Scheduler) elector() (leader.Elector, error) {
	switch s.config.Election.By {
	case leader.ByPostgres:
		s.ready.Add("scheduler.election", s.candidate.Check)
		return leader.Postgres(s.candidate, s.config.DirectURL(), leader.DefaultPace), nil
	case leader.ByKubernetes:
		s.ready.Add("scheduler.election", s.candidate.Check)
		return s.kubernetes(s.candidate, s.config.Election, s.log)
	}
	return leader.None(s.candidate), nil
}

// lead is what only the leader does, from its election until ctx ends: the first tick comes at once, the first rescue
// after the workers had a lease's time to renew.
func (s *Scheduler) lead(ctx context.Context) error {
	s.metrics.terms.Inc()
	s.leases.Forget()
	s.outage.forget()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.tellRefresh(ctx) })
	group.Go(func() error { return s.ticks(ctx) })
	group.Go(func() error { return s.plans(ctx) })
	group.Go(func() error { return s.passes(ctx) })
	group.Go(func() error { return s.replans(ctx) })
	group.Go(func() error { return s.conditions(ctx) })
	group.Go(func() error { return s.chains(ctx) })
	group.Go(func() error { return s.watch(ctx, "messages", s.lookForMessages) })
	group.Go(func() error { return s.watch(ctx, "workers", s.lookForWorkers) })
	group.Go(func() error { return s.measure(ctx) })
	return group.Wait()
}

// Wake asks for a tick and for plans now. A tick that is asked for while another runs follows it; several become one.
func (s *Scheduler) Wake() { s.wakeFor("") }

// wakeFor is Wake for one type; "" = all.
func (s *Scheduler) wakeFor(kind string) {
	s.wishes.add(kind)
	signal(s.wake)
	signal(s.planWake)
	signal(s.passWake)
	signal(s.askWake)
	signal(s.chainWake)
	signal(s.replanWake)
}

// mostWishes bounds how many types are remembered by name: anybody may notify of anything.
const mostWishes = 100

// wishes are the types for which a tick is asked.
type wishes struct {
	mu    sync.Mutex
	types map[string]bool
}

func (w *wishes) add(kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.types == nil {
		w.types = map[string]bool{}
	}
	if len(w.types) >= mostWishes {
		kind = ""
	}
	w.types[kind] = true
}

// take returns them, and forgets them; nil = all.
func (w *wishes) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	types := w.types
	w.types = nil
	if types[""] {
		return nil
	}
	return slices.Collect(maps.Keys(types))
}

func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// ticks looks for what is due whenever it is asked to, until ctx ends. It does not wait for what a look has sent on its way.
func (s *Scheduler) ticks(ctx context.Context) error {
	defer s.lanes.wait()
	s.wishes.add("")
	signal(s.wake)
	again := newAlarm()
	defer again.stop()
	for {
		var problem error
		pause := time.Duration(0)
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
			problem = s.lanes.look(ctx, s.wishes.take())
		case <-again.rings():
			again.rang()
			problem = s.lanes.look(ctx, nil)
		case <-s.lanes.ended:
			came := s.lanes.outcome()
			pause, problem = came.again, came.problem
		}
		if problem != nil && ctx.Err() == nil {
			s.log.Warn("the tick ended early; what is due stays due", "err", problem)
		}
		switch {
		case problem == nil && s.dispatcher.away.Load():
			again.in(probeEvery)
		// A verdict that came between the count of a full cap and the flag for it wakes nobody.
		case pause > 0 || problem != nil || s.dispatcher.waiting():
			again.in(cmp.Or(pause, pollEvery))
		}
	}
}

// alarm rings once, at the earliest moment that it was set to.
type alarm struct {
	timer *time.Timer
	at    time.Time // zero = it is not set
}

func newAlarm() *alarm {
	a := &alarm{timer: time.NewTimer(time.Hour)}
	a.timer.Stop()
	return a
}

func (a *alarm) in(pause time.Duration) {
	if at := time.Now().Add(pause); a.at.IsZero() || at.Before(a.at) {
		a.at = at
		a.timer.Reset(pause)
	}
}

func (a *alarm) rings() <-chan time.Time { return a.timer.C }

func (a *alarm) rang() { a.at = time.Time{} }

func (a *alarm) stop() { a.timer.Stop() }
