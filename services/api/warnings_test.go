//go:build !race

package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/testonly/movestest"
)

// warning makes a run of a group's connector that names a file which its owner excluded.
func (w *world) warning() (run string) {
	w.Helper()
	w.exec(`INSERT INTO group_members VALUES (7, 'g', true), (8, 'g', false)`)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id, scope, scope_id, refresh_freq_minutes) VALUES ('notes', 'file', 7, 'group', 'g', 60) RETURNING id`)
	pool, err := postgres.Open(w.Context(), w.url, "test", 2)
	require.NoError(w, err)
	w.Cleanup(pool.Close)
	run = movestest.Claim(w, pool, id).String()
	movestest.Force(w, pool, `UPDATE open_runs SET warnings = '{"left out, file by include and exclude: hr/plans.xlsx"}', result = '{"n": 1}' WHERE id = $1`, run)
	return run
}

func TestWhatARunLeftOutIsNamedToWhoMayChangeItsConnector(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.warning()
	for who, shown := range map[caller]bool{
		w.as(7, identity.User, identity.Read): true, w.as(9, identity.Superadmin, identity.Read): true, w.as(8, identity.User, identity.Read): false,
	} {
		one := who.do("GET", "/runs/"+run, nil)
		require.Equal(t, 200, one.status, one.text)
		list := who.get("/runs")["runs"].([]any)[0].(map[string]any)["warnings"].([]any)
		require.Equal(t, shown, len(one.body["warnings"].([]any)) == 1)
		require.Equal(t, shown, len(list) == 1)
	}
}

func TestATokenThatMayNotReadIsShownNothingThatARunSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.as(7, identity.User, identity.Operate).do("POST", "/runs/"+w.warning()+"/cancel", nil)
	require.Equal(t, 200, r.status, r.text)
	require.Nil(t, r.body["result"])
	require.Empty(t, r.body["warnings"])
}
