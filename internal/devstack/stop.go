package devstack

import (
	"context"
	"errors"
	"fmt"
)

// Ended is closed when an embedded server has ended by itself; Err says why. Stop does not close it.
func (s *Stack) Ended() <-chan struct{} { return s.ended }

// Err says which server ended by itself, and why; nil as long as none has.
func (s *Stack) Err() error {
	select {
	case <-s.ended:
		return s.failure
	default:
		return nil
	}
}

// watch waits for the end of the first server, or of the stack.
func (s *Stack) watch() {
	defer close(s.watched)
	var postgres, nats <-chan struct{}
	if s.postgres != nil {
		postgres = s.postgres.Done()
	}
	if s.nats != nil {
		nats = s.nats.Done()
	}
	select {
	case <-s.stopping:
		return
	case <-postgres:
		s.failure = fmt.Errorf("the embedded PostgreSQL is gone: %w", s.postgres.Err())
	case <-nats:
		s.failure = errors.New("the embedded NATS is gone")
	}
	close(s.ended)
}

// Stop removes the state file, stops NATS, then Postgres, and releases the data folder last; one failing step never skips the
// next. ctx bounds the gentle part: see pgserver.Server.Stop. It may be called again.
func (s *Stack) Stop(ctx context.Context) error {
	s.stop.Do(func() {
		close(s.stopping)
		<-s.watched
		s.stopped = s.close(ctx)
	})
	return s.stopped
}

func (s *Stack) close(ctx context.Context) error {
	s.mu.Lock()
	errs := []error{removeInfo(s.dir)}
	s.mu.Unlock()
	if s.nats != nil {
		errs = append(errs, s.nats.Stop(ctx))
	}
	if s.postgres != nil {
		errs = append(errs, s.postgres.Stop(ctx))
	}
	return errors.Join(append(errs, s.claim.Release())...)
}
