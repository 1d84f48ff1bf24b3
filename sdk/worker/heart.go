package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/lifecycle"
)

// heart keeps the leases of all the runs that a worker has in hand, by one heartbeat. It ends a run that Postgres says is
// not this worker's any more. While Postgres has not answered for a whole lease it shuts the gate, because the runs may have
// been rescued, and stops the runs' clocks.
//
// It beats also while nothing is in hand: then no pick-up has to write the worker's row, which it would hold for as long as
// it waits for a connector that somebody else holds, with the next heartbeat behind it.
type heart struct {
	worker  uuid.UUID
	lease   time.Duration
	beat    func(ctx context.Context, worker uuid.UUID, lease time.Duration, tries []lifecycle.Try) ([]lifecycle.Try, error)
	gate    *gate
	metrics *metrics
	log     *slog.Logger
	first   chan struct{} // closed by the first answer

	mu       sync.Mutex
	held     map[uuid.UUID]*holding     // by run
	awaiting map[lifecycle.Try]struct{} // picked up for all that is known: the answer may be lost
	why      error                      // why the last heartbeat was not answered
	last     time.Time                  // when the last heartbeat that was answered was sent
}

// holding is one run in hand.
type holding struct {
	try    lifecycle.Try
	clock  *workClock
	end    context.CancelCauseFunc
	outage wait
}

// newHeart makes the heart of a worker that begins. It is a worker of its own, so that a heartbeat keeps nothing that an
// earlier one left behind.
func newHeart(beats *lifecycle.Lifecycle, lease time.Duration, m *metrics, log *slog.Logger) *heart {
	return &heart{
		worker: uuid.New(), lease: lease, beat: beats.Heartbeat, gate: newGate(), metrics: m, log: log,
		first: make(chan struct{}), held: map[uuid.UUID]*holding{}, awaiting: map[lifecycle.Try]struct{}{},
		last: time.Now(),
	}
}

// ownConnection is one connection for the heartbeats, or for the renewals of locks. They do not wait for a place behind what slots and
// handlers ask: all runs of the worker depend on them. It is made when it is first needed.
func ownConnection(of *pgxpool.Pool) (*pgxpool.Pool, error) {
	cfg := of.Config()
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = 1, 0, 0
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, fmt.Errorf("open a connection: %w", err)
	}
	return pool, nil
}

// run beats three times a lease until ctx ends.
func (h *heart) run(ctx context.Context) {
	silence := time.AfterFunc(h.lease, h.isSilent)
	defer silence.Stop()
	ticker := time.NewTicker(h.lease / 3)
	defer ticker.Stop()
	for {
		sent := time.Now()
		if h.once(ctx, sent) {
			silence.Reset(h.lease - time.Since(sent))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// once sends one heartbeat and says whether it was answered.
func (h *heart) once(ctx context.Context, sent time.Time) bool {
	tries, inHand := h.tries()
	lost, err := deadline.Get(ctx, "worker.heartbeat", h.lease/3, func(ctx context.Context) ([]lifecycle.Try, error) {
		return h.beat(ctx, h.worker, h.lease, tries)
	})
	if err != nil {
		if ctx.Err() == nil {
			h.metrics.renewals.WithLabelValues(unanswered).Inc()
			h.unanswered(err)
		}
		return false
	}
	h.metrics.renewals.WithLabelValues(renewed).Inc()
	for _, try := range lost {
		if inHand[try] { // else it was not picked up yet when this was asked
			h.fence(try)
		}
	}
	h.answered(sent)
	return true
}

// answered opens the gate. The lease runs from some moment after the heartbeat was sent.
func (h *heart) answered(sent time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = sent
	if !h.gate.isOpen() {
		h.log.Info("Postgres answers again: syncs go on")
		h.gate.set(true)
		for _, run := range h.held {
			run.outage.end()
		}
	}
	select {
	case <-h.first:
	default:
		close(h.first)
	}
}

func (h *heart) unanswered(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.why = err
}

// isSilent shuts the gate once a lease has passed without an answer.
func (h *heart) isSilent() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if silent := time.Since(h.last); silent >= h.lease && h.gate.isOpen() {
		h.log.Warn("no heartbeat was answered for a whole lease: syncs publish nothing until one is", "lease", h.lease,
			"in_hand", len(h.held), "err", h.why)
		h.gate.set(false)
		for _, run := range h.held {
			run.outage.begin(run.clock, h.last)
		}
	}
}

// await keeps the lease of a run whose pick-up is asked for: a heartbeat that does not name the run would give it up, once
// the answer is lost for longer than a lease. It ends with hold, or with the returned function.
func (h *heart) await(try lifecycle.Try) (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.awaiting[try] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.awaiting, try)
	}
}

