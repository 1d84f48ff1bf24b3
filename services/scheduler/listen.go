package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/repeat"
)

const (
	// pollEvery is how often the scheduler ticks while it cannot LISTEN, or while Postgres keeps it waiting.
	pollEvery = 5 * time.Second
	// listenKeepalive is how long the listening connection may be silent before it is asked for a sign of life. Until
	// then nobody knows that a connection is dead, and what is notified meanwhile waits for the next tick.
	listenKeepalive = 10 * time.Second
)

// errNotListening is what readiness says meanwhile.
var errNotListening = errors.New("not listening for changes: DATABASE_DIRECT_URL cannot be reached; polling every 5s")

type listening struct{ atomic.Bool }

func (l *listening) check(context.Context) error {
	if !l.Load() {
		return errNotListening
	}
	return nil
}

// listen wakes the scheduler whenever a change makes something due. A tick follows every (re)LISTEN, because what
// was notified before is lost.
func (s *Scheduler) listen(ctx context.Context, url string) error {
	for ctx.Err() == nil {
		err := s.listenOnce(ctx, url)
		s.listening.Store(false)
		if ctx.Err() != nil {
			return nil
		}
		s.log.Warn("not listening for changes; polling instead", "every", pollEvery, "err", err)
		if repeat.Sleep(ctx, pollEvery) == nil {
			s.Wake()
		}
	}
	return nil
}

func (s *Scheduler) listenOnce(ctx context.Context, url string) error {
	conn, err := deadline.Get(ctx, "scheduler.listen", queryTimeout, func(ctx context.Context) (*pgx.Conn, error) {
		conn, err := postgres.Connect(ctx, url, "echomind-scheduler-listen")
		if err != nil {
			return nil, err
		}
		if _, err := conn.Exec(ctx, "LISTEN connectors_due"); err != nil {
			return nil, errors.Join(err, conn.Close(ctx))
		}
		return conn, nil
	})
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	s.listening.Store(true)
	s.Wake()
	for {
		kind, err := s.notified(ctx, conn)
		if err != nil {
			return err
		}
		if key, ok := strings.CutPrefix(kind, keyNotice); ok {
			s.keyring.hint(key)
			kind = ""
		}
		s.wakeFor(kind)
	}
}

// notified returns the type that a notification names. A silent connection is asked for a sign of life, so that one
// that is dead without having been closed is noticed.
func (s *Scheduler) notified(ctx context.Context, conn *pgx.Conn) (kind string, err error) {
	for {
		waiting, cancel := context.WithTimeout(ctx, listenKeepalive)
		told, err := conn.WaitForNotification(waiting)
		cancel()
		if err == nil {
			return told.Payload, nil
		}
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return "", fmt.Errorf("wait for a notification: %w", err)
		}
		if err := deadline.Do(ctx, "scheduler.listen_keepalive", queryTimeout, conn.Ping); err != nil {
			return "", err
		}
	}
}
