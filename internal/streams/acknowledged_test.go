package streams

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/testonly/testkit"
)

// take pulls n messages from a consumer.
func (b *broker) take(consumer jetstream.Consumer, n int) []jetstream.Msg {
	b.Helper()
	var all []jetstream.Msg
	testkit.Eventually(b.T, 30*time.Second, func() error {
		batch, err := consumer.Fetch(n-len(all), jetstream.FetchMaxWait(time.Second))
		if err != nil {
			return err
		}
		for msg := range batch.Messages() {
			all = append(all, msg)
		}
		if len(all) < n {
			return errors.Join(fmt.Errorf("%d messages, want %d", len(all), n), batch.Error())
		}
		return nil
	})
	return all
}

// sequences are those of the messages that a stream holds.
func (b *broker) sequences(name string) (held []uint64) {
	b.Helper()
	testkit.Eventually(b.T, 30*time.Second, func() error {
		stream, err := b.Stream(b.Context(), name)
		if err != nil {
			return err
		}
		held = nil
		state := stream.CachedInfo().State
		for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
			_, err := stream.GetMsg(b.Context(), seq)
			if err == nil {
				held = append(held, seq)
			} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
				return err
			}
		}
		return nil
	})
	return held
}

func TestWhatAKilledServerBringsBackThoughItIsAcknowledgedIsRemoved(t *testing.T) {
	b := newBroker(t).ensured()
	for _, kind := range []string{"wiki", "web", "web", "wiki", "web", "web", "nobody", "web"} {
		_, err := b.Publish(t.Context(), "connector.sync."+kind, []byte(kind))
		b.do(err)
	}
	web, err := topology.SyncConsumer("web") // 2, 3, 5, 6, 8
	b.do(err)
	wiki, err := topology.SyncConsumer("wiki") // 1, 4
	b.do(err)
	web.AckWait = time.Second // messages in work when the server ends come again after it
	ofWeb, err := EnsureConsumer(t.Context(), b, topology.SyncStream, web)
	b.do(err)
	_, err = EnsureConsumer(t.Context(), b, topology.SyncStream, wiki)
	b.do(err)
	b.do(b.server.RestartAsKilled(topology.SyncStream, func() error {
		taken := b.take(ofWeb, 5)
		for _, i := range []int{0, 1, 3} { // 2, 3, 6: the message between is in work
			if err := taken[i].DoubleAck(t.Context()); err != nil {
				return err
			}
		}
		return nil
	}))
	if held := b.sequences(topology.SyncStream); !slices.Equal(held, []uint64{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Fatalf("the server came back with %v, want all", held)
	}

	remove := func(want ...string) {
		t.Helper()
		removed, err := RemoveAcknowledged(t.Context(), b, topology.SyncStream)
		b.do(err)
		if !slices.Equal(removed, want) {
			t.Errorf("something of %q was removed, want %q", removed, want)
		}
	}
	remove("connector.sync.web")
	if held := b.sequences(topology.SyncStream); !slices.Equal(held, []uint64{1, 4, 5, 6, 7, 8}) {
		t.Errorf("the stream holds %v, want all but 2 and 3", held)
	}
	remove()
	for _, msg := range b.take(ofWeb, 2) {
		b.do(msg.DoubleAck(t.Context()))
	}
	remove("connector.sync.web")
	if held := b.sequences(topology.SyncStream); !slices.Equal(held, []uint64{1, 4, 7}) {
		t.Errorf("the stream holds %v, want what nobody has taken", held)
	}
}

func TestAStreamThatIsMissingHoldsNothingThatIsAcknowledged(t *testing.T) {
	removed, err := RemoveAcknowledged(t.Context(), newBroker(t), topology.SyncStream)
	if len(removed) > 0 || err != nil {
		t.Errorf("removed %q, %v", removed, err)
	}
}

// A server gives up a message after max_deliver deliveries: it stays in the stream, and the floor passes it.
func TestWhatAConsumerGivesUpIsNotTakenForAcknowledged(t *testing.T) {
	b := newBroker(t).ensured()
	publish := func() {
		t.Helper()
		_, err := b.Publish(t.Context(), "connector.sync.web", []byte("web"))
		b.do(err)
	}
	publish()
	publish()
	web, err := topology.SyncConsumer("web")
	b.do(err)
	web.AckWait, web.MaxDeliver = time.Second, 2
	consumer, err := EnsureConsumer(t.Context(), b, topology.SyncStream, web)
	b.do(err)
	for range web.MaxDeliver {
		for _, msg := range b.take(consumer, 2) {
			b.do(msg.Nak())
		}
	}
	publish()
	b.do(b.take(consumer, 1)[0].DoubleAck(t.Context()))
	testkit.Eventually(t, 30*time.Second, func() error {
		info, err := consumer.Info(t.Context())
		if err == nil && info.AckFloor.Stream < 3 {
			err = fmt.Errorf("the floor is %d", info.AckFloor.Stream)
		}
		return err
	})
	removed, err := RemoveAcknowledged(t.Context(), b, topology.SyncStream)
	b.do(err)
	if held := b.sequences(topology.SyncStream); len(removed) > 0 || !slices.Equal(held, []uint64{1, 2}) {
		t.Errorf("removed %q; the stream holds %v, want what nobody has acknowledged", removed, held)
	}
}
