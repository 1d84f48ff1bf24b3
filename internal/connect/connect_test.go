package connect_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/testonly/faultproxy"
	"github.com/echomind/sync/testonly/testkit"
)

// soon bounds calls that take milliseconds.
const soon = 2 * time.Minute

// both are the two directions of a connection.
var both = []faultproxy.Direction{faultproxy.ToServer, faultproxy.ToClient}

// way is a proxy in front of a server, with the URL through it.
func way(t *testing.T, server string) (*faultproxy.Proxy, string) {
	t.Helper()
	u, err := url.Parse(server)
	require.NoError(t, err)
	proxy, err := faultproxy.Start(u.Host)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	through, err := proxy.URL(server)
	require.NoError(t, err)
	return proxy, through
}

func common(postgres, nats string) config.Common {
	return config.Common{DatabaseURL: postgres, NATSURL: nats, DatabaseMaxConns: 4}
}

// opening opens connections in the background.
type opening struct {
	t       *testing.T
	process connect.Process
	cancel  context.CancelFunc
	ended   chan error
	servers *connect.Servers
}

func open(t *testing.T, cfg config.Common) *opening {
	ctx, cancel := context.WithCancel(context.Background())
	o := &opening{t: t, process: connect.NewProcess(testkit.Logger(t)), cancel: cancel, ended: make(chan error, 1)}
	go func() {
		var err error
		o.servers, err = connect.Open(ctx, cfg, "test", o.process)
		o.ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if o.servers != nil {
			_ = o.servers.Close()
		}
	})
	return o
}

// says waits until readiness reports one of some problems under a name.
func (o *opening) says(name string, oneOf ...string) {
	o.t.Helper()
	testkit.Eventually(o.t, soon, func() error {
		_, problems := o.process.Ready.Ask(o.t.Context())
		for _, problem := range oneOf {
			if strings.Contains(problems[name], problem) {
				return nil
			}
		}
		return fmt.Errorf("readiness says %v", problems)
	})
}

// isReady waits until the connections are open and readiness reports nothing.
func (o *opening) isReady() *connect.Servers {
	o.t.Helper()
	select {
	case err := <-o.ended:
		require.NoError(o.t, err)
	case <-time.After(soon):
		o.t.Fatal("Open does not return")
	}
	testkit.Eventually(o.t, soon, func() error {
		if _, problems := o.process.Ready.Ask(o.t.Context()); len(problems) > 0 {
			return fmt.Errorf("readiness says %v", problems)
		}
		return nil
	})
	return o.servers
}

// ends stops the wait and returns what Open returned.
func (o *opening) ends() error {
	o.t.Helper()
	o.cancel()
	select {
	case err := <-o.ended:
		return err
	case <-time.After(soon):
		o.t.Fatal("Open does not return")
		return nil
	}
}

// closes fails the test where closing takes longer than a stop may.
func closes(t *testing.T, s *connect.Servers) {
	t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(15 * time.Second):
		t.Fatal("Close does not return")
	}
}

func TestAProcessIsNotReadyWhileNATSHasNoJetStream(t *testing.T) {
	t.Parallel()
	bare, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, StoreDir: t.TempDir()})
	require.NoError(t, err)
	bare.Start()
	t.Cleanup(func() { bare.Shutdown(); bare.WaitForShutdown() })
	o := open(t, common(testkit.Database(t, db.Up), bare.ClientURL()))
	o.says("test.start", "connect.streams: ensure stream "+topology.SyncStream)
	o.says("test.start", "run nats-server with -js")
	_, problems := o.process.Ready.Ask(t.Context())
	require.NotContains(t, problems, "test.nats", "it is connected")

	require.NoError(t, bare.EnableJetStream(&server.JetStreamConfig{StoreDir: t.TempDir()}))
	o.isReady()
}

func TestASilentServerAtTheStartIsAWaitThatNamesItsDeadlineAndEndsWithAStop(t *testing.T) {
	t.Parallel()
	postgres, nats := testkit.Database(t, db.Up), testkit.NATS(t).URL()
	for name, c := range map[string]struct {
		silence func(t *testing.T) (*faultproxy.Proxy, config.Common)
		says    []string
	}{
		"Postgres": {func(t *testing.T) (*faultproxy.Proxy, config.Common) {
			proxy, through := way(t, postgres)
			return proxy, common(through, nats)
		}, []string{"connect.schema: no answer within 5s", "connect.schema: ask for the schema version: failed to connect"}}, // either deadline may end first
		"NATS": {func(t *testing.T) (*faultproxy.Proxy, config.Common) {
			proxy, through := way(t, nats)
			return proxy, common(postgres, through)
		}, []string{"connect.streams: ensure stream"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, cfg := c.silence(t)
			proxy.Silence(both...)
			stopped, healed := open(t, cfg), open(t, cfg)
			stopped.says("test.start", c.says...)
			require.ErrorIs(t, stopped.ends(), context.Canceled)
			proxy.Heal()
			healed.isReady()
		})
	}
}

