package worker_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

func TestAMessageIsAcknowledgedRightAfterThePickUp(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	handle, begun, _ := blocked()
	f.work(handle)
	await(t, "the handler", begun)
	f.empties(topology.SyncStream)
	f.is(c, `status = 'SYNCING' AND lease_expires_at > clock_timestamp() AND picked_up_at IS NOT NULL`)
}

func TestAWorkerWithoutAFreeSlotLeavesMessagesToOthers(t *testing.T) {
	f := newFixture(t)
	f.triggered()
	handle, begun, _ := blocked()
	f.work(handle)
	await(t, "the first handler", begun)
	second := f.triggered()
	f.work(func(context.Context, *worker.Run) error { return nil })
	// At once: not after AckWait, which is what a prefetched message would wait for.
	testkit.Eventually(t, topology.AckWait/3, func() error {
		if holds, row, err := f.look(second, `picked_up_at IS NOT NULL`); err != nil || !holds {
			return fmt.Errorf("the second is not picked up: %s %w", row, err)
		}
		return nil
	})
}

func TestTwoWorkersShareTheLoad(t *testing.T) {
	f := newFixture(t)
	first, second := f.triggered(), f.triggered()
	handle, begun, goOn := blocked()
	f.work(handle)
	f.work(handle)
	a, b := await(t, "one handler", begun), await(t, "the other handler", begun)
	require.ElementsMatch(t, []int32{first.id, second.id}, []int32{a.Request().ConnectorId, b.Request().ConnectorId})
	close(goOn)
	f.settled(first)
	f.settled(second)
}

func TestAllFreeSlotsAskInOneRequestAndEachMessageHasASlotOfItsOwn(t *testing.T) {
	f := newFixture(t)
	handle, begun, goOn := blocked()
	const slots = 8
	f.workWith(func(cfg *worker.Config) { cfg.Slots = slots }, handle)
	f.pulls()
	f.triggered()
	await(t, "the first handler", begun)
	f.pulls() // the same request, for the others
	for range slots - 1 {
		f.triggered()
		await(t, "a handler", begun)
	}
	f.triggered()
	testkit.Eventually(t, soon, func() error {
		consumer, err := f.js.Consumer(ctx, topology.SyncStream, "sync_file")
		require.NoError(t, err)
		require.Zero(t, consumer.CachedInfo().NumWaiting, "no slot is free")
		if n := consumer.CachedInfo().NumPending; n != 1 {
			return fmt.Errorf("%d messages wait, want 1", n)
		}
		return nil
	})
	goOn <- struct{}{}
	await(t, "a handler in the slot that came free", begun)
	goOn <- struct{}{}
	f.pulls()
	close(goOn)
}

func TestTwoWorkersWithManyFreeSlotsShareABurst(t *testing.T) {
	f := newFixture(t)
	var counts [2]atomic.Int32
	const slots, burst = 16, 16
	for i := range counts {
		f.workWith(func(cfg *worker.Config) { cfg.Slots = slots }, func(ctx context.Context, _ *worker.Run) error {
			counts[i].Add(1)
			<-ctx.Done()
			return ctx.Err()
		})
	}
	testkit.Eventually(t, soon, func() error {
		consumer, err := f.js.Consumer(ctx, topology.SyncStream, "sync_file")
		if err == nil && consumer.CachedInfo().NumWaiting != 2 {
			err = fmt.Errorf("%d pulls wait", consumer.CachedInfo().NumWaiting)
		}
		return err
	})
	for range burst {
		f.triggered()
	}
	testkit.Eventually(t, soon, func() error {
		if a, b := counts[0].Load(), counts[1].Load(); a+b != burst || a < burst/4 || b < burst/4 {
			return fmt.Errorf("one has %d, the other %d", a, b)
		}
		return nil
	})
}

