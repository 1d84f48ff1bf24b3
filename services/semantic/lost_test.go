//go:build !race

package semantic

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

// document publishes one document message and returns its place in the stream.
func (f *flow) document() uint64 {
	f.t.Helper()
	ack, err := f.js.Publish(ctx, topology.DocumentSubject, []byte("document"))
	require.NoError(f.t, err)
	return ack.Sequence
}

// forget removes the documents up to a place, as their acknowledgement does.
func (f *flow) forget(through uint64) {
	f.t.Helper()
	stream, err := f.js.Stream(ctx, topology.DocumentStream)
	require.NoError(f.t, err)
	require.NoError(f.t, stream.Purge(ctx, jetstream.WithPurgeSequence(through+1)))
}

// draining is a run whose worker has published 2 documents and sync completed, the last of them at the place returned. What is
// missing counts as lost at once.
func (f *flow) draining() (c trip, place uint64) {
	f.t.Helper()
	f.missingFor = 0
	c = f.syncing()
	for range 3 {
		place = f.document()
	}
	c.tells(2)
	require.NoError(f.t, lifecycle.New(f.pool).Drain(ctx, c.of(), place))
	return c, place
}

func (f *flow) lookForDocuments() {
	f.t.Helper()
	require.NoError(f.t, inTime(f.FailLostInTransit))
}

func (c trip) lostInTransit() {
	c.f.t.Helper()
	require.True(c.f.t, one[bool](c.f, `SELECT status = 'ERROR' AND failure_count = 0 AND due_reason = 'lost' AND run_id IS NULL
		AND next_sync_at <= clock_timestamp() FROM connectors WHERE id = $1`, c.connector))
	require.Equal(c.f.t, "failed: lost in transit", one[string](c.f, `SELECT status || ': ' || reason FROM scheduler_runs WHERE id = $1`, c.session))
}

func TestADrainingRunWhoseDocumentsWaitIsLeftAlone(t *testing.T) {
	f := newFlow(t)
	c, place := f.draining()
	f.lookForDocuments()
	c.stillRuns()
	f.forget(place - 1)
	f.document()
	f.lookForDocuments()
	c.stillRuns()
}

func TestDocumentsAreLostWhenTheStreamIsPastThem(t *testing.T) {
	f := newFlow(t)
	c, place := f.draining()
	f.document()
	f.forget(place)
	f.lookForDocuments()
	c.lostInTransit()
}

func TestDocumentsAreLostWhenTheStreamIsEmpty(t *testing.T) {
	f := newFlow(t)
	c, place := f.draining()
	f.forget(place)
	f.lookForDocuments()
	c.lostInTransit()
}

func TestDocumentsAreLostWithAStreamThatWasMadeAgain(t *testing.T) {
	for name, later := range map[string]int{"empty": 0, "with others' documents": 2} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			c, _ := f.draining()
			require.NoError(t, f.js.DeleteStream(ctx, topology.DocumentStream))
			require.NoError(t, streams.EnsureStreams(ctx, f.js))
			for range later {
				f.document()
			}
			f.lookForDocuments()
			c.lostInTransit()
		})
	}
}

func TestDocumentsAreLostWithADeletedStreamWhichIsMadeAgain(t *testing.T) {
	f := newFlow(t)
	c, _ := f.draining()
	require.NoError(t, f.js.DeleteStream(ctx, topology.DocumentStream))
	f.lookForDocuments()
	c.lostInTransit()
	_, err := f.js.Stream(ctx, topology.DocumentStream)
	require.NoError(t, err)
}

func TestDocumentsAreLostThatAKilledServerBroughtBackThoughTheyWereAcknowledged(t *testing.T) {
	f := newFlow(t)
	c, place := f.draining()
	require.NoError(t, f.broker.RestartAsKilled(topology.DocumentStream, func() error {
		testkit.Eventually(t, soon, func() error { // as soon as the client is connected again
			_, err := f.js.Stream(ctx, topology.DocumentStream)
			return err
		})
		for _, msg := range f.pulled(int(place)) {
			require.NoError(t, msg.DoubleAck(ctx))
		}
		return nil
	}))
	testkit.Eventually(t, soon, func() error { return f.FailLostInTransit(ctx) })
	c.lostInTransit()
	stream, err := f.js.Stream(ctx, topology.DocumentStream)
	require.NoError(t, err)
	require.Zero(t, stream.CachedInfo().State.Msgs)
}

func TestARunThatBeganToDrainAfterTheQuestionIsLeftAlone(t *testing.T) {
	f := newFlow(t)
	before, err := f.queries.DrainingRuns(ctx, drainingPage)
	require.NoError(t, err)
	first, last, err := f.documentsHeld(ctx)
	require.NoError(t, err)
	c, _ := f.draining()
	require.Empty(t, f.missingLong(before, first, last, time.Now()))
	c.stillRuns()
}

func TestARunThatDrainedAgainAtAPlaceThatTheStreamHoldsIsLeftAlone(t *testing.T) {
	f := newFlow(t)
	c, place := f.draining()
	failed, err := f.queries.FailLostInTransit(ctx, dbgen.FailLostInTransitParams{
		Candidates: []uuid.UUID{c.session}, FirstSeq: int64(place), LastSeq: int64(place),
	})
	require.NoError(t, err)
	require.Empty(t, failed)
	c.stillRuns()
}

func TestARunWithEverythingStoredIsLeftToItsCompletion(t *testing.T) {
	f := newFlow(t)
	c, place := f.draining()
	f.exec(`UPDATE open_runs SET stored = total, whole = true WHERE id = $1`, c.session)
	f.forget(place)
	f.lookForDocuments()
	c.stillRuns()
	require.NoError(t, inTime(f.CompleteStored))
	require.Equal(t, "completed", c.verdict())
}