// hold keeps the lease of a run that was picked up, and ends it when it is lost. The returned function lets the run go:
// after it no heartbeat names the run, or ends it.
func (h *heart) hold(try lifecycle.Try, clock *workClock, end context.CancelCauseFunc) (letGo func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before, twice := h.held[try.Run]; twice {
		before.end(lifecycle.ErrFenced) // Postgres had lost that pick-up, or this one would have been refused
	} else {
		h.metrics.leases.Inc()
	}
	run := &holding{try: try, clock: clock, end: end}
	if !h.gate.isOpen() {
		run.outage.begin(clock, time.Now())
	}
	h.held[try.Run] = run
	delete(h.awaiting, try)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		run.outage.end()
		if h.held[try.Run] == run {
			delete(h.held, try.Run)
			h.metrics.leases.Dec()
		}
	}
}

// tries are all that the worker has, for a heartbeat to name, and which of them are in hand.
func (h *heart) tries() (tries []lifecycle.Try, inHand map[lifecycle.Try]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	tries, inHand = make([]lifecycle.Try, 0, len(h.held)+len(h.awaiting)), map[lifecycle.Try]bool{}
	for _, run := range h.held {
		tries, inHand[run.try] = append(tries, run.try), true
	}
	for try := range h.awaiting {
		tries = append(tries, try)
	}
	return tries, inHand
}

// fence ends a run whose try has lost it, unless it was let go while the heartbeat was on its way.
func (h *heart) fence(try lifecycle.Try) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if lost, inHand := h.held[try.Run]; inHand && lost.try == try {
		h.metrics.renewals.WithLabelValues(fenced).Inc()
		lost.end(lifecycle.ErrFenced)
	}
}

// begin starts the heart that workers share, and what asks for their runs' credit, and waits until Postgres knows it. The returned
// function stops them.
func begin(ctx context.Context, workers []*Worker) (stop func(), err error) {
	if len(workers) == 0 {
		return nil, errors.New("there is no worker to run")
	}
	first := workers[0]
	for _, w := range workers {
		if w.config.LeaseSeconds != first.config.LeaseSeconds {
			return nil, fmt.Errorf("the leases of %s and %s differ: one heartbeat keeps both", first.connectorType, w.connectorType)
		}
	}
	pool, err := ownConnection(first.servers.Pool)
	if err != nil {
		return nil, err
	}
	forLocks, err := ownConnection(first.servers.Pool)
	if err != nil {
		pool.Close()
		return nil, err
	}
	shared, locks := newHeart(lifecycle.New(pool), first.config.lease(), first.metrics, first.log), lifecycle.New(forLocks)
	beating, end := context.WithCancel(context.WithoutCancel(ctx))
	var beats sync.WaitGroup
	beats.Go(func() { shared.run(beating) })
	for _, w := range workers {
		w.heart, w.locks = shared, locks
		beats.Go(func() { w.credits.run(beating) })
	}
	stop = func() {
		end()
		beats.Wait()
		pool.Close()
		forLocks.Close()
	}
	select {
	case <-shared.first:
	case <-ctx.Done():
		return stop, nil // nothing is pulled any more
	}
	for _, w := range workers {
		if err := w.checkKind(ctx); err != nil && ctx.Err() == nil {
			stop()
			return nil, err
		}
	}
	return stop, nil
}

// checkKind refuses to work for a type of the other kind: a job stores no documents, and a source has no result.
func (w *Worker) checkKind(ctx context.Context) error {
	for range pauses.Tries(ctx) {
		kind, err := deadline.Get(ctx, "worker.kind", w.queryTimeout, func(ctx context.Context) (string, error) { return w.queries.Kind(ctx, w.connectorType) })
		switch {
		case postgres.Unavailable(err):
			continue
		case err != nil:
			return fmt.Errorf("read the kind of type %s: %w", w.connectorType, err)
		case kind == "job" && !w.isJob:
			return fmt.Errorf("%w: %s is a type of jobs: call worker.ServeJob, or worker.NewJob", ErrKind, w.connectorType)
		case kind == "source" && w.isJob:
			return fmt.Errorf("%w: %s is no type of jobs: register another with `echomind types add NAME --kind job`, or call worker.Serve, or worker.New", ErrKind, w.connectorType)
		}
		return nil
	}
	return context.Cause(ctx)
}
