package semantic

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/natsserver"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/testonly/testkit"
)

// flow is a fixture with a broker, on which the service can be run.
type flow struct {
	*fixture
	js     jetstream.JetStream
	broker *natsserver.Server
}

func newFlow(t *testing.T) *flow {
	t.Parallel()
	return newFlowOn(t, testkit.Database(t, db.Up))
}

func newFlowOn(t *testing.T, url string) *flow {
	f := &fixture{t: t, url: url}
	broker := testkit.NATS(t)
	common := config.Common{DatabaseURL: url, DatabaseRole: role, NATSURL: broker.URL(), DatabaseMaxConns: 8}
	servers, err := connect.Open(ctx, common, "semantic", connect.NewProcess(testkit.Logger(t)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = servers.Close() })
	f.pool, f.Semantic = openPool(t, url), f.service(servers)
	f.config.LeaseSeconds = 15 // of the system jobs' worker; what is lost in transit is so at once
	return &flow{fixture: f, js: servers.Stream, broker: broker}
}

// runs starts the service; the returned function stops it.
func (f *flow) runs() (stop func()) {
	working, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- f.Run(working) }()
	stop = func() {
		cancel()
		select {
		case err := <-ended:
			require.NoError(f.t, err)
			ended <- nil
		case <-time.After(soon):
			f.t.Error("the service does not stop")
		}
	}
	f.t.Cleanup(stop)
	return stop
}

// publishes sends messages as the worker kit does.
func (f *flow) publishes(messages ...*internalpb.DocumentProcessRequest) {
	f.t.Helper()
	for _, m := range messages {
		data, err := proto.Marshal(m)
		require.NoError(f.t, err)
		f.publishRaw(data, m.ChunkingSession, m.Try, m.Number)
	}
}

func (f *flow) publishRaw(data []byte, session, try string, no int64) {
	f.t.Helper()
	msg := nats.NewMsg(topology.DocumentSubject)
	msg.Data = data
	if session != "" {
		msg.Header.Set(topology.HeaderSession, session)
		msg.Header.Set(topology.HeaderTry, try)
		msg.Header.Set(topology.HeaderNumber, strconv.FormatInt(no, 10))
	}
	_, err := f.js.PublishMsg(ctx, msg)
	require.NoError(f.t, err)
}

// pulled takes what is queued as a consumer that then dies.
func (f *flow) pulled(n int) []jetstream.Msg {
	f.t.Helper()
	consumer, err := streams.EnsureConsumer(ctx, f.js, topology.DocumentStream, topology.DocumentConsumer())
	require.NoError(f.t, err)
	batch, err := consumer.Fetch(n)
	require.NoError(f.t, err)
	var all []jetstream.Msg
	for msg := range batch.Messages() {
		all = append(all, msg)
	}
	require.Len(f.t, all, n)
	return all
}

func (f *flow) becomes(c trip, verdict string) {
	f.t.Helper()
	testkit.Eventually(f.t, soon, func() error {
		if v := c.verdict(); v != verdict {
			return fmt.Errorf("run is %s, %d stored", v, c.stored())
		}
		return nil
	})
}

func (f *flow) empties() {
	f.t.Helper()
	testkit.Eventually(f.t, soon, func() error {
		stream, err := f.js.Stream(ctx, topology.DocumentStream)
		if err == nil && stream.CachedInfo().State.Msgs > 0 {
			err = fmt.Errorf("%d messages are left", stream.CachedInfo().State.Msgs)
		}
		return err
	})
}

// letters are the dead letters.
func (f *flow) letters() (all []*jetstream.RawStreamMsg) {
	f.t.Helper()
	stream, err := f.js.Stream(ctx, topology.DeadLetterStream)
	require.NoError(f.t, err)
	for seq := range stream.CachedInfo().State.LastSeq {
		msg, err := stream.GetMsg(ctx, seq+1)
		require.NoError(f.t, err)
		all = append(all, msg)
	}
	return all
}

func (f *flow) waits() int {
	var m dto.Metric
	require.NoError(f.t, f.metrics.waits.Write(&m))
	return int(m.GetCounter().GetValue())
}

func (f *flow) waitsAtLeast(n int) {
	f.t.Helper()
	testkit.Eventually(f.t, soon, func() error {
		if w := f.waits(); w < n {
			return fmt.Errorf("waited %d times", w)
		}
		return nil
	})
}