func TestClosingDoesNotWaitForASilentServer(t *testing.T) {
	t.Parallel()
	for name, ways := range map[string][]faultproxy.Direction{
		"both ways": both, "to the server": {faultproxy.ToServer}, "to the client": {faultproxy.ToClient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			toPostgres, postgres := way(t, testkit.Database(t, db.Up))
			toNATS, nats := way(t, testkit.NATS(t).URL())
			s := open(t, common(postgres, nats)).isReady()
			toPostgres.Silence(ways...)
			toNATS.Silence(ways...)
			asked, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			require.Error(t, db.Check(asked, s.Pool))
			_, err := s.Stream.Stream(asked, topology.SyncStream)
			require.Error(t, err)
			closes(t, s)
		})
	}
}

func TestAwayIsWhatIsSaidOfABrokerThatIsAway(t *testing.T) {
	t.Parallel()
	broker := testkit.NATS(t)
	o := open(t, common(testkit.Database(t, db.Up), broker.URL()))
	s := o.isReady()
	require.NoError(t, broker.Stop(t.Context()))
	o.says("test.nats", "NATS is")
	for name, call := range map[string]func() error{
		"stream": func() error { _, err := s.Stream.Stream(t.Context(), topology.SyncStream); return err },
		"create": func() error {
			_, err := s.Stream.CreateStream(t.Context(), jetstream.StreamConfig{Name: "X", Subjects: []string{"x"}})
			return err
		},
		"consumer": func() error {
			_, err := s.Stream.CreateOrUpdateConsumer(t.Context(), topology.DocumentStream, topology.DocumentConsumer())
			return err
		},
		"publish":       func() error { _, err := s.Stream.PublishMsg(t.Context(), nats.NewMsg("connector.sync.x")); return err },
		"publish async": func() error { _, err := s.Stream.PublishMsgAsync(nats.NewMsg("connector.sync.x")); return err },
		"ensure":        func() error { return streams.EnsureStreams(t.Context(), s.Stream) },
	} {
		err := call()
		require.ErrorIs(t, err, connect.ErrAway, name)
		require.NotContains(t, err.Error(), "limit", name)
	}
	require.NoError(t, broker.Restart(false))
	o.isReadyAgain()
}

func (o *opening) isReadyAgain() {
	o.t.Helper()
	o.ended <- nil
	o.isReady()
}

// More is published than all buffers between hold, so that the write itself blocks.
func TestPublishingIntoASilenceEndsAndTheConnectionComesBack(t *testing.T) {
	t.Parallel()
	proxy, through := way(t, testkit.NATS(t).URL())
	o := open(t, common(testkit.Database(t, db.Up), through))
	s := o.isReady()
	proxy.Silence(faultproxy.ToServer)
	var publishing sync.WaitGroup
	late := make(chan error, 64)
	for range cap(late) {
		publishing.Go(func() {
			late <- deadline.Do(t.Context(), "test.publish", time.Second, func(ctx context.Context) error {
				msg := nats.NewMsg(topology.DocumentSubject)
				msg.Data = bytes.Repeat([]byte("x"), topology.MaxMessageBytes)
				_, err := s.Stream.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
				return err
			})
		})
	}
	done := make(chan struct{})
	go func() { publishing.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second): // by default the driver writes for a minute
		t.Fatal("publishing does not end")
	}
	close(late)
	for err := range late {
		if err == nil {
			t.Error("published into a silence")
		}
	}
	o.says("test.nats", "NATS is")
	proxy.Heal()
	o.isReadyAgain()
	_, err := s.Stream.Stream(t.Context(), topology.DocumentStream)
	require.NoError(t, err)
}

func TestClosingDoesNotWaitForAWriteThatNobodyReads(t *testing.T) {
	t.Parallel()
	proxy, through := way(t, testkit.NATS(t).URL())
	s := open(t, common(testkit.Database(t, db.Up), through)).isReady()
	proxy.Silence(faultproxy.ToServer)
	published := make(chan error, 1)
	go func() {
		for {
			if err := s.NATS.Publish("nowhere", bytes.Repeat([]byte("x"), 1<<19)); err != nil {
				published <- err
				return
			}
		}
	}()
	testkit.Eventually(t, soon, func() error {
		before := s.NATS.Stats().OutBytes
		if s.NATS.Stats().OutBytes != before || before < 1<<20 {
			return errors.New("it still writes")
		}
		return nil
	})
	closes(t, s)
	require.Error(t, <-published)
}

func TestAServiceWorksInTheRoleThatItIsTold(t *testing.T) {
	t.Parallel()
	cfg := common(testkit.Database(t, db.Up), testkit.NATS(t).URL())
	cfg.DatabaseRole = "pg_read_all_data"
	s := open(t, cfg).isReady()
	var role string
	require.NoError(t, s.Pool.QueryRow(t.Context(), "SELECT current_user").Scan(&role))
	require.Equal(t, cfg.DatabaseRole, role)
	_, err := s.Pool.Exec(t.Context(), "DELETE FROM connectors")
	require.ErrorContains(t, err, "42501")
}
