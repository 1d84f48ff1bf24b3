package leastprivilege

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/services/chunker"
	"github.com/echomind/sync/testonly/testkit"
)

// configuration is what compose and the chart run NATS with.
const configuration = "../../../../helm/echomind/files/nats.conf"

var users = []string{"scheduler", "chunker", "connector", "semantic", "api", "setup", "operator"}

// soon bounds what should take milliseconds.
const soon = 60 * time.Second

func TestMain(m *testing.M) {
	confine.Serve(chunker.Tasks...)
	for _, user := range users {
		_ = os.Setenv(variable(user), password(user)) // the server reads them from its environment
	}
	os.Exit(testkit.Main(m))
}

func variable(user string) string {
	return map[string]string{
		"scheduler": "NATS_SCHEDULER_PASSWORD", "chunker": "NATS_CHUNKER_PASSWORD", "connector": "NATS_CONNECTOR_PASSWORD",
		"semantic": "NATS_SEMANTIC_PASSWORD", "api": "NATS_API_PASSWORD", "setup": "NATS_SETUP_PASSWORD", "operator": "NATS_OPERATOR_PASSWORD",
	}[user]
}

func password(user string) string { return "p-of-" + user }

// access is a user's.
func access(user string) config.NATSAccess {
	return config.NATSAccess{NATSUser: user, NATSPassword: password(user)}
}

// configured is what a file of the server's says, but for its ports and its folder.
func configured(t *testing.T, file string) *server.Options {
	t.Helper()
	options, err := server.ProcessConfigFile(file)
	require.NoError(t, err)
	require.Equal(t, "/data", options.StoreDir, "on the volume")
	options.Host, options.Port, options.HTTPPort, options.NoSigs, options.NoLog = "127.0.0.1", -1, 0, true, true
	options.StoreDir = t.TempDir()
	// One more, who may do anything: the tests' own hand.
	options.Users = append(options.Users, &server.User{Username: "root", Password: password("root"), Account: options.Accounts[0]})
	return options
}

// run runs a server.
func run(t *testing.T, options *server.Options, change ...func(*server.Options)) *server.Server {
	t.Helper()
	for _, c := range change {
		c(options)
	}
	s, err := server.NewServer(options)
	require.NoError(t, err)
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(10*time.Second))
	return s
}

// serve runs a server from the configuration.
func serve(t *testing.T) (url string) {
	t.Helper()
	return run(t, configured(t, configuration)).ClientURL()
}

// as connects a user.
func as(t *testing.T, url, user string) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	conn, js, err := connect.Once(url, access(user))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn, js
}

// refused waits for the server's word on what a connection has just sent.
func refused(conn *nats.Conn) error {
	if err := conn.Flush(); err != nil {
		return err
	}
	if err := conn.LastError(); errors.Is(err, nats.ErrPermissionViolation) {
		return err
	}
	return nil
}

func apply(t *testing.T, url string) {
	t.Helper()
	_, js := as(t, url, "setup")
	require.NoError(t, streams.Apply(context.Background(), js, streams.Size{}))
}

func folder(t *testing.T, documents int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range documents {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".md")), []byte(fmt.Sprint("the text of number ", i)), 0o600))
	}
	return dir
}
