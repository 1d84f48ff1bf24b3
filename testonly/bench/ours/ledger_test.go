package ours

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

func TestTheLedgerIsFilledEvenlyWithTheWeeksThatAreKept(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), testkit.Database(t, db.Up))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	_, err = conn.Exec(t.Context(), `INSERT INTO connectors (name, type, user_id) SELECT 'c' || i, 'web', 1 FROM generate_series(1, 10) i`)
	require.NoError(t, err)
	require.NoError(t, fillLedger(t.Context(), conn, 1300))

	var runs, rest, weeks, fewest, most, connectors int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM runs_rest), count(*), min(n), max(n),
		(SELECT count(DISTINCT connector_id) FROM runs) FROM (SELECT count(*) AS n FROM runs GROUP BY tableoid) w`).
		Scan(&runs, &rest, &weeks, &fewest, &most, &connectors))
	require.Equal(t, []int{1300, 0, 13, 10}, []int{runs, rest, weeks, connectors})
	require.Equal(t, []int{100, 100}, []int{fewest, most})
	var dropped int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT dropped FROM moves.keep_ledger('98 days')`).Scan(&dropped))
	require.Zero(t, dropped, "a week that is kept was made")
}
