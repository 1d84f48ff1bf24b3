package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/broker"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
)

func (a *API) statusRoutes() {
	register(a, identity.ShowStatus, http.MethodGet, "/status", "Show what runs, and how much waits", http.StatusOK, a.status)
}

// Standing is what runs, and how much waits.
type Standing struct {
	SeenAt      time.Time        `json:"seen_at"`
	Services    []ServiceSeen    `json:"services" nullable:"false" doc:"Who is connected to Postgres."`
	Streams     []StreamDepth    `json:"streams" nullable:"false"`
	Subscribers []Subscriber     `json:"subscribers" nullable:"false"`
	Connectors  []ConnectorCount `json:"connectors" nullable:"false"`
	SystemJobs  []SystemJob      `json:"system_jobs" nullable:"false"`
	KeysWaited  []KeyWaited      `json:"keys_waited_for" nullable:"false" doc:"The concurrency keys that are waited for longest, at most 20."`
	Events      EventQueue       `json:"events"`
	NotAsked    []string         `json:"not_asked" nullable:"false" doc:"The fields of what could not be asked: that they are empty says nothing. The rest is answered all the same."`
	Problems    []string         `json:"problems" nullable:"false" doc:"Why what stands in not_asked could not be asked."`
}

// ServiceSeen is a service by its connections to Postgres.
type ServiceSeen struct {
	Name        string     `json:"name"`
	Connections int64      `json:"connections"`
	Since       *time.Time `json:"since" doc:"Null, as last_active, where the owner of the schema may not see it."`
	LastActive  *time.Time `json:"last_active"`
}

// StreamDepth is how much a stream has.
type StreamDepth struct {
	Name     string     `json:"name"`
	Exists   bool       `json:"exists"`
	Messages uint64     `json:"messages"`
	Bytes    uint64     `json:"bytes"`
	OldestAt *time.Time `json:"oldest_at"`
}

// Subscriber is who takes from a stream.
type Subscriber struct {
	Consumer    string `json:"consumer"`
	Stream      string `json:"stream"`
	FreeSlots   int    `json:"free_slots"`
	Undelivered uint64 `json:"undelivered"`
	Unacked     int    `json:"unacknowledged"`
}

// ConnectorCount is how many connectors of a type have a status.
type ConnectorCount struct {
	Type       string `json:"type"`
	Status     string `json:"status"`
	Connectors int64  `json:"connectors"`
	IsEstimate bool   `json:"is_estimate" doc:"Whether it is about so many: in a large table those that are active are not counted one by one, nor are others of which there are very many. Each type has a count of those that are active then; it may be 0 where there are a few that are not due. A few thousand connectors are counted exactly. Where one of these counts is an estimate, all may be of 2 seconds ago."`
}

// SystemJob is a job of the system; verdict, ended_at, reason and result are of its last run, null where it has not run.
type SystemJob struct {
	ID      int32      `json:"id"`
	Type    string     `json:"type"`
	Status  string     `json:"status"`
	Verdict *string    `json:"verdict"`
	EndedAt *time.Time `json:"ended_at"`
	Reason  *string    `json:"reason"`
	Result  Object     `json:"result" nullable:"true"`
	NextAt  *time.Time `json:"next_at"`
}

// KeyWaited is a concurrency key that is waited for.
type KeyWaited struct {
	Key     string    `json:"key"`
	Limit   *int32    `json:"limit" doc:"Null where it is gone: those that wait are due at one of the next looks."`
	Held    int64     `json:"held" doc:"Up to 10,000."`
	Waiting int64     `json:"waiting"`
	Oldest  time.Time `json:"oldest_due_at"`
}

// EventQueue are the events in Postgres that are not published yet.
type EventQueue struct {
	Waiting         int64      `json:"waiting" doc:"At most."`
	OldestAt        *time.Time `json:"oldest_at"`
	DroppedStatus   int64      `json:"dropped_status" doc:"How many were ever dropped because too many waited."`
	DroppedVerdicts int64      `json:"dropped_verdicts"`
}

// OneStanding is where the system stands.
type OneStanding struct{ Body Standing }

