package campaign

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/testonly/chaos/world"
)

const (
	settlePoll = 200 * time.Millisecond
	settleSay  = 5 * time.Second // how often it says what it waits for
	warmStill  = time.Minute     // how long no connector more need have been synced before it is called stuck
)

// unrest are the questions whose answer must be 0 before the audit: what is in flight, due, open, or not swept.
var unrest = []struct{ what, query string }{
	{"in flight", `SELECT count(*) FROM connectors WHERE run_id IS NOT NULL`},
	{"due", `SELECT count(*) FROM connectors WHERE (next_sync_at <= clock_timestamp() AND NOT asks_upstreams) OR needs_plan`},
	// A window that is gone lets those whom it has held go within a minute.
	{"asked for", `SELECT count(*) FROM connectors WHERE trigger_requested_at IS NOT NULL OR parameters_due_at IS NOT NULL`},
	{"ends to be told of", `SELECT count(*) FROM upstream_ends WHERE tell_at IS NOT NULL`},
	{"followers to look at", `SELECT count(*) FROM followers WHERE look_at <= clock_timestamp()`},
	{"changed chains to look at", `SELECT count(*) FROM changed_followers`},
	{"open runs", `SELECT count(*) FROM open_runs`},
	{"runs to sweep", `SELECT count(*) FROM unswept_runs`},
	{"deleted connectors to sweep", `SELECT count(*) FROM deleted_connectors`},
	{"chunks to sweep", `SELECT count(*) FROM unnamed_chunks`},
	{"events to publish", `SELECT (SELECT count(*) FROM status_events) + (SELECT count(*) FROM verdict_events)`},
	{"operations on many", `SELECT count(*) FROM operations WHERE ended_at IS NULL`},
	{"changes to index", `SELECT count(*) FROM search_index_changes`},
}

// StopSchedules lets nothing become due by itself any more, but for the sweep of what is deleted: without an interval no deletion brings it
// forward, as administrators may want it. It locks connectors in another order than the services do, and begins again where it and one of them wait for each other,
// or where a client that a fault has cut off holds a row: Postgres ends its transaction after 8 s, and one attempt waits for 3 s.
func StopSchedules(ctx context.Context, w *world.World) (err error) {
	for attempt := range (repeat.Pauses{First: 100 * time.Millisecond, Last: time.Second}).Tries(ctx) {
		err = postgres.Tx(ctx, w.Pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE connectors SET refresh_freq_minutes = NULL, schedule_cron = NULL WHERE type <> 'orphan_sweep'`)
			return err
		})
		if !postgres.Locked(err) || attempt == 6 {
			break
		}
	}
	return wrap("stop the schedules", err)
}

// passBackoffs lets the time pass that failed connectors wait before their next try.
func passBackoffs(ctx context.Context, w *world.World) error {
	return wrap("let the backoffs pass", w.Force(ctx, `UPDATE connectors SET next_sync_at = clock_timestamp()
		WHERE status = 'ERROR' AND due_reason = 'retry' AND next_sync_at > clock_timestamp()`))
}

// passHolds lets the time pass for which a semantic that was killed had taken runs to sweep.
func passHolds(ctx context.Context, w *world.World) error {
	for _, table := range []string{"unswept_runs", "deleted_connectors"} {
		if _, err := w.Pool.Exec(ctx, `UPDATE `+table+` SET next_at = clock_timestamp() WHERE next_at > clock_timestamp()`); err != nil {
			return wrap("let the holds of sweeps pass", err)
		}
	}
	return nil
}

// warmUp waits until some connectors have been synced once, as long as more of them are: faults meet a system at work and not one at its
// start.
func warmUp(ctx context.Context, w *world.World, cfg Config) error {
	most := 0
	for grew := time.Now(); ; {
		synced, err := deadline.Get(ctx, "campaign.warm_up", askTimeout, func(ctx context.Context) (n int, err error) {
			err = w.Pool.QueryRow(ctx, `SELECT count(DISTINCT connector_id) FROM runs WHERE status IN ('completed', 'skipped')`).Scan(&n)
			return n, err
		})
		switch {
		case synced >= cfg.Connectors*cfg.Warm/100 && err == nil:
			return nil
		case synced > most:
			most, grew = synced, time.Now()
		case time.Since(grew) > warmStill:
			return errors.Join(fmt.Errorf("only %d of %d connectors have synced before the first fault, and no more for %s", most, cfg.Connectors, warmStill), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settlePoll):
		}
	}
}

// Settle waits until everything is at rest. What is not by then is an error that says what.
func Settle(ctx context.Context, w *world.World, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for said := time.Now(); ; {
		if err := passBackoffs(ctx, w); err != nil {
			return unsettled(within, err, nil)
		}
		left, err := restless(ctx, w)
		if err == nil && len(left) == 0 {
			return nil
		}
		if time.Since(said) > settleSay {
			said = time.Now()
			if err := passHolds(ctx, w); err != nil {
				return unsettled(within, err, nil)
			}
			w.Log.Info("not at rest yet", "left", append(left, examples(ctx, w)...))
		}
		select {
		case <-ctx.Done():
			asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
			defer cancel()
			return unsettled(within, err, append(left, examples(asking, w)...))
		case <-time.After(settlePoll):
		}
	}
}

func unsettled(within time.Duration, err error, left []string) error {
	return errors.Join(fmt.Errorf("not at rest after %s: %s", within, strings.Join(left, "; ")), err)
}

func restless(ctx context.Context, w *world.World) ([]string, error) {
	var left []string
	for _, u := range unrest {
		var n int
		if err := w.Pool.QueryRow(ctx, u.query).Scan(&n); err != nil {
			return nil, wrap("ask what is "+u.what, err)
		}
		if n > 0 {
			left = append(left, fmt.Sprintf("%d %s", n, u.what))
		}
	}
	lost, err := indexLost(ctx, w)
	if lost {
		left = append(left, "no index")
	}
	return left, err
}

// examples are a few connectors that are not at rest.
func examples(ctx context.Context, w *world.World) []string {
	rows, err := w.Pool.Query(ctx, `
		SELECT format('%s %s %s dispatches=%s due=%s/%s lease=%s run: picked up %s, %s of %s, drain %s, trouble %s',
			c.type, c.id, c.status, r.dispatches, c.next_sync_at - clock_timestamp(), c.due_reason, w.expires_at - clock_timestamp(),
			r.picked_up_at - clock_timestamp(), r.stored, r.total, r.drain_seq, c.config->>'trouble')
		FROM connectors c LEFT JOIN open_runs r ON r.connector_id = c.id LEFT JOIN workers w ON w.id = r.worker_id
		WHERE c.run_id IS NOT NULL OR c.next_sync_at <= clock_timestamp() OR c.needs_plan 
		UNION ALL
		SELECT format('run %s of connector %s is to be swept, attempt %s, next in %s', u.run_id, u.connector_id, u.attempts,
			u.next_at - clock_timestamp()) FROM unswept_runs u
		LIMIT 8`)
	if err != nil {
		return []string{err.Error()}
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err == nil {
			out = append(out, line)
		}
	}
	return out
}