func TestOldNewsIsAcknowledgedAndChangesNothing(t *testing.T) {
	f := newFixture(t)
	other := f.pending()
	otherSession := other
	otherSession.session = uuid.New()
	taken := f.pending()
	movestest.PickUp(t, f.pool, taken.id, taken.session, time.Hour)
	resting := f.pending()
	f.exec(`SELECT moves.release($1, NULL)`, resting.session)
	gone := f.pending()
	f.exec(`DELETE FROM connectors WHERE id = $1`, gone.id)
	before := f.everything(other) + f.everything(taken) + f.everything(resting)
	for _, c := range []trip{otherSession, taken, resting, gone} {
		f.publish(c)
	}
	f.work(func(_ context.Context, run *worker.Run) error {
		t.Errorf("connector %d was synced", run.Request().ConnectorId)
		return nil
	})
	f.empties(topology.SyncStream)
	require.Equal(t, before, f.everything(other)+f.everything(taken)+f.everything(resting))
}

// hollow is a configuration whose fields take two bytes each on the wire and a hundred in memory.
func hollow(n int) *structpb.Struct {
	empty := make([]*structpb.Value, n)
	for i := range empty {
		empty[i] = &structpb.Value{}
	}
	return &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewListValue(&structpb.ListValue{Values: empty})}}
}

func TestAnUndecodableTriggerBecomesADeadLetter(t *testing.T) {
	f := newFixture(t)
	encode := func(r *internalpb.ConnectorSyncRequest) []byte {
		data, err := proto.Marshal(r)
		require.NoError(t, err)
		return data
	}
	session := uuid.NewString()
	bad := map[string][]byte{
		"decode":           {0xff, 0xff, 0xff},
		"fields":           encode(&internalpb.ConnectorSyncRequest{ConnectorId: 1, ChunkingSession: session, Config: hollow(240_000)}),
		"chunking_session": encode(&internalpb.ConnectorSyncRequest{ConnectorId: 1, ChunkingSession: "x"}),
		"connector_id":     encode(&internalpb.ConnectorSyncRequest{ChunkingSession: session}),
		"type_name":        encode(&internalpb.ConnectorSyncRequest{ConnectorId: 1, ChunkingSession: session, TypeName: "web"}),
	}
	sequences := map[string]string{}
	for name, data := range bad {
		ack, err := f.js.PublishMsg(ctx, &nats.Msg{
			Subject: "connector.sync.file", Data: data, Header: nats.Header{"Case": []string{name}},
		})
		require.NoError(t, err)
		sequences[name] = fmt.Sprint(ack.Sequence)
	}
	f.work(func(context.Context, *worker.Run) error { return nil })
	f.empties(topology.SyncStream)
	letters, err := f.js.Stream(ctx, topology.DeadLetterStream)
	require.NoError(t, err)
	require.Equal(t, len(bad), int(letters.CachedInfo().State.Msgs))
	for seq := range letters.CachedInfo().State.LastSeq {
		letter, err := letters.GetMsg(ctx, seq+1)
		require.NoError(t, err)
		name := letter.Header.Get("Case")
		require.Equal(t, "dlq.connector.sync.file", letter.Subject)
		require.Equal(t, bad[name], append([]byte{}, letter.Data...), name)
		require.Contains(t, letter.Header.Get(topology.HeaderReason), name)
		require.Equal(t, "1", letter.Header.Get(topology.HeaderTries))
		require.Equal(t, sequences[name], letter.Header.Get(topology.HeaderSequence))
	}
}

func TestAnUndecodableTriggerOfTheLargestSizeDoesNotHoldUpTheSlot(t *testing.T) {
	f := newFixture(t)
	const most = 1 << 20
	_, err := f.js.Publish(ctx, "connector.sync.file", bytes.Repeat([]byte{0xff}, most))
	require.NoError(t, err)
	c := f.triggered()
	f.work(func(ctx context.Context, run *worker.Run) error { return run.Put(ctx, note(1)) })
	f.settled(c)
	letters, err := f.js.Stream(ctx, topology.DeadLetterStream)
	require.NoError(t, err)
	letter, err := letters.GetMsg(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(most), letter.Header.Get(topology.HeaderCutFrom))
	require.Contains(t, letter.Header.Get(topology.HeaderReason), "decode")
	require.Greater(t, len(letter.Data), most-8192)
}