func (a *API) status(ctx context.Context, _ *Nothing) (*OneStanding, error) {
	out := &OneStanding{Standing{Services: []ServiceSeen{}, Streams: []StreamDepth{}, Subscribers: []Subscriber{}, Connectors: []ConnectorCount{},
		SystemJobs: []SystemJob{}, KeysWaited: []KeyWaited{}, NotAsked: []string{}, Problems: []string{}}}
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
		out.Body.SeenAt, err = q.Now(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, part := range []struct {
		name string
		ask  func(context.Context, *dbgen.Queries) error
	}{
		{"services", out.Body.askServices}, {"connectors", func(ctx context.Context, q *dbgen.Queries) error { return a.counts.ask(ctx, q, &out.Body) }}, {"system_jobs", out.Body.askSystemJobs}, {"keys_waited_for", out.Body.askKeys},
		{"events", out.Body.askEvents},
	} {
		if err := a.in(ctx, part.ask); err != nil {
			a.log.Warn("Postgres did not answer for a part of a status, which is shown without it", "part", part.name, "request", requestOf(ctx).RequestID, "err", err)
			out.Body.NotAsked = append(out.Body.NotAsked, part.name)
			out.Body.Problems = append(out.Body.Problems, "postgres: no answer for "+part.name+"; the log of the API has more under request "+requestOf(ctx).RequestID)
		}
	}
	if err := a.askStreams(ctx, &out.Body); err != nil {
		a.log.Warn("NATS was not asked for its streams: a status is shown without them", "request", requestOf(ctx).RequestID, "err", err)
		out.Body.NotAsked = append(out.Body.NotAsked, "streams", "subscribers")
		out.Body.Problems = append(out.Body.Problems, "nats: it does not answer; the log of the API has more under request "+requestOf(ctx).RequestID)
	}
	return out, nil
}

func (s *Standing) askServices(ctx context.Context, q *dbgen.Queries) error {
	connected, err := q.Services(ctx)
	for _, c := range connected {
		s.Services = append(s.Services, ServiceSeen{c.Name, c.Connections, unlessEpoch(c.Since), unlessEpoch(c.LastActive)})
	}
	return err
}

// keptCounts is for how long estimated counts are those of everybody who asks: they read thousands of pages.
const keptCounts = 2 * time.Second

// counts keeps the counts of connectors where some are estimates. They are a superadmin's, as is the operation that shows them.
type counts struct {
	mu    sync.Mutex
	all   []ConnectorCount
	until time.Time
}

func (k *counts) ask(ctx context.Context, q *dbgen.Queries, s *Standing) error {
	k.mu.Lock()
	all, isKept := k.all, time.Now().Before(k.until)
	k.mu.Unlock()
	if isKept {
		s.Connectors = all
		return nil
	}
	counted, err := q.ConnectorCounts(ctx)
	for _, c := range counted {
		s.Connectors = append(s.Connectors, ConnectorCount(c))
	}
	if err == nil && slices.ContainsFunc(s.Connectors, func(c ConnectorCount) bool { return c.IsEstimate }) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.all, k.until = slices.Clip(s.Connectors), time.Now().Add(keptCounts)
	}
	return err
}

// unlessEpoch is a moment; nil where the owner of the schema may not see it.
func unlessEpoch(at time.Time) *time.Time {
	if at.Equal(time.Unix(0, 0)) {
		return nil
	}
	return utc(&at)
}

func (s *Standing) askSystemJobs(ctx context.Context, q *dbgen.Queries) error {
	jobs, err := q.SystemJobs(ctx)
	for _, j := range jobs {
		s.SystemJobs = append(s.SystemJobs, SystemJob{j.ID, j.Type, j.Status, j.Verdict, utc(j.CompletedAt), shownText(j.Reason), shownParameters(j.Result), utc(j.NextSyncAt)})
	}
	return err
}

func (s *Standing) askKeys(ctx context.Context, q *dbgen.Queries) error {
	keys, err := q.KeysWaited(ctx)
	for _, k := range keys {
		s.KeysWaited = append(s.KeysWaited, KeyWaited{k.Key, k.Most, k.Held, k.Waiting, k.Oldest.UTC()})
	}
	return err
}

func (s *Standing) askEvents(ctx context.Context, q *dbgen.Queries) error {
	waiting, err := q.EventsWaiting(ctx)
	if err != nil {
		return err
	}
	dropped, err := q.DroppedEvents(ctx)
	if err == nil {
		s.Events = EventQueue{waiting.Events, utc(waiting.Since), dropped.Status, dropped.Verdicts}
	}
	return err
}

// askStreams asks NATS for the streams, and who takes from them.
func (a *API) askStreams(ctx context.Context, s *Standing) error {
	b, err := a.streams.get(time.Now())
	if err != nil {
		return err
	}
	for _, name := range []string{topology.SyncStream, topology.DocumentStream, topology.DeadLetterStream, topology.EventStream} {
		depth, err := b.Depth(ctx, name)
		if errors.Is(err, broker.ErrNoStream) {
			s.Streams = append(s.Streams, StreamDepth{Name: name})
			continue
		}
		if err != nil {
			return err
		}
		s.Streams = append(s.Streams, StreamDepth{name, true, depth.Messages, depth.Bytes, utc(depth.Oldest)})
		subscribed, err := b.Subscriptions(ctx, name, "")
		if err != nil {
			return err
		}
		for _, sub := range subscribed {
			s.Subscribers = append(s.Subscribers, Subscriber{sub.Consumer, name, sub.Waiting, sub.Queued, sub.Held})
		}
	}
	return nil
}
