package broker

import (
	"context"
	"os"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

func open(t *testing.T) *Broker {
	t.Helper()
	b, err := Open(testkit.NATS(t).URL(), config.NATSAccess{})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

func (b *Broker) letters(t *testing.T, subjects ...string) *Letters {
	t.Helper()
	ctx := context.Background()
	require.NoError(t, streams.EnsureStreams(ctx, b.stream))
	for _, subject := range subjects {
		_, err := b.stream.Publish(ctx, subject, []byte(subject))
		require.NoError(t, err)
	}
	l, err := b.Letters(ctx)
	require.NoError(t, err)
	return l
}

func TestWhoTakesAllDeadLettersDoesNotChaseThoseThatComeMeanwhile(t *testing.T) {
	t.Parallel()
	ctx, b := context.Background(), open(t)
	l := b.letters(t, "dlq.a", "dlq.b", "dlq.a")
	require.Equal(t, uint64(3), l.Last)
	_ = b.letters(t, "dlq.a")
	var found []uint64
	for after := uint64(0); ; {
		letter, err := l.Next(ctx, after+1, "dlq.a")
		if err != nil {
			require.ErrorIs(t, err, ErrNoLetter)
			break
		}
		after = letter.Sequence
		found = append(found, after)
		require.NoError(t, l.Remove(ctx, after))
	}
	require.Equal(t, []uint64{1, 3}, found)
	_, err := l.Get(ctx, 4)
	require.ErrorIs(t, err, ErrNoLetter)
}

func TestALetterThatIsGoneIsRemovedWithoutError(t *testing.T) {
	t.Parallel()
	ctx, b := context.Background(), open(t)
	l := b.letters(t, "dlq.a", "dlq.b")
	for range 2 {
		require.NoError(t, l.Remove(ctx, 1))
	}
	_, err := l.Get(ctx, 1)
	require.ErrorIs(t, err, ErrNoLetter)
	require.NoError(t, l.Remove(ctx, 99))
	require.NoError(t, b.stream.DeleteStream(ctx, topology.DeadLetterStream))
	require.Error(t, l.Remove(ctx, 2), "what cannot be asked is not taken for gone")
}

func TestAStreamThatDoesNotExistHoldsNoLetters(t *testing.T) {
	t.Parallel()
	ctx, b := context.Background(), open(t)
	l, err := b.Letters(ctx)
	require.NoError(t, err)
	require.Zero(t, l.Count)
	_, err = l.Next(ctx, 1, "dlq.>")
	require.ErrorIs(t, err, ErrNoLetter)
	_, err = l.Get(ctx, 1)
	require.ErrorIs(t, err, ErrNoLetter)
	require.NoError(t, l.Remove(ctx, 1))
}

func TestLookingLeavesNoConsumer(t *testing.T) {
	t.Parallel()
	ctx, b := context.Background(), open(t)
	l := b.letters(t, "dlq.a")
	_, err := l.Next(ctx, 1, "dlq.>")
	require.NoError(t, err)
	stream, err := b.stream.Stream(ctx, topology.DeadLetterStream)
	require.NoError(t, err)
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(">"))
	require.NoError(t, err)
	require.Zero(t, info.State.Consumers)
}
