// Package worker is the kit for services that subscribe to connector.sync.<type>: a team writes one Handler and
// makes one call.
//
//	err := worker.Serve(ctx, "wiki", func(ctx context.Context, run *worker.Run) error {
//		...
//		return run.Put(ctx, worker.Document{SourceID: "page/1", Title: "Welcome", Chunks: chunks})
//	})
//
// The kit pulls a message only into a free slot, moves the connector from PENDING to SYNCING, keeps its lease by the
// worker's heartbeat, acknowledges, numbers and publishes the documents, completes, and turns the handler's error into what becomes
// of the connector:
//
//	handler returns       what becomes of the sync
//	nil                   completed once every document is stored; skipped if nothing was sent
//	Skipped(reason)       the same, with the reason in the ledger
//	Permanent(err)        ERROR until the user changes or triggers the connector
//	Refused(err)          the same, or until the service has other settings
//	a *LockedError        put off without a failure: another run has the lock (Acquire)
//	any other error       ERROR, tried again after a backoff; DISABLED after max_retries in a row
//	(a panic)             like any other error
//	(nothing, too long)   its context ends after WORKER_MAX_RUN_MINUTES of work: goes on at once from the last
//	                      checkpoint that was passed, nothing counted; without one, like any other error
//	(after a clean stop)  handed back: due now, nothing counted
//	(fenced)              nothing: the connector is somebody else's by now
//
// A handler that does not return though its context has ended is left behind, and its slot goes on. With as many of
// them as slots Run returns ErrStuck, so that a supervisor starts the process again.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/contract/wire"
	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/worker/internal/dbgen"
)

// Handler syncs one connector. Its context ends when the run is not its own any more, when it has taken too long,
// or when the grace of a clean stop is over; it must return then.
type Handler func(ctx context.Context, run *Run) error

// refusedPause is how long a message waits whose pick-up Postgres refuses.
const refusedPause = 5 * time.Second

// heldPauses are how long a message waits whose connector somebody holds: longer with each delivery.
var heldPauses = repeat.Pauses{First: time.Second, Last: 30 * time.Second}

// Worker subscribes to the triggers of one connector type.
type Worker struct {
	connectorType string
	handle        Handler
	config        Config
	maxRun        time.Duration
	stuckAfter    time.Duration
	queryTimeout  time.Duration
	isJob         bool           // made by NewJob
	stuck         atomic.Int32   // handlers that were left behind
	freeing       sync.WaitGroup // locks of runs that are over, which Postgres does not free at once
	servers       servers
	lifecycle     *lifecycle.Lifecycle
	locks         *lifecycle.Lifecycle // for renewals
	queries       *dbgen.Queries
	heart         *heart // of the present Run
	credits       *credits
	metrics       *metrics
	stall         *stall
	log           *slog.Logger
}

// ErrKind says that a type is one of jobs and its worker serves a source, or the other way round.
var ErrKind = errors.New("the type is of the other kind")

