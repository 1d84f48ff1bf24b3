package leastprivilege

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/broker"
	"github.com/echomind/sync/internal/streams"
)

func TestTheOperatorSeesQueuesSubscribersAndDeadLettersAndMayDropThem(t *testing.T) {
	t.Parallel()
	ctx, url := context.Background(), serve(t)
	apply(t, url)
	_, scheduler := as(t, url, "scheduler")
	_, err := scheduler.Publish(ctx, "connector.sync.web", []byte("trigger"))
	require.NoError(t, err)
	_, chunker := as(t, url, "chunker")
	declared, err := topology.SyncConsumer("web")
	require.NoError(t, err)
	consumer, err := streams.EnsureConsumer(ctx, chunker, topology.SyncStream, declared)
	require.NoError(t, err)

	b, err := broker.Open(url, access("operator"))
	require.NoError(t, err)
	defer b.Close()
	queue, err := b.Queue(ctx, topology.SyncStream, "connector.sync.web")
	require.NoError(t, err)
	require.EqualValues(t, 1, queue.Messages)
	subscriptions, err := b.Subscriptions(ctx, topology.SyncStream, "connector.sync.web")
	require.NoError(t, err)
	require.Len(t, subscriptions, 1)

	msg, err := consumer.Next()
	require.NoError(t, err)
	require.NoError(t, streams.DeadLetter(ctx, chunker, msg, errors.New("it cannot be read"), 1))
	letters, err := b.Letters(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, letters.Count)

	_, js := as(t, url, "operator")
	stream, err := js.Stream(ctx, topology.DeadLetterStream)
	require.NoError(t, err)
	require.NoError(t, stream.DeleteMsg(ctx, 1))
	_, err = js.CreateOrUpdateConsumer(ctx, topology.DocumentStream, jetstream.ConsumerConfig{Durable: "mine", FilterSubject: "document.process"})
	require.ErrorIs(t, err, streams.ErrNotAllowed, "looking takes nothing from the services")
}
