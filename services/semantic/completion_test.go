package semantic

import (
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
)

func TestSyncCompletedBeforeTheDocumentsAndTwice(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.completed(2))
	c.stores(c.completed(2), c.doc(2, "b", "banana"))
	require.Equal(t, "running", c.verdict())
	c.stores(c.doc(1, "a", "apple"))
	require.Equal(t, "completed", c.verdict())
	require.Equal(t, "ACTIVE", c.status())
	require.Contains(t, one[string](f, `SELECT state::text FROM connectors WHERE id = $1`, c.connector), c.session.String())
	c.stores(c.completed(2))
	c.stores(c.doc(1, "a", "apple"))
	require.Equal(t, "completed", c.verdict())
}

func TestATotalOfNothingIsSkipped(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	m := c.completed(0)
	m.GetCompleted().Reason, m.GetCompleted().Unchanged = "nothing had changed", 7
	c.stores(m)
	require.Equal(t, "skipped", c.verdict())
	require.Equal(t, "nothing had changed", one[string](f, `SELECT reason FROM scheduler_runs WHERE id = $1`, c.session))
	require.Equal(t, int64(7), one[int64](f, `SELECT docs_analyzed FROM connectors WHERE id = $1`, c.connector))
}

func TestACrashBetweenStoreAndCompletionIsCompletedAfterwards(t *testing.T) {
	f := newFixture(t)
	c, other := f.syncing(), f.syncing()
	c.stores(c.completed(1))
	m := c.doc(1, "a", "apple")
	it := newItem(delivery{request: m, session: c.session})
	require.NoError(t, f.embed(ctx, []*item{it}))
	come, err := f.storeItems(ctx, m, c.session, []*item{it})
	require.NoError(t, err)
	require.True(t, come.complete)
	require.Equal(t, "running", c.verdict())
	require.NoError(t, f.CompleteStored(ctx))
	require.Equal(t, "completed", c.verdict())
	require.Equal(t, "running", other.verdict())
}

func TestACrashBeforeTheAcknowledgementIsCompletedByTheRedelivery(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(1, "a", "apple"))
	f.exec(`UPDATE scheduler_runs SET total = 1 WHERE id = $1`, c.session)
	c.stores(c.doc(1, "a", "apple"))
	require.Equal(t, "completed", c.verdict())
}

func TestOneRunThatCannotBeCompletedHoldsUpNoOther(t *testing.T) {
	f := newFixture(t)
	bad := f.syncing()
	var good []trip
	for range 10 { // so that some come after the bad one, in whatever order they are listed
		good = append(good, f.syncing())
	}
	f.exec(`UPDATE scheduler_runs SET total = 0`)
	f.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`)
	f.exec(`CREATE TRIGGER refuse BEFORE UPDATE ON scheduler_runs FOR EACH ROW WHEN (OLD.id = '` + bad.session.String() + `')
		EXECUTE FUNCTION refuse()`)
	require.ErrorContains(t, f.CompleteStored(ctx), bad.session.String())
	for _, c := range good {
		require.Equal(t, "skipped", c.verdict())
	}
}

// overs are the ways in which a run is over while its documents are still in the queue.
var overs = map[string]func(trip){
	"disabled":     func(c trip) { c.f.exec(`UPDATE connectors SET status = 'DISABLED' WHERE id = $1`, c.connector) },
	"deleted":      func(c trip) { c.f.exec(`DELETE FROM connectors WHERE id = $1`, c.connector) },
	"reconfigured": func(c trip) { c.f.exec(`UPDATE connectors SET config = '{"x":1}' WHERE id = $1`, c.connector) },
	"released":     func(c trip) { _ = c.f.lifecycle.Release(ctx, c.session) },
	"failed":       func(c trip) { _ = c.f.lifecycle.Fail(ctx, c.session, lifecycle.Transient, "no") },
	"rescued": func(c trip) {
		c.f.exec(`UPDATE connectors SET status = 'PENDING', chunking_session = $2 WHERE id = $1`, c.connector, uuid.New())
	},
}

func TestARunThatIsOverStoresNothing(t *testing.T) {
	f := newFixture(t)
	for name, end := range overs {
		c := f.synced(map[string]string{"a": "apple"}).again()
		end(c)
		c.stores(c.doc(1, "a", "late"), c.doc(2, "b", "late"), c.deletion(3, "a"))
		c.stores(c.completed(3))
		require.Equal(t, line("a", "apple"), c.documents(), name)
		require.Zero(t, c.stored(), name)
		require.NotEqual(t, "completed", c.verdict(), name)
		require.Zero(t, one[int64](f, `SELECT count(*) FROM run_messages WHERE session = $1`, c.session), name)
		require.Zero(t, one[int64](f, `SELECT count(*) FROM chunks WHERE session = $1`, c.session), name)
	}
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

func TestAStateThatDoesNotFitFailsAtSyncCompletedAndNotAtCompletion(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	m := c.completed(0)
	values := m.GetCompleted().NewState.Fields
	for i := range 3000 {
		values[uuid.NewString()[:14]+string(rune('a'+i%26))] = values["delta"]
	}
	err := c.handles(m)
	require.ErrorContains(t, err, "scheduler_runs_new_state_size")
	require.False(t, isWait(err))
	require.NoError(t, f.CompleteStored(ctx))
	require.Equal(t, "running", c.verdict())
}
