package db_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/sdk/lifecycle"
)

// arrive says what a mover writes, beside the status, to arrive there.
var arrive = map[lifecycle.Status]string{
	lifecycle.Pending: `, chunking_session = gen_random_uuid(), dispatched_at = now(), next_sync_at = NULL, due_reason = NULL`,
	lifecycle.Syncing: ``, lifecycle.Active: `, chunking_session = NULL, lease_owner = NULL, lease_expires_at = NULL`,
	lifecycle.Error: `, chunking_session = NULL, lease_owner = NULL, lease_expires_at = NULL`, lifecycle.Disabled: ``,
}

func TestOfAllPairsOnlyTheMovesPass(t *testing.T) {
	b := newBase(t)
	for _, from := range lifecycle.Statuses {
		for _, to := range lifecycle.Statuses {
			id := b.in(string(from))
			b.exec(`BEGIN`)
			_, err := b.conn.Exec(t.Context(), `UPDATE connectors SET status = $2`+arrive[to]+` WHERE id = $1`, id, to)
			b.exec(`ROLLBACK`)
			if from == to {
				continue
			}
			var pg *pgconn.PgError
			_, exists := lifecycle.Moves[lifecycle.Move{From: from, To: to}]
			switch {
			case exists && err != nil:
				t.Errorf("%s to %s: %v", from, to, err)
			case !exists && (!errors.As(err, &pg) || pg.ConstraintName != "connectors_status_move"):
				t.Errorf("%s to %s is no move: %v", from, to, err)
			}
		}
	}
}

func TestAForeignMoverKeepsLedgerAndPlan(t *testing.T) {
	b := newBase(t)
	move := `UPDATE connectors SET status = $2, status_message = $3 WHERE chunking_session = $1 AND status = $4`

	t.Run("to ACTIVE", func(t *testing.T) {
		id := b.connector()
		session := b.pending(id)
		b.exec(move, session, "SYNCING", nil, "PENDING")
		b.holds(id, `r.picked_up_at IS NOT NULL AND r.status = 'running' AND c.lease_owner IS NULL`)
		b.exec(move, session, "ACTIVE", nil, "SYNCING")
		b.holds(id, `r.status = 'completed' AND r.completed_at IS NOT NULL AND c.chunking_session IS NULL
			AND c.next_sync_at = c.last_sync_at + interval '1 hour' AND c.due_reason = 'schedule' AND c.failure_count = 0`)
	})
	t.Run("to ERROR", func(t *testing.T) {
		id := b.connector()
		session := b.pending(id)
		b.exec(move, session, "SYNCING", nil, "PENDING")
		b.exec(move, session, "ERROR", "the wiki is down", "SYNCING")
		b.holds(id, `r.status = 'failed' AND r.reason = 'transient failure' AND r.error_message = 'the wiki is down'
			AND c.status = 'ERROR' AND c.chunking_session IS NULL AND c.due_reason = 'retry' AND c.failure_count = 1
			AND c.last_sync_at IS NULL AND c.next_sync_at > now() + interval '1 minute'`)
	})
	t.Run("with an old session", func(t *testing.T) {
		id := b.connector()
		old := b.syncing(id)
		b.exec(`UPDATE connectors SET status = 'ACTIVE', chunking_session = NULL WHERE id = $1`, id)
		b.pending(id)
		b.exec(move, old, "SYNCING", nil, "PENDING")
		b.exec(move, old, "ACTIVE", nil, "SYNCING")
		b.holds(id, `c.status = 'PENDING' AND r.status = 'running' AND c.last_sync_at IS NULL`)
	})
}

func TestDisableAndDeleteCloseTheOpenRun(t *testing.T) {
	b := newBase(t)
	for _, from := range []string{"ACTIVE", "PENDING", "SYNCING", "ERROR"} {
		id := b.in(from)
		b.exec(`UPDATE connectors SET status = 'DISABLED' WHERE id = $1`, id)
		b.holds(id, `c.chunking_session IS NULL AND c.lease_owner IS NULL AND c.next_sync_at IS NULL
			AND c.status_message = 'disabled by the user' AND NOT c.needs_plan`)
		b.closed(id, from, "disabled")
	}
	for _, from := range []string{"ACTIVE", "PENDING", "SYNCING", "ERROR", "DISABLED"} {
		id := b.in(from)
		b.exec(`DELETE FROM connectors WHERE id = $1`, id)
		b.closed(id, from, "connector deleted")
		if n := one[int](b, `SELECT count(*) FROM deleted_connectors WHERE id = $1`, id); n != 1 {
			t.Errorf("%s: semantic is not told to sweep", from)
		}
	}
}

