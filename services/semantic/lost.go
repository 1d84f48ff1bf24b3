package semantic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

const (
	// lostBatch is how many runs one statement ends.
	lostBatch = 200
	// drainingPage is how many draining runs are read, from each end of the stream's order.
	drainingPage = 500
	// heardWithin is how recently a stream's leader must have heard from a replica: less than it takes to elect another leader.
	heardWithin = 3 * time.Second
)

// Abandon fails runs whose worker is lost for the second time, by the failure policy. This stops a source that kills its workers.
// After the first loss the scheduler claims the connector again at once.
func (s *Semantic) Abandon(ctx context.Context) error {
	full, err := deadline.Get(ctx, "semantic.connections", queryTimeout, s.queries.IsFull)
	if err != nil || full == nil || *full {
		s.workers.Forget() // a worker that has lost its connection is alive and cannot say so
		return err
	}
	silent, err := s.workers.Look(ctx)
	if err != nil || s.workers.Held() {
		return err // after an outage no worker counts as lost for one lease, nor does a run without a lease
	}
	return s.failAll(ctx, lifecycle.WorkerLost, func(ctx context.Context, apart bool, refused []int32) ([]verdict, error) {
		asked := time.Now()
		rows, err := deadline.Get(ctx, "semantic.abandon", queryTimeout, func(ctx context.Context) ([]dbgen.AbandonRow, error) {
			return s.queries.Abandon(ctx, dbgen.AbandonParams{
				Silent: silent, ForeignTimeout: s.config.ForeignTimeout, Batch: lostBatch, Apart: apart, Refused: refused,
			})
		})
		// A batch that took too long says nothing of the workers.
		if postgres.Unavailable(err) && !s.workers.Unheard(time.Since(asked), err) {
			s.workers.Forget()
		}
		return verdicts(rows, func(r dbgen.AbandonRow) verdict { return verdict(r) }), err
	})
}

// FailNotTaken fails runs whose message was published several times and always left the stream without a pick-up: they would hold
// their places for ever.
func (s *Semantic) FailNotTaken(ctx context.Context) error {
	return s.failAll(ctx, lifecycle.MessageNotTaken, func(ctx context.Context, apart bool, refused []int32) ([]verdict, error) {
		rows, err := deadline.Get(ctx, "semantic.fail_not_taken", queryTimeout,
			func(ctx context.Context) ([]dbgen.FailNotTakenRow, error) {
				return s.queries.FailNotTaken(ctx, dbgen.FailNotTakenParams{Batch: lostBatch, Apart: apart, Refused: refused})
			})
		return verdicts(rows, func(r dbgen.FailNotTakenRow) verdict { return verdict(r) }), err
	})
}

// verdict is one run that a move has failed, or the reason why that was refused.
type verdict struct {
	RunID       *uuid.UUID
	ConnectorID *int32
	Type        *string
	Problem     *string
}

func verdicts[R any](rows []R, of func(R) verdict) []verdict {
	all := make([]verdict, len(rows))
	for i, r := range rows {
		all[i] = of(r)
	}
	return all
}

// failAll fails runs batch by batch, until a batch is not full. When Postgres refuses a batch, each run is failed by itself, and
// refused runs are left out of the following batches: one bad row does not stop the others.
func (s *Semantic) failAll(
	ctx context.Context, reason lifecycle.Reason, fail func(ctx context.Context, apart bool, refused []int32) ([]verdict, error),
) error {
	refused := []int32{} // not nil: the move takes null for none as well
	var problem error
	for {
		failed, err := fail(ctx, false, refused)
		if postgres.Refused(err) {
			failed, err = fail(ctx, true, refused)
		}
		if err != nil {
			return errors.Join(problem, fmt.Errorf("fail runs: %s: %w", reason, err))
		}
		out, why := s.reportAll(ctx, reason, failed)
		refused, problem = append(refused, out...), errors.Join(problem, why)
		if len(failed) < lostBatch {
			return problem
		}
	}
}

