package semantic

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/leases"
	"github.com/echomind/sync/internal/movestest"
	"github.com/echomind/sync/internal/testkit"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/topology"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
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
	require.NoError(f.t, f.FailLostInTransit(ctx))
}

func (c trip) lostInTransit() {
	c.f.t.Helper()
	require.True(c.f.t, one[bool](c.f, `SELECT status = 'ERROR' AND failure_count = 0 AND due_reason = 'lost' AND run_id IS NULL
		AND next_sync_at <= clock_timestamp() FROM connectors WHERE id = $1`, c.connector))
	require.Equal(c.f.t, "failed: lost in transit", one[string](c.f, `SELECT status || ': ' || reason FROM scheduler_runs WHERE id = $1`, c.session))
}

func (c trip) stillRuns() {
	c.f.t.Helper()
	require.True(c.f.t, one[bool](c.f, `SELECT status = 'SYNCING' AND run_id = $2 AND EXISTS (SELECT FROM open_runs WHERE id = $2)
		FROM connectors WHERE id = $1`, c.connector, c.session))
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
			require.NoError(t, topology.EnsureStreams(ctx, f.js))
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
	require.NoError(t, f.CompleteStored(ctx))
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
	require.ErrorContains(t, b.FailLostInTransit(ctx), "semantic.document_stream")
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

// lostAgain is a run whose worker is lost, of a connector whose worker was lost before.
func (f *fixture) lostAgain(set ...string) trip {
	f.t.Helper()
	c := f.connector(set...)
	movestest.Force(f.t, f.pool, `UPDATE connectors SET failure_count = 1 WHERE id = $1`, c.connector)
	c = c.again()
	c.losesItsWorker()
	return c
}

func (f *fixture) abandons() {
	f.t.Helper()
	require.NoError(f.t, f.Abandon(ctx))
}

func TestAWorkerLostAgainEndsInErrorWithABackoff(t *testing.T) {
	f := newFixture(t)
	c := f.lostAgain()
	f.abandons()
	require.True(t, one[bool](f, `SELECT status = 'ERROR' AND failure_count = 2 AND due_reason = 'retry'
		AND next_sync_at > clock_timestamp() + interval '3 minutes' FROM connectors WHERE id = $1`, c.connector))
	require.Equal(t, "failed: worker lost", one[string](f, `SELECT status || ': ' || reason FROM scheduler_runs WHERE id = $1`, c.session))
	c.stores(c.doc(1, "a", "late"), c.completed(1))
	require.Empty(t, c.documents())
}

func TestAWorkerLostTooOftenDisables(t *testing.T) {
	f := newFixture(t)
	only := f.syncing("max_retries = 1")
	only.losesItsWorker()
	last := f.lostAgain("max_retries = 2")
	f.abandons()
	for _, c := range []trip{only, last} {
		require.True(t, one[bool](f, `SELECT status = 'DISABLED' AND failure_count = max_retries AND next_sync_at IS NULL
			AND status_message LIKE 'disabled after % failures in a row: worker lost%' FROM connectors WHERE id = $1`, c.connector))
	}
	require.Zero(t, f.count("open_runs"))
}

func TestAFirstLossIsTheSchedulers(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.losesItsWorker()
	f.abandons()
	c.stillRuns()
}

func TestAWorkerThatLivesOrIsDoneOrHasEverythingStoredIsNotAbandoned(t *testing.T) {
	f := newFixture(t)
	live, draining, whole := f.lostAgain(), f.lostAgain(), f.lostAgain()
	f.exec(`UPDATE workers SET expires_at = clock_timestamp() + interval '1 minute' WHERE id = (SELECT worker_id FROM open_runs WHERE id = $1)`, live.session)
	require.NoError(t, lifecycle.New(f.pool).Drain(ctx, draining.of(), 1))
	f.exec(`UPDATE open_runs SET stored = 3, total = 3, whole = true WHERE id = $1`, whole.session)
	f.exec(`UPDATE open_runs SET picked_up_at = picked_up_at - interval '1 day'`)
	f.abandons()
	for _, c := range []trip{live, draining, whole} {
		c.stillRuns()
	}
	f.exec(`UPDATE open_runs SET total = 4, whole = false WHERE id = $1`, whole.session)
	f.abandons()
	require.Equal(t, "failed", whole.verdict())
}

func TestAForeignSubscriberIsAbandonedOnlyAfterItsTimeout(t *testing.T) {
	f := newFixture(t)
	c := f.connector()
	movestest.Force(t, f.pool, `UPDATE connectors SET failure_count = 1 WHERE id = $1`, c.connector)
	c.session, c.try = movestest.Claim(t, f.pool, c.connector), uuid.New()
	f.exec(`SELECT moves.pick_up($1, $2, $3)`, c.connector, c.session, c.try)
	f.exec(`UPDATE open_runs SET picked_up_at = picked_up_at - interval '5 hours 59 minutes'`)
	f.abandons()
	c.stillRuns()
	f.exec(`UPDATE open_runs SET picked_up_at = picked_up_at - interval '2 minutes'`)
	f.abandons()
	require.Equal(t, "ERROR", c.status())
	require.Equal(t, "failed", c.verdict())
}

func TestAnAbandonTakesMoreThanOneBatch(t *testing.T) {
	f := newFixture(t)
	f.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) SELECT 'c', 'file', 1, 60 FROM generate_series(1, $1)`, 2*lostBatch+50)
	movestest.Force(t, f.pool, `UPDATE connectors SET failure_count = 1`)
	f.exec(`SELECT moves.claim((SELECT jsonb_agg(jsonb_build_object('id', id, 'run_id', gen_random_uuid())) FROM connectors), clock_timestamp())`)
	f.exec(`SELECT moves.pick_up(id, run_id, gen_random_uuid(), '00000000-0000-0000-0000-000000000001', '1 minute') FROM connectors`)
	f.exec(`UPDATE workers SET expires_at = clock_timestamp() - interval '1 second'`)
	f.abandons()
	require.Equal(t, int64(2*lostBatch+50), f.count("connectors WHERE status = 'ERROR'"))
	require.Zero(t, f.count("open_runs"))
}

func TestOfTwoReplicasOneAbandons(t *testing.T) {
	f := newFixture(t)
	other := f.service(f.connects())
	for range 20 {
		f.lostAgain()
	}
	ended := make(chan error, 2)
	for _, s := range []*Semantic{f.Semantic, other} {
		go func() { ended <- s.Abandon(ctx) }()
	}
	for range 2 {
		require.NoError(t, <-ended)
	}
	f.abandons()
	require.Equal(t, int64(20), f.count("connectors WHERE status = 'ERROR' AND failure_count = 2"))
}

func TestNobodyIsAbandonedInTheFirstLeasePeriod(t *testing.T) {
	f := newFixture(t)
	c := f.lostAgain()
	f.workers = leases.NewWatch(f.servers.Pool, time.Hour)
	f.abandons()
	f.abandons()
	c.stillRuns()
}

func TestARunThatSomebodyHoldsLeavesTheOthersOfALostWorkerTheirVerdict(t *testing.T) {
	for name, hold := range map[string]string{
		"connector": `SELECT FROM connectors WHERE id = $1 FOR UPDATE`,
		"open run":  `SELECT FROM open_runs WHERE connector_id = $1 FOR UPDATE`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			held, other := f.lostAgain(), f.lostAgain()
			release := f.holds(hold, held.connector)
			f.abandons()
			held.stillRuns()
			require.Equal(t, "ERROR", other.status())
			release()
			f.abandons()
			require.Equal(t, "ERROR", held.status())
		})
	}
}

func TestNobodyIsAbandonedForALeaseAfterPostgresTookNoMoreConnections(t *testing.T) {
	t.Parallel()
	_, url := testkit.PrivatePostgres(t, db.Up)
	f := newFlowOn(t, url)
	c := f.lostAgain()
	f.workers = leases.NewWatch(f.servers.Pool, 0)
	require.NoError(t, f.Abandon(ctx), "so that its connections are open")
	c = f.lostAgain()
	var taken []*pgx.Conn
	for {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			taken = append(taken, conn)
		} else if !strings.Contains(err.Error(), "53300") {
			t.Fatal(err)
		}
		if full, err := f.queries.IsFull(ctx); err != nil || full == nil {
			t.Fatal(err)
		} else if *full {
			break
		}
	}
	f.abandons()
	c.stillRuns()
	for _, conn := range taken {
		require.NoError(t, conn.Close(ctx))
	}
	f.abandons()
	require.Equal(t, "ERROR", c.status())
}
