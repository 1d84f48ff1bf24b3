//go:build !race

package semantic

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/testonly/movestest"
)

func TestACheckpointBecomesTheStateOnceAllBeforeItIsStored(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.checkpoint(3, 1), c.doc(1, "a", "apple"))
	require.Empty(t, c.page())
	c.stores(c.doc(2, "b", "banana"))
	require.Equal(t, "1", c.page())
	require.Equal(t, "running", c.verdict())
	c.stores(c.doc(4, "c", "cherry"), c.completed(4))
	require.Equal(t, "completed", c.verdict())
	require.Contains(t, one[string](f, `SELECT state::text FROM connectors WHERE id = $1`, c.connector), c.session.String())
}

func TestACheckpointThatComesLastAndTwice(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(1, "a", "apple"), c.doc(3, "c", "cherry"))
	c.stores(c.checkpoint(2, 1), c.checkpoint(2, 1))
	c.stores(c.checkpoint(2, 1))
	require.Equal(t, "1", c.page())
	require.Equal(t, int64(3), c.stored())
	require.Equal(t, int64(1), one[int64](f, `SELECT notes FROM scheduler_runs WHERE id = $1`, c.session))
}

func TestACheckpointWaitsForEveryPartOfADocument(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(1, "a", "one", part(0, 2)), c.checkpoint(3, 1))
	require.Empty(t, c.page())
	c.stores(c.doc(2, "a", "two", part(1, 2)))
	require.Equal(t, "1", c.page())
}

func TestADocumentThatFailedHoldsNoCheckpointUpAndHasNoToken(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "apple"}).again()
	c.stores(c.doc(1, "a", "apple", unreadable), c.checkpoint(2, 1))
	require.Equal(t, "1", c.page())
	require.Equal(t, "", one[string](f, `SELECT version_token FROM documents WHERE connector_id = $1`, c.connector))
}

func TestADeathBetweenStoreAndCheckpoint(t *testing.T) {
	f := newFixture(t)
	for name, heal := range map[string]func(trip){
		"is made up for by the redelivery": func(c trip) { c.stores(c.doc(1, "a", "apple")) },
		"is made up for by housekeeping":   func(c trip) { require.NoError(t, inTime(f.AdvanceStored)) },
		"is made up for by the next store": func(c trip) { c.stores(c.doc(3, "c", "cherry")) },
		"is made up for by the completion": func(c trip) { // which has no state of its own
			m := c.completed(2)
			m.GetCompleted().NewState = nil
			c.stores(m)
			require.Equal(t, "completed", c.verdict())
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := f.syncing()
			c.stores(c.checkpoint(2, 1))
			it := newItem(delivery{request: c.doc(1, "a", "apple"), try: c.of()})
			require.NoError(t, f.embed(ctx, []*item{it}))
			reached, err := f.storeItems(ctx, c.of(), []*item{it})
			require.NoError(t, err)
			require.Equal(t, progress{checkpointWaits: true}, reached)
			require.Empty(t, c.page())
			heal(c)
			require.Equal(t, "1", c.page())
		})
	}
}

func TestACheckpointAfterItsRunIsOverChangesNothing(t *testing.T) {
	f := newFixture(t)
	for name, end := range overs {
		c := f.syncing()
		c.stores(c.doc(1, "a", "apple"))
		end(c)
		c.stores(c.checkpoint(2, 1))
		require.NoError(t, inTime(f.AdvanceStored))
		require.Zero(t, f.count("connectors WHERE state <> '{}'"), name)
		require.Zero(t, f.count("run_checkpoints"), name)
	}
}

func TestWhatARunLeavesOfItsCheckpointsIsSwept(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.checkpoint(2, 1), c.checkpoint(4, 2))
	overs["failed"](c)
	require.NoError(t, inTime(f.Sweep))
	require.Zero(t, f.count("run_checkpoints"))
	c.stores(c.checkpoint(6, 3))
	require.Zero(t, f.count("run_checkpoints"))
}

func TestACheckpointThatCannotBeKeptIsGivenUpAndCostsOnlyItself(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	big := c.checkpoint(2, 1)
	big.GetCheckpoint().State.Fields["a"] = structpb.NewStringValue(strings.Repeat("x", 70_000))
	require.ErrorContains(t, c.handles(big), "run_checkpoints_state_size")
	require.NoError(t, f.countPoison(ctx, delivery{request: big, try: c.of()}, errors.New("too large")))
	c.stores(c.doc(1, "a", "apple"), c.checkpoint(3, 2), c.completed(3))
	require.Equal(t, "completed", c.verdict())
	require.Equal(t, int64(0), one[int64](f, `SELECT documents_failed FROM scheduler_runs WHERE id = $1`, c.session))
	require.Contains(t, one[string](f, `SELECT state::text FROM connectors WHERE id = $1`, c.connector), c.session.String())
}

