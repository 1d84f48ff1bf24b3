package connect_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/testonly/testkit"
)

// gatekeeper accepts a password once it is open, and counts the refused attempts.
type gatekeeper struct {
	password string
	isOpen   atomic.Bool
	refused  atomic.Int32
}

func (d *gatekeeper) Check(client server.ClientAuthentication) bool {
	if d.isOpen.Load() && client.GetOpts().Password == d.password {
		return true
	}
	d.refused.Add(1)
	return false
}

// The driver's own limit is two refusals: after that nobody would try a password that is set on the server later.
func TestARefusedPasswordIsToldAndTriedAgainUntilTheServerTakesIt(t *testing.T) {
	t.Parallel()
	d := &gatekeeper{password: "new-secret"}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(), CustomClientAuthentication: d,
	})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(10*time.Second))
	cfg := common(testkit.Database(t, db.Up), s.ClientURL())
	cfg.NATSUser, cfg.NATSPassword = "wiki", d.password
	o := open(t, cfg)
	o.says("test.nats", "check NATS_USER and NATS_PASSWORD")
	_, problems := o.process.Ready.Ask(t.Context())
	require.NotContains(t, fmt.Sprint(problems), d.password)
	testkit.Eventually(t, soon, func() error {
		if n := d.refused.Load(); n < 4 {
			return fmt.Errorf("refused %d times", n)
		}
		return nil
	})
	d.isOpen.Store(true)
	o.isReady()
}
