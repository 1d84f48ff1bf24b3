package pgserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/devstack/loopback"
	"github.com/echomind/sync/internal/repeat"
)

const (
	// readyTimeout includes the replay of the write-ahead log after a crash.
	readyTimeout    = 90 * time.Second
	readyPoll       = 20 * time.Millisecond
	databaseTimeout = 30 * time.Second

	launchAttempts = 5
	launchPause    = 300 * time.Millisecond
)

var errExited = errors.New("postgres ended while it started")

// launch starts the server and waits until it answers. It tries again where another process took the port meanwhile, and after
// a crash: backends of the crashed server may need a moment to notice it, and a new server refuses to start beside them.
func (s *Server) launch(ctx context.Context, port int) error {
	for attempt := 1; ; attempt++ {
		chosen := port
		var err error
		if chosen == 0 {
			if chosen, err = loopback.Port(s.state.Port); err != nil {
				return err
			}
		}
		err = s.launchOn(ctx, chosen)
		again := s.crashed || !loopback.Free(chosen)
		if err == nil || !errors.Is(err, errExited) || attempt == launchAttempts || !again {
			return err
		}
		s.cfg.Log.Info("Postgres did not start; trying again", "attempt", attempt, "port", chosen)
		if ended := repeat.Sleep(ctx, launchPause); ended != nil {
			return errors.Join(err, ended)
		}
	}
}

func (s *Server) launchOn(ctx context.Context, port int) (err error) {
	log, err := openLog(s.cfg.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	info, err := log.Stat()
	if err != nil {
		return fmt.Errorf("look at the server's log: %w", err)
	}
	// The server outlives ctx, which bounds the start only.
	cmd := s.id.command(context.WithoutCancel(ctx), s.cfg.BinDir, s.cluster, "postgres",
		s.cfg.arguments(s.cluster, port)...)
	cmd.Stdout, cmd.Stderr = log, log
	running, err := spawn(cmd)
	if err != nil {
		return fmt.Errorf("start postgres as %s: %w", s.id.name, err)
	}
	s.state.Port = port
	err = s.awaitReady(ctx, running)
	if err == nil {
		err = s.createDatabase(ctx)
	}
	if err == nil {
		err = s.state.write(s.cfg.Dir)
	}
	if err != nil {
		stop := end(context.WithoutCancel(ctx), s.cfg.Log, running.handle, running.ended)
		return fmt.Errorf("%w\n%s", errors.Join(err, stop), tail(s.cfg.Dir, info.Size()))
	}
	s.running(running, info.Size())
	return nil
}

func (s *Server) awaitReady(ctx context.Context, running *process) error {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	return deadline.Do(ctx, "pgserver.ready", readyTimeout, func(ctx context.Context) error {
		for {
			conn, err := pgx.Connect(ctx, s.DatabaseURL("postgres"))
			if err == nil {
				return conn.Close(ctx)
			}
			select {
			case <-running.done:
				return fmt.Errorf("%w: %w", errExited, running.err)
			case <-ctx.Done():
				return fmt.Errorf("wait for postgres to answer: %w", errors.Join(context.Cause(ctx), err))
			case <-ticker.C:
			}
		}
	})
}

func (s *Server) createDatabase(ctx context.Context) error {
	return deadline.Do(ctx, "pgserver.create_database", databaseTimeout, func(ctx context.Context) (err error) {
		conn, err := pgx.Connect(ctx, s.DatabaseURL("postgres"))
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		defer func() { err = errors.Join(err, conn.Close(ctx)) }()
		var there bool
		const query = `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`
		if err := conn.QueryRow(ctx, query, s.cfg.Database).Scan(&there); err != nil {
			return fmt.Errorf("look for the database: %w", err)
		}
		if there {
			return nil
		}
		if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{s.cfg.Database}.Sanitize()); err != nil {
			return fmt.Errorf("create the database: %w", err)
		}
		return nil
	})
}
