package examples

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/services/scheduler"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

// simulated is a database whose clock the test moves, with a scheduler and an example at work.
type simulated struct {
	*testing.T
	pool *pgxpool.Pool
	stop func()
}

// simulate starts an example whose setup makes so many connectors.
func simulate(t *testing.T, name string, now time.Time, connectors int) simulated {
	t.Helper()
	url, broker := testkit.Database(t, db.Up), testkit.NATS(t)
	movestest.SetClock(t, url, now)
	t.Setenv("DATABASE_URL", url)
	t.Setenv("NATS_URL", broker.URL())
	t.Setenv("HTTP_ADDR", "127.0.0.1:0")
	pool, err := pgxpool.New(context.Background(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	var cfg scheduler.Config
	require.NoError(t, config.Load(&cfg))
	process := connect.NewProcess(testkit.Logger(t))
	background(t, func(ctx context.Context) error { return scheduler.Run(ctx, cfg, process) })
	s := simulated{T: t, pool: pool, stop: example(t, name)}
	testkit.Eventually(t, soon, func() error {
		if n := s.text(`SELECT count(*) FROM connectors`); n != fmt.Sprint(connectors) {
			return fmt.Errorf("%s connectors, want %d", n, connectors)
		}
		return nil
	})
	s.rests()
	return s
}

// at moves the clock; what is due then is asked and claimed.
func (s simulated) at(now time.Time) {
	s.Helper()
	s.exec(`UPDATE fake.clock SET at = $1`, now)
	s.exec(`NOTIFY connectors_due`)
}

// rests waits until nothing is due or under way.
func (s simulated) rests() {
	s.Helper()
	testkit.Eventually(s, soon, func() error {
		if left := s.text(`SELECT string_agg(concat_ws(' ', name, status, status_message, next_sync_at), '; ') FROM connectors
			WHERE run_id IS NOT NULL OR needs_plan OR next_sync_at <= clock_timestamp()`); left != "" {
			return fmt.Errorf("at work: %s", left)
		}
		return nil
	})
}

func (s simulated) exec(sql string, args ...any) {
	s.Helper()
	_, err := s.pool.Exec(context.Background(), sql, args...)
	require.NoError(s, err)
}

// text is what a query returns, one line a row.
func (s simulated) text(sql string, args ...any) string {
	s.Helper()
	rows, err := s.pool.Query(context.Background(), `SELECT coalesce(q::text, '') FROM (`+sql+`) AS t (q)`, args...)
	require.NoError(s, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s, err)
	return strings.Join(lines, "\n")
}

// completed are the runs of a job that have done something, by day and hour of the slot, with their results.
func (s simulated) completed(name string) string {
	s.Helper()
	return s.text(`SELECT to_char(r.slot AT TIME ZONE 'UTC', 'Dy HH24:MI ') || r.result FROM scheduler_runs r JOIN connectors c ON c.id = r.connector_id
		WHERE c.name = $1 AND r.status = 'completed' AND r.slot IS NOT NULL ORDER BY r.slot`, name)
}

// slots are how many slots of a job have a verdict, and how many lines of the ledger they are.
func (s simulated) slots(name string) string {
	s.Helper()
	return s.text(`SELECT sum(n) || ' slots, ' || count(*) || ' lines' FROM connectors c, LATERAL (
			SELECT coalesce(r.missed_count, 1) AS n FROM runs r WHERE r.connector_id = c.id AND r.slot IS NOT NULL
			UNION ALL SELECT u.count FROM unmet_slots u WHERE u.connector_id = c.id) v WHERE c.name = $1`, name)
}
