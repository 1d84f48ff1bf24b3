package console

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/testonly/testkit"
)

func TestARareVerdictIsLookedForSoFarAndThenFromThere(t *testing.T) {
	t.Parallel()
	url := testkit.Database(t, db.Up)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	// Three end at one time; the 20th, the 21st and the last are failed.
	_, err = conn.Exec(t.Context(), `INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), i, 'web', 'new', at, at, at, CASE WHEN i IN (20, 21, 60) THEN 'failed' ELSE 'completed' END, 1
		FROM generate_series(1, 60) i, LATERAL (SELECT now() - make_interval(mins => i / 3)) t(at)`)
	require.NoError(t, err)
	pool, err := postgres.Open(t.Context(), url, "echomind-test", 2)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	chosen := &runFilter{verdicts: []string{"failed"}, types: []string{}}
	_, err = chosen.fix(t.Context(), pool)
	require.NoError(t, err)

	for _, far := range []lookback{{4, 8}, {1, 1}, {7, 1000}, {1000, 1000}} {
		var found []dbgen.SchedulerRun
		pages, gaveUp := 0, 0
		for next := new(place{at: endOfTime}); next != nil; pages++ {
			require.Less(t, pages, 60)
			page, further, lookedBackTo, err := pageOfRuns(t.Context(), pool, chosen, *next, 1, far)
			require.NoError(t, err)
			if lookedBackTo != nil {
				gaveUp++
				require.Equal(t, further.at, *lookedBackTo)
			}
			found, next = append(found, page...), further
		}
		of := make([]int32, len(found))
		for i, r := range found {
			of[i] = r.ConnectorID
		}
		require.Equal(t, []int32{20, 21, 60}, of, far)
		require.Equal(t, far.most < 60, gaveUp > 0, far)
	}
}
