package connect_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/streams"
)

// restricted runs a server with one user, who has these permissions.
func restricted(t *testing.T, permissions *server.Permissions) (url string) {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		Users: []*server.User{{Username: "wiki", Password: "secret", Permissions: permissions}},
	})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(10*time.Second))
	return s.ClientURL()
}

func once(t *testing.T, url string, access config.NATSAccess) jetstream.JetStream {
	t.Helper()
	conn, js, err := connect.Once(url, access)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return js
}

// atOnce fails the test where a call waits for its own deadline.
func atOnce(t *testing.T, call func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	err := call(ctx)
	require.NoError(t, ctx.Err(), "the refusal came late")
	return err
}

func TestARefusedPublishAndARefusedRequestFailAtOnceWithTheirSubject(t *testing.T) {
	t.Parallel()
	url := restricted(t, &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{"document.process"}},
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_wiki.>"}},
	})
	js := once(t, url, config.NATSAccess{NATSUser: "wiki", NATSPassword: "secret"})
	for subject, call := range map[string]func(context.Context) error{
		"dlq.document.process": func(ctx context.Context) error {
			_, err := js.PublishMsg(ctx, nats.NewMsg("dlq.document.process"))
			return err
		},
		"$JS.API.STREAM.INFO.CONNECTOR_SYNC": func(ctx context.Context) error {
			_, err := js.Stream(ctx, topology.SyncStream)
			return err
		},
		"$JS.API.CONSUMER.CREATE.DOCUMENT_PROCESS.semantic.document.process": func(ctx context.Context) error {
			_, err := js.CreateOrUpdateConsumer(ctx, topology.DocumentStream, topology.DocumentConsumer())
			return err
		},
	} {
		err := atOnce(t, call)
		require.ErrorIs(t, err, streams.ErrNotAllowed, subject)
		require.ErrorContains(t, err, "publish to "+subject)
	}
}

// Without it the request's error would only be that no reply came.
func TestAUserWhoMayNotHearItsAnswersIsToldSoForEveryRequest(t *testing.T) {
	t.Parallel()
	url := restricted(t, &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{">"}},
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_wiki.>"}},
	})
	js := once(t, url, config.NATSAccess{NATSUser: "wiki", NATSPassword: "secret", NATSInboxPrefix: "_INBOX_other"})
	for range 3 {
		err := atOnce(t, func(ctx context.Context) error { _, err := js.Stream(ctx, topology.SyncStream); return err })
		require.ErrorIs(t, err, streams.ErrNotAllowed)
		require.ErrorContains(t, err, "set NATS_INBOX_PREFIX")
	}
}
