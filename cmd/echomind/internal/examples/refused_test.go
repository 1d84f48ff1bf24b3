package examples

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/testkit"
)

// losing is a source that loses more at each sync: first all is there, then some cannot be read, then List loses the others, and
// Look does not find these.
type losing struct {
	listed, looked []string
	sync           int
}

func (l *losing) item(id string) source.Item {
	return source.Item{ID: id, Title: "T", Version: "1", Read: func(context.Context) (source.Content, error) {
		return source.Content{Hash: "h" + id, Sections: []chunk.Section{{Text: "text " + id}}}, nil
	}}
}

func (l *losing) List(ctx context.Context, s *source.Sync) (any, error) {
	l.sync++
	var err error
	switch l.sync {
	case 1:
		s.BeginListing()
		for _, ids := range [][]string{l.listed, l.looked} {
			for _, id := range ids {
				if err = s.Item(ctx, l.item(id)); err != nil {
					return nil, err
				}
			}
		}
	case 2:
		for _, id := range l.looked {
			if err = s.Fail(ctx, l.item(id), source.Unreadable{Reason: "a quota"}); err != nil {
				return nil, err
			}
		}
	default:
		for _, id := range l.listed {
			s.MarkLost(id)
		}
	}
	return map[string]int{"changes": l.sync}, nil
}

func (l *losing) Look(ctx context.Context, s *source.Sync, ids []string) error {
	for _, id := range ids {
		if l.sync < 3 {
			continue
		}
		if _, err := s.MarkAway(ctx, source.Item{ID: id}); err != nil {
			return err
		}
	}
	return nil
}

func TestOnePermissionIsEnoughForAllThatIsLost(t *testing.T) {
	ctx := context.Background()
	url, broker := testkit.Database(t, db.Up), testkit.NATS(t)
	t.Setenv("DATABASE_URL", url)
	t.Setenv("NATS_URL", broker.URL())
	t.Setenv("HTTP_ADDR", "127.0.0.1:0")
	services(t)
	pool, err := pgxpool.New(ctx, url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(ctx, `INSERT INTO connector_types (name) VALUES ('notes')`)
	require.NoError(t, err)
	l := &losing{}
	for i := range 400 {
		l.listed = append(l.listed, fmt.Sprintf("a%03d", i))
	}
	for i := range 300 {
		l.looked = append(l.looked, fmt.Sprintf("b%03d", i))
	}
	working, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		err := worker.Serve(working, "notes", func(ctx context.Context, run *worker.Run) error {
			_, err := source.Run(ctx, run, l, source.Options{Connector: run.Request().ConnectorId})
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); done.Wait() })
	var id int
	require.NoError(t, pool.QueryRow(ctx, `INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes, max_retries)
		VALUES ('mine', 'notes', 1, '{}', 600, 50) RETURNING id`).Scan(&id))
	runs := 0
	ends := func(verdict string) {
		t.Helper()
		runs++
		testkit.Eventually(t, soon, func() error {
			var ended, open int
			var last string
			err := pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE status <> 'running'), count(*) FILTER (WHERE status = 'running'),
				(SELECT status FROM runs WHERE connector_id = $1 ORDER BY started_at DESC LIMIT 1)
				FROM scheduler_runs WHERE connector_id = $1`, id).Scan(&ended, &open, &last)
			if err == nil && (ended < runs || open > 0 || last != verdict) {
				err = fmt.Errorf("%d runs have ended, %d are open, the last is %s; want %d, the last %s", ended, open, last, runs, verdict)
			}
			return err
		})
	}
	trigger := func(allow bool) {
		_, err := pool.Exec(ctx, `SELECT moves.trigger_sync($1, $2)`, id, allow)
		require.NoError(t, err)
	}
	ends("completed")
	trigger(false)
	ends("completed")
	trigger(false)
	ends("failed")
	trigger(true)
	ends("completed")
	var left int
	require.NoError(t, pool.QueryRow(ctx, `SELECT count(*) FROM documents WHERE connector_id = $1 AND deleted_at IS NULL AND chunk_count > 0`, id).Scan(&left))
	require.Zero(t, left)
}
