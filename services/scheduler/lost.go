package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// maxLostGrace is where the doubling of the grace ends.
const maxLostGrace = time.Minute

// Republish finds PENDING connectors whose message is not in the stream any more and publishes it again, under the
// same session. It asks the stream first and Postgres second: a connector that was dispatched before the oldest
// queued message of its subject is not queued.
func (s *Scheduler) Republish(ctx context.Context) error {
	_, err := s.lookForMessages(ctx)
	return err
}

// lookForMessages gives each type a batch in turn, until nothing more is lost or the look's time is over. The types
// that the look before did not reach come first, then the type whose trigger waits longest.
func (s *Scheduler) lookForMessages(ctx context.Context) (outcome, error) {
	s.looking.Lock()
	defer s.looking.Unlock()
	problem := s.removeAcknowledged(ctx)
	grace := seconds(s.config.LostGraceSeconds)
	until := time.Now().Add(s.lookTime)
	types, err := deadline.Get(ctx, "scheduler.pending_types", queryTimeout,
		func(ctx context.Context) ([]string, error) {
			return s.queries.PendingTypes(ctx, dbgen.PendingTypesParams{Grace: grace})
		})
	if err != nil {
		return outcome{}, errors.Join(problem, fmt.Errorf("ask which types are pending: %w", err))
	}
	turns := s.inTurn(types)
	s.behind = nil
	for i := 0; i < len(turns) && ctx.Err() == nil; i++ {
		if i > 0 && time.Now().After(until) {
			s.behind = turns[i:]
			return s.pendingLeft(ctx, true, grace, problem)
		}
		more, err := s.republish(ctx, turns[i], grace)
		if err != nil {
			problem = errors.Join(problem, fmt.Errorf("type %s: %w", turns[i], err))
			if postgres.Unavailable(err) && !errors.Is(err, errStream) {
				s.behind = turns[i+1:] // where it is this type's alone, the next look begins behind it
				return outcome{left: len(s.behind)}, problem
			}
			continue
		}
		if more && s.dispatcher.refusedOf(turns[i]) == 0 {
			turns = append(turns, turns[i])
		}
		if s.dispatcher.away.Load() {
			s.behind = turns[i+1:]
			return s.pendingLeft(ctx, false, grace, problem)
		}
	}
	return outcome{}, problem
}

// removeAcknowledged keeps triggers that nobody waits for any more from being taken for the oldest that are queued.
func (s *Scheduler) removeAcknowledged(ctx context.Context) error {
	subjects, err := streams.RemoveAcknowledged(ctx, s.servers.Stream, topology.SyncStream)
	if len(subjects) > 0 {
		s.log.Warn("messages were removed that the server kept though they were acknowledged", "subjects", subjects)
	}
	return fromStream("look for what is acknowledged", err)
}

// inTurn puts those types first to which the last look did not come.
func (s *Scheduler) inTurn(types []string) []string {
	turns := make([]string, 0, len(types))
	for _, name := range types {
		if slices.Contains(s.behind, name) {
			turns = append(turns, name)
		}
	}
	for _, name := range types {
		if !slices.Contains(s.behind, name) {
			turns = append(turns, name)
		}
	}
	return turns
}

func (s *Scheduler) pendingLeft(ctx context.Context, late bool, grace time.Duration, problem error) (outcome, error) {
	if len(s.behind) == 0 {
		return outcome{}, problem
	}
	left, err := deadline.Get(ctx, "scheduler.pending_left", queryTimeout, func(ctx context.Context) (int64, error) {
		return s.queries.PendingLeft(ctx, dbgen.PendingLeftParams{Types: s.behind, Grace: grace, Most: mostLeft})
	})
	return outcome{left: int(left), late: late}, errors.Join(problem, wrap("count what is left", err))
}

// republish publishes one batch of a type's lost messages again, as many as the stream takes, and says whether there may be
// more.
func (s *Scheduler) republish(ctx context.Context, connectorType string, grace time.Duration) (more bool, err error) {
	oldest, arrived, err := s.oldestQueued(ctx, connectorType)
	if err != nil {
		return false, err
	}
	limit := s.dispatcher.oneOf(connectorType, min(s.config.ClaimBatch, s.dispatcher.room(ctx, connectorType)))
	if limit == 0 {
		return true, nil
	}
	rows, err := deadline.Get(ctx, "scheduler.redispatch", claimTimeout,
		func(ctx context.Context) ([]dbgen.RedispatchRow, error) {
			return s.queries.Redispatch(ctx, dbgen.RedispatchParams{
				Type: connectorType, Oldest: oldest, Arrived: arrived, Grace: grace, MaxGrace: maxLostGrace, Batch: int32(limit),
				MostBytes: mostBatchBytes,
			})
		})
	if err != nil {
		return false, fmt.Errorf("dispatch again: %w", err)
	}
	if len(rows) == 0 {
		return false, nil
	}
	batch := repeats(connectorType, rows)
	s.log.Warn("messages were lost; published again", "type", connectorType, "connectors", len(batch))
	s.metrics.republished.WithLabelValues(connectorType).Add(float64(len(batch)))
	failpoint.At("scheduler.redispatched")
	s.dispatcher.publish(ctx, batch)
	return true, nil
}

// repeats are the triggers of messages that were lost.
func repeats(connectorType string, rows []dbgen.RedispatchRow) []Trigger {
	batch := make([]Trigger, len(rows))
	for i, r := range rows {
		batch[i] = Trigger{
			ID: orZero(r.ConnectorID), Type: connectorType, UserID: orZero(r.UserID), Scope: orZero(r.Scope), ScopeID: r.ScopeID,
			Config: r.Config, State: r.State, Listing: r.Listing, ConfigVersion: orZero(r.ConfigVersion), Session: orZero(r.RunID),
			Reason: orZero(r.Reason), DispatchedAt: orZero(r.DispatchedAt), dispatches: orZero(r.Dispatches),
		}
	}
	return batch
}

// fromStream wraps an error of the broker's, so that its silence is not taken for Postgres's.
func fromStream(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", what, errStream, err)
}

// oldestQueued is the dispatch time of the oldest message of a type that waits in the stream, and when it arrived by the
// broker's clock; nil when none waits. A stream that is gone is created again, and holds none.
func (s *Scheduler) oldestQueued(ctx context.Context, connectorType string) (at, arrived *time.Time, err error) {
	subject, err := topology.SyncSubject(connectorType)
	if err != nil {
		return nil, nil, err
	}
	msg, err := deadline.Get(ctx, "scheduler.oldest_message", queryTimeout,
		func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
			stream, err := s.servers.Stream.Stream(ctx, topology.SyncStream)
			if err != nil {
				return nil, err
			}
			return stream.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(subject))
		})
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, nil, nil
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, nil, fromStream("make the stream again", streams.EnsureStreams(ctx, s.servers.Stream))
	case err != nil:
		return nil, nil, fromStream("ask for the oldest message of "+subject, err)
	}
	dispatched, err := topology.DispatchedAt(msg.Header)
	if err != nil {
		// Somebody else's message. Its arrival is the best evidence there is; the grace covers the clocks.
		dispatched = msg.Time
	}
	return &dispatched, &msg.Time, nil
}
