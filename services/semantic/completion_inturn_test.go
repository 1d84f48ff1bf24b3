//go:build !race

package semantic

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
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

func TestASkipThatGivesNoReasonHasOneInTheLedger(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.completed(0))
	require.Equal(t, "skipped", c.verdict())
	require.Equal(t, "nothing had changed", one[string](f, `SELECT reason FROM scheduler_runs WHERE id = $1`, c.session))
}

func TestACompletedRunKeepsWhatItsWorkerRemarked(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	m := c.completed(1)
	m.GetCompleted().Reason = "half of it was left out"
	c.stores(c.doc(1, "a", "apple"))
	c.stores(m)
	require.Equal(t, "completed", c.verdict())
	require.Equal(t, "half of it was left out", one[string](f, `SELECT reason FROM scheduler_runs WHERE id = $1`, c.session))
}

func TestACrashBetweenStoreAndCompletionIsCompletedAfterwards(t *testing.T) {
	f := newFixture(t)
	c, other := f.syncing(), f.syncing()
	c.stores(c.completed(1))
	m := c.doc(1, "a", "apple")
	it := newItem(delivery{request: m, try: c.of()})
	require.NoError(t, f.embed(ctx, []*item{it}))
	reached, err := f.storeItems(ctx, c.of(), []*item{it})
	require.NoError(t, err)
	require.True(t, reached.complete)
	require.Equal(t, "running", c.verdict())
	require.NoError(t, inTime(f.CompleteStored))
	require.Equal(t, "completed", c.verdict())
	require.Equal(t, "running", other.verdict())
}

func TestACrashBeforeTheAcknowledgementIsCompletedByTheRedelivery(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(1, "a", "apple"))
	c.tells(1)
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
	f.exec(`UPDATE open_runs SET total = 0, whole = true`)
	f.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`)
	f.exec(`CREATE TRIGGER refuse BEFORE DELETE ON open_runs FOR EACH ROW WHEN (OLD.id = '` + bad.session.String() + `')
		EXECUTE FUNCTION refuse()`)
	require.ErrorContains(t, f.CompleteStored(ctx), bad.session.String())
	for _, c := range good {
		require.Equal(t, "skipped", c.verdict())
	}
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
		require.Zero(t, one[int64](f, `SELECT count(*) FROM run_messages WHERE try_id = $1`, c.try), name)
		require.Zero(t, one[int64](f, `SELECT count(*) FROM chunks WHERE try_id = $1`, c.try), name)
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
	require.ErrorContains(t, err, "open_runs_new_state_size")
	require.False(t, isWait(err))
	require.NoError(t, inTime(f.CompleteStored))
	require.Equal(t, "running", c.verdict())
}
