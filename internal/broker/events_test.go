package broker

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/events"
	"github.com/echomind/sync/contract/proto/gen/publicpb"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/testonly/faultproxy"
	"github.com/echomind/sync/testonly/testkit"
)

func TestWhatHasComeOfEventsIsKeptWhereTheRestIsTooSlow(t *testing.T) {
	t.Parallel()
	const all = 3 * eventsAtOnce
	server := testkit.NATS(t)
	js := testkit.JetStream(t, server.URL())
	require.NoError(t, streams.EnsureStreams(t.Context(), js))
	for range all {
		msg, err := events.Event{ID: uuid.NewString(), Time: time.Now(), Run: &publicpb.RunEvent{ConnectorId: 1, Type: "web", Verdict: "completed"}}.Message()
		require.NoError(t, err)
		_, err = js.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	proxy, err := faultproxy.Start(js.Conn().ConnectedAddr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	url, err := proxy.URL(server.URL())
	require.NoError(t, err)
	b, err := Open(url, config.NATSAccess{})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	proxy.Delay(250 * time.Millisecond) // 500 ms for each question, and one more for the stream: no look comes to the end
	var told []uint64
	at, failed := uint64(0), 0
	for tries := 0; at < all && tries < 200; tries++ {
		ctx, cancel := context.WithTimeout(t.Context(), 1700*time.Millisecond)
		some, reached, err := b.Events(ctx, at, all)
		cancel()
		if at = reached; err != nil {
			failed++
		}
		for _, e := range some {
			told = append(told, e.Seq)
		}
	}
	require.Positive(t, failed)
	require.Len(t, told, all)
	for i, seq := range told {
		require.Equal(t, uint64(i+1), seq)
	}
}
