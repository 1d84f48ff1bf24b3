package semantic

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/topology"
)

var errPoison = errors.New("this one always fails")

// poisoned makes every store fail that holds the word poison, and counts them.
func (f *flow) poisoned() *atomic.Int32 {
	var tries atomic.Int32
	f.writing = func(pieces []Piece) error {
		for _, p := range pieces {
			if strings.Contains(p.Text, "poison") {
				tries.Add(1)
				return errPoison
			}
		}
		return nil
	}
	return &tries
}

func TestAMessageThatAlwaysFailsIsGivenUpAndItsRunCompletes(t *testing.T) {
	f := newFlow(t)
	tries := f.poisoned()
	c := f.synced(map[string]string{"bad": "old"}).again()
	f.publishes(c.doc(1, "good", "apple"), c.doc(2, "bad", "poison"), c.doc(3, "fine", "banana"), c.completed(3))
	for _, msg := range f.pulled(4) {
		require.NoError(t, msg.Nak()) // delivered again: each is handled alone, and its tries are written down
	}
	f.runs()
	f.becomes(c, "completed")
	f.empties()
	require.Equal(t, int32(f.config.MaxTries), tries.Load())
	letters := f.letters()
	require.Len(t, letters, 1)
	require.Equal(t, "dlq.document.process", letters[0].Subject)
	require.Equal(t, []string{c.session.String(), "2", "2", "2"}, []string{
		letters[0].Header.Get(topology.HeaderSession), letters[0].Header.Get(topology.HeaderNumber),
		letters[0].Header.Get(topology.HeaderTries), letters[0].Header.Get(topology.HeaderSequence),
	})
	require.Contains(t, letters[0].Header.Get(topology.HeaderReason), errPoison.Error())
	require.Equal(t, "bad | failed |  |  | {\"to old\"} | 1 | given up: write chunks: this one always fails | old\n"+
		line("fine", "banana")+"\n"+line("good", "apple"), c.documents())
	require.Equal(t, int64(3), c.stored())
	require.Equal(t, int64(1), one[int64](f.fixture, `SELECT documents_failed FROM scheduler_runs WHERE id = $1`, c.session))
}

func TestAFullStreamOfDeadLettersStopsNothing(t *testing.T) {
	f := newFlow(t)
	f.poisoned()
	config := topology.Streams(topology.DefaultMaxDocumentBytes, 100, 0)[2] // no room for a single letter
	_, err := f.servers.Stream.UpdateStream(ctx, config)
	require.NoError(t, err)
	c := f.synced(map[string]string{"bad": "old"}).again()
	f.publishes(c.doc(1, "good", "apple"), c.doc(2, "bad", "poison"), c.completed(2))
	for _, msg := range f.pulled(3) {
		require.NoError(t, msg.Nak())
	}
	f.runs()
	f.becomes(c, "completed")
	f.empties()
	require.Empty(t, f.letters())
	require.Contains(t, c.documents(), "bad | failed")
	require.Contains(t, c.documents(), errPoison.Error())
}

func TestAFreshMessageThatFailsDoesNotHoldBackItsBatch(t *testing.T) {
	f := newFlow(t)
	f.poisoned()
	c := f.syncing()
	f.publishes(c.doc(1, "good", "apple"), c.doc(2, "bad", "poison"), c.doc(3, "fine", "banana"), c.completed(3))
	f.runs()
	f.becomes(c, "completed")
	require.Len(t, f.letters(), 1)
	require.Contains(t, c.documents(), line("fine", "banana")+"\n"+line("good", "apple"))
}

func TestBystandersOfACrashAreNotBlamed(t *testing.T) {
	f := newFlow(t)
	c := f.syncing()
	f.publishes(c.doc(1, "bad", "poison"), c.doc(2, "good", "apple"), c.doc(3, "fine", "banana"), c.completed(3))
	// Crash after crash while the first was handled: its tries are all that the crashes left.
	f.exec(`INSERT INTO message_tries VALUES ($1, 1, $2)`, c.try, f.config.MaxTries)
	for _, msg := range f.pulled(4) {
		require.NoError(t, msg.Nak())
	}
	embedded := atomic.Bool{}
	f.embedding = func(texts []string) error {
		if strings.Contains(strings.Join(texts, " "), "poison") {
			embedded.Store(true)
		}
		return nil
	}
	f.runs()
	f.becomes(c, "completed")
	require.False(t, embedded.Load(), "what killed the process must not be handled again")
	letters := f.letters()
	require.Len(t, letters, 1)
	require.Equal(t, "1", letters[0].Header.Get(topology.HeaderNumber))
	require.Contains(t, c.documents(), line("fine", "banana")+"\n"+line("good", "apple"))
}

func TestOfARedeliveredBatchOnlyTheMessageAtWorkHasATry(t *testing.T) {
	f := newFlow(t)
	f.config.Workers = 1
	c := f.syncing()
	f.publishes(c.doc(1, "bad", "poison"), c.doc(2, "good", "apple"), c.doc(3, "fine", "banana"))
	for _, msg := range f.pulled(3) {
		require.NoError(t, msg.Nak())
	}
	tried := make(chan []int64, 8)
	f.embedding = func([]string) error {
		tried <- many[int64](f.fixture, `SELECT no FROM message_tries ORDER BY no`)
		return nil
	}
	f.runs()
	require.Len(t, <-tried, 1)
	require.Len(t, <-tried, 2)
	require.Len(t, <-tried, 3)
}

