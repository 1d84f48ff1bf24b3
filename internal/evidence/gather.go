package evidence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/blackouts"
	"github.com/echomind/sync/internal/broker"
	"github.com/echomind/sync/internal/calendars"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/evidence/failures"
	"github.com/echomind/sync/internal/evidence/internal/dbgen"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/internal/slots"
)

// ErrNoConnector says that there is no such connector.
var ErrNoConnector = errors.New("no such connector")

const (
	queryTimeout = 5 * time.Second
	// streamsTimeout bounds everything that NATS is asked, seenStreamsTimeout the same within an answer of services/api.
	streamsTimeout     = 15 * time.Second
	seenStreamsTimeout = 3 * time.Second
	pastRuns           = 2
	// A worker that is between two pulls is asked for again, so that it is not taken for none.
	subscriberLooks = 4
	betweenLooks    = 100 * time.Millisecond
)

// Gather reads the evidence about a connector. away, if not nil, says why there is no broker to ask. It returns
// ErrNoConnector where there is none.
func Gather(
	ctx context.Context, pool *pgxpool.Pool, asked *broker.Broker, away error, id int32, settings Settings,
) (Evidence, error) {
	e, err := gather(ctx, func(ctx context.Context) (Evidence, error) { return read(ctx, pool, id, settings) }, asked, away, streamsTimeout)
	if err == nil {
		e.Failed, e.FailedUnknown = failures.Of(ctx, pool, id)
	}
	return e, err
}

// Within does some work in a transaction that serves a user of services/api.
type Within func(ctx context.Context, work func(ctx context.Context, tx pgx.Tx) error) error

// GatherSeen is Gather for a user of services/api, who is shown what they see: of another's connector nothing, of another run that has a lock only that there is one.
func GatherSeen(ctx context.Context, within Within, asked *broker.Broker, away error, id int32, settings Settings) (Evidence, error) {
	e, err := gather(ctx, func(ctx context.Context) (Evidence, error) {
		e := Evidence{Settings: settings}
		err := within(ctx, func(ctx context.Context, tx pgx.Tx) error { return e.fillSeen(ctx, dbgen.New(tx), id) })
		return e, err
	}, asked, away, seenStreamsTimeout)
	if err == nil {
		e.FailedUnknown = within(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			e.Failed, err = failures.Seen(ctx, tx, id)
			return err
		})
	}
	return e, err
}

// GlanceSeen is what a user of services/api sees of some connectors at once: where each stands, without what is counted for each and without the broker. One
// transaction, and a bounded work for each.
func GlanceSeen(ctx context.Context, tx pgx.Tx, ids []int32, settings Settings) ([]Evidence, error) {
	q := dbgen.New(tx)
	found, err := q.SeenGlances(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read the connectors: %w", err)
	}
	services, err := q.Services(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask who is connected: %w", err)
	}
	all := make([]Evidence, len(found))
	for i, c := range found {
		all[i] = Evidence{Now: c.SeenAt, Settings: settings, Connector: Connector(c), Services: services, IsGlance: true}
	}
	return all, nil
}

func gather(ctx context.Context, read func(context.Context) (Evidence, error), asked *broker.Broker, away error, patience time.Duration) (Evidence, error) {
	var streams Streams
	before, err := read(ctx)
	if err != nil || rests(before) {
		return before, err
	}
	if draining(before.Connector) {
		streams.DrainingBefore = before.Connector.RunID
	}
	if away == nil {
		away = deadline.Do(ctx, "evidence.streams", patience, func(ctx context.Context) error { return askStreams(ctx, asked, before.Connector, &streams) })
	}
	streams.Unknown = away
	after, err := read(ctx)
	after.Streams = streams
	return after, err
}

// read takes one snapshot of Postgres.
func read(ctx context.Context, pool *pgxpool.Pool, id int32, settings Settings) (Evidence, error) {
	e := Evidence{Settings: settings}
	err := deadline.Do(ctx, "evidence.read", queryTimeout, func(ctx context.Context) error {
		return postgres.Snapshot(ctx, pool, func(tx pgx.Tx) error { return e.fill(ctx, dbgen.New(tx), id) })
	})
	return e, err
}

func (e *Evidence) fill(ctx context.Context, q *dbgen.Queries, id int32) (err error) {
	if e.Connector, err = q.Evidence(ctx, id); errors.Is(err, pgx.ErrNoRows) {
		return ErrNoConnector
	} else if err != nil {
		return fmt.Errorf("read the connector: %w", err)
	}
	runs, err := q.Past(ctx, dbgen.PastParams{ConnectorID: id, Page: pastRuns + 1})
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	return e.rest(ctx, q, runs)
}

