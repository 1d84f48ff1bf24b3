package evidence

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/broker"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/evidence/internal/dbgen"
)

// QueueSeen is GatherSeen of some connectors at once, in their order, without what is failed of each: the broker is asked once for a type. A connector that is gone, or that has moved
// on while the broker was asked, is left out.
func QueueSeen(ctx context.Context, within Within, asked *broker.Broker, away error, ids []int32, settings Settings) ([]Evidence, error) {
	type kind struct{ of, status string }
	read := func() (all []Evidence, err error) {
		err = within(ctx, func(ctx context.Context, tx pgx.Tx) error {
			all = nil
			for _, id := range ids {
				e := Evidence{Settings: settings}
				if err := e.fillSeen(ctx, dbgen.New(tx), id); errors.Is(err, ErrNoConnector) {
					continue
				} else if err != nil {
					return err
				}
				all = append(all, e)
			}
			return nil
		})
		return all, err
	}
	var before []Evidence // nothing is counted for what to ask the broker
	err := within(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		before, err = GlanceSeen(ctx, tx, ids, settings)
		return err
	})
	if err != nil {
		return nil, err
	}
	streams, drained := map[kind]Streams{}, map[int32]Evidence{}
	for _, e := range before {
		streams[kind{e.Connector.Type, e.Connector.Status}] = Streams{}
		drained[e.Connector.ID] = e
	}
	if away == nil {
		away = deadline.Do(ctx, "evidence.streams", seenStreamsTimeout, func(ctx context.Context) error {
			for k := range streams {
				var s Streams
				if err := askStreams(ctx, asked, Connector{Type: k.of, Status: k.status}, &s); err != nil {
					return err
				}
				streams[k] = s
			}
			return nil
		})
	}
	after, err := read()
	if err != nil {
		return nil, err
	}
	var found []Evidence
	for _, e := range after {
		s, known := streams[kind{e.Connector.Type, e.Connector.Status}]
		if !known {
			continue
		}
		if was := drained[e.Connector.ID].Connector; draining(was) {
			s.DrainingBefore = was.RunID
		}
		s.Unknown = away
		e.Streams = s
		found = append(found, e)
	}
	return found, nil
}

// countedBefore is up to how many connector_evidence counts that are before one.
const countedBefore = 10_000

// Position is which one of its type's it is among those that wait as it does, the longest first; nil: it waits for nothing that is given out in an order, is not due, or is behind
// countedBefore others.
func (e Evidence) Position() *int64 {
	c := e.Connector
	before := int64(countedBefore)
	switch {
	case c.Status == pending && c.RunID != nil:
		before = c.PendingBefore
	case c.RunID == nil && c.WaitsForKey == nil && c.NextSyncAt != nil && !c.NextSyncAt.After(e.Now):
		before = c.DueBefore
	}
	if before >= countedBefore {
		return nil
	}
	return new(before + 1)
}