// New makes a worker for a type. It returns an error for a malformed type name or a bad configuration. Serve is the shorter way: it opens
// and closes the connections, and serves health and metrics.
func New(connectorType string, handle Handler, cfg Config, on Servers, process Process) (*Worker, error) {
	if _, err := topology.SyncSubject(connectorType); err != nil {
		return nil, err
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	log := process.Logger().With("type", connectorType)
	stall := &stall{log: log}
	process.Note("worker.documents."+connectorType, stall.String)
	servers := of(on)
	queries, measures := dbgen.New(servers.Pool), newMetrics(process.Registerer(), connectorType, cfg.Slots)
	return &Worker{
		connectorType: connectorType, handle: handle, config: cfg, servers: servers,
		maxRun: time.Duration(cfg.MaxRunMinutes) * time.Minute, stuckAfter: stuckAfter, queryTimeout: queryTimeout,
		lifecycle: lifecycle.New(servers.Pool), queries: queries, credits: newCredits(queries, measures, log),
		metrics: measures, stall: stall, log: log,
	}, nil
}

// Run works until ctx ends, then hands over what is in flight, and returns nil. It returns ErrStuck where it leaves a
// handler behind, or where too many were. It pulls nothing before Postgres has answered its first heartbeat.
func (w *Worker) Run(ctx context.Context) error { return RunAll(ctx, w) }

// RunAll is Run for workers of several types, with leases of one length. They have one heartbeat, whose metrics name the first type, and with
// it one connection, and one more where a run holds locks. Where one of them ends with an error, the others hand over and end too.
func RunAll(ctx context.Context, workers ...*Worker) error {
	stop, err := begin(ctx, workers)
	if err != nil {
		return err
	}
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	for _, w := range workers {
		if w.config.Reach != "" {
			group.Go(func() error { w.retryRefused(ctx); return nil })
		}
		group.Go(func() error {
			err := w.fill(ctx)
			w.freeing.Wait()
			if err != nil {
				return err
			}
			return w.whileSlotsAreFree(ctx)
		})
	}
	return group.Wait()
}

// fill asks for a message for each free slot, for all of them in one request, so that none waits behind a sync that is at work. It
// returns when ctx has ended and all slots are free.
func (w *Worker) fill(ctx context.Context) error {
	declared, err := topology.SyncConsumer(w.connectorType)
	if err != nil {
		return err
	}
	slots, working := errgroup.WithContext(ctx)
	free := newSlots(w.config.Slots)
	streams.Feed(working, w.servers.Stream, topology.SyncStream, declared, w.log,
		func(unused int) int { return free.take(working, unused) },
		func(msg jetstream.Msg) {
			slots.Go(func() error {
				err := w.receive(working, msg)
				if err == nil { // no slot is free for another message while Run ends
					free.put()
				}
				return err
			})
		})
	return slots.Wait()
}

// receive takes one message from the stream to its end.
func (w *Worker) receive(ctx context.Context, msg jetstream.Msg) error {
	w.metrics.busy.Inc()
	defer w.metrics.busy.Dec()
	if streams.ServersAnswer(msg) {
		w.metrics.messages.WithLabelValues(serversAnswer).Inc()
		_ = msg.Ack()
		return nil
	}
	request, session, err := decode(msg.Data(), w.connectorType)
	if err != nil {
		w.metrics.messages.WithLabelValues(undecodable).Inc()
		w.giveUp(ctx, msg, err)
		return nil
	}
	try, began := lifecycle.Try{Run: session, ID: uuid.New()}, time.Now()
	log := w.log.With("connector", request.ConnectorId, "session", request.ChunkingSession)
	ctx, span := w.trace(ctx, msg, &request.ConnectorSyncRequest, session)
	defer span.End()
	defer w.heart.await(try)()
	if err := w.pickUp(ctx, msg, request.ConnectorId, try, log); err != nil {
		w.notPickedUp(ctx, msg, try, err, span, log)
		return nil
	}
	w.metrics.messages.WithLabelValues(pickedUp).Inc()
	w.metrics.pickingUp.Observe(time.Since(began).Seconds())
	log.Info("picked up", "event", telemetry.Started)
	failpoint.At("worker.picked_up")
	acknowledge(msg, log)
	failpoint.At("worker.acknowledged")
	if ctx.Err() != nil {
		w.settle(ctx, &Run{try: try, log: log}, released, errStopping, errStopping)
		return nil
	}
	return w.sync(ctx, request, try, log)
}

// notPickedUp hands a message back, or acknowledges it where it is old news.
func (w *Worker) notPickedUp(
	ctx context.Context, msg jetstream.Msg, try lifecycle.Try, err error, span tracing.Span, log *slog.Logger,
) {
	switch {
	case errors.Is(err, lifecycle.ErrFenced):
		w.metrics.messages.WithLabelValues(oldNews).Inc()
		span.Set(tracing.Outcome(oldNews))
		log.Debug("old news: another session, or already picked up")
		acknowledge(msg, log)
	case errors.Is(err, lifecycle.ErrHeld): // somebody holds this connector, and no others
		w.metrics.messages.WithLabelValues(held).Inc()
		span.Set(tracing.Outcome("handed back"))
		pause := heldPauseOf(msg)
		log.Info("somebody holds the connector; the message is delivered again", "pause", pause)
		_ = msg.NakWithDelay(pause)
	default:
		w.metrics.messages.WithLabelValues(unanswered).Inc()
		span.Fail(unanswered)
		log.Warn("pick-up ended without an answer; the message is delivered again", "err", err)
		if ctx.Err() == nil {
			_ = msg.NakWithDelay(refusedPause)
			return
		}
		if postgres.Unavailable(err) { // it may have been picked up
			w.settle(ctx, &Run{try: try, log: log}, released, errStopping, errStopping)
		}
		_ = msg.Nak()
	}
}

func heldPauseOf(msg jetstream.Msg) time.Duration {
	meta, err := msg.Metadata()
	if err != nil {
		return heldPauses.First
	}
	return heldPauseAt(meta.NumDelivered)
}

// heldPauseAt is how long a message waits after its n-th delivery, from 1.
func heldPauseAt(delivery uint64) time.Duration {
	return heldPauses.After(int(min(delivery, 100)))
}

// acknowledge may fail: the message is delivered again then, and is old news.
func acknowledge(msg jetstream.Msg, log *slog.Logger) {
	if err := msg.Ack(); err != nil {
		log.Debug("acknowledge again at redelivery", "err", err)
	}
}

// pickUp repeats while Postgres is away, keeping message and slot. A stop waits for the answer that is due: without it
// nobody would know that the connector was picked up, until its lease runs out, and it would count as a lost worker.
func (w *Worker) pickUp(
	ctx context.Context, msg jetstream.Msg, connectorID int32, try lifecycle.Try, log *slog.Logger,
) error {
	ctx, span := w.servers.Tracer.Start(ctx, try.Run, tracing.PickUp)
	defer span.End()
	return persist(ctx, log, "worker.pick_up", queryTimeout, postgres.Unavailable, func(ctx context.Context) error {
		err := w.lifecycle.PickUp(context.WithoutCancel(ctx), connectorID, try, w.heart.worker, w.config.lease())
		if postgres.Unavailable(err) {
			_ = msg.InProgress()
		}
		return err
	})
}

// configField is the number of ConnectorSyncRequest.config.
const configField = 6

// trigger is a decoded message. Its Config is missing, and config has it as JSON: as protobuf messages it would take up to a hundred
// times the memory.
type trigger struct {
	internalpb.ConnectorSyncRequest
	config []byte
}

// decode checks a trigger: everything on the wire is bad input until then.
func decode(data []byte, connectorType string) (*trigger, uuid.UUID, error) {
	request := &trigger{}
	encoded, err := wire.UnmarshalApart(data, &request.ConnectorSyncRequest, configField)
	if err == nil {
		request.config, err = wire.DecodeStruct(encoded)
	}
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("decode ConnectorSyncRequest: %w", err)
	}
	session, err := uuid.Parse(request.ChunkingSession)
	switch {
	case err != nil:
		return nil, uuid.Nil, fmt.Errorf("chunking_session %q: %w", request.ChunkingSession, err)
	case request.ConnectorId <= 0:
		return nil, uuid.Nil, fmt.Errorf("connector_id %d: must be positive", request.ConnectorId)
	case request.TypeName != "" && request.TypeName != connectorType:
		return nil, uuid.Nil, fmt.Errorf("type_name %q: this subject carries %q", request.TypeName, connectorType)
	}
	return request, session, nil
}
