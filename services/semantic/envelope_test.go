//go:build !race

package semantic

import (
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/sdk/lifecycle"
)

func TestAMessageOfAnotherConnectorOrConfigurationIsGivenUpAndMovesNoCursor(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *internalpb.DocumentProcessRequest, victim trip)
		reason string
	}{
		"connector":     {func(m *internalpb.DocumentProcessRequest, v trip) { m.ConnectorId = v.connector }, "connector_id 1, the run is of connector 2"},
		"configuration": {func(m *internalpb.DocumentProcessRequest, v trip) { m.ConfigVersion = v.version }, "config_version 1, the run has 2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			victim := f.synced(map[string]string{"a": "apple", "b": "banana"})
			mine := f.synced(map[string]string{"a": "avocado"}).again()
			before, cursor := victim.rows(), one[string](f.fixture, `SELECT state::text FROM connectors WHERE id = $1`, mine.connector)
			bad, gone := mine.doc(2, "a", "planted"), mine.deletion(3, "b")
			c.change(bad, victim)
			c.change(gone, victim)
			f.publishes(mine.doc(1, "c", "cherry"), bad, gone, mine.completed(3))
			f.runs()
			f.becomes(mine, "completed")
			f.empties()
			f.sweeps()
			require.Equal(t, before, victim.rows())
			require.Equal(t, line("a", "avocado")+"\n"+line("c", "cherry"), mine.documents())
			require.Equal(t, cursor, one[string](f.fixture, `SELECT state::text FROM connectors WHERE id = $1`, mine.connector))
			letters := f.letters()
			require.Len(t, letters, 2)
			for _, letter := range letters {
				require.Contains(t, letter.Header.Get(topology.HeaderReason), c.reason)
				require.Equal(t, "1", letter.Header.Get(topology.HeaderTries), "no repetition mends it")
			}
		})
	}
}

func TestSyncCompletedOfAnotherConnectorFailsTheRun(t *testing.T) {
	f := newFlow(t)
	victim := f.syncing()
	mine := f.syncing()
	bad := mine.completed(0)
	bad.ConnectorId = victim.connector
	f.publishes(bad)
	f.runs()
	f.becomes(mine, "failed")
	require.Equal(t, "running", victim.verdict())
	require.Len(t, f.letters(), 1)
}

func TestAConfigurationThatIsNotSaidIsTheRuns(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	m, last := c.doc(1, "a", "apple"), c.completed(1)
	m.ConfigVersion, last.ConfigVersion = 0, 0
	c.stores(m, last)
	require.Equal(t, "completed", c.verdict())
	require.Equal(t, c.version, one[int64](f, `SELECT config_version FROM documents`))
	require.Equal(t, line("a", "apple"), c.documents())
}

func TestAnotherRunsSessionWithThisTryIsNobodys(t *testing.T) {
	f := newFlow(t)
	mine, other := f.synced(map[string]string{"a": "apple"}).again(), f.synced(map[string]string{"b": "banana"}).again()
	before := mine.rows() + other.rows()
	for _, session := range []string{other.session.String(), uuid.NewString()} {
		for _, m := range []*internalpb.DocumentProcessRequest{
			mine.doc(1, "a", "x"), mine.deletion(2, "b"), mine.checkpoint(3, 1), mine.seen(4, 1, "a"), mine.completed(0),
			other.doc(1, "b", "x"),
		} {
			m.ChunkingSession, m.Try = session, mine.try.String()
			f.publishes(m)
		}
	}
	f.runs()
	f.empties()
	require.Equal(t, before, mine.rows()+other.rows())
	require.Zero(t, mine.stored()+other.stored())
	require.Zero(t, f.count("run_messages WHERE no > 1")+f.count("run_checkpoints")+f.count("message_tries"))
	require.Empty(t, f.letters())
}

