package streams

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/natsserver"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// broker is a nats-server for one test.
type broker struct {
	*testing.T
	jetstream.JetStream
	server *natsserver.Server
}

func newBroker(t *testing.T) *broker {
	t.Helper()
	server := testkit.NATS(t)
	js := testkit.JetStream(t, server.URL())
	return &broker{t, js, server}
}

func (b *broker) do(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *broker) ensured() *broker {
	b.Helper()
	b.do(EnsureStreams(b.Context(), b))
	return b
}

func declared(name string) jetstream.StreamConfig {
	for _, s := range topology.Streams(topology.DefaultMaxDocumentBytes, topology.DefaultMaxDeadLetterBytes, topology.DefaultMaxEventBytes) {
		if s.Name == name {
			return s
		}
	}
	panic(name)
}

func TestStreamsAreMadeOnceAndLeftAsTheyAre(t *testing.T) {
	b := newBroker(t).ensured()
	cfg := declared(topology.DocumentStream)
	cfg.MaxBytes = 1 << 20
	_, err := b.UpdateStream(t.Context(), cfg)
	b.do(err)
	b.ensured()
	stream, err := b.Stream(t.Context(), topology.DocumentStream)
	b.do(err)
	if got := stream.CachedInfo().Config.MaxBytes; got != 1<<20 {
		t.Errorf("max_bytes is %d: the operator's setting was overwritten", got)
	}
	b.do(b.DeleteStream(t.Context(), topology.SyncStream))
	b.ensured()
	_, err = b.Stream(t.Context(), topology.SyncStream)
	b.do(err)
}

func TestStreamsAreMadeConcurrently(t *testing.T) {
	b := newBroker(t)
	ended := make(chan error)
	for range 8 {
		go func() { ended <- EnsureStreams(t.Context(), b) }()
	}
	for range 8 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestASettingThatLosesWorkIsRefusedByName(t *testing.T) {
	for setting, change := range map[string]func(*jetstream.StreamConfig){
		"retention is Limits":       func(c *jetstream.StreamConfig) { c.Retention = jetstream.LimitsPolicy },
		"retention is Interest":     func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
		"discard is DiscardOld":     func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"max_age is 1h0m0s":         func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"max_msgs_per_subject is 1": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 },
		"no_ack is true":            func(c *jetstream.StreamConfig) { c.NoAck = true },
		`subjects are ["connector.sync.web"]`: func(c *jetstream.StreamConfig) {
			c.Subjects, c.RePublish = []string{"connector.sync.web"}, nil
		},
	} {
		b := newBroker(t)
		cfg := declared(topology.SyncStream)
		change(&cfg)
		_, err := b.CreateStream(t.Context(), cfg)
		b.do(err)
		err = EnsureStreams(t.Context(), b)
		if !errors.Is(err, ErrMisconfigured) || !strings.Contains(err.Error(), topology.SyncStream+": "+setting) {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

func TestAnOperatorMayBoundAStream(t *testing.T) {
	b := newBroker(t)
	cfg := declared(topology.SyncStream)
	cfg.MaxMsgs, cfg.MaxBytes, cfg.Storage, cfg.RePublish = 1000, 1<<20, jetstream.MemoryStorage, nil
	_, err := b.CreateStream(t.Context(), cfg)
	b.do(err)
	b.ensured()
}

func TestASecondConsumerOfASubjectIsRefusedByTheServer(t *testing.T) {
	b := newBroker(t)
	web, err := topology.SyncConsumer("web")
	b.do(err)
	for range 2 {
		_, err = EnsureConsumer(t.Context(), b, topology.SyncStream, web)
		b.do(err)
	}
	file, err := topology.SyncConsumer("file")
	b.do(err)
	_, err = EnsureConsumer(t.Context(), b, topology.SyncStream, file)
	b.do(err)
	for _, filter := range []string{"connector.sync.web", "connector.sync.>", "connector.sync.*"} {
		_, err = b.CreateConsumer(t.Context(), topology.SyncStream, jetstream.ConsumerConfig{
			Durable: "second", FilterSubject: filter, AckPolicy: jetstream.AckExplicitPolicy,
		})
		if err == nil {
			t.Errorf("a second consumer of %s was made", filter)
		}
	}
}

func TestAConsumerComesBackWithItsStream(t *testing.T) {
	b := newBroker(t).ensured()
	b.do(b.DeleteStream(t.Context(), topology.DocumentStream))
	consumer, err := EnsureConsumer(t.Context(), b, topology.DocumentStream, topology.DocumentConsumer())
	b.do(err)
	_, err = b.Publish(t.Context(), topology.DocumentSubject, []byte("document"))
	b.do(err)
	msg, err := consumer.Next(jetstream.FetchMaxWait(5 * time.Second))
	b.do(err)
	b.do(msg.DoubleAck(t.Context()))
}

func TestWatchersGetCopies(t *testing.T) {
	b := newBroker(t).ensured()
	watcher, err := b.Conn().SubscribeSync(topology.CopySubjects)
	b.do(err)
	b.do(b.Conn().Flush())
	msg := nats.NewMsg("connector.sync.web")
	msg.Data = []byte("trigger")
	msg.Header.Set(topology.HeaderSession, "s")
	_, err = b.PublishMsg(t.Context(), msg)
	b.do(err)
	copied, err := watcher.NextMsg(5 * time.Second)
	b.do(err)
	if copied.Subject != "copies.connector.sync.web" || string(copied.Data) != "trigger" || copied.Header.Get(topology.HeaderSession) != "s" {
		t.Errorf("copy %s %q %v", copied.Subject, copied.Data, copied.Header)
	}
	stream, err := b.Stream(t.Context(), topology.SyncStream)
	b.do(err)
	if n := stream.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("%d messages are left for the worker, want 1", n)
	}
}