// fillSeen is fill by the views of schema api.
func (e *Evidence) fillSeen(ctx context.Context, q *dbgen.Queries, id int32) error {
	seen, err := q.SeenEvidence(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNoConnector
	}
	if err != nil {
		return fmt.Errorf("read the connector: %w", err)
	}
	e.Connector = Connector(seen)
	found, err := q.SeenPast(ctx, dbgen.SeenPastParams{ConnectorID: id, Page: pastRuns + 1})
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	runs := make([]dbgen.PastRow, len(found))
	for i, r := range found {
		runs[i] = dbgen.PastRow(r)
	}
	return e.rest(ctx, q, runs)
}

func (e *Evidence) rest(ctx context.Context, q *dbgen.Queries, runs []dbgen.PastRow) (err error) {
	e.Now, e.Past = e.Connector.SeenAt, nil
	for _, r := range runs {
		if r.Status != running && len(e.Past) < pastRuns {
			e.Past = append(e.Past, r)
		}
	}
	if name := e.Connector.Calendar; name != nil {
		k, err := q.Calendar(ctx, *name)
		if err != nil {
			return fmt.Errorf("read the calendar: %w", err)
		}
		times, err := calendars.Read(k.TimeZone, k.Entries)
		e.Calendar, e.CalendarUnknown = &slots.Calendar{Name: *name, Use: e.Connector.CalendarUse, Times: times}, err
	}
	windows, err := q.BlackoutWindows(ctx)
	if err != nil {
		return fmt.Errorf("read the blackout windows: %w", err)
	}
	who, all := blackouts.Who{ID: e.Connector.ID, Type: e.Connector.Type}, make([]blackouts.Row, len(windows))
	if e.Connector.UserID != nil {
		who.UserID = *e.Connector.UserID
	}
	for i, w := range windows {
		all[i] = blackouts.Row(w)
	}
	e.Blackouts, e.BlackoutProblems = blackouts.Of(all, who)
	if e.Services, err = q.Services(ctx); err != nil {
		return fmt.Errorf("ask who is connected: %w", err)
	}
	return nil
}

// rests says whether nothing of it can be in a stream, nor is to be published soon: then the broker is not asked.
func rests(e Evidence) bool {
	c := e.Connector
	isDue := func(at *time.Time) bool { return at != nil && !at.After(e.Now) }
	return c.Status != pending && c.Status != syncing && !isDue(c.NextSyncAt) && !isDue(c.ParametersDueAt)
}

// draining says whether the worker is done, and some of its documents are still to be stored.
func draining(c Connector) bool { return c.DrainSeq != nil && !isTrue(c.Whole) }

func isTrue(b *bool) bool { return b != nil && *b }

// askStreams asks what the connector's status makes worth asking.
func askStreams(ctx context.Context, b *broker.Broker, c Connector, s *Streams) error {
	subject, err := topology.SyncSubject(c.Type)
	if err != nil {
		return err
	}
	s.Triggers, err = b.Queue(ctx, topology.SyncStream, subject)
	if s.TriggersGone = errors.Is(err, broker.ErrNoStream); err != nil && !s.TriggersGone {
		return err
	}
	switch c.Status {
	case pending:
		s.Subscribers, err = subscribers(ctx, b, topology.SyncStream, subject)
		return err
	case syncing:
		return askDocuments(ctx, b, s)
	}
	return nil
}

func askDocuments(ctx context.Context, b *broker.Broker, s *Streams) (err error) {
	s.Documents, err = b.Depth(ctx, topology.DocumentStream)
	if s.DocumentsGone = errors.Is(err, broker.ErrNoStream); s.DocumentsGone {
		return nil
	}
	if err == nil {
		s.Storers, err = subscribers(ctx, b, topology.DocumentStream, topology.DocumentSubject)
	}
	return err
}

// subscribers asks again for a moment while nobody seems to pull.
func subscribers(ctx context.Context, b *broker.Broker, stream, subject string) ([]broker.Subscription, error) {
	for look := 1; ; look++ {
		found, err := b.Subscriptions(ctx, stream, subject)
		if errors.Is(err, broker.ErrNoStream) {
			return nil, nil
		}
		if err != nil || pulling(found) || look == subscriberLooks {
			return found, err
		}
		if repeat.Sleep(ctx, betweenLooks) != nil {
			return found, nil
		}
	}
}

// pulling says whether a message would be taken at once.
func pulling(subscriptions []broker.Subscription) bool {
	for _, s := range subscriptions {
		if s.Waiting > 0 {
			return true
		}
	}
	return false
}

func held(subscriptions []broker.Subscription) (n int) {
	for _, s := range subscriptions {
		n += s.Held
	}
	return n
}
