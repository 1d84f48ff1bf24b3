package fault

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/topology"
)

const (
	serverTimeout = 30 * time.Second
	tryTimeout    = 5 * time.Second
)

// Each keeps two faults from starting, freezing or killing one server at the same time, or from holding the same rows.
var natsServer, postgresServer, qdrantServer, workerRows sync.Mutex

func servers() []Fault {
	return []Fault{
		{Name: "nats-server killed", Inject: func(ctx context.Context, f *Field) error {
			return f.restartNATS(ctx, f.short(), nil)
		}},
		{Name: "nats-server killed, its storage wiped", Loses: Loss{Messages: true}, Long: true, Inject: func(ctx context.Context, f *Field) error {
			return f.restartNATS(ctx, f.short(), f.World.NATS.Wipe)
		}},
		{Name: "NATS's clock steps ahead and back", Long: true, Inject: stepNATS},
		{Name: "the sync stream purged", Long: true, Inject: func(ctx context.Context, f *Field) error {
			return f.purge(ctx, topology.SyncStream)
		}},
		{Name: "the document stream purged", Loses: Loss{Messages: true}, Inject: func(ctx context.Context, f *Field) error {
			return f.purge(ctx, topology.DocumentStream)
		}},
		{Name: "Postgres killed (immediate)", Long: true, Inject: func(ctx context.Context, f *Field) error {
			postgresServer.Lock()
			defer postgresServer.Unlock()
			// A connection that has said nothing yet keeps the server from ending, until its black hole is mended.
			if err := f.World.Postgres.Kill(); err != nil {
				sleep(ctx, freeze)
				if err := f.World.Postgres.Kill(); err != nil {
					return err
				}
			}
			sleep(ctx, f.short())
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), serverTimeout)
			defer cancel()
			return f.World.Postgres.Restart(ctx)
		}},
		{Name: "Postgres's backends terminated", Inject: func(ctx context.Context, f *Field) error {
			return f.sql(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE backend_type = 'client backend' AND application_name LIKE 'echomind-%'`)
		}},
		{Name: "Postgres's connections exhausted", Inject: exhaust},
		{Name: "rows held by an idle transaction", Long: true, Inject: func(ctx context.Context, f *Field) error {
			return f.holdRows(ctx, `SELECT id FROM connectors ORDER BY random() LIMIT 50 FOR UPDATE SKIP LOCKED`)
		}},
		{Name: "open runs held by an idle transaction", Long: true, Inject: func(ctx context.Context, f *Field) error {
			return f.holdRows(ctx, `SELECT id FROM open_runs ORDER BY picked_up_at DESC NULLS LAST LIMIT 20 FOR UPDATE SKIP LOCKED`)
		}},
		{Name: "documents held by an idle transaction", Long: true, Inject: func(ctx context.Context, f *Field) error {
			return f.holdRows(ctx, `SELECT d.id FROM documents d JOIN open_runs r ON r.connector_id = d.connector_id LIMIT 50 FOR UPDATE OF d SKIP LOCKED`)
		}},
		{Name: "worker processes held by an idle transaction", Loses: Loss{Workers: true}, Long: true, Inject: func(ctx context.Context, f *Field) error {
			workerRows.Lock() // a second one would wait for the first
			defer workerRows.Unlock()
			return f.holdRows(ctx, `SELECT id FROM workers FOR UPDATE`)
		}},
		{Name: "Qdrant killed, its points lost", Inject: func(ctx context.Context, f *Field) error {
			qdrantServer.Lock()
			defer qdrantServer.Unlock()
			f.World.Qdrant.Kill()
			sleep(ctx, f.short())
			return f.World.Qdrant.Start(context.WithoutCancel(ctx))
		}},
		{Name: "freeze Qdrant", Long: true, Inject: func(ctx context.Context, f *Field) error {
			qdrantServer.Lock()
			defer qdrantServer.Unlock()
			f.World.Qdrant.Freeze()
			defer f.World.Qdrant.Thaw()
			sleep(ctx, freeze)
			return nil
		}},
	}
}

func (f *Field) restartNATS(ctx context.Context, away time.Duration, meanwhile func() error) error {
	natsServer.Lock()
	defer natsServer.Unlock()
	f.World.NATS.Kill()
	sleep(ctx, away)
	var err error
	if meanwhile != nil {
		err = meanwhile()
	}
	return errors.Join(err, f.World.NATS.Start(context.WithoutCancel(ctx)))
}

func (f *Field) purge(ctx context.Context, name string) error {
	natsServer.Lock()
	defer natsServer.Unlock()
	return untilAnswered(ctx, func(ctx context.Context) error { return f.purgeOnce(ctx, name) })
}

func (f *Field) purgeOnce(ctx context.Context, name string) error {
	stream, err := f.World.Stream.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find stream %s: %w", name, err)
	}
	if err := stream.Purge(ctx); err != nil {
		return fmt.Errorf("purge stream %s: %w", name, err)
	}
	return nil
}

func (f *Field) sql(ctx context.Context, statement string) error {
	return untilAnswered(ctx, func(ctx context.Context) error {
		_, err := f.World.Pool.Exec(ctx, statement)
		return err
	})
}

// untilAnswered repeats a call while another fault keeps it from its server.
func untilAnswered(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	for {
		trying, cancel := context.WithTimeout(ctx, tryTimeout)
		err := call(trying)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		sleep(ctx, 200*time.Millisecond)
	}
}

// exhaust takes every connection that is free, again and again, until it is over. It begins with the first: another
// fault may keep Postgres away.
func exhaust(ctx context.Context, f *Field) error {
	var taken []*pgx.Conn
	defer func() {
		for _, conn := range taken {
			hangUp(ctx, conn)
		}
	}()
	err := untilAnswered(ctx, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, f.World.Postgres.URL())
		if err == nil {
			taken = append(taken, conn)
		}
		return err
	})
	if err != nil {
		return wrap("take a connection", err)
	}
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until) && ctx.Err() == nil; {
		opening, cancel := context.WithTimeout(ctx, time.Second)
		conn, err := pgx.Connect(opening, f.World.Postgres.URL())
		cancel()
		if err != nil {
			sleep(ctx, 100*time.Millisecond)
			continue
		}
		taken = append(taken, conn)
	}
	return nil
}

// holdRows locks what a query selects and sits on it. It skips what another fault holds, should the query say so.
func (f *Field) holdRows(ctx context.Context, query string) error {
	var conn *pgx.Conn
	err := untilAnswered(ctx, func(ctx context.Context) (err error) {
		if conn, err = pgx.Connect(ctx, f.World.Postgres.URL()); err != nil {
			return err
		}
		if _, err = conn.Exec(ctx, "BEGIN"); err == nil {
			_, err = conn.Exec(ctx, query)
		}
		if err != nil {
			hangUp(ctx, conn)
		}
		return err
	})
	if err != nil {
		return wrap("hold rows", err)
	}
	defer hangUp(ctx, conn)
	sleep(ctx, f.Long)
	return nil
}

func hangUp(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
