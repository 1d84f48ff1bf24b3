package api_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
)

func TestTwoReplicasDoEachConnectorOfAnOperationOnce(t *testing.T) {
	t.Parallel()
	const n = 1050
	w := newWorld(t)
	w.connectors(n)
	me := w.as(7, identity.User)
	path := me.begins("disable", nil)
	ended := make(chan error, 2)
	var working sync.WaitGroup
	for range 2 {
		a := w.worker()
		conn, err := pgx.Connect(t.Context(), w.url)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(t.Context()) })
		working.Go(func() { ended <- workUntilDone(t, a, conn) })
	}
	working.Wait()
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
	me.stands(path, map[string]any{"state": "completed", "done": n, "changed": n})
	require.Equal(t, n, one[int](w, `SELECT count(*) FROM audit WHERE action = 'connectors.disable'`), "none twice")
	require.Equal(t, n, one[int](w, `SELECT count(DISTINCT connector_id) FROM audit WHERE action = 'connectors.disable'`), "and each")
}

// workUntilDone works as one of several replicas, none of which waits for the clock.
func workUntilDone(t *testing.T, a *api.API, conn *pgx.Conn) error {
	for range 10_000 {
		if _, err := conn.Exec(t.Context(), `UPDATE operations SET next_at = clock_timestamp() WHERE id IN
			(SELECT id FROM operations WHERE next_at IS NOT NULL FOR UPDATE SKIP LOCKED)`); err != nil {
			return err
		}
		if _, err := a.WorkBatch(t.Context()); err != nil {
			return err
		}
		var open bool
		if err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM operations WHERE ended_at IS NULL)`).Scan(&open); err != nil || !open {
			return err
		}
	}
	return fmt.Errorf("it does not end")
}
