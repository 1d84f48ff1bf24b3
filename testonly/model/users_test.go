package model

import (
	"context"
	"errors"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/lifecycle"
)

// add creates a connector. refresh is nil for manual only, 0 for once, else minutes.
func (w *world) add(kind string, refresh *int, maxRetries int) *connector {
	w.tb.Helper()
	c := &connector{kind: kind, folder: "a", folders: map[string]*source{}}
	ctx, cancel := bounded()
	defer cancel()
	err := w.user.servers.Pool.QueryRow(ctx, `
		INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes, max_retries)
		VALUES ('model', $1, 1, '{"folder": "a"}', $2, $3) RETURNING id`, kind, refresh, maxRetries).Scan(&c.id)
	must(w.tb, "add a connector", err)
	w.connectors = append(w.connectors, c)
	c.source()
	return c
}

// setFolder changes the configuration: another folder of the source, with documents of its own.
func (w *world) setFolder(c *connector, folder string) {
	w.tb.Helper()
	w.exec(w.tb, `UPDATE connectors SET config = jsonb_build_object('folder', $2::text) WHERE id = $1`, c.id, folder)
	c.folder = folder
}

func (w *world) setOwner(c *connector, user int) {
	w.tb.Helper()
	w.exec(w.tb, `UPDATE connectors SET user_id = $2 WHERE id = $1`, c.id, user)
}

func (w *world) setScope(c *connector, scope string) {
	w.tb.Helper()
	w.exec(w.tb, `UPDATE connectors SET scope = $2, scope_id = 'g1' WHERE id = $1`, c.id, scope)
}

func (w *world) setRefresh(c *connector, refresh *int) {
	w.tb.Helper()
	w.exec(w.tb, `UPDATE connectors SET refresh_freq_minutes = $2 WHERE id = $1`, c.id, refresh)
}

// trigger asks for a sync now; a disabled connector refuses by name.
func (w *world) trigger(c *connector) {
	w.tb.Helper()
	ctx, cancel := bounded()
	defer cancel()
	_, err := w.user.servers.Pool.Exec(ctx,
		`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, c.id)
	if w.look().connector(c.id).Status == "DISABLED" {
		if postgres.Constraint(err) != "connectors_trigger_disabled" {
			w.fatalf("triggering a disabled connector: %v", err)
		}
		return
	}
	must(w.tb, "trigger", err)
	w.asked[c.id] = true
}

func (w *world) disable(c *connector) {
	w.tb.Helper()
	w.toggle("disable", c, w.moves.Disable)
}

// cancel ends the open run of a connector, and with it what has asked for it.
func (w *world) cancel(c *connector) {
	w.tb.Helper()
	row := w.look().connector(c.id)
	if row.Run == nil {
		return
	}
	w.toggle("cancel", c, func(ctx context.Context, _ int32) error { return w.moves.Cancel(ctx, *row.Run, "cancelled by a user") })
	if row.Status == "PENDING" {
		delete(w.asked, c.id)
	}
}

func (w *world) enable(c *connector) {
	w.tb.Helper()
	w.toggle("enable", c, w.moves.Enable)
}

func (w *world) toggle(what string, c *connector, move func(context.Context, int32) error) {
	w.tb.Helper()
	ctx, cancel := bounded()
	defer cancel()
	if err := move(ctx, c.id); err != nil && !errors.Is(err, lifecycle.ErrUnchanged) {
		w.fatalf("%s: %v", what, err)
	}
}

func (w *world) remove(c *connector) {
	w.tb.Helper()
	w.exec(w.tb, `DELETE FROM connectors WHERE id = $1`, c.id)
	c.deleted = true
}

// comeDue lets time pass until a connector at rest is due.
func (w *world) comeDue(c *connector) {
	w.tb.Helper()
	w.force(w.tb, `UPDATE connectors SET next_sync_at = clock_timestamp(),
			slot_at = CASE WHEN slot_at IS NOT NULL THEN clock_timestamp() END
		WHERE id = $1 AND next_sync_at > clock_timestamp()`, c.id)
}

// runOutLease lets the lease of a connector's worker pass without a heartbeat, and with it that of all its runs; or, where
// there is no lease, the time that a subscriber without one has.
func (w *world) runOutLease(c *connector) {
	w.tb.Helper()
	w.exec(w.tb, `UPDATE open_runs SET picked_up_at = picked_up_at - interval '7 hours'
		WHERE connector_id = $1 AND picked_up_at IS NOT NULL AND worker_id IS NULL AND drain_seq IS NULL`, c.id)
	w.exec(w.tb, `UPDATE workers SET expires_at = clock_timestamp() - interval '1 second'
		WHERE id = (SELECT worker_id FROM open_runs WHERE connector_id = $1)`, c.id)
}

// loseWorker lets the worker of a connector be one that is not there any more, whatever others of its process do.
func (w *world) loseWorker(c *connector) {
	w.tb.Helper()
	w.exec(w.tb, `WITH nobody AS (INSERT INTO workers (id, expires_at)
			VALUES (gen_random_uuid(), clock_timestamp() - interval '1 second') RETURNING id)
		UPDATE open_runs SET worker_id = nobody.id FROM nobody WHERE connector_id = $1 AND worker_id IS NOT NULL`, c.id)
}