func TestARunOfCheckpointsAloneIsSkipped(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "apple"}).again()
	c.stores(c.checkpoint(1, 1), c.seen(2, 1, "a"), c.completed(2))
	require.Equal(t, "skipped", c.verdict())
}

// TestNoOrderOfDeliveryBringsAStateAheadOfItsData draws runs with checkpoints, delivers them in any order, with repeats,
// on two workers, and looks at every change of a state as it is made: in the same transaction every message before
// the checkpoint must be counted as stored. In the end the last checkpoint before a message that nobody can name stands.
func TestNoOrderOfDeliveryBringsAStateAheadOfItsData(t *testing.T) {
	f := newFixture(t)
	f.exec(`CREATE FUNCTION ahead() RETURNS trigger LANGUAGE plpgsql AS $$
	DECLARE
		upto bigint := (NEW.state->>'page')::bigint;
	BEGIN
		IF upto IS NULL THEN RETURN NEW; END IF;
		IF coalesce((OLD.state->>'page')::bigint, 0) >= upto OR NEW.status <> 'SYNCING' OR upto <> (SELECT count(*) FROM run_messages m
			JOIN open_runs r ON r.try_id = m.try_id
			WHERE r.id = NEW.run_id AND m.no <= upto AND m.given_up IS DISTINCT FROM 'unnamed') THEN
			RAISE EXCEPTION 'state % came after % with % in %', NEW.state, OLD.state,
				(SELECT array_agg(m.no ORDER BY m.no) FROM run_messages m JOIN open_runs r ON r.try_id = m.try_id WHERE r.id = NEW.run_id), NEW.status;
		END IF;
		RETURN NEW;
	END $$`)
	f.exec(`CREATE TRIGGER ahead BEFORE UPDATE OF state ON connectors FOR EACH ROW EXECUTE FUNCTION ahead()`)
	rapid.Check(t, func(rt *rapid.T) {
		c := f.synced(map[string]string{"a": "old"}).again()
		movestest.Force(t, f.pool, `UPDATE connectors SET state = '{}' WHERE id = $1`, c.connector)
		run := drawCheckpoints(rt)
		order := rapid.Permutation(indices(len(run.kinds))).Draw(rt, "order")
		order = append(order, rapid.SliceOfN(rapid.IntRange(0, len(run.kinds)-1), 0, 6).Draw(rt, "repeats")...)
		lost := rapid.IntRange(0, 2).Draw(rt, "lost")
		order = order[:len(order)-min(lost, len(order)-1)]
		size := rapid.IntRange(1, 5).Draw(rt, "batch")
		batches := make(chan []int, len(order))
		for rest := order; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			batches <- rest[:min(size, len(rest))]
		}
		close(batches)
		var workers sync.WaitGroup
		for range 2 {
			workers.Go(func() {
				for batch := range batches {
					run.deliver(t, c, batch)
				}
			})
		}
		workers.Wait()
		require.NoError(rt, inTime(f.AdvanceStored)) // for those that found the connector held by the other's
		require.Equal(rt, run.reached(order), c.page())
		require.Equal(rt, "running", c.verdict())
		overs["released"](c)
	})
}

// drawn is a run's messages, by kind; message i has number i+1.
type drawn struct{ kinds []string }

func drawCheckpoints(t *rapid.T) drawn {
	kinds := []string{"document", "document", "document", "checkpoint", "checkpoint", "deletion", "unreadable", "seen", "unnamed"}
	return drawn{rapid.SliceOfN(rapid.SampledFrom(kinds), 1, 20).Draw(t, "kinds")}
}

