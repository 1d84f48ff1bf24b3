package api

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/testonly/testkit"
)

// Each row has a page of its own, so that a few thousand are a large table.
func TestCountsAreKeptForAMomentWhereSomeAreEstimates(t *testing.T) {
	t.Parallel()
	pool := testkit.Sessions(t, testkit.Database(t, db.Up))
	k := counts{}
	count := func() (sources int64) {
		s, superadmin := Standing{}, identity.Request{Who: identity.Who{UserID: 1, Role: identity.Superadmin}}
		require.NoError(t, postgres.TxBounded(t.Context(), pool, postgres.Bounds{Settings: served(superadmin, eachTime)}, func(tx pgx.Tx) error {
			return k.ask(t.Context(), dbgen.New(tx), &s)
		}))
		for _, c := range s.Connectors {
			if c.Type == "file" {
				sources += c.Connectors
			}
		}
		return sources
	}
	_, err := pool.Exec(t.Context(), `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'file', 7)`)
	require.NoError(t, err)
	require.EqualValues(t, 1, count())
	_, err = pool.Exec(t.Context(), `ALTER TABLE connectors SET (fillfactor = 10)`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `INSERT INTO connectors (name, type, user_id, config) SELECT 'x', 'file', 7, jsonb_build_object('url', repeat('x', 900)) FROM generate_series(1, 2500)`)
	require.NoError(t, err)
	many := count()
	require.Greater(t, many, int64(1000), "of few, all are counted each time")
	_, err = pool.Exec(t.Context(), `DELETE FROM connectors`)
	require.NoError(t, err)
	k.until = time.Now().Add(time.Hour)
	require.Equal(t, many, count())
	k.until = time.Now()
	require.Zero(t, count())
}
