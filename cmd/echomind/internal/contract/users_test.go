//go:build node

package contract

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/streams"
)

// configuration is what compose and the chart run NATS with.
const configuration = "../../../../helm/echomind/files/nats.conf"

// password is a NATS user's. Root is the test's own, who may do anything.
func password(user string) string { return "p-of-" + user }

func access(user string) config.NATSAccess {
	return config.NATSAccess{NATSUser: user, NATSPassword: password(user)}
}

// guarded runs a NATS server in which each user may do what the configuration says, with the user that its comment
// describes for another team's type, made for the type shelf, and with the streams.
func guarded(t *testing.T) (url string) {
	t.Helper()
	for _, user := range []string{"scheduler", "chunker", "connector", "semantic", "api", "setup", "operator"} {
		t.Setenv("NATS_"+strings.ToUpper(user)+"_PASSWORD", password(user))
	}
	text, err := os.ReadFile(configuration)
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "# For another team's connector type")
	require.True(t, found)
	example, _, found := strings.Cut(after, "# and for who only watches")
	require.True(t, found)
	var block []string
	for _, line := range strings.Split(example, "\n")[1:] {
		block = append(block, strings.TrimPrefix(line, "#"))
	}
	user := strings.ReplaceAll(strings.Join(block, "\n"), "$NATS_WIKI_PASSWORD", password("shelf"))
	user = strings.ReplaceAll(user, "wiki", "shelf")
	file := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), "users: [", "users: [\n"+user, 1)), 0o600))

	options, err := server.ProcessConfigFile(file)
	require.NoError(t, err)
	options.Host, options.Port, options.HTTPPort, options.NoSigs, options.NoLog = "127.0.0.1", -1, 0, true, true
	options.StoreDir = t.TempDir()
	options.Users = append(options.Users, &server.User{Username: "root", Password: password("root"), Account: options.Accounts[0]})
	s, err := server.NewServer(options)
	require.NoError(t, err)
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(10*time.Second))

	conn, js, err := connect.Once(s.ClientURL(), access("setup"))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	require.NoError(t, streams.Apply(ctx, js, streams.Size{}))
	return s.ClientURL()
}