func TestDocumentsFlowThroughTheBrokerToTheirVerdict(t *testing.T) {
	f := newFlow(t)
	f.runs()
	var trips []trip
	for range 3 {
		c := f.syncing()
		trips = append(trips, c)
		f.publishes(c.completed(201))
		for no := range int64(200) {
			f.publishes(c.doc(no+1, fmt.Sprint("doc ", no), "apple"))
		}
		f.publishes(c.deletion(201, "gone"))
	}
	for _, c := range trips {
		f.becomes(c, "completed")
		require.Equal(t, "ACTIVE", c.status())
		require.Equal(t, int64(201), c.stored())
		require.Equal(t, 199, strings.Count(c.documents(), "\n"))
	}
	f.empties()
	require.Empty(t, f.letters())
}

func TestWhatADeadConsumerHeldIsDeliveredAgainAfterAckWait(t *testing.T) {
	f := newFlow(t)
	c := f.syncing()
	f.publishes(c.doc(1, "a", "apple"), c.doc(2, "b", "banana"), c.completed(2))
	f.pulled(3)
	f.runs()
	f.becomes(c, "completed")
	f.empties()
	require.Equal(t, line("a", "apple")+"\n"+line("b", "banana"), c.documents())
}

func TestTheServiceComesBackWhenItsConsumerOrItsStreamIsGone(t *testing.T) {
	f := newFlow(t)
	f.runs()
	for name, remove := range map[string]func() error{
		"consumer": func() error { return f.js.DeleteConsumer(ctx, topology.DocumentStream, topology.SemanticConsumer) },
		"stream":   func() error { return f.js.DeleteStream(ctx, topology.DocumentStream) },
	} {
		testkit.Eventually(t, soon, func() error {
			_, err := f.js.Consumer(ctx, topology.DocumentStream, topology.SemanticConsumer)
			return err
		})
		require.NoError(t, remove(), name)
		testkit.Eventually(t, soon, func() error {
			_, err := f.js.Consumer(ctx, topology.DocumentStream, topology.SemanticConsumer)
			return err
		})
		c := f.syncing()
		f.publishes(c.doc(1, "a", "apple"), c.completed(1))
		f.becomes(c, "completed")
	}
}

func TestAnEmbedderThatIsAwayIsAWait(t *testing.T) {
	f := newFlow(t)
	var away atomic.Bool
	away.Store(true)
	f.embedding = func([]string) error {
		if away.Load() {
			return errors.New("no answer")
		}
		return nil
	}
	c := f.syncing()
	f.publishes(c.doc(1, "a", "apple"), c.completed(1))
	for _, msg := range f.pulled(2) {
		require.NoError(t, msg.Nak()) // delivered again, so that tries are written down
	}
	f.runs()
	f.waitsAtLeast(f.config.MaxTries + 1)
	require.Equal(t, "running", c.verdict())
	away.Store(false)
	f.becomes(c, "completed")
	require.Empty(t, f.letters())
	require.Equal(t, line("a", "apple"), c.documents())
}

func TestPostgresAwayIsAWait(t *testing.T) {
	t.Parallel()
	server, url := testkit.PrivatePostgres(t, db.Up)
	f := newFlowOn(t, url)
	c := f.syncing()
	f.publishes(c.doc(1, "a", "apple"), c.doc(2, "b", "banana"), c.completed(2))
	msgs := f.pulled(3)
	require.NoError(t, msgs[0].Nak())
	require.NoError(t, server.Stop(ctx))
	f.runs()
	f.waitsAtLeast(4)
	require.NoError(t, msgs[1].Nak())
	require.NoError(t, msgs[2].Nak())
	require.NoError(t, server.Restart(ctx))
	f.becomes(c, "completed")
	f.empties()
	require.Empty(t, f.letters())
	require.Equal(t, int64(2), c.stored())
}

func TestACleanStopHandsBackWhatWaits(t *testing.T) {
	f := newFlow(t)
	var away atomic.Bool
	away.Store(true)
	f.embedding = func([]string) error {
		if away.Load() {
			return errors.New("no answer")
		}
		return nil
	}
	c := f.syncing()
	f.publishes(c.doc(1, "a", "apple"), c.completed(1))
	stop := f.runs()
	f.waitsAtLeast(1)
	stop()
	require.Zero(t, f.count("message_tries WHERE tries > 0"))
	away.Store(false)
	f.runs()
	f.becomes(c, "completed")
}