// TestNoEnvelopeReachesAnotherConnector draws messages whose envelope mixes what two runs, a stranger and nobody would say, and
// takes each to its end, as the service does: stored, or given up and counted. The victim's own is left out.
func TestNoEnvelopeReachesAnotherConnector(t *testing.T) {
	f := newFixture(t)
	rapid.Check(t, func(rt *rapid.T) {
		victim := f.synced(map[string]string{"a": "apple", "b": "banana"}).again()
		mine := f.synced(map[string]string{"a": "avocado"}).again()
		before := victim.rows()
		for range rapid.IntRange(1, 12).Draw(rt, "messages") {
			no := rapid.Int64Range(1, 6).Draw(rt, "no")
			m := rapid.SampledFrom([]*internalpb.DocumentProcessRequest{
				mine.doc(no, "a", "planted"), mine.doc(no, "b", "planted", part(0, 2)), mine.deletion(no, "a"), mine.checkpoint(no, 1),
				mine.seen(no, 1, "a"), mine.completed(no), mine.doc(no, "a", "x", unreadable),
			}).Draw(rt, "body")
			m.ConnectorId = rapid.SampledFrom([]int32{mine.connector, victim.connector, 0, -1}).Draw(rt, "connector")
			m.ConfigVersion = rapid.SampledFrom([]int64{0, mine.version, victim.version, -1, 1 << 62}).Draw(rt, "version")
			of := lifecycle.Try{
				Run: rapid.SampledFrom([]uuid.UUID{mine.session, victim.session, uuid.New()}).Draw(rt, "session"),
				ID:  rapid.SampledFrom([]uuid.UUID{mine.try, victim.try, uuid.New()}).Draw(rt, "try"),
			}
			if of == victim.of() && m.ConnectorId == victim.connector {
				continue
			}
			m.ChunkingSession, m.Try = of.Run.String(), of.ID.String()
			d := delivery{request: m, try: of, msg: silentMessage{}}
			if err := f.process(ctx, []delivery{d}); err != nil {
				require.False(rt, isWait(err) || isHeld(err), "%v", err)
				require.NoError(rt, f.countPoison(ctx, d, err))
			}
			if victim.status() != "SYNCING" { // its sync completed came under another connector's name
				break
			}
			require.NoError(rt, inTime(f.CompleteStored))
			require.NoError(rt, inTime(f.Sweep))
		}
		if victim.status() == "SYNCING" {
			require.Equal(rt, before, victim.rows())
			overs["released"](victim)
		}
		require.Equal(rt, line("a", "apple")+"\n"+line("b", "banana"), victim.documents())
		if mine.status() == "SYNCING" {
			overs["released"](mine)
		}
	})
}

// hollow is a checkpoint whose fields take two bytes each on the wire and a hundred in memory.
func (c trip) hollow(no int64, n int) []byte {
	empty := make([]*structpb.Value, n)
	for i := range empty {
		empty[i] = &structpb.Value{}
	}
	m := c.checkpoint(no, 1)
	m.GetCheckpoint().State.Fields["a"] = structpb.NewListValue(&structpb.ListValue{Values: empty})
	data, err := proto.Marshal(m)
	require.NoError(c.f.t, err)
	return data
}

func TestMessagesThatGrowInMemoryAreRefusedOrDecodedAFewAtATime(t *testing.T) {
	f := newFlow(t)
	c := f.syncing()
	large := c.hollow(1, 240_000)
	require.Less(t, len(large), topology.MaxMessageBytes)
	f.publishRaw(large, c.session.String(), c.try.String(), 1)
	for no := range int64(5) {
		f.publishRaw(c.hollow(2+no, 150_000), c.session.String(), c.try.String(), 2+no)
	}
	batch := f.pulled(6)
	require.Equal(t, 1, countFitting(batch), "one of them is 20 MB")
	require.Equal(t, 2, countFitting(batch[1:]))
	_, err := decode(batch[0])
	require.ErrorContains(t, err, "more than 200000 fields")
	require.Equal(t, 6, countFitting([]jetstream.Msg{small{}, small{}, small{}, small{}, small{}, small{}}))
}

type small struct{ silentMessage }

func (small) Data() []byte { return nil }

func TestAMessageThatIsLargerThanAnyIsTakenByNeitherStreamNorService(t *testing.T) {
	f := newFlow(t)
	_, err := f.js.Publish(ctx, topology.DocumentSubject, make([]byte, topology.MaxMessageBytes+20<<10))
	require.ErrorContains(t, err, "maximum")
	_, err = decode(tooLarge{})
	require.ErrorContains(t, err, "more than 524288")
}

type tooLarge struct{ silentMessage }

func (tooLarge) Data() []byte { return make([]byte, topology.MaxMessageBytes+1) }