// reportAll reports each failed run, and returns the connectors whose runs were refused.
func (s *Semantic) reportAll(ctx context.Context, reason lifecycle.Reason, failed []verdict) (refused []int32, problem error) {
	name := tracing.Rescue
	if reason == lifecycle.LostInTransit {
		name = tracing.Lost
	}
	for _, run := range failed {
		if run.Problem != nil {
			refused = append(refused, *run.ConnectorID)
			problem = fmt.Errorf("connector %d: its run cannot be failed (%s), and is tried again: %s", *run.ConnectorID, reason, *run.Problem)
			continue
		}
		if reason == lifecycle.LostInTransit {
			s.metrics.lostInTransit.Inc()
		}
		s.report(ctx, name, *run.RunID, *run.ConnectorID, *run.Type, reason)
	}
	return refused, problem
}

// FailLostInTransit ends runs whose worker is done and whose documents the stream no longer holds. Their connectors are due at
// once. The order is Postgres, stream, Postgres: a run that began to drain after the stream was asked may be newer than the
// stream's answer, and a run whose last store has just been committed must be seen as stored. Documents count as lost after they
// were missing for a lease.
func (s *Semantic) FailLostInTransit(ctx context.Context) error {
	subjects, problem := streams.RemoveAcknowledged(ctx, s.servers.Stream, topology.DocumentStream)
	if len(subjects) > 0 {
		s.log.Warn("messages were removed that the server kept though they were acknowledged", "subjects", subjects)
	}
	return errors.Join(problem, s.failLostInTransit(ctx))
}

func (s *Semantic) failLostInTransit(ctx context.Context) error {
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
	var problem error
	for len(lost) > 0 {
		p := dbgen.FailLostInTransitParams{Candidates: lost[:min(len(lost), lostBatch)], FirstSeq: first, LastSeq: last}
		lost = lost[len(p.Candidates):]
		err := s.failBatch(ctx, p)
		problem = errors.Join(problem, err)
		if postgres.Unavailable(err) {
			break
		}
	}
	return problem
}

// failBatch fails one batch of runs that were lost in transit.
func (s *Semantic) failBatch(ctx context.Context, p dbgen.FailLostInTransitParams) error {
	fail := func() ([]dbgen.FailLostInTransitRow, error) {
		return deadline.Get(ctx, "semantic.fail_lost_in_transit", queryTimeout,
			func(ctx context.Context) ([]dbgen.FailLostInTransitRow, error) {
				return s.queries.FailLostInTransit(ctx, p)
			})
	}
	rows, err := fail()
	if postgres.Refused(err) {
		p.Apart = true
		rows, err = fail()
	}
	if err != nil {
		return fmt.Errorf("fail runs that were lost in transit: %w", err)
	}
	_, problem := s.reportAll(ctx, lifecycle.LostInTransit,
		verdicts(rows, func(r dbgen.FailLostInTransitRow) verdict { return verdict(r) }))
	return problem
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

// report writes a failed run to its trace and to the log.
func (s *Semantic) report(
	ctx context.Context, name tracing.Name, run uuid.UUID, connector int32, connectorType string, reason lifecycle.Reason,
) {
	_, span := s.servers.Tracer.Start(ctx, run, name, tracing.Connector(connector), tracing.Verdict("failed"))
	span.Fail(string(reason))
	span.End()
	telemetry.OfRun(s.log, connector, run.String(), connectorType).Warn("the sync failed", "event", telemetry.Failed, "reason", string(reason))
}

// errMinority says that the document stream's leader may have lost its majority, and may not know the latest messages.
var errMinority = errors.New("the document stream's leader does not hear its replicas; nothing is taken for lost")

// hasMajority says whether the leader has heard from enough replicas recently. A server that is cut off from the others calls
// itself the leader for 20 s and answers from what it has without end; a new leader takes at least 4 s to be elected (measured on
// nats-server 2.15.2, three servers).
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

// documentsHeld returns the range of sequences that the document stream still holds. An empty stream begins beyond every sequence.
func (s *Semantic) documentsHeld(ctx context.Context) (first, last int64, err error) {
	stream, err := deadline.Get(ctx, "semantic.document_stream", queryTimeout, func(ctx context.Context) (jetstream.Stream, error) {
		return s.servers.Stream.Stream(ctx, topology.DocumentStream)
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return math.MaxInt64, 0, streams.EnsureStreams(ctx, s.servers.Stream)
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
