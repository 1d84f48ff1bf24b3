package leastprivilege

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/services/chunker"
	"github.com/echomind/sync/services/connector"
	"github.com/echomind/sync/services/scheduler"
	"github.com/echomind/sync/services/semantic"
	"github.com/echomind/sync/testonly/testkit"
)

// words are what services log.
type words struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// services runs all four, each with its own user.
func services(t *testing.T, database, url, root string) (ready map[string]connect.Process, log *words) {
	t.Helper()
	log = &words{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	ready = map[string]connect.Process{}
	start := func(name string, cfg any, common *config.Common, run func(context.Context, connect.Process) error) {
		require.NoError(t, config.Load(cfg))
		common.DatabaseURL, common.NATSURL, common.DatabaseMaxConns, common.ShutdownGraceSeconds = database, url, 4, 1
		common.NATSAccess = access(name)
		process := connect.NewProcess(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
		ready[name] = process
		running.Go(func() {
			if err := run(ctx, process); err != nil && ctx.Err() == nil {
				t.Errorf("%s ended: %v", name, err)
			}
		})
	}
	var a scheduler.Config
	start("scheduler", &a, &a.Common, func(ctx context.Context, p connect.Process) error { return scheduler.Run(ctx, a, p) })
	var b chunker.Config
	start("chunker", &b, &b.Common, func(ctx context.Context, p connect.Process) error {
		b.FileRoots = []string{root}
		return chunker.Run(ctx, b, p)
	})
	var c connector.Config
	start("connector", &c, &c.Common, func(ctx context.Context, p connect.Process) error { return connector.Run(ctx, c, p) })
	var d semantic.Config
	start("semantic", &d, &d.Common, func(ctx context.Context, p connect.Process) error { return semantic.Run(ctx, d, p) })
	return ready, log
}

func synced(t *testing.T, conn *pgx.Conn, id, runs int) {
	t.Helper()
	testkit.Eventually(t, soon, func() error {
		var completed int
		var standing string
		if err := conn.QueryRow(context.Background(), `SELECT (SELECT count(*) FROM scheduler_runs r WHERE r.connector_id = k.id AND r.status IN ('completed', 'skipped')),
			concat(k.status, ' ', k.status_message) FROM connectors k WHERE id = $1`, id).Scan(&completed, &standing); err != nil {
			return err
		}
		if completed < runs {
			return fmt.Errorf("%d runs are completed; the connector is %s", completed, standing)
		}
		return nil
	})
}

func allReady(t *testing.T, ready map[string]connect.Process) {
	t.Helper()
	testkit.Eventually(t, soon, func() error {
		for name, process := range ready {
			if _, problems := process.Ready.Ask(t.Context()); len(problems) > 0 {
				return fmt.Errorf("%s is not ready because of %v", name, problems)
			}
		}
		return nil
	})
}

func TestTheWholePipelineWorksWithTheseUsersAndHealsWhenTheStreamsAreMadeAgain(t *testing.T) {
	database, url, root := testkit.Database(t, db.Up), serve(t), folder(t, 20)
	ready, log := services(t, database, url, root)
	testkit.Eventually(t, soon, func() error { // the streams are not there yet
		for name, process := range ready {
			if _, problems := process.Ready.Ask(t.Context()); !strings.Contains(problems[name+".start"], "run `echomind streams apply`") {
				return fmt.Errorf("%s is not ready because of %v", name, problems)
			}
		}
		return nil
	})
	apply(t, url)
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	var id int
	require.NoError(t, conn.QueryRow(t.Context(), `INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes)
		VALUES ('docs', 'file', 1, jsonb_build_object('url', $1::text), 60) RETURNING id`, "file://"+root).Scan(&id))
	synced(t, conn, id, 1)
	var documents int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM documents WHERE status = 'stored'`).Scan(&documents))
	require.Equal(t, 20, documents)

	allReady(t, ready) // one that still starts would speak of its start, not of its streams
	testkit.Eventually(t, soon, func() error {
		var waiting int64
		err := conn.QueryRow(t.Context(), `SELECT events FROM moves.events_waiting()`).Scan(&waiting)
		if err == nil && waiting > 0 {
			err = fmt.Errorf("%d events are not published", waiting)
		}
		return err
	})

	// The volume is lost.
	wipe(t, url)
	_, err = conn.Exec(t.Context(), `UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, id)
	require.NoError(t, err)
	testkit.Eventually(t, soon, func() error {
		for name, process := range ready {
			if _, problems := process.Ready.Ask(t.Context()); !strings.Contains(problems[name+".nats"], "stream CONNECTOR_SYNC is missing") {
				return fmt.Errorf("%s is not ready because of %v", name, problems)
			}
		}
		return nil
	})
	apply(t, url)
	synced(t, conn, id, 2)
	allReady(t, ready)
	require.Contains(t, log.String(), "a stream is less durable than it looks")
	for _, user := range users {
		require.NotContains(t, log.String(), password(user))
	}
}

// wipe deletes the streams, as a lost volume does. No user of the configuration may.
func wipe(t *testing.T, url string) {
	t.Helper()
	conn, js, err := connect.Once(url, config.NATSAccess{NATSUser: "root", NATSPassword: password("root"), NATSInboxPrefix: "_INBOX"})
	require.NoError(t, err)
	defer conn.Close()
	for _, name := range []string{topology.SyncStream, topology.DocumentStream, topology.DeadLetterStream, topology.EventStream} {
		require.NoError(t, js.(jetstream.StreamManager).DeleteStream(t.Context(), name))
	}
}
