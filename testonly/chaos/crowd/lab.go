package crowd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/campaign"
	"github.com/echomind/sync/testonly/chaos/world"
)

const (
	poll = 50 * time.Millisecond
	// waitTimeout ends a measurement that leads nowhere.
	waitTimeout = 10 * time.Minute
	// added is how many connectors one statement adds, and picked how many one picks up, which leaves dead rows until it commits.
	added  = 5000
	picked = 500
	// leastLooks is more than all schedulers and semantics make at once.
	leastLooks = 20
)

// lab is a world under measurement.
type lab struct {
	*world.World
	cfg      Config
	repeats  *campaign.Repeats
	figures  []figure
	baseline campaign.Looks
	notLong  []audit.Finding
}

func (l *lab) addTypes(ctx context.Context) error {
	_, err := l.Pool.Exec(ctx, `INSERT INTO connector_types (name, max_concurrent_syncs)
		SELECT unnest($1::text[]), 0 ON CONFLICT (name) DO UPDATE SET max_concurrent_syncs = 0`,
		[]string{typeLong, typeQuick, typeIdle, typeForeign})
	return wrap("add the types", err)
}

// add makes n connectors that sync once, at once.
func (l *lab) add(ctx context.Context, connectorType string, n, milliseconds int) error {
	for left := n; left > 0; left -= added {
		_, err := l.Pool.Exec(ctx, `
			INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes)
			SELECT $1 || ' ' || i, $1, 1 + i % 1000,
				jsonb_build_object('seed', i, 'documents', 5, 'changes', 1, 'milliseconds', $3::int, 'mode', 'delta'), 0
			FROM generate_series(1, $2) i`, connectorType, min(left, added), milliseconds)
		if err != nil {
			return wrap("add connectors", err)
		}
	}
	return nil
}

func (l *lab) measured(name string, took, target time.Duration) {
	l.Log.Info("measured", "what", name, "took", took.Round(10*time.Millisecond))
	l.figures = append(l.figures, figure{name: name, took: took, target: target})
}

// measureQuick lets many short syncs go through from due to completed.
func (l *lab) measureQuick(ctx context.Context, when string) error {
	if _, err := l.Pool.Exec(ctx, `DELETE FROM connectors WHERE type = $1`, typeQuick); err != nil {
		return wrap("delete connectors", err)
	}
	began := time.Now()
	if err := l.add(ctx, typeQuick, quicks, 0); err != nil {
		return err
	}
	err := l.until(ctx, "quick syncs", `SELECT NOT EXISTS (SELECT FROM connectors WHERE type = $1 AND last_sync_at IS NULL)`, typeQuick)
	l.measured(fmt.Sprintf("%d syncs of 5 documents, from due to completed, %s", quicks, when), time.Since(began), 0)
	return err
}

// fly brings connectors in flight that another team's subscriber has, which keeps no lease and never ends.
func (l *lab) fly(ctx context.Context) error {
	if err := l.add(ctx, typeForeign, l.cfg.InFlight, 0); err != nil {
		return err
	}
	if err := l.until(ctx, "dispatches", `SELECT count(*) = $2 FROM open_runs WHERE type = $1`, typeForeign, l.cfg.InFlight); err != nil {
		return err
	}
	for {
		tag, err := l.Pool.Exec(ctx, `SELECT moves.pick_up(connector_id, id, gen_random_uuid()) FROM (
			SELECT connector_id, id FROM open_runs WHERE type = $1 AND picked_up_at IS NULL LIMIT $2) r`, typeForeign, picked)
		if err != nil {
			return wrap("pick up", err)
		}
		if tag.RowsAffected() == 0 {
			break
		}
	}
	stream, err := l.Stream.Stream(ctx, topology.SyncStream)
	if err != nil {
		return wrap("find the stream", err)
	}
	return wrap("acknowledge what was picked up", stream.Purge(ctx, jetstream.WithPurgeSubject("connector.sync."+typeForeign)))
}

// measureRescue kills a worker in mid-fetch, and then does what else is to happen, if anything.
func (l *lab) measureRescue(ctx context.Context, when string, meanwhile func() error) error {
	if _, err := l.Pool.Exec(ctx, `DELETE FROM connectors WHERE type = $1`, typeLong); err != nil {
		return wrap("delete connectors", err)
	}
	if err := l.add(ctx, typeLong, longs, 120_000); err != nil {
		return err
	}
	if err := l.until(ctx, "documents of long syncs", `SELECT count(*) = $2 FROM open_runs WHERE type = $1 AND stored > 0`, typeLong, longs); err != nil {
		return err
	}
	// Nobody tells from outside which of them has what.
	for _, p := range l.Named("worker") {
		p.Kill()
	}
	killed := time.Now()
	if meanwhile != nil {
		if err := meanwhile(); err != nil {
			return err
		}
	}
	for _, m := range []struct{ what, query string }{
		{"first rescue", `SELECT EXISTS (SELECT FROM open_runs WHERE type = $1 AND trigger = 'rescue')`},
		{"first rescued sync runs again", `SELECT EXISTS (SELECT FROM open_runs WHERE type = $1 AND trigger = 'rescue' AND picked_up_at IS NOT NULL)`},
		{"all rescued syncs run again", `SELECT count(*) = $2 FROM open_runs WHERE type = $1 AND trigger = 'rescue' AND picked_up_at IS NOT NULL`},
	} {
		args := []any{typeLong, longs}[:strings.Count(m.query, "$")]
		if err := l.until(ctx, m.what, m.query, args...); err != nil {
			return err
		}
		l.measured(fmt.Sprintf("workers killed in mid-fetch -> %s, %s", m.what, when), time.Since(killed), rescueTarget)
	}
	return nil
}