func (d drawn) deliver(t *testing.T, c trip, batch []int) {
	var messages []*internalpb.DocumentProcessRequest
	for _, i := range batch {
		no := int64(i) + 1
		id := fmt.Sprintf("document %d", i%4)
		switch d.kinds[i] {
		case "document":
			messages = append(messages, c.doc(no, id, uuid.NewString()))
		case "unreadable":
			messages = append(messages, c.doc(no, id, "x", unreadable))
		case "deletion":
			messages = append(messages, c.deletion(no, id))
		case "seen":
			messages = append(messages, c.seen(no, 1, id, "a"))
		case "checkpoint":
			messages = append(messages, c.checkpoint(no, i+1))
		case "unnamed":
			if err := c.f.countPoison(ctx, delivery{request: c.message(no), try: c.of()}, errors.New("garbled")); err != nil {
				t.Errorf("give up: %v", err)
			}
		}
	}
	if len(messages) > 0 {
		if err := c.handles(messages...); err != nil {
			t.Errorf("store: %v", err)
		}
	}
}

// reached is the last checkpoint before which everything came, and could be named.
func (d drawn) reached(order []int) (page string) {
	came := map[int]bool{}
	for _, i := range order {
		came[i] = true
	}
	for i, kind := range d.kinds {
		if !came[i] || kind == "unnamed" {
			break
		}
		if kind == "checkpoint" {
			page = fmt.Sprint(i + 1)
		}
	}
	return page
}

// What a listing says of itself names the try: it is another in every run.
func TestARunThatRepeatsTheStateOfTheOneBeforeHasComeNoFurther(t *testing.T) {
	f := newFixture(t)
	c := f.connector("max_retries = 3")
	var ends []string
	for _, page := range []int{7, 7, 8, 8, 8} {
		c = c.again()
		m := c.checkpoint(1, page)
		m.GetCheckpoint().Listing, _ = structpb.NewStruct(map[string]any{"whole": true,
			"seen": map[string]any{c.try.String(): map[string]any{"listing": 1, "no": 1}}})
		c.stores(m)
		f.exec(`SELECT moves.cut($1, $2, 1, 1, 'too long')`, c.session, c.try)
		require.NoError(t, inTime(f.CompleteStored))
		ends = append(ends, one[string](f, `SELECT concat_ws(' ', status, failure_count, next_sync_at <= clock_timestamp())
			FROM connectors WHERE id = $1`, c.connector))
	}
	require.Equal(t, []string{"ERROR 0 t", "ERROR 1 f", "ERROR 1 t", "ERROR 2 f", "DISABLED 3"}, ends)
}

// Without another state a run has come further where its listing begins, or is over.
func TestARunThatBeginsOrEndsAListingHasComeFurther(t *testing.T) {
	f := newFixture(t)
	c := f.connector()
	var counted []int32
	for _, lists := range []bool{false, true, true, false, false} {
		c = c.again()
		m := c.checkpoint(1, 7)
		if lists {
			m.GetCheckpoint().Listing, _ = structpb.NewStruct(map[string]any{
				"seen": map[string]any{c.try.String(): map[string]any{"listing": 1, "no": 1}}})
		}
		c.stores(m)
		f.exec(`SELECT moves.fail($1, $2, 'too_long', 'too long')`, c.session, c.try)
		counted = append(counted, one[int32](f, `SELECT failure_count FROM connectors WHERE id = $1`, c.connector))
	}
	require.Equal(t, []int32{0, 0, 1, 1, 2}, counted)
}

// A run that was ended behind the last checkpoint of its listing has no successor that shows anything: what it did not show is in the source no more.
func TestWhatANewConfigurationDoesNotHaveGoesAlsoWhereItsListingWasThroughAndItsRunDidNotComplete(t *testing.T) {
	whole, err := structpb.NewStruct(map[string]any{"whole": true})
	require.NoError(t, err)
	for name, b := range map[string]struct {
		brings  bool
		listing *structpb.Struct
		left    string
	}{
		"it was through": {true, whole, line("a", "apple")},
		"nothing had come: the source may be closed": {false, whole, line("a", "avocado") + "\n" + line("b", "banana")},
		"it was no listing of everything":            {true, nil, line("a", "apple") + "\n" + line("b", "banana")},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c := f.synced(map[string]string{"a": "avocado", "b": "banana"}).reconfigured().again()
			through := c.checkpoint(1, 1)
			if b.brings {
				c.stores(c.doc(1, "a", "apple"))
				through = c.checkpoint(2, 1)
			}
			through.GetCheckpoint().Listing = b.listing
			c.stores(through)
			require.Equal(t, "1", c.page())
			f.exec(`SELECT moves.disable($1, 'for a moment')`, c.connector)
			f.exec(`SELECT moves.enable($1)`, c.connector)
			c = c.again()
			c.stores(c.completed(0))
			require.Equal(t, "skipped", c.verdict())
			f.sweeps()
			require.Equal(t, b.left, c.documents())
		})
	}
}
