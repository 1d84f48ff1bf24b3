package streams

import (
	"context"
	"github.com/echomind/sync/contract/topology"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func TestApplyMendsWhatWouldLoseWorkAndKeepsWhatIsHeld(t *testing.T) {
	t.Parallel()
	js := newBroker(t).JetStream
	ctx := context.Background()
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: topology.SyncStream, Subjects: []string{"connector.sync.web"}, Retention: jetstream.WorkQueuePolicy, MaxAge: time.Hour,
		Discard: jetstream.DiscardOld, MaxMsgsPerSubject: 5,
	})
	require.NoError(t, err)
	_, err = js.Publish(ctx, "connector.sync.web", []byte("x"))
	require.NoError(t, err)
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: topology.DocumentStream, Subjects: []string{topology.DocumentSubject}, Retention: jetstream.WorkQueuePolicy,
	})
	require.NoError(t, err)
	require.ErrorIs(t, EnsureStreams(ctx, js), ErrMisconfigured)
	states, err := Inspect(ctx, js)
	require.NoError(t, err)
	require.Contains(t, states[topology.SyncStream].Warnings[0], "discard is DiscardOld")

	require.NoError(t, Apply(ctx, js, Size{}))
	require.NoError(t, EnsureStreams(ctx, js))
	states, err = Inspect(ctx, js)
	require.NoError(t, err)
	require.EqualValues(t, 1, states[topology.SyncStream].Info.State.Msgs)
	require.Len(t, states[topology.SyncStream].Warnings, 1, "the one replica")
	_, err = js.Publish(ctx, topology.DocumentSubject, make([]byte, topology.MaxMessageBytes+20<<10))
	require.ErrorContains(t, err, "maximum", "it takes no larger messages than one that is made anew")
}

func TestApplyRefusesWhatCannotBeChangedInPlace(t *testing.T) {
	t.Parallel()
	js := newBroker(t).JetStream
	ctx := context.Background()
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: topology.DocumentStream, Subjects: []string{topology.DocumentSubject}, Storage: jetstream.MemoryStorage})
	require.NoError(t, err)
	err = Apply(ctx, js, Size{})
	require.ErrorIs(t, err, ErrMisconfigured)
	require.ErrorContains(t, err, "DOCUMENT_PROCESS: stream is misconfigured: retention is Limits and storage Memory, must be WorkQueue and File")
}

func TestManyWhoApplyAtOnceMakeEachStreamOnce(t *testing.T) {
	t.Parallel()
	js := newBroker(t).JetStream
	done := make(chan error)
	for range 8 {
		go func() { done <- Apply(context.Background(), js, Size{}) }()
	}
	for range 8 {
		require.NoError(t, <-done)
	}
}
