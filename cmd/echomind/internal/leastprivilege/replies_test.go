package leastprivilege

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/testonly/testkit"
)

// redirected are requests that a user may make whose answers, by the reply subject, land where the user may not publish.
// The server does not check replies: this is what remains, and docs/nats.md says so.
var redirected = []struct{ user, request, reply, stream string }{
	{"semantic", "$JS.API.STREAM.INFO.CONNECTOR_SYNC", "connector.sync.web", topology.SyncStream},
	{"semantic", "$JS.API.STREAM.INFO.CONNECTOR_SYNC", "document.process", topology.DocumentStream},
	{"chunker", "$JS.API.STREAM.INFO.DOCUMENT_PROCESS", "connector.sync.teams", topology.SyncStream},
	{"connector", "document.process", "connector.sync.file", topology.SyncStream},
	{"scheduler", "$JS.API.STREAM.INFO.DEAD_LETTERS", "document.process", topology.DocumentStream},
	{"scheduler", "$JS.API.STREAM.MSG.GET.CONNECTOR_SYNC", "connector.sync.onedrive", topology.SyncStream},
}

func TestTheServersAnswersThatLandInAQueueAreDroppedAndCountedAndChangeNothing(t *testing.T) {
	database, url, root := testkit.Database(t, db.Up), serve(t), folder(t, 3)
	apply(t, url)
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, js := as(t, url, "root")
	for _, r := range redirected {
		before := stored(t, js, r.stream)
		sender, _ := as(t, url, r.user)
		require.NoError(t, sender.PublishMsg(&nats.Msg{Subject: r.request, Reply: r.reply, Data: nil}))
		testkit.Eventually(t, soon, func() error {
			if now := stored(t, js, r.stream); now == before {
				return fmt.Errorf("%s: nothing has landed in %s", r.request, r.stream)
			}
			return nil
		})
	}
	ready, log := services(t, database, url, root)
	var id int
	require.NoError(t, conn.QueryRow(t.Context(), `INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes)
		VALUES ('docs', 'file', 1, jsonb_build_object('url', 'file://' || $1::text), 60) RETURNING id`, root).Scan(&id))
	synced(t, conn, id, 1)
	testkit.Eventually(t, soon, func() error {
		waiting := stored(t, js, topology.SyncStream) + stored(t, js, topology.DocumentStream)
		if waiting > 0 {
			return fmt.Errorf("%d messages wait", waiting)
		}
		return nil
	})
	require.EqualValues(t, len(redirected), counted(t, ready))
	require.EqualValues(t, 1, stored(t, js, topology.DeadLetterStream), "the empty document, which was published, is given up")
	require.NotContains(t, log.String(), "panicked")
}

// A user copies a trigger that it may read into the dead letters. Nobody loses it: it is not acknowledged, and comes again.
func TestATriggerThatIsCopiedIntoTheDeadLettersIsNotLost(t *testing.T) {
	url := serve(t)
	apply(t, url)
	_, js := as(t, url, "root")
	_, own := as(t, url, "chunker")
	declared, err := topology.SyncConsumer("web")
	require.NoError(t, err)
	declared.AckWait = 2 * time.Second
	consumer, err := streams.EnsureConsumer(t.Context(), own, topology.SyncStream, declared)
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "connector.sync.web", []byte("a trigger"))
	require.NoError(t, err)
	thief, _ := as(t, url, "chunker")
	require.NoError(t, thief.PublishMsg(&nats.Msg{
		Subject: "$JS.API.CONSUMER.MSG.NEXT.CONNECTOR_SYNC.sync_web", Reply: "dlq.connector.sync.teams", Data: []byte(`{"batch":1,"no_wait":true}`),
	}))
	testkit.Eventually(t, soon, func() error {
		if stored(t, js, topology.DeadLetterStream) == 0 {
			return errors.New("nothing has landed")
		}
		return nil
	})
	testkit.Eventually(t, soon, func() error {
		msg, err := consumer.Next(jetstream.FetchMaxWait(time.Second))
		if err != nil {
			return err
		}
		require.Equal(t, "a trigger", string(msg.Data()))
		return msg.Ack()
	})
}

func stored(t *testing.T, js jetstream.JetStream, stream string) uint64 {
	t.Helper()
	s, err := js.Stream(context.Background(), stream)
	require.NoError(t, err)
	return s.CachedInfo().State.Msgs
}

// counted are the answers that all services have counted.
func counted(t *testing.T, ready map[string]connect.Process) (n float64) {
	t.Helper()
	for _, process := range ready {
		families, err := process.Gatherer.Gather()
		require.NoError(t, err)
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				for _, label := range metric.GetLabel() {
					if label.GetValue() == "servers_answer" {
						n += metric.GetCounter().GetValue()
					}
				}
			}
		}
	}
	return n
}