func TestASyncCompletedThatNeverArrivedIsLost(t *testing.T) {
	f := newFlow(t)
	c, place := f.draining()
	f.exec(`UPDATE open_runs SET total = NULL WHERE id = $1`, c.session)
	f.forget(place)
	f.lookForDocuments()
	c.lostInTransit()
}

func TestARunAtWorkIsNotLostInTransit(t *testing.T) {
	f := newFlow(t)
	f.missingFor = 0
	c := f.syncing()
	f.forget(f.document())
	f.lookForDocuments()
	c.stillRuns()
}

func TestAConnectorWhoseDocumentsWereLostRunsAgainAndKeepsItsCursor(t *testing.T) {
	f := newFlow(t)
	c, place := f.draining()
	f.exec(`UPDATE open_runs SET new_state = '{"cursor":2}' WHERE id = $1`, c.session)
	f.forget(place)
	f.lookForDocuments()
	c.lostInTransit()
	c.session = movestest.Claim(t, f.pool, c.connector)
	require.Equal(t, "lost", one[string](f.fixture, `SELECT trigger FROM open_runs WHERE id = $1`, c.session))
	require.Equal(t, "{}", one[string](f.fixture, `SELECT state::text FROM connectors WHERE id = $1`, c.connector))
}

func TestABrokerThatIsAwayLosesNothingInTransit(t *testing.T) {
	b := newBehind(t)
	c, place := b.draining()
	b.forget(place)
	b.nats.Silence(ways["both ways"]...)
	require.ErrorContains(t, b.FailLostInTransit(ctx), "ask for the document stream")
	c.stillRuns()
	b.nats.Heal()
}

func TestAnAnswerOfTheStreamCountsWhenItStands(t *testing.T) {
	f := newFlow(t)
	c, place := f.draining()
	const lease = 15 * time.Second
	f.missingFor = lease
	stale := func() { // the last documents are not in the answer
		f.exec(`UPDATE open_runs SET drain_seq = $2 WHERE id = $1`, c.session, place+1)
	}
	right := func() { f.exec(`UPDATE open_runs SET drain_seq = $2 WHERE id = $1`, c.session, place) }
	longAgo := func() {
		require.Contains(t, f.missing, c.session)
		f.missing[c.session] = f.missing[c.session].Add(-lease)
	}
	stale()
	f.lookForDocuments()
	c.stillRuns()
	longAgo()
	right()
	f.lookForDocuments()
	require.Empty(t, f.missing, "they are there")
	stale()
	f.lookForDocuments()
	c.stillRuns() // the time counts anew
	f.missing[c.session] = f.missing[c.session].Add(time.Second - lease)
	f.lookForDocuments()
	c.stillRuns()
	longAgo()
	f.lookForDocuments()
	c.lostInTransit()
}

func TestAStreamThatGivesNoAnswerBeginsTheTimeAnew(t *testing.T) {
	b := newBehind(t)
	c, place := b.draining()
	b.forget(place)
	b.missingFor = time.Hour
	b.lookForDocuments()
	b.missing[c.session] = b.missing[c.session].Add(-time.Hour)
	b.nats.Silence(ways["both ways"]...)
	require.Error(t, b.FailLostInTransit(ctx))
	b.nats.Heal()
	testkit.Eventually(t, soon, func() error { return b.FailLostInTransit(ctx) })
	c.stillRuns()
}

func TestARunThatSomebodyHoldsLeavesTheOthersLostInTransitTheirVerdict(t *testing.T) {
	for name, hold := range map[string]string{
		"connector": `SELECT FROM connectors WHERE id = $1 FOR UPDATE`,
		"open run":  `SELECT FROM open_runs WHERE connector_id = $1 FOR UPDATE`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			held, _ := f.draining()
			other, place := f.draining()
			f.forget(place)
			release := f.holds(hold, held.connector)
			f.lookForDocuments()
			held.stillRuns()
			other.lostInTransit()
			release()
			f.lookForDocuments()
			held.lostInTransit()
		})
	}
}

func TestOnlyALeaderThatHearsItsReplicasIsBelieved(t *testing.T) {
	peers := func(active ...time.Duration) *jetstream.ClusterInfo {
		c := &jetstream.ClusterInfo{Leader: "one"}
		for i, a := range active {
			c.Replicas = append(c.Replicas, &jetstream.PeerInfo{Name: string(rune('a' + i)), Active: a})
		}
		return c
	}
	for name, c := range map[string]struct {
		replicas int
		cluster  *jetstream.ClusterInfo
		believed bool
	}{
		"no cluster":          {1, nil, true},
		"one replica":         {1, peers(), true},
		"both are heard":      {3, peers(time.Second, time.Second), true},
		"one of two is heard": {3, peers(time.Minute, time.Second), true},
		"none is heard":       {3, peers(time.Minute, time.Minute), false},
		"two of four of five": {5, peers(time.Second, time.Second, time.Minute, time.Minute), true},
		"one of four of five": {5, peers(time.Second, time.Minute, time.Minute, time.Minute), false},
		"no leader":           {3, &jetstream.ClusterInfo{Replicas: peers(0, 0).Replicas}, false},
		"nothing is known":    {3, nil, false},
	} {
		info := &jetstream.StreamInfo{Config: jetstream.StreamConfig{Replicas: c.replicas}, Cluster: c.cluster}
		require.Equal(t, c.believed, hasMajority(info), name)
	}
}
