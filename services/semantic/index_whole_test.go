//go:build !race

package semantic

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/testonly/testkit"
)

// whole stores runs of so many documents each whose documents are not in the index yet.
func (x *indexed) whole(documents ...int) (runs []trip) {
	x.t.Helper()
	x.failing.Store(every)
	for _, n := range documents {
		c := x.syncing()
		for no := range int64(n) {
			c.stores(c.doc(no+1, fmt.Sprint("d", no), "zebra"))
		}
		c.stores(c.completed(int64(n)))
		require.Equal(x.t, "running", c.verdict())
		runs = append(runs, c)
	}
	x.failing.Store("")
	return runs
}

func (x *indexed) turns() int64 {
	return one[int64](x.fixture, `SELECT last_value FROM search_index_turns`)
}

func TestRunsThatAreWholeShareTheTurnsOfTheIndex(t *testing.T) {
	x := newIndexed(t)
	runs := x.whole(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	before := x.turns()
	require.NoError(t, x.index.applyChanges(ctx))
	require.LessOrEqual(t, x.turns()-before, int64(3), "one brings all of them, and one finds nothing more")
	for _, c := range runs {
		require.Equal(t, "completed", c.verdict())
	}
	require.NoError(t, x.mirrors())
}

func TestARunOfManyDocumentsKeepsASmallOneWaitingForOneTurn(t *testing.T) {
	x := newIndexed(t)
	runs := x.whole(3*turnChanges, 2)
	ids := []uuid.UUID{runs[0].session, runs[1].session}
	more, err := x.index.takeTurn(ctx, ofRuns, ids)
	require.NoError(t, err)
	require.True(t, more)
	waiting, err := x.index.completeFound(ctx, ids)
	require.NoError(t, err)
	require.Equal(t, ids[:1], waiting)
	require.Equal(t, "completed", runs[1].verdict())
	require.NoError(t, x.index.Look(ctx))
	require.Equal(t, "completed", runs[0].verdict())
	require.NoError(t, x.mirrors())
}

func TestARunThatBringsNothingIsCompletedWhileSomebodyHoldsTheTurn(t *testing.T) {
	x := newIndexed(t)
	release := x.holds(`SELECT FROM search_index FOR UPDATE`)
	c := x.syncing()
	c.stores(c.completed(0)) // its turn comes afterwards, and ends at the lock
	require.Equal(t, "skipped", c.verdict())
	require.False(t, x.index.down.Load(), "somebody else's turn is no outage")
	release()
	c = c.again()
	c.stores(c.doc(1, "a", "zebra"), c.completed(1))
	require.Equal(t, "completed", c.verdict(), "at once")
}

func TestRunsAreCompletedByTheNextLookAfterOneThatFailed(t *testing.T) {
	x := newIndexed(t)
	runs := x.whole(1, 1, 1)
	require.NoError(t, x.index.Look(ctx)) // and nothing else has named them since
	for _, c := range runs {
		require.Equal(t, "completed", c.verdict())
	}
}

func TestAProcessThatHasNeverSeenThemCompletesWholeRunsWhereverItBegins(t *testing.T) {
	x := newIndexed(t)
	runs := x.whole(1, 1, 1, 1)
	started, other := x.another(), x.another()
	require.NotEqual(t, started.wholeAfter, other.wholeAfter)
	require.NotEqual(t, started.checkpointedAfter, other.checkpointedAfter)
	require.NoError(t, started.CompleteStored(ctx))
	require.NoError(t, started.index.catchUp(ctx))
	for _, c := range runs {
		require.Equal(t, "completed", c.verdict())
	}
}

func TestARunStandsInLineOnceAndTheLineIsBounded(t *testing.T) {
	var w wholeRuns
	run := uuid.New()
	w.add(run, run)
	require.Equal(t, []uuid.UUID{run}, w.take(5))
	require.Empty(t, w.take(5))
	w.add(run)
	for range maxWhole + 5 {
		w.add(uuid.New())
	}
	require.True(t, w.isFull())
	require.Equal(t, run, w.take(1)[0])
	require.False(t, w.isFull())
	require.Len(t, w.take(2*maxWhole), maxWhole-1)
}

// emptyRun is a run that is whole and has brought nothing, and that nobody has named yet.
func (x *indexed) emptyRun() trip {
	x.t.Helper()
	c := x.syncing()
	c.tells(0)
	return c
}

// completes is one look of each kind.
func (x *indexed) completes() error {
	return errors.Join(x.CompleteStored(ctx), x.index.Look(ctx))
}

func TestALongQueueOfFewConnectorsStopsNoCompletion(t *testing.T) {
	x := newIndexed(t)
	var runs []trip
	for range 60 {
		runs = append(runs, x.emptyRun())
	}
	x.exec(`INSERT INTO search_index_changes (document_id, connector_id) SELECT g, 1000000 + g % 10 FROM generate_series(1, 400000) g`)
	x.exec(`VACUUM ANALYZE search_index_changes`)
	x.exec(`ANALYZE open_runs`)
	require.NoError(t, x.CompleteStored(ctx))
	_, err := x.index.completeFound(ctx, x.index.whole.take(wholeLook))
	require.NoError(t, err)
	for _, c := range runs {
		require.Equal(t, "skipped", c.verdict())
	}
}

// failsFor has the completion of one run, or of every run, fail.
func (x *indexed) failsFor(code string, run any) {
	x.t.Helper()
	x.exec(fmt.Sprintf(`CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF OLD.id = coalesce(nullif('%v', '<nil>')::uuid, OLD.id) THEN RAISE EXCEPTION 'no' USING ERRCODE = '%s'; END IF; RETURN OLD; END $$`, run, code))
	x.exec(`CREATE TRIGGER fails BEFORE DELETE ON open_runs FOR EACH ROW EXECUTE FUNCTION fails()`)
}

func TestACompletionThatGetsNoAnswerStopsNoOther(t *testing.T) {
	x := newIndexed(t)
	runs := x.whole(1, 1, 1)
	x.failsFor("57014", x.emptyRun().session)
	require.NoError(t, x.completes())
	for _, r := range runs {
		require.Equal(t, "completed", r.verdict())
	}
	require.NoError(t, x.mirrors())
}

func TestCompletionsThatFailAreSaidTogether(t *testing.T) {
	x := newIndexed(t)
	for range 30 {
		x.emptyRun()
	}
	x.failsFor("42P01", nil)
	var said strings.Builder
	x.index.log = slog.New(slog.NewTextHandler(&said, nil))
	require.NoError(t, x.completes())
	require.Equal(t, 1, strings.Count(said.String(), "\n"), said.String())
	require.Contains(t, said.String(), "runs=30")
}

func TestRunsThatBringNothingAreCompletedBehindManyThatWaitForQdrant(t *testing.T) {
	x := newIndexed(t)
	x.whole(slices.Repeat([]int{1}, turnChanges+6)...)
	empty := x.emptyRun()
	x.failing.Store(every)
	require.ErrorIs(t, x.completes(), errIndex)
	require.Equal(t, "skipped", empty.verdict())
	x.failing.Store("")
	require.NoError(t, x.completes())
	require.Zero(t, x.count("scheduler_runs WHERE status = 'running'"))
}

// notesTurns has the table brought say in which turn changes of connectors were brought.
func (x *indexed) notesTurns() {
	x.t.Helper()
	x.exec(`CREATE TABLE brought (connector_id integer, turn bigint)`)
	x.exec(`CREATE FUNCTION brought() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
		INSERT INTO brought SELECT OLD.connector_id, last_value FROM search_index_turns; RETURN NULL; END $$`)
	x.exec(`CREATE TRIGGER brought AFTER DELETE ON search_index_changes FOR EACH ROW EXECUTE FUNCTION brought()`)
}

func TestWhatIsDeletedLeavesTheIndexBeforeAllOfALargeRunThatCameLater(t *testing.T) {
	x := newIndexed(t)
	first := x.synced(map[string]string{"plan": "aardvark"})
	x.exec(`DELETE FROM documents WHERE connector_id = $1`, first.connector)
	large := x.emptyRun()
	x.exec(`INSERT INTO search_index_changes (document_id, connector_id) SELECT 1000000 + g, $1 FROM generate_series(1, $2) g`, large.connector, 20*turnChanges)
	x.notesTurns()
	before := x.turns()
	x.index.whole.add(large.session)
	require.NoError(t, x.index.applyChanges(ctx))
	require.LessOrEqual(t, one[int64](x.fixture, `SELECT turn FROM brought WHERE connector_id = $1`, first.connector)-before, int64(2))
	require.Equal(t, "skipped", large.verdict())
}

func TestRunsThatEndAllTheTimeKeepNoLookFromItsTurn(t *testing.T) {
	x := newIndexed(t)
	ended := make(chan error, 1)
	go func() { ended <- x.index.applyChanges(ctx) }()
	for {
		select {
		case err := <-ended:
			require.NoError(t, err)
			return
		default:
			x.index.whole.add(uuid.New())
		}
	}
}

func TestAConnectorThatIsHandedOverIsFoundByItsNewOwnerWithinSomeTurnsHoweverLongTheQueueIs(t *testing.T) {
	x := newIndexed(t)
	small, large := x.synced(map[string]string{"a": "zebra", "b": "yak"}), x.synced(map[string]string{"c": "xerus"})
	x.exec(`INSERT INTO search_index_changes (document_id, connector_id) SELECT 1000000 + g, 1000000 FROM generate_series(1, $1) g`, 40*turnChanges)
	x.exec(`UPDATE connectors SET user_id = 7 WHERE id = $1`, large.connector)
	x.exec(`INSERT INTO search_index_changes (document_id, connector_id, is_handed_over) SELECT 2000000 + g, $1, true FROM generate_series(1, $2) g`, large.connector, 20*turnChanges)
	x.exec(`UPDATE connectors SET user_id = 7 WHERE id = $1`, small.connector)
	x.notesTurns()
	before := x.turns()
	require.NoError(t, x.index.applyChanges(ctx))
	require.LessOrEqual(t, one[int64](x.fixture, `SELECT max(turn) FROM brought WHERE connector_id = $1`, small.connector)-before, int64(12))
	require.NoError(t, x.mirrors())
	require.Equal(t, []string{"a"}, x.finds(Reader{UserID: 7}, "zebra"))
}

func TestAConnectorThatIsHandedOverIsFoundThoughEverySecondTurnFails(t *testing.T) {
	x := newIndexed(t)
	small := x.synced(map[string]string{"a": "zebra"})
	x.exec(`INSERT INTO search_index_changes (document_id, connector_id) SELECT 1000000 + g, 1000000 FROM generate_series(1, $1) g`, 40*turnChanges)
	x.exec(`UPDATE connectors SET user_id = 7 WHERE id = $1`, small.connector)
	x.exec(`CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
		IF (SELECT last_value % 2 = 0 FROM search_index_turns) THEN RAISE EXCEPTION 'no' USING ERRCODE = 'lock_not_available'; END IF; RETURN NULL; END $$`)
	x.exec(`CREATE TRIGGER fails AFTER DELETE ON search_index_changes FOR EACH STATEMENT EXECUTE FUNCTION fails()`)
	for range 12 { // of each of them one turn succeeds at most
		require.True(t, postgres.Locked(x.index.applyChanges(ctx)))
	}
	require.Positive(t, x.count("search_index_changes"))
	require.Equal(t, []string{"a"}, x.finds(Reader{UserID: 7}, "zebra"))
}

func TestARunThatBringsNothingIsCompletedWhileATurnOfItsProcessGoesOn(t *testing.T) {
	x := newIndexed(t)
	c := x.synced(map[string]string{"a": "zebra"})
	x.exec(`UPDATE connectors SET user_id = 7 WHERE id = $1`, c.connector)
	held := &hold{operation: upsert, reached: make(chan struct{}), release: make(chan struct{}), done: make(chan struct{})}
	x.hold.Store(held)
	ended := make(chan error, 1)
	go func() { ended <- x.index.applyChanges(ctx) }()
	<-held.reached
	empty := x.emptyRun()
	x.index.notify(empty.session)
	testkit.Eventually(t, 10*time.Second, func() error {
		if verdict := empty.verdict(); verdict != "skipped" {
			return errors.New(verdict)
		}
		return nil
	})
	close(held.release)
	<-ended // a request that took too long is made again
	require.NoError(t, x.index.Look(ctx))
	require.NoError(t, x.mirrors())
}