func TestTheKitComesBackWhenItsConsumerOrItsStreamIsGone(t *testing.T) {
	f := newFixture(t)
	f.work(func(ctx context.Context, run *worker.Run) error { return run.Put(ctx, note(1)) })
	first := f.triggered()
	f.settled(first)
	for name, remove := range map[string]func() error{
		"consumer": func() error { return f.js.DeleteConsumer(ctx, topology.SyncStream, "sync_file") },
		"stream":   func() error { return f.js.DeleteStream(ctx, topology.SyncStream) },
	} {
		require.NoError(t, remove(), name)
		testkit.Eventually(t, soon, func() error {
			_, err := f.js.Consumer(ctx, topology.SyncStream, "sync_file")
			return err
		})
		c := f.triggered()
		f.settled(c)
		f.whole(c, 1)
	}
}

func TestTraceContextTravelsFromTheTriggerToTheDocuments(t *testing.T) {
	f := newFixture(t)
	c := f.pending()
	data, err := proto.Marshal(&internalpb.ConnectorSyncRequest{
		ConnectorId: c.id, ChunkingSession: c.session.String(), ConfigVersion: c.version,
	})
	require.NoError(t, err)
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	_, err = f.js.PublishMsg(ctx, &nats.Msg{
		Subject: "connector.sync.file", Data: data,
		Header: nats.Header{"Traceparent": []string{"00-" + trace + "-00f067aa0ba902b7-01"}},
	})
	require.NoError(t, err)
	f.work(func(ctx context.Context, run *worker.Run) error { return run.Put(ctx, note(1)) })
	f.settled(c)
	stream, err := f.js.Stream(ctx, topology.DocumentStream)
	require.NoError(t, err)
	for seq := uint64(1); seq <= 2; seq++ {
		msg, err := stream.GetMsg(ctx, seq)
		require.NoError(t, err)
		require.Contains(t, msg.Header.Get("Traceparent"), trace)
	}
}

// Not parallel: the goroutines of other tests would count.
func TestAStoppedWorkerLeavesNoGoroutineBehind(t *testing.T) {
	f := newFixtureOn(t, testkit.Database(t, db.Up))
	w := f.newWorker(func(cfg *worker.Config) { cfg.Grace = time.Minute }, func(ctx context.Context, run *worker.Run) error {
		return run.Put(ctx, note(1))
	})
	sync := func() {
		c := f.triggered()
		working, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- w.Run(working) }()
		f.settled(c)
		cancel()
		require.NoError(t, await(t, "the end of the worker", ended))
	}
	sync() // connections, streams and consumers have goroutines of their own, which stay
	before := goleak.IgnoreCurrent()
	sync()
	// The driver begins to read beside where a write takes long, and goes on until the connection is used again.
	require.NoError(t, goleak.Find(before, goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgconn/internal/bgreader.(*BGReader).bgRead")))
}

func TestAMalformedTypeOrABadConfigurationIsRefused(t *testing.T) {
	process := connect.NewProcess(testkit.Logger(t))
	_, err := worker.New("No Such", nil, worker.DefaultConfig(), nil, process)
	require.ErrorIs(t, err, topology.ErrTypeName)
	_, err = worker.New("notes", nil, worker.Config{}, nil, process)
	for _, name := range []string{"SLOTS", "LEASE_SECONDS", "MAX_RUN_MINUTES", "MAX_IN_FLIGHT", "MAX_IN_FLIGHT_BYTES"} {
		require.ErrorContains(t, err, "WORKER_"+name)
	}
}
