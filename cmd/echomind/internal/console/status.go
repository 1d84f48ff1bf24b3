package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/broker"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/masks"
)

const readyTimeout = 5 * time.Second

// standing is what `status` shows.
type standing struct {
	URLs        urls         `json:"urls"`
	Ready       *readiness   `json:"ready"`
	Services    []service    `json:"services"`
	Streams     []stream     `json:"streams"`
	Subscribers []subscriber `json:"subscribers"`
	Connectors  []tally      `json:"connectors"`
	SystemJobs  []systemJob  `json:"system_jobs"`
	// KeysWaited are the concurrency keys that are waited for longest, at most 20.
	KeysWaited []keyWaited `json:"keys_waited_for"`
	// Events are null where they could not be asked for.
	Events *eventQueue `json:"events"`
	// Problems are what could not be asked.
	Problems []string `json:"problems"`

	now time.Time
	// through says that a server was asked.
	through bool
}

type urls struct {
	Postgres string `json:"postgres"`
	NATS     string `json:"nats"`
	// HTTP is what the stack in the data folder, or the server that was asked, is reached at.
	HTTP string `json:"http"`
}

type readiness struct {
	Ready    bool              `json:"ready"`
	Problems map[string]string `json:"problems"`
}

type service struct {
	Name        string     `json:"name"`
	Connections int64      `json:"connections"`
	Since       *time.Time `json:"since"`
	LastActive  *time.Time `json:"last_active"`
}

type stream struct {
	Name     string     `json:"name"`
	Exists   bool       `json:"exists"`
	Messages uint64     `json:"messages"`
	Bytes    uint64     `json:"bytes"`
	OldestAt *time.Time `json:"oldest_at"`
}

type subscriber struct {
	Consumer    string `json:"consumer"`
	Stream      string `json:"stream"`
	FreeSlots   int    `json:"free_slots"`
	Undelivered uint64 `json:"undelivered"`
	Unacked     int    `json:"unacknowledged"`
}

type tally struct {
	Type       string `json:"type"`
	Status     string `json:"status"`
	Connectors int64  `json:"connectors"`
}

type keyWaited struct {
	Key string `json:"key"`
	// Limit is null where it is gone: those that wait are due at one of the next looks.
	Limit   *int32    `json:"limit"`
	Held    int64     `json:"held"`
	Waiting int64     `json:"waiting"`
	Oldest  time.Time `json:"oldest_due_at"`
}

type systemJob struct {
	ID     int32  `json:"id"`
	Type   string `json:"type"`
	Status string `json:"status"`
	// Verdict, EndedAt and Result are of its last run; null where it has not run.
	Verdict *string         `json:"verdict"`
	EndedAt *time.Time      `json:"ended_at"`
	Reason  *string         `json:"reason"`
	Result  json.RawMessage `json:"result"`
	NextAt  *time.Time      `json:"next_at"`
}

func status(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Show services, connection URLs, streams and connectors",
		Long: `Show what runs and how much waits: the services that are connected to Postgres, the URLs for psql and nats, the
streams with their depth and oldest message, who subscribes to them, the connectors by type and status, the system
jobs with their last verdict, and the events that wait to be published.

URLs of the stack in the data folder are whole, with their passwords, for copy and paste; those that were set by
DATABASE_URL and NATS_URL have theirs masked; through a server, which shows this to superadmins, there is its own alone.
The exit code is 1 if a server does not answer.`,
		Example: "  echomind status\n  echomind status -o json",
		Args:    cobra.NoArgs,
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := eitherOf(f, func() (standing, error) {
			where, notRunning, err := f.find()
			if err == nil && where.databaseURL == "" {
				err = notRunning
			}
			if err != nil {
				return standing{}, err
			}
			return look(c.Context(), where, notRunning), nil
		}, func(r *remote) (standing, error) { return r.standing(c.Context()) })
		if err != nil {
			return err
		}
		if err := out.show(c.OutOrStdout(), s, s.print); err != nil {
			return err
		}
		if len(s.Problems) > 0 {
			return errors.New("not everything answers: see the problems above")
		}
		return nil
	}
	return c
}

// look asks every part separately, so that a part that is away hides no other.
func look(ctx context.Context, where whereabouts, notRunning error) standing {
	s := standing{
		URLs: shown(where), Services: []service{}, Streams: []stream{}, Subscribers: []subscriber{},
		Connectors: []tally{}, SystemJobs: []systemJob{}, KeysWaited: []keyWaited{}, Problems: []string{}, now: time.Now(),
	}
	problem := func(part string, err error) {
		if err != nil {
			s.Problems = append(s.Problems, fmt.Sprintf("%s: %v", part, err))
		}
	}
	if s.URLs.HTTP != "" {
		ready, err := askReady(ctx, s.URLs.HTTP)
		s.Ready = ready
		problem("readiness", err)
	}
	problem("postgres", where.withPool(ctx, func(pool *pgxpool.Pool) error { return s.askPostgres(ctx, pool) }))
	asked, err := where.broker(notRunning)
	if err == nil {
		defer asked.Close()
		err = s.askStreams(ctx, asked)
	}
	problem("nats", err)
	return s
}