// closed fails the test unless no run is open, and what was in flight is superseded for this reason.
func (b *base) closed(id int32, from, reason string) {
	b.Helper()
	inFlight := 0
	if from == "PENDING" || from == "SYNCING" {
		inFlight = 1
	}
	if n := one[int](b, `SELECT count(*) FROM scheduler_runs WHERE connector_id = $1 AND status = 'running'`, id); n != 0 {
		b.Errorf("%s: %d open runs", from, n)
	}
	if n := one[int](b, `SELECT count(*) FROM scheduler_runs WHERE connector_id = $1 AND status = 'superseded'
		AND reason = $2`, id, reason); n != inFlight {
		b.Errorf("%s: %d runs are superseded, want %d", from, n, inFlight)
	}
}

func TestEnablePlansFromNowAndForgetsFailures(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	b.exec(`UPDATE connectors SET last_sync_at = now() - interval '10 hours' WHERE id = $1`, id)
	b.fail(id, "retry")
	b.exec(`UPDATE connectors SET status = 'DISABLED' WHERE id = $1`, id)
	b.exec(`UPDATE connectors SET status = 'ACTIVE' WHERE id = $1`, id)
	b.holds(id, `c.failure_count = 0 AND c.status_message IS NULL AND c.due_reason = 'schedule'
		AND c.next_sync_at BETWEEN clock_timestamp() + interval '59 minutes' AND clock_timestamp() + interval '1 hour'`)

	for _, never := range []struct{ columns, plan string }{
		{`refresh_freq_minutes = NULL`, `c.next_sync_at IS NULL`},
		{`refresh_freq_minutes = 0`, `c.due_reason = 'new' AND c.next_sync_at <= clock_timestamp()`},
		{`refresh_freq_minutes = NULL, schedule_cron = '0 3 * * *'`, `c.needs_plan AND c.planned_through IS NULL`},
	} {
		id := b.connector()
		b.exec(`UPDATE connectors SET status = 'DISABLED', ` + never.columns)
		b.exec(`UPDATE connectors SET status = 'ACTIVE' WHERE id = $1`, id)
		b.holds(id, never.plan)
	}
}

func TestAReleaseIsDueNowAndNoFailure(t *testing.T) {
	b := newBase(t)
	for _, from := range []string{"PENDING", "SYNCING"} {
		id := b.in(from)
		b.exec(`UPDATE connectors SET status = 'ACTIVE', chunking_session = NULL, lease_owner = NULL, lease_expires_at = NULL
			WHERE id = $1`, id)
		b.holds(id, `c.due_reason = 'release' AND c.next_sync_at <= clock_timestamp() AND c.failure_count = 0
			AND r.status = 'superseded' AND r.reason = 'released'`)
	}
}

func TestTheBackoffDoublesUpToAnHourWithJitter(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	b.exec(`UPDATE connectors SET max_retries = 1000 WHERE id = $1`, id)
	for n, minutes := range []float64{2, 4, 8, 16, 32, 60, 60, 60} {
		b.fail(id, "retry")
		wait := one[float64](b, `SELECT extract(epoch FROM next_sync_at - clock_timestamp())::float8 / 60 FROM connectors WHERE id = $1`, id)
		if wait < 0.79*minutes || wait > 1.2*minutes {
			t.Errorf("after %d failures the next try comes in %.1f minutes, want %.0f ± 20%%", n+1, wait, minutes)
		}
	}
	b.exec(`UPDATE connectors SET failure_count = 900 WHERE id = $1`, id)
	b.fail(id, "retry")
	b.holds(id, `c.next_sync_at < clock_timestamp() + interval '73 minutes' AND c.failure_count = 901`)
	if spread := one[int](b, `SELECT count(DISTINCT (connector_failed(c)).next_sync_at - clock_timestamp())
		FROM connectors c, generate_series(1, 20) WHERE id = $1`, id); spread < 15 {
		t.Errorf("20 tries have %d different waits", spread)
	}
}

func TestAPermanentFailureWaitsForTheUser(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	b.fail(id, "permanent")
	b.holds(id, `c.status = 'ERROR' AND c.next_sync_at IS NULL AND c.due_reason IS NULL AND c.failure_count = 1
		AND r.reason = 'permanent failure' AND r.error_message = 'it broke'`)
	b.exec(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, id)
	b.holds(id, `c.due_reason = 'manual' AND c.next_sync_at <= clock_timestamp()`)
	b.fail(id, "permanent")
	b.exec(`UPDATE connectors SET config = '{"token":"new"}' WHERE id = $1`, id)
	b.holds(id, `c.due_reason = 'changed' AND c.next_sync_at <= clock_timestamp() AND c.failure_count = 0`)
}

func TestTooManyFailuresInARowDisable(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	b.exec(`UPDATE connectors SET max_retries = 3 WHERE id = $1`, id)
	b.fail(id, "retry")
	b.fail(id, "retry")
	b.holds(id, `c.status = 'ERROR'`)
	b.fail(id, "retry")
	b.holds(id, `c.status = 'DISABLED' AND c.next_sync_at IS NULL AND c.failure_count = 3 AND c.chunking_session IS NULL
		AND c.status_message = 'disabled after 3 failures in a row: it broke' AND r.status = 'failed'`)
}
