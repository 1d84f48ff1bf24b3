package api

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/postgres"
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
	for how, want := range map[string]struct {
		planned []postgres.Setting
		is      []string
	}{
		"by keys":    {byKeys, []string{"off", "force_generic_plan", "off", "off", "off"}},
		"along keys": {alongKeys, []string{"off", "force_custom_plan", "off", "off", "off"}},
		"each time":  {eachTime, []string{"off", "force_custom_plan", "on", "on", "on"}},
	} {
		var within, after []string
		require.NoError(t, postgres.TxBounded(t.Context(), conn, postgres.Bounds{Settings: served(identity.Request{}, want.planned)}, func(tx pgx.Tx) error {
			return tx.QueryRow(t.Context(), settings).Scan(&within)
		}))
		require.NoError(t, conn.QueryRow(t.Context(), settings).Scan(&after))
		require.Equal(t, want.is, within, how)
		require.Equal(t, []string{"on", "auto", "on", "on", "on"}, after)
	}
}
