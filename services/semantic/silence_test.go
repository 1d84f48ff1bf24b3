package semantic

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/testonly/faultproxy"
	"github.com/echomind/sync/testonly/testkit"
)

// ways are how a network loses packets.
var ways = map[string][]faultproxy.Direction{
	"both ways":     {faultproxy.ToServer, faultproxy.ToClient},
	"to the server": {faultproxy.ToServer},
	"to the client": {faultproxy.ToClient},
}

// behind is a flow whose service reaches its servers through proxies.
type behind struct {
	*flow
	postgres, nats *faultproxy.Proxy
	mu             sync.Mutex
	said           bytes.Buffer
}

func (b *behind) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said.Write(line)
}

// says waits until the service's log holds a text.
func (b *behind) says(text string) {
	b.t.Helper()
	testkit.Eventually(b.t, soon, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if log := b.said.String(); !strings.Contains(log, text) {
			return fmt.Errorf("the log does not say %q: %s", text, log)
		}
		return nil
	})
}

func newBehind(t *testing.T) *behind {
	t.Parallel()
	database, broker := testkit.Database(t, db.Up), testkit.NATS(t).URL()
	b := &behind{flow: &flow{fixture: &fixture{t: t, url: database}}}
	through := func(server string) (*faultproxy.Proxy, string) {
		u, err := url.Parse(server)
		require.NoError(t, err)
		proxy, err := faultproxy.Start(u.Host)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, proxy.Close()) })
		address, err := proxy.URL(server)
		require.NoError(t, err)
		return proxy, address
	}
	common := config.Common{DatabaseMaxConns: 8, DatabaseRole: role}
	b.postgres, common.DatabaseURL = through(database)
	b.nats, common.NATSURL = through(broker)
	log := slog.New(slog.NewMultiHandler(testkit.Logger(t).Handler(), slog.NewTextHandler(b, nil)))
	servers, err := connect.Open(ctx, common, "semantic", connect.NewProcess(log))
	require.NoError(t, err)
	t.Cleanup(func() { _ = servers.Close() })
	b.js = testkit.JetStream(t, broker)
	b.pool, b.Semantic = openPool(t, database), b.service(servers)
	b.log, b.storeTimeout = log, 3*time.Second
	return b
}

func TestAPostgresThatFallsSilentWhileDocumentsAreStoredIsAWaitWithANamedDeadline(t *testing.T) {
	for name, silent := range ways {
		t.Run(name, func(t *testing.T) {
			b := newBehind(t)
			g := newGate("apple")
			atWork["storing"](b.flow, g)
			c := b.syncing()
			b.publishes(c.doc(1, "a", "apple"), c.doc(2, "b", "banana"), c.completed(2))
			b.runs()
			await(t, "storing", g.inside)
			b.postgres.Silence(silent...)
			close(g.open)
			b.says("semantic.store: no answer within 3s")
			b.postgres.Heal()
			b.becomes(c, "completed")
			b.empties()
			b.noTryIsBurnt()
			require.Equal(t, int64(2), c.stored())
			require.Equal(t, line("a", "apple")+"\n"+line("b", "banana"), c.documents())
		})
	}
}

func TestABrokerThatFallsSilentWhileDocumentsAreStoredIsAWait(t *testing.T) {
	b := newBehind(t)
	g := newGate("apple")
	atWork["storing"](b.flow, g)
	c := b.syncing()
	b.publishes(c.doc(1, "a", "apple"), c.completed(1))
	b.runs()
	await(t, "storing", g.inside)
	b.nats.Silence(ways["both ways"]...)
	close(g.open)
	b.becomes(c, "completed") // the acknowledgements are lost
	b.says("NATS is away")
	b.nats.Heal()
	b.empties()
	require.Empty(t, b.letters())
	require.Equal(t, int64(1), c.stored())
}

func TestABrokerThatFallsSilentWhileNothingIsToDoIsAWait(t *testing.T) {
	for name, silent := range ways {
		t.Run(name, func(t *testing.T) {
			b := newBehind(t)
			b.runs()
			first := b.syncing()
			b.publishes(first.completed(0))
			b.becomes(first, "skipped")
			b.nats.Silence(silent...)
			b.says("NATS is away")
			b.nats.Heal()
			c := b.syncing()
			b.publishes(c.doc(1, "a", "apple"), c.completed(1))
			b.becomes(c, "completed")
			b.empties()
			require.Empty(t, b.letters())
		})
	}
}

func TestAStopWhileAServerIsSilentEndsAndBurnsNoTry(t *testing.T) {
	for name, c := range map[string]struct{ postgres, nats []faultproxy.Direction }{
		"Postgres both ways":     {postgres: ways["both ways"]},
		"Postgres to the client": {postgres: ways["to the client"]},
		"NATS both ways":         {nats: ways["both ways"]},
		"both of them":           {postgres: ways["both ways"], nats: ways["both ways"]},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBehind(t)
			g := newGate("apple")
			atWork["storing"](b.flow, g)
			trip := b.syncing()
			b.publishes(trip.doc(1, "a", "apple"), trip.completed(1))
			ask, ended := b.stops()
			await(t, "storing", g.inside)
			b.postgres.Silence(c.postgres...)
			b.nats.Silence(c.nats...)
			close(g.open)
			if c.postgres != nil {
				b.waitsAtLeast(1)
			} else {
				b.becomes(trip, "completed")
			}
			ask()
			require.NoError(t, await(t, "the end of Run", ended))
			b.noTryIsBurnt()
			if c.postgres != nil {
				require.Equal(t, "running", trip.verdict())
				require.NotZero(t, held(b.flow), "nobody has it")
			}
			b.postgres.Heal()
			b.nats.Heal()
		})
	}
}

// held is how many messages the document stream holds.
func held(f *flow) uint64 {
	f.t.Helper()
	stream, err := f.js.Stream(ctx, "DOCUMENT_PROCESS")
	require.NoError(f.t, err)
	return stream.CachedInfo().State.Msgs
}
