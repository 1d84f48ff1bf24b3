package worker

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// stallTold is how long a document waits to be published before it is reported: a broker that changes its leader is back sooner.
const stallTold = 5 * time.Second

// stall reports, once for all runs of a worker, that documents wait to be published, and when they no longer do.
type stall struct {
	log *slog.Logger

	mu      sync.Mutex
	waiting int // publishes that were reported
	since   time.Time
	why     error
}

// begins notes a publish that has not succeeded since a moment.
func (s *stall) begins(since time.Time, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why = why
	if s.waiting++; s.waiting == 1 {
		s.since = since
		s.log.Warn("documents wait to be published; syncs go on when the stream takes them", "err", why)
	}
}

// ends notes the end of a publish that begins has noted.
func (s *stall) ends() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting--; s.waiting == 0 {
		s.log.Info("no document waits to be published any more", "waited", time.Since(s.since))
	}
}

// String is the note for /readyz.
func (s *stall) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == 0 {
		return "published at once"
	}
	return fmt.Sprintf("%d wait to be published for %v: %v", s.waiting, time.Since(s.since).Round(time.Second), s.why)
}
