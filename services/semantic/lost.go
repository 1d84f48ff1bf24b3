package semantic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/topology"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

const (
	// lostBatch is how many runs one statement ends.
	lostBatch = 200
	// drainingPage is how many draining runs are looked at, from each end of the stream's order.
	drainingPage = 500
	// heardWithin is how lately a stream's leader must have heard of a replica; less than it takes to elect another.
	heardWithin = 3 * time.Second
)

// Abandon fails the runs whose worker is lost, and was lost before: by the failure policy, which is how a source that kills
// its workers is stopped. The first loss is the scheduler's, which claims the connector again at once.
func (s *Semantic) Abandon(ctx context.Context) error {
	full, err := deadline.Get(ctx, "semantic.connections", queryTimeout, s.queries.IsFull)
	if err != nil || full == nil || *full {
		s.workers.Forget() // a worker that has lost its connection is alive and cannot say so
		return err
	}
	silent, err := s.workers.Look(ctx)
	if err != nil || s.workers.Held() {
		return err // after an outage of ours nobody is lost for one lease, those without a lease neither
	}
	for more := true; more; {
		asked := time.Now()
		failed, err := deadline.Get(ctx, "semantic.abandon", queryTimeout, func(ctx context.Context) ([]dbgen.AbandonRow, error) {
			return s.queries.Abandon(ctx, dbgen.AbandonParams{
				Silent: silent, ForeignTimeout: s.config.ForeignTimeout, Batch: lostBatch,
			})
		})
		if err != nil {
			// A batch that took too long says nothing of the workers.
			if postgres.Unavailable(err) && !s.workers.Unheard(asked, err) {
				s.workers.Forget()
			}
			return fmt.Errorf("fail runs whose worker is lost again: %w", err)
		}
		for _, run := range failed {
			s.ended(ctx, tracing.Rescue, run.RunID, run.ConnectorID, run.Type, lifecycle.WorkerLost)
		}
		more = len(failed) == lostBatch
	}
	return nil
}

// FailLostInTransit ends runs whose worker is done and whose documents the stream no longer holds; their connectors are due at
// once. The order is Postgres, stream, Postgres: a run that began to drain after the stream was asked may be newer than its
// answer, and one whose last store was committed before must be seen as stored. What is missing must be missing for a while.
func (s *Semantic) FailLostInTransit(ctx context.Context) error {
	draining, err := deadline.Get(ctx, "semantic.draining_runs", queryTimeout, func(ctx context.Context) ([]dbgen.DrainingRunsRow, error) {
		return s.queries.DrainingRuns(ctx, drainingPage)
	})
	if err != nil || len(draining) == 0 {
		clear(s.missing)
		return err
	}
	first, last, err := s.documentsHeld(ctx)
	if err != nil {
		clear(s.missing)
		return err
	}
	lost := s.missingLong(draining, first, last, time.Now())
	for len(lost) > 0 {
		batch := lost[:min(len(lost), lostBatch)]
		lost = lost[len(batch):]
		p := dbgen.FailLostInTransitParams{Candidates: batch, FirstSeq: first, LastSeq: last}
		failed, err := deadline.Get(ctx, "semantic.fail_lost_in_transit", queryTimeout,
			func(ctx context.Context) ([]dbgen.FailLostInTransitRow, error) {
				return s.queries.FailLostInTransit(ctx, p)
			})
		if err != nil {
			return fmt.Errorf("fail runs that were lost in transit: %w", err)
		}
		for _, run := range failed {
			s.metrics.lostInTransit.Inc()
			s.ended(ctx, tracing.Lost, run.RunID, run.ConnectorID, run.Type, lifecycle.LostInTransit)
		}
	}
	return nil
}

// missingLong returns the runs whose documents the stream does not hold, and did not hold missingFor ago.
func (s *Semantic) missingLong(draining []dbgen.DrainingRunsRow, first, last int64, now time.Time) (lost []uuid.UUID) {
	missing := map[uuid.UUID]time.Time{}
	for _, r := range draining {
		if *r.DrainSeq >= first && *r.DrainSeq <= last {
			continue
		}
		since, known := s.missing[r.ID]
		if !known {
			since = now
		}
		if missing[r.ID] = since; now.Sub(since) >= s.missingFor {
			lost = append(lost, r.ID)
		}
	}
	s.missing = missing
	return lost
}

// ended says of a run that it has failed, in its trace and in the log.
func (s *Semantic) ended(
	ctx context.Context, name tracing.Name, run uuid.UUID, connector int32, connectorType string, reason lifecycle.Reason,
) {
	_, span := s.servers.Tracer.Start(ctx, run, name, tracing.Connector(connector), tracing.Verdict("failed"))
	span.Fail(string(reason))
	span.End()
	telemetry.OfRun(s.log, connector, run.String(), connectorType).Warn("the sync failed", "event", telemetry.Failed, "reason", string(reason))
}

// errMinority says that who answered for the document stream may have lost its majority, and know nothing of what came since.
var errMinority = errors.New("the document stream's leader does not hear its replicas; nothing is taken for lost")

// hasMajority says whether a leader answered that has heard of enough replicas lately. A server that is cut off from the others
// calls itself the leader for 20 s and answers from what it has without end; a new leader takes at least 4 s to be elected
// (measured on nats-server 2.15.2, three servers).
func hasMajority(info *jetstream.StreamInfo) bool {
	if info.Config.Replicas <= 1 {
		return true
	}
	if info.Cluster == nil || info.Cluster.Leader == "" {
		return false
	}
	heard := 0
	for _, r := range info.Cluster.Replicas {
		if r.Name != info.Cluster.Leader && r.Active < heardWithin {
			heard++
		}
	}
	return heard >= info.Config.Replicas/2
}

// documentsHeld is the range of sequences that the document stream still holds; one that holds nothing begins beyond every
// sequence.
func (s *Semantic) documentsHeld(ctx context.Context) (first, last int64, err error) {
	stream, err := deadline.Get(ctx, "semantic.document_stream", queryTimeout, func(ctx context.Context) (jetstream.Stream, error) {
		return s.servers.Stream.Stream(ctx, topology.DocumentStream)
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return math.MaxInt64, 0, topology.EnsureStreams(ctx, s.servers.Stream)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("ask for the document stream: %w", err)
	}
	info := stream.CachedInfo()
	if !hasMajority(info) {
		return 0, 0, errMinority
	}
	state := info.State
	if state.Msgs == 0 {
		return math.MaxInt64, int64(state.LastSeq), nil
	}
	return int64(state.FirstSeq), int64(state.LastSeq), nil
}