// shown are the URLs as they may be seen: an embedded stack's for copy and paste, a configured one's without secrets.
func shown(w whereabouts) urls {
	u := urls{Postgres: w.databaseURL, NATS: w.natsURL}
	if !w.databaseFound {
		u.Postgres = masks.Server(w.databaseURL)
	}
	if !w.natsFound && w.natsURL != "" {
		u.NATS = masks.Server(w.natsURL)
	}
	if w.httpAddr != "" {
		u.HTTP = "http://" + dialable(w.httpAddr)
	}
	return u
}

// textOr is a text, or null where it is empty.
func textOr(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// dialable is a listen address that can be connected to from here.
func dialable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

func askReady(ctx context.Context, base string) (*readiness, error) {
	return deadline.Get(ctx, "console.readyz", readyTimeout, func(ctx context.Context) (*readiness, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
		if err != nil {
			return nil, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil, err
		}
		defer func() { _ = response.Body.Close() }()
		r := readiness{Problems: map[string]string{}}
		if err := json.NewDecoder(response.Body).Decode(&r); err != nil {
			return nil, fmt.Errorf("read the answer of /readyz (%s): %w", response.Status, err)
		}
		return &r, nil
	})
}

func (s *standing) askPostgres(ctx context.Context, pool *pgxpool.Pool) error {
	connected, err := ask(ctx, pool, "services", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.ServicesRow, error) {
		moment, err := q.Now(ctx)
		if err != nil {
			return nil, err
		}
		s.now = moment
		return q.Services(ctx)
	})
	if err != nil {
		return fmt.Errorf("ask who is connected: %w", err)
	}
	for _, r := range connected {
		one := service{Name: *r.Name, Since: utc(r.Since), LastActive: utc(r.LastActive)}
		if r.Connections != nil {
			one.Connections = *r.Connections
		}
		s.Services = append(s.Services, one)
	}
	counted, err := ask(ctx, pool, "count", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.CountByStatusRow, error) {
		return q.CountByStatus(ctx)
	})
	if err != nil {
		return fmt.Errorf("count connectors: %w", err)
	}
	for _, r := range counted {
		s.Connectors = append(s.Connectors, tally(r))
	}
	jobs, err := ask(ctx, pool, "system_jobs", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.SystemJobsRow, error) {
		return q.SystemJobs(ctx)
	})
	if err != nil {
		return fmt.Errorf("ask for the system jobs: %w", err)
	}
	for _, r := range jobs {
		job := systemJob{ID: r.ID, Type: r.Type, Status: r.Status, Verdict: textOr(r.Verdict), Reason: textOr(r.Reason), Result: masks.WithoutSecrets(r.Result, false), NextAt: utc(r.NextSyncAt)}
		if r.Verdict != "" {
			job.EndedAt = utc(&r.CompletedAt)
		}
		s.SystemJobs = append(s.SystemJobs, job)
	}
	keys, err := ask(ctx, pool, "keys_waited", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.KeysWaitedRow, error) {
		return q.KeysWaited(ctx)
	})
	if err != nil {
		return fmt.Errorf("ask which concurrency keys are waited for: %w", err)
	}
	for _, k := range keys {
		s.KeysWaited = append(s.KeysWaited, keyWaited{Key: k.Key, Limit: k.Most, Held: k.Held, Waiting: k.Waiting, Oldest: k.Oldest.UTC()})
	}
	return s.askEvents(ctx, pool)
}

func (s *standing) askStreams(ctx context.Context, b *broker.Broker) error {
	for _, name := range []string{topology.SyncStream, topology.DocumentStream, topology.DeadLetterStream, topology.EventStream} {
		depth, err := b.Depth(ctx, name)
		if errors.Is(err, broker.ErrNoStream) {
			s.Streams = append(s.Streams, stream{Name: name})
			continue
		}
		if err != nil {
			return err
		}
		s.Streams = append(s.Streams, stream{
			Name: name, Exists: true, Messages: depth.Messages, Bytes: depth.Bytes, OldestAt: utc(depth.Oldest),
		})
		subscribed, err := b.Subscriptions(ctx, name, "")
		if err != nil {
			return err
		}
		for _, sub := range subscribed {
			s.Subscribers = append(s.Subscribers, subscriber{
				Consumer: sub.Consumer, Stream: name, FreeSlots: sub.Waiting, Undelivered: sub.Queued, Unacked: sub.Held,
			})
		}
	}
	return nil
}