// wiped takes away every message of very many connectors that wait to be picked up.
func (l *lab) wiped(ctx context.Context) error {
	began := time.Now()
	if err := l.add(ctx, typeIdle, l.cfg.Pending, 0); err != nil {
		return err
	}
	if err := l.queued(ctx, l.cfg.Pending); err != nil {
		return err
	}
	l.measured(fmt.Sprintf("%d connectors added -> all published", l.cfg.Pending), time.Since(began), 0)
	var back time.Time
	first := make(chan error, 1)
	when := fmt.Sprintf("%d pending messages wiped, %d in flight", l.cfg.Pending, l.cfg.InFlight)
	err := l.measureRescue(ctx, when, func() error {
		l.NATS.Kill()
		if err := errors.Join(l.NATS.Wipe(), l.NATS.Start(ctx)); err != nil {
			return err
		}
		back = time.Now()
		go func() {
			err := l.queued(ctx, 1)
			select {
			case <-ctx.Done():
			case <-time.After(time.Until(back.Add(campaign.LookPause))): // what was asked as NATS came back waits for its deadline
			}
			l.baseline = campaign.Looked(ctx, l.World)
			first <- err
		}()
		return nil
	})
	if back.IsZero() {
		return err
	}
	if err := errors.Join(err, <-first, l.queued(ctx, l.cfg.Pending)); err != nil {
		return err
	}
	l.measured("NATS is back -> all published again, "+when, time.Since(back), 0)
	return l.looks(ctx, when)
}

// looks holds the looks since the last baseline against their bound, once there were some.
func (l *lab) looks(ctx context.Context, when string) error {
	var f audit.Finding
	err := l.wait(ctx, "looks", func(ctx context.Context) (bool, error) {
		f = campaign.Looked(ctx, l.World).Since(l.baseline)
		return f.Checked >= leastLooks, nil
	})
	f.Name += ", " + when
	l.notLong = append(l.notLong, f)
	return err
}

// queued waits until so many of those that wait have a message.
func (l *lab) queued(ctx context.Context, n int) error {
	return l.wait(ctx, "all messages", func(ctx context.Context) (bool, error) {
		stream, err := l.Stream.Stream(ctx, topology.SyncStream)
		if err != nil {
			return false, err
		}
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter("connector.sync."+typeIdle))
		return err == nil && info.State.Subjects["connector.sync."+typeIdle] >= uint64(n), err
	})
}

// publishedOnce holds the runs that wait against what became of their messages: one before the wipe, and one after it.
func (l *lab) publishedOnce(ctx context.Context) (audit.Finding, error) {
	f := audit.Finding{Promise: 1, Name: "published again once", How: "each run whose message was wiped was dispatched twice, before the wipe and after it"}
	err := l.Pool.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE dispatches <> 2) FROM open_runs WHERE type = $1`, typeIdle).
		Scan(&f.Checked, &f.Violated)
	if f.Violated > 0 {
		f.Violations = append(f.Violations, fmt.Sprintf("%d runs were dispatched once, or more than twice", f.Violated))
	}
	return f, wrap("count the dispatches", err)
}

// onlyTheLost are the runs that failed.
func (l *lab) onlyTheLost(ctx context.Context) (audit.Finding, error) {
	f := audit.Finding{Promise: 3, Name: "failures are lost workers'", How: "no run has failed but those whose worker was killed"}
	err := l.Pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE status = 'failed'),
		count(*) FILTER (WHERE status = 'failed' AND (reason <> 'worker lost' OR type <> $1)) FROM runs`, typeLong).Scan(&f.Checked, &f.Violated)
	if f.Violated > 0 {
		f.Violations = append(f.Violations, fmt.Sprintf("%d runs of others have failed", f.Violated))
	}
	return f, wrap("count the failures", err)
}

// until polls a question until its answer is true.
func (l *lab) until(ctx context.Context, what, query string, args ...any) error {
	return l.wait(ctx, what, func(ctx context.Context) (bool, error) {
		var yes bool
		err := l.Pool.QueryRow(ctx, query, args...).Scan(&yes)
		return yes, err
	})
}

func (l *lab) wait(ctx context.Context, what string, ask func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitTimeout, fmt.Errorf("waited for %s in vain for %s", what, waitTimeout))
	defer cancel()
	for {
		yes, err := ask(ctx)
		if yes && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(poll):
		}
	}
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
