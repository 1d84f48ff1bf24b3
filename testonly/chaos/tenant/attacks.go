package tenant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/testonly/chaos/world"
)

// mallory is the hostile owner.
const mallory = 666

const (
	// flood is how many connectors come at once, and more of them at each turn, for which as many go.
	flood, more = 300, 10
	turn        = 500 * time.Millisecond
	// burst is the time between two triggers of everything that the flood of triggers has.
	burst = 50 * time.Millisecond
)

// attack is one thing that the hostile owner does.
type attack struct {
	name string
	// connectors are added when it begins.
	connectors func(*owner) []connector
	// work goes on until its context ends; nil = nothing but the connectors.
	work func(*owner, context.Context) error
	// what tells in words what is counted, so that it is seen that the attack came to something.
	what string
	// count asks for it: since when, and whose connectors by name.
	count func(ctx context.Context, l *lab, since time.Time, name string) (int, error)
}

// connector is one of the hostile owner's.
type connector struct {
	kind   string
	config map[string]any
}

// owner is who does it: by plain SQL on connectors, as a console would, and with a worker's rights in NATS.
type owner struct {
	*world.World
	sites  *sites
	conn   *nats.Conn
	stream jetstream.JetStream
	forged int
}

func newOwner(ctx context.Context, w *world.World) (*owner, error) {
	o := &owner{World: w}
	for folder, files := range map[string]map[string]string{
		"bombs": bombs(), "names": manyNames(), "small": {"a.md": "# a\n\nhostile words", "b.md": "# b\n\nmore hostile words"},
	} {
		if err := writeFolder(filepath.Join(w.Files, folder), files); err != nil {
			return o, err
		}
	}
	_, err := w.Pool.Exec(ctx, `INSERT INTO connector_types (name) VALUES ($1)`, forger)
	if err != nil {
		return o, wrap("add the forger's type", err)
	}
	if o.sites, err = openSites(); err != nil {
		return o, err
	}
	// The rights are those of who parses hostile content: a chunker.
	o.conn, err = nats.Connect(w.NATS.URLOf("chunker"), nats.CustomInboxPrefix("_INBOX_chunker"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return o, wrap("connect as a worker", err)
	}
	o.stream, err = jetstream.New(o.conn)
	return o, wrap("use JetStream as a worker", err)
}

func (o *owner) close() error {
	if o.conn != nil {
		o.conn.Close()
	}
	if o.sites == nil {
		return nil
	}
	var problems []error
	for _, s := range o.sites.all() {
		if s != nil {
			problems = append(problems, s.close())
		}
	}
	return errors.Join(problems...)
}

// files is the configuration of a connector for one of the hostile folders.
func (o *owner) files(folder string, besides map[string]any) map[string]any {
	address := url.URL{Scheme: "file", Path: filepath.Join(o.Files, folder)}
	config := map[string]any{"url": address.String(), "max_file_bytes": 32 << 20}
	for key, value := range besides {
		config[key] = value
	}
	return config
}

func many(n int, c connector) (all []connector) {
	for range n {
		all = append(all, c)
	}
	return all
}

// attacks are all of them, in the order in which their connectors come: who keeps a place longest comes last.
func attacks() []attack {
	return []attack{
		{name: "bombs in files", what: "files failed alone", count: failedDocuments, connectors: func(o *owner) []connector {
			return many(3, connector{"file", o.files("bombs", nil)})
		}},
		{name: "bombs in pages", what: "requests", count: asked(func(s *sites) *site { return s.explosive }), connectors: func(o *owner) []connector {
			return many(3, connector{"web", map[string]any{"url": o.sites.explosive.url}})
		}},
		{name: "globs", what: "runs ended", count: endedRuns, connectors: func(o *owner) []connector {
			return append(many(3, connector{"file", o.files("names", map[string]any{"include": patterns()})}),
				connector{"file", o.files("names", map[string]any{"include": []string{strings.Repeat("{,}", 60)}})})
		}},
		{name: "64 KiB configurations, nested to the limit", what: "runs ended", count: endedRuns, connectors: func(o *owner) (all []connector) {
			for _, kind := range []string{"file", "web", "google_drive", "onedrive", "teams"} {
				all = append(all, many(4, connector{kind, map[string]any{"x": nested()}})...)
			}
			return all
		}},
		{name: "a flood of triggers", what: "runs ended", count: endedRuns, work: (*owner).trigger, connectors: func(o *owner) []connector {
			return many(20, connector{"file", o.files("small", nil)})
		}},
		{name: "a flood of connectors", what: "connectors came", count: came, work: (*owner).floods, connectors: func(o *owner) []connector {
			return many(flood, connector{"file", o.files("small", nil)})
		}},
		{name: "forged envelopes", what: "messages were forged", count: forgeries, work: (*owner).forge, connectors: func(o *owner) []connector {
			return many(2, connector{forger, nil})
		}},
		{name: "sites that never answer", what: "requests", count: asked(func(s *sites) *site { return s.mute }), connectors: func(o *owner) []connector {
			return many(3, connector{"web", map[string]any{"url": o.sites.mute.url}})
		}},
		{name: "sites that drip bytes", what: "requests", count: asked(func(s *sites) *site { return s.drip }), connectors: func(o *owner) []connector {
			return many(3, connector{"web", map[string]any{"url": o.sites.drip.url}})
		}},
		{name: "five crawls with Crawl-delay: 10", what: "requests", count: asked(func(s *sites) *site { return s.slow }), connectors: func(o *owner) []connector {
			return many(places, connector{"web", map[string]any{"url": o.sites.slow.url, "max_pages": 50_000, "max_depth": 20}})
		}},
	}
}

// begin adds an attack's connectors.
func (o *owner) begin(ctx context.Context, a attack) error {
	return o.add(ctx, a.name, a.connectors(o))
}

func (o *owner) add(ctx context.Context, name string, all []connector) error {
	var kinds, configs []string
	for _, c := range all {
		if c.config == nil {
			c.config = map[string]any{}
		}
		config, err := json.Marshal(c.config)
		if err != nil {
			return wrap("write a configuration", err)
		}
		kinds, configs = append(kinds, c.kind), append(configs, string(config))
	}
	_, err := o.Pool.Exec(ctx, `INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes, max_retries)
		SELECT $1, k, $2, c::jsonb, 1, 1000 FROM unnest($3::text[], $4::text[]) AS u (k, c)`, name, mallory, kinds, configs)
	return wrap("add the connectors of "+name, err)
}

// again asks for everything once more as soon as it is over, until ctx ends.
func (o *owner) again(ctx context.Context) error {
	return o.repeat(ctx, turn, `UPDATE connectors SET trigger_requested_at = clock_timestamp()
		WHERE user_id = $1 AND status IN ('ACTIVE', 'ERROR') AND trigger_requested_at IS NULL`, mallory)
}

// trigger asks for the same all the time, whatever becomes of it.
func (o *owner) trigger(ctx context.Context) error {
	return o.repeat(ctx, burst, `UPDATE connectors SET trigger_requested_at = clock_timestamp()
		WHERE user_id = $1 AND name = 'a flood of triggers' AND status <> 'DISABLED'`, mallory)
}

func (o *owner) repeat(ctx context.Context, pause time.Duration, query string, args ...any) error {
	for ctx.Err() == nil {
		if _, err := o.Pool.Exec(ctx, query, args...); err != nil && ctx.Err() == nil && !mayHappen(err) {
			return wrap("trigger as the hostile owner", err)
		}
		rest(ctx, pause)
	}
	return nil
}

// floods adds connectors and deletes the oldest.
func (o *owner) floods(ctx context.Context) error {
	const name = "a flood of connectors"
	for ctx.Err() == nil {
		err := o.add(ctx, name, many(more, connector{"file", o.files("small", nil)}))
		if err == nil {
			_, err = o.Pool.Exec(ctx, `DELETE FROM connectors WHERE id IN (
				SELECT id FROM connectors WHERE user_id = $1 AND name = $2 ORDER BY id LIMIT $3)`, mallory, name, more)
		}
		if err != nil && ctx.Err() == nil && !mayHappen(err) {
			return err
		}
		rest(ctx, turn)
	}
	return nil
}

// mayHappen says whether two statements of users have met, so that one has to be said again.
func mayHappen(err error) bool {
	const deadlock = "40P01"
	var pg interface{ SQLState() string }
	return errors.As(err, &pg) && pg.SQLState() == deadlock
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// takeAway deletes all connectors of the hostile owner, as an operator would.
func (l *lab) takeAway(ctx context.Context) error {
	for {
		_, err := l.Pool.Exec(ctx, `DELETE FROM connectors WHERE user_id = $1`, mallory)
		if err == nil || !mayHappen(err) {
			return wrap("take away what is the hostile owner's", err)
		}
	}
}

// felt asks what came of an attack in the stretch that is ending.
func (l *lab) felt(ctx context.Context, a attack) (felt, error) {
	f := felt{attack: a.name, what: a.what}
	var since time.Time
	err := l.Pool.QueryRow(ctx, `SELECT coalesce(min(created_at), clock_timestamp()), count(*) FILTER (WHERE
			next_sync_at <= clock_timestamp() OR status = 'PENDING') FROM connectors WHERE user_id = $1 AND name = $2`, mallory, a.name).
		Scan(&since, &f.waits)
	if err == nil {
		f.n, err = a.count(ctx, l, since, a.name)
	}
	if err == nil {
		f.runs, err = l.verdicts(ctx, a.name)
	}
	return f, wrap("count what came of "+a.name, err)
}

// verdicts are how many runs of an attack's connectors ended how.
func (l *lab) verdicts(ctx context.Context, name string) (string, error) {
	var said *string
	err := l.Pool.QueryRow(ctx, `SELECT string_agg(n || ' ' || verdict, ', ' ORDER BY n DESC) FROM (
		SELECT count(*) AS n, CASE r.status WHEN 'failed' THEN r.reason || ': ' || left(r.error_message, 60) ELSE r.status END AS verdict
		FROM runs r JOIN connectors c ON c.id = r.connector_id WHERE c.user_id = $1 AND c.name = $2 GROUP BY 2) v`, mallory, name).Scan(&said)
	if said == nil {
		return "no run has ended", err
	}
	return *said, err
}

func (l *lab) count(ctx context.Context, query string, args ...any) (n int, err error) {
	err = l.Pool.QueryRow(ctx, query, args...).Scan(&n)
	return n, err
}

func failedDocuments(ctx context.Context, l *lab, _ time.Time, name string) (int, error) {
	return l.count(ctx, `SELECT count(*) FROM documents d JOIN connectors c ON c.id = d.connector_id
		WHERE c.user_id = $1 AND c.name = $2 AND d.status = 'failed'`, mallory, name)
}

func endedRuns(ctx context.Context, l *lab, since time.Time, name string) (int, error) {
	return l.count(ctx, `SELECT count(*) FROM runs r JOIN connectors c ON c.id = r.connector_id
		WHERE c.user_id = $1 AND c.name = $2 AND r.completed_at >= $3`, mallory, name, since)
}

func came(ctx context.Context, l *lab, since time.Time, name string) (int, error) {
	return l.count(ctx, `SELECT count(*) FROM chaos.connector_events e WHERE op = 'INSERT' AND at >= $1
		AND NOT EXISTS (SELECT FROM connectors c WHERE c.id = e.connector_id AND c.name <> $2)`, since, name)
}

func forgeries(_ context.Context, l *lab, _ time.Time, _ string) (int, error) {
	return l.owner.forged, nil
}

func asked(which func(*sites) *site) func(context.Context, *lab, time.Time, string) (int, error) {
	return func(_ context.Context, l *lab, _ time.Time, _ string) (int, error) {
		return int(which(l.owner.sites).asked.Swap(0)), nil
	}
}

func (f felt) String() string {
	return fmt.Sprintf("%d %s; %s; %d connectors wait for a place", f.n, f.what, f.runs, f.waits)
}
