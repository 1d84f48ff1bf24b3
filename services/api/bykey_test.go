package api_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/testonly/testkit"
)

// Behind a transaction pooler a session's settings reach some of the connections alone: there the server's own count. A plan that one kind of transaction keeps is no other's: it was made under other settings.
func TestATransactionSaysHowItIsPlannedWhateverTheSessionSaysAndThatEndsWithIt(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), testkit.Database(t, db.Up))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	_, err = conn.Exec(t.Context(), `SET jit = on`)
	require.NoError(t, err)
	const settings = `SELECT ARRAY[current_setting('jit'), current_setting('plan_cache_mode'), current_setting('enable_seqscan'), current_setting('enable_hashjoin'), current_setting('enable_mergejoin')]`
	for byKey, want := range map[bool][]string{true: {"off", "force_generic_plan", "off", "off", "off"}, false: {"off", "force_custom_plan", "on", "on", "on"}} {
		var within, after []string
		require.NoError(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			if err := dbgen.New(tx).Serve(t.Context(), dbgen.ServeParams{ByKey: byKey}); err != nil {
				return err
			}
			return tx.QueryRow(t.Context(), settings).Scan(&within)
		}))
		require.NoError(t, conn.QueryRow(t.Context(), settings).Scan(&after))
		require.Equal(t, want, within, "by key: %v", byKey)
		require.Equal(t, []string{"on", "auto", "on", "on", "on"}, after)
	}
}
