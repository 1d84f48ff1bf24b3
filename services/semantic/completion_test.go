package semantic

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
)

// overs are the ways in which a run is over while its documents are still in the queue.
var overs = map[string]func(trip){
	"disabled":     func(c trip) { c.f.exec(`SELECT moves.disable($1)`, c.connector) },
	"cancelled":    func(c trip) { c.f.exec(`SELECT moves.cancel($1)`, c.session) },
	"deleted":      func(c trip) { c.f.exec(`DELETE FROM connectors WHERE id = $1`, c.connector) },
	"reconfigured": func(c trip) { c.f.exec(`UPDATE connectors SET config = '{"x":1}' WHERE id = $1`, c.connector) },
	"released":     func(c trip) { _ = lifecycle.New(c.f.pool).Release(ctx, c.of()) },
	"failed":       func(c trip) { _ = c.f.lifecycle.Fail(ctx, c.of(), lifecycle.Transient, "no") },
	"rescued": func(c trip) {
		c.losesItsWorker()
		c.f.exec(`SELECT moves.rescue($1, '6 hours', 100)`, c.f.silent())
	},
}

// losesItsWorker has the lease of the run's worker run out.
func (c trip) losesItsWorker() {
	c.f.t.Helper()
	c.f.exec(`UPDATE workers SET expires_at = clock_timestamp() - interval '1 second'
		WHERE id = (SELECT worker_id FROM open_runs WHERE id = $1)`, c.session)
}

// silent are the workers whose lease has run out, as the moves want them.
func (f *fixture) silent() string {
	f.t.Helper()
	return one[string](f, `SELECT coalesce(jsonb_agg(jsonb_build_object('id', id, 'beats', beats)), '[]')::text FROM workers
		WHERE expires_at < clock_timestamp()`)
}

func TestARunThatEndsWhileItsDocumentIsStoredStoresNothing(t *testing.T) {
	f := newFixture(t)
	for name, end := range overs {
		c := f.synced(map[string]string{"a": "apple"}).again()
		var once sync.Once
		f.writing = func([]Piece) error {
			once.Do(func() { end(c) })
			return nil
		}
		c.stores(c.doc(1, "a", "late"))
		f.writing = nil
		require.Equal(t, line("a", "apple"), c.documents(), name)
		require.Zero(t, c.stored(), name)
		require.NotEqual(t, "running", c.verdict(), name)
	}
}
