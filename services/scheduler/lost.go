package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/sdk/failpoint"
	"github.com/echomind/sync/sdk/topology"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// maxLostGrace is where the doubling of the grace ends.
const maxLostGrace = time.Minute

// Republish finds PENDING connectors whose message is not in the stream any more and publishes it again, under the
// same session. It asks the stream first and Postgres second: a connector that was dispatched before the oldest
// queued message of its subject is not queued.
func (s *Scheduler) Republish(ctx context.Context) error {
	grace := seconds(s.config.LostGraceSeconds)
	types, err := deadline.Get(ctx, "scheduler.pending_types", queryTimeout,
		func(ctx context.Context) ([]string, error) {
			return s.queries.PendingTypes(ctx, dbgen.PendingTypesParams{Grace: grace})
		})
	if err != nil {
		return fmt.Errorf("ask which types are pending: %w", err)
	}
	for _, connectorType := range types {
		oldest, err := s.oldestQueued(ctx, connectorType)
		if err != nil {
			return err
		}
		if err := s.republish(ctx, connectorType, oldest, grace); err != nil {
			return err
		}
	}
	return nil
}

func (s *Scheduler) republish(ctx context.Context, connectorType string, oldest *time.Time, grace time.Duration) error {
	for ctx.Err() == nil {
		room := s.dispatcher.room(ctx)
		if room == 0 {
			return nil
		}
		rows, err := deadline.Get(ctx, "scheduler.redispatch", claimTimeout,
			func(ctx context.Context) ([]dbgen.RedispatchRow, error) {
				return s.queries.Redispatch(ctx, dbgen.RedispatchParams{
					Type: connectorType, Oldest: oldest, Grace: grace, MaxGrace: maxLostGrace,
					Batch: int32(min(s.config.ClaimBatch, room)),
				})
			})
		if err != nil {
			return fmt.Errorf("dispatch again: %w", err)
		}
		if len(rows) == 0 {
			return nil
		}
		batch := make([]Trigger, len(rows))
		for i, r := range rows {
			batch[i] = Trigger{
				ID: r.ID, UserID: r.UserID, Scope: r.Scope, ScopeID: r.ScopeID, Config: r.Config, State: r.State,
				ConfigVersion: r.ConfigVersion, Session: *r.ChunkingSession, Reason: r.Reason, DispatchedAt: *r.DispatchedAt,
			}
		}
		s.log.Warn("messages were lost; published again", "type", connectorType, "connectors", len(batch))
		s.metrics.republished.WithLabelValues(connectorType).Add(float64(len(batch)))
		failpoint.At("scheduler.redispatched")
		s.dispatcher.publish(ctx, connectorType, batch)
		if s.dispatcher.waiting() {
			return nil
		}
	}
	return nil
}

// fromStream wraps an error of the broker's, so that its silence is not taken for Postgres's.
func fromStream(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", what, errStream, err)
}

// oldestQueued is the dispatch time of the oldest message of a type that waits in the stream; nil when none does.
// A stream that is gone is created again, and holds none.
func (s *Scheduler) oldestQueued(ctx context.Context, connectorType string) (*time.Time, error) {
	subject, err := topology.SyncSubject(connectorType)
	if err != nil {
		return nil, err
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
		return nil, nil
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, fromStream("make the stream again", topology.EnsureStreams(ctx, s.servers.Stream))
	case err != nil:
		return nil, fromStream("ask for the oldest message of "+subject, err)
	}
	at, err := topology.DispatchedAt(msg.Header)
	if err != nil {
		// Somebody else's message. Its arrival is the best evidence there is; the grace covers the clocks.
		at = msg.Time
	}
	return &at, nil
}
