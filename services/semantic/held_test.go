//go:build !race

package semantic

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/testonly/testkit"
)

// goRound waits until so many deliveries of messages were not the first.
func (f *flow) goRound(n uint64) {
	f.t.Helper()
	testkit.Eventually(f.t, soon, func() error {
		consumer, err := f.js.Consumer(ctx, topology.DocumentStream, topology.SemanticConsumer)
		if err != nil {
			return err
		}
		if delivered := consumer.CachedInfo().Delivered; delivered.Consumer < delivered.Stream+n {
			return fmt.Errorf("%d deliveries of %d messages", delivered.Consumer, delivered.Stream)
		}
		return nil
	})
}

func TestRowsThatSomebodyHoldsHoldUpNoOtherRun(t *testing.T) {
	for name, held := range map[string]struct {
		sql    string
		rounds uint64 // how often the messages must have gone round before the others come
	}{
		"connectors": {`SELECT FROM connectors WHERE id = ANY($1) FOR UPDATE`, 0},
		"documents":  {`SELECT FROM documents WHERE connector_id = ANY($1) FOR UPDATE`, 300},
		"open runs":  {`SELECT FROM open_runs WHERE connector_id = ANY($1) FOR UPDATE`, 300},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			const documents = 150
			texts := map[string]string{"0": "old", "1": "old", "2": "old"}
			stuck := []trip{f.synced(texts).again(), f.synced(texts).again()}
			release := f.holds(held.sql, []int32{stuck[0].connector, stuck[1].connector})
			for _, c := range stuck {
				for no := range int64(documents) {
					f.publishes(c.doc(no+1, fmt.Sprint(no%3), fmt.Sprint("new ", no)))
				}
				f.publishes(c.completed(documents))
			}
			f.runs()
			f.goRound(held.rounds)
			for range 5 {
				c := f.syncing()
				for no := range int64(20) {
					f.publishes(c.doc(no+1, fmt.Sprint(no), "apple"))
				}
				f.publishes(c.completed(20))
				f.becomes(c, "completed")
			}
			for _, c := range stuck {
				require.Equal(t, "running", c.verdict())
			}
			release()
			for _, c := range stuck {
				f.becomes(c, "completed")
				require.Equal(t, line("0", "new 147")+"\n"+line("1", "new 148")+"\n"+line("2", "new 149"), c.documents())
				require.Equal(t, int64(documents), c.stored())
			}
			f.empties()
			require.Empty(t, f.letters())
			require.Zero(t, f.count("connectors WHERE failure_count > 0"))
		})
	}
}

func TestOneLookCompletesAndAdvancesPastWhatSomebodyHolds(t *testing.T) {
	for name, hold := range map[string]string{
		"connectors": `SELECT FROM connectors WHERE id = ANY($1) FOR UPDATE`,
		"open runs":  `SELECT FROM open_runs WHERE connector_id = ANY($1) FOR UPDATE`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			var whole, waiting []trip
			var held []int32
			for i := range 8 {
				c, w := f.syncing(), f.syncing()
				c.tells(0)
				w.leavesACheckpoint()
				whole, waiting = append(whole, c), append(waiting, w)
				if i%2 == 0 {
					held = append(held, c.connector, w.connector)
				}
			}
			release := f.holds(hold, held)
			for _, look := range []func(context.Context) error{f.CompleteStored, f.AdvanceStored} {
				bounded, cancel := context.WithTimeout(ctx, lookTimeout/2) // nobody waits beside them
				require.NoError(t, look(bounded))
				cancel()
			}
			for i := range whole {
				if i%2 == 0 {
					require.Equal(t, "running", whole[i].verdict())
					require.Empty(t, waiting[i].page())
					continue
				}
				require.Equal(t, "skipped", whole[i].verdict())
				require.Equal(t, "1", waiting[i].page())
			}
			release()
			require.NoError(t, inTime(f.CompleteStored))
			require.NoError(t, inTime(f.AdvanceStored))
			for i := range whole {
				require.Equal(t, "skipped", whole[i].verdict())
				require.Equal(t, "1", waiting[i].page())
			}
		})
	}
}

// leavesACheckpoint stores a checkpoint that nobody passes, as a process does that dies behind it.
func (c trip) leavesACheckpoint() {
	c.f.t.Helper()
	_, err := c.f.storeItems(ctx, c.of(), []*item{newItem(delivery{request: c.checkpoint(1, 1), try: c.of()})})
	require.NoError(c.f.t, err)
}

func TestAMessageThatCannotBeCountedYetBecomesOneDeadLetter(t *testing.T) {
	f := newFlow(t)
	c := f.syncing()
	release := f.holds(`SELECT FROM open_runs WHERE id = $1 FOR UPDATE`, c.session)
	f.publishRaw([]byte{0xff, 0xff}, c.session.String(), c.try.String(), 1)
	f.publishes(c.completed(1))
	f.runs()
	f.goRound(6)
	require.Len(t, f.letters(), 1)
	release()
	f.becomes(c, "completed")
	f.empties()
	require.Len(t, f.letters(), 1)
}

func TestARunWhoseCompletionIsRefusedCostsNoDocument(t *testing.T) {
	f := newFlow(t)
	c := f.syncing()
	f.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`)
	f.exec(`CREATE TRIGGER refuse BEFORE DELETE ON open_runs FOR EACH ROW EXECUTE FUNCTION refuse()`)
	f.publishes(c.doc(1, "a", "apple"), c.completed(1))
	f.runs()
	f.empties()
	require.Equal(t, "running", c.verdict())
	f.exec(`DROP TRIGGER refuse ON open_runs`)
	f.becomes(c, "completed")
	require.Empty(t, f.letters())
	require.Equal(t, line("a", "apple"), c.documents())
}

func TestAHeldRunIsRememberedUntilItIsFree(t *testing.T) {
	var h heldRuns
	c, other := trip{session: uuidOf(1)}, trip{session: uuidOf(2)}
	require.False(t, h.contains(c.session))
	require.Equal(t, heldWait, h.bounds(c.session).Lock)
	h.add(c.session)
	require.True(t, h.contains(c.session))
	require.False(t, h.contains(other.session))
	require.Equal(t, heldProbe, h.bounds(c.session).Lock)
	require.Equal(t, heldWait, h.bounds(other.session).Lock)
	h.until[c.session] = h.until[c.session].Add(-heldPause)
	require.False(t, h.contains(c.session), "it is tried again")
	require.Equal(t, heldProbe, h.bounds(c.session).Lock, "briefly")
	h.until[c.session] = h.until[c.session].Add(-2 * heldKept)
	h.add(other.session)
	require.Len(t, h.until, 1)
	h.remove(other.session)
	require.Empty(t, h.until)
}
