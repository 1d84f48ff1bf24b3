package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/sdk/topology"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// FailLostInTransit ends runs whose worker is done and whose documents the stream no longer holds; their connectors
// are due at once. The order is Postgres, stream, Postgres: a run that began to drain after the stream was asked
// may be newer than its answer, and one whose last store was committed before must be seen as stored.
func (s *Scheduler) FailLostInTransit(ctx context.Context) error {
	sessions, err := deadline.Get(ctx, "scheduler.draining_runs", queryTimeout,
		func(ctx context.Context) ([]uuid.UUID, error) { return s.queries.DrainingRuns(ctx) })
	if err != nil {
		return fmt.Errorf("ask which runs drain: %w", err)
	}
	if len(sessions) == 0 {
		return nil
	}
	first, last, err := s.documentsHeld(ctx)
	if err != nil {
		return err
	}
	failed, err := deadline.Get(ctx, "scheduler.fail_lost_in_transit", queryTimeout,
		func(ctx context.Context) ([]dbgen.FailLostInTransitRow, error) {
			return s.queries.FailLostInTransit(ctx, dbgen.FailLostInTransitParams{
				Sessions: sessions, FirstSeq: first, LastSeq: last,
			})
		})
	if err != nil {
		return fmt.Errorf("fail runs that were lost in transit: %w", err)
	}
	for _, run := range failed {
		s.dispatcher.traceEnd(ctx, tracing.Lost, run.Session, run.ID, "lost in transit")
		s.metrics.lostInTransit.Inc()
		telemetry.OfRun(s.log, run.ID, run.Session.String(), run.Type).Warn(
			"documents were lost in transit; the connector is synced again", "event", telemetry.Failed)
	}
	return nil
}

// documentsHeld is the range of sequences that the document stream still holds; one that holds nothing begins
// beyond every sequence.
func (s *Scheduler) documentsHeld(ctx context.Context) (first, last int64, err error) {
	stream, err := deadline.Get(ctx, "scheduler.document_stream", queryTimeout,
		func(ctx context.Context) (jetstream.Stream, error) {
			return s.servers.Stream.Stream(ctx, topology.DocumentStream)
		})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return math.MaxInt64, 0, fromStream("make the stream again", topology.EnsureStreams(ctx, s.servers.Stream))
	}
	if err != nil {
		return 0, 0, fromStream("ask for the document stream", err)
	}
	state := stream.CachedInfo().State
	if state.Msgs == 0 {
		return math.MaxInt64, int64(state.LastSeq), nil
	}
	return int64(state.FirstSeq), int64(state.LastSeq), nil
}
