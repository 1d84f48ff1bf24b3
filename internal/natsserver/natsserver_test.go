package natsserver_test

import (
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/echomind/sync/internal/natsserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, cfg natsserver.Config) *natsserver.Server {
	t.Helper()
	server, err := natsserver.Start(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	return server
}

func connect(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return js
}

func TestARestartKeepsMessagesAndURL(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nats")
	first := start(t, natsserver.Config{Dir: dir})
	js := connect(t, first.URL())
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "words", Subjects: []string{"words"}})
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "words", []byte("here"))
	require.NoError(t, err)
	require.NoError(t, first.Stop(t.Context()))
	<-first.Done()

	second := start(t, natsserver.Config{Dir: dir})
	require.Equal(t, first.URL(), second.URL())
	stream, err := connect(t, second.URL()).Stream(t.Context(), "words")
	require.NoError(t, err)
	message, err := stream.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "here", string(message.Data))

	require.NoError(t, second.Restart(true))
	_, err = connect(t, second.URL()).Stream(t.Context(), "words")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
}

func TestOnlyWhoKnowsThePasswordMayConnect(t *testing.T) {
	dir := t.TempDir()
	server := start(t, natsserver.Config{Dir: dir, Volatile: true})
	u, err := url.Parse(server.URL())
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", u.Hostname())
	_, err = nats.Connect("nats://" + u.Host)
	require.ErrorIs(t, err, nats.ErrAuthorization)
	_, err = nats.Connect("nats://echomind:guessed@" + u.Host)
	require.ErrorIs(t, err, nats.ErrAuthorization)
	secrets, err := os.Stat(filepath.Join(dir, "server.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), secrets.Mode().Perm())

	own := start(t, natsserver.Config{Dir: t.TempDir(), Volatile: true, User: "me", Password: "p w/d"})
	connect(t, own.URL())
}

func TestASecondStartOnTheSameFolderIsRefused(t *testing.T) {
	dir := t.TempDir()
	first := start(t, natsserver.Config{Dir: dir, Volatile: true})
	_, err := natsserver.Start(natsserver.Config{Dir: dir, Volatile: true})
	require.ErrorIs(t, err, natsserver.ErrInUse)
	connect(t, first.URL())
}

func TestATakenPortIsReplaced(t *testing.T) {
	dir := t.TempDir()
	first := start(t, natsserver.Config{Dir: dir, Volatile: true})
	u, err := url.Parse(first.URL())
	require.NoError(t, err)
	require.NoError(t, first.Stop(t.Context()))
	squatter, err := net.Listen("tcp", u.Host)
	require.NoError(t, err)
	defer func() { require.NoError(t, squatter.Close()) }()
	second := start(t, natsserver.Config{Dir: dir, Volatile: true})
	require.NotEqual(t, first.URL(), second.URL())
	connect(t, second.URL())
}

func TestAServerThatCannotListenSaysSoAtOnce(t *testing.T) {
	squatter, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, squatter.Close()) }()
	_, err = natsserver.Start(natsserver.Config{
		Dir: t.TempDir(), Volatile: true, Port: squatter.Addr().(*net.TCPAddr).Port,
	})
	require.ErrorIs(t, err, natsserver.ErrRefused)
	require.ErrorContains(t, err, "address already in use")
	require.NotErrorIs(t, err, context.DeadlineExceeded)
}

func TestAMessageAboveTheLimitIsRefused(t *testing.T) {
	server := start(t, natsserver.Config{Dir: t.TempDir(), Volatile: true})
	conn, err := nats.Connect(server.URL())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	require.Equal(t, int64(1<<20), conn.MaxPayload())
}