func TestATryThatEndedInAWaitDoesNotCount(t *testing.T) {
	f := newFlow(t)
	c := f.syncing()
	f.publishes(c.doc(1, "a", "apple"), c.completed(1))
	for _, msg := range f.pulled(2) {
		require.NoError(t, msg.Nak())
	}
	calls := 0
	f.embedding = func([]string) error {
		if calls++; calls <= f.config.MaxTries+1 {
			return errors.New("no answer")
		}
		if tries := one[int32](f.fixture, `SELECT tries FROM message_tries WHERE no = 1`); tries != 1 {
			t.Errorf("%d tries are counted", tries)
		}
		return nil
	}
	f.runs()
	f.becomes(c, "completed")
	require.Empty(t, f.letters())
}

func TestAnUndecodableMessageIsCountedWhereItsHeadersNameItsRun(t *testing.T) {
	f := newFlow(t)
	c := f.syncing()
	f.publishRaw([]byte{0xff, 0xff}, c.session.String(), c.try.String(), 1)
	f.publishes(c.doc(2, "a", "apple"), c.completed(2))
	f.publishRaw([]byte{0xff, 0xfe}, "", "", 0)
	f.runs()
	f.becomes(c, "completed")
	f.empties()
	require.Len(t, f.letters(), 2)
	require.Equal(t, line("a", "apple"), c.documents())
}

func TestAMessageThatCannotBeStoredIsCountedByItsOwnNumber(t *testing.T) {
	f := newFlow(t)
	c := f.syncing()
	bad := c.doc(1, strings.Repeat("x", 5000), "apple")
	data, err := proto.Marshal(bad)
	require.NoError(t, err)
	f.publishRaw(data, "", "", 0) // a publisher without the kit sets no headers
	f.publishes(c.completed(1))
	f.runs()
	f.becomes(c, "completed")
	require.Len(t, f.letters(), 1)
	require.Empty(t, c.documents())
}

func TestSyncCompletedThatCannotBeHandledFailsTheRun(t *testing.T) {
	f := newFlow(t)
	undecodable, refused := f.syncing(), f.syncing()
	f.publishRaw([]byte{0xff, 0xff}, undecodable.session.String(), undecodable.try.String(), 0)
	m := refused.completed(0)
	for range 3000 {
		m.GetCompleted().NewState.Fields[uuid.NewString()] = m.GetCompleted().NewState.Fields["delta"]
	}
	f.publishes(m)
	f.runs()
	for _, c := range []trip{undecodable, refused} {
		f.becomes(c, "failed")
		require.Equal(t, "ERROR", c.status())
		require.Contains(t, one[string](f.fixture, `SELECT error_message FROM scheduler_runs WHERE id = $1`, c.session),
			"sync completed could not be handled")
	}
	f.empties()
	require.Len(t, f.letters(), 2)
}

func TestAMessageBeyondTheTotalFailsTheRunAndEnds(t *testing.T) {
	f := newFlow(t)
	c := f.syncing()
	f.publishes(c.completed(1), c.doc(2, "a", "apple"), c.doc(3, "b", "banana"))
	f.exec(`UPDATE open_runs SET total = 1, stored = 1, whole = true WHERE id = $1`, c.session)
	f.exec(`CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.status = 'completed' THEN RAISE EXCEPTION 'not yet'; END IF; RETURN NEW; END $$`)
	f.exec(`CREATE TRIGGER hold BEFORE INSERT ON runs FOR EACH ROW EXECUTE FUNCTION hold()`)
	f.runs()
	f.becomes(c, "failed")
	f.empties()
	require.LessOrEqual(t, len(f.letters()), 3, "given up again and again")
}

func TestATryForARunThatIsOverLeavesNothingBehind(t *testing.T) {
	f := newFlow(t)
	c := f.syncing()
	f.publishes(c.doc(1, "a", "apple"))
	require.NoError(t, f.pulled(1)[0].Nak())
	f.exec(`SELECT moves.disable($1)`, c.connector)
	f.runs()
	f.empties()
	require.Zero(t, f.count("message_tries"))
	require.Empty(t, f.letters())
}

// A Postgres that was frozen carries out what nobody waits for any more, beside its repetition.
func TestATryThatIsWrittenDownAndTakenBackTwiceCountsOnce(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	d := delivery{msg: silentMessage{}, request: c.doc(1, "a", "apple"), try: c.of()}
	begins := func(mark uuid.UUID, tries int) {
		t.Helper()
		n, err := f.beginTry(ctx, d, mark)
		require.NoError(t, err)
		require.Equal(t, tries, n)
	}
	first, second, third := uuid.New(), uuid.New(), uuid.New()
	begins(first, 1)
	begins(first, 1)
	begins(second, 2)
	f.takeBackTry(ctx, d, second)
	f.takeBackTry(ctx, d, second)
	begins(second, 1) // late
	f.takeBackTry(ctx, d, second)
	begins(third, 2)
	f.takeBackTry(ctx, d, first)
	begins(third, 2)
}
