package api

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/echomind/sync/internal/broker"
	"github.com/echomind/sync/internal/config"
)

// awayFor is for how long NATS is not asked again that did not answer.
const awayFor = 5 * time.Second

var errAsking = errors.New("it is being connected to")

// streams is the connection to NATS, which is made when somebody first asks what NATS knows.
type streams struct {
	config config.Common
	now    atomic.Pointer[broker.Broker] // open, for those who need no try
	mu     sync.Mutex
	open   *broker.Broker
	away   error
	tried  time.Time
}

// get is the connection, or why there is none. It waits for nobody else's try.
func (s *streams) get(now time.Time) (*broker.Broker, error) {
	if open := s.now.Load(); open != nil && open.Connected() {
		return open, nil
	}
	if !s.mu.TryLock() {
		return nil, errAsking
	}
	defer s.mu.Unlock()
	switch {
	case s.open != nil && s.open.Connected():
		return s.open, nil
	case s.away != nil && now.Sub(s.tried) < awayFor:
		return nil, s.away
	}
	if s.open != nil {
		s.open.Close()
	}
	s.tried = now
	s.open, s.away = broker.Open(s.config.NATSURL, s.config.NATSAccess)
	s.now.Store(s.open)
	return s.open, s.away
}

func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil {
		s.open.Close()
		s.open = nil
	}
}
