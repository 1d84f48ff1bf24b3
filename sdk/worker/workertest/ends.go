package workertest

import (
	"encoding/json"
	"errors"

	"github.com/echomind/sync/sdk/worker"
)

// sent is a document as a run stored it; nil: it was deleted.
type sent struct {
	id  string
	doc *doc
}

// mark is a state that was committed.
type mark struct {
	sent  int // how many were sent before it
	state []byte
	shown map[string]bool
}

// Complete is a sync that has come to its end.
func (s *Store) Complete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending != nil {
		s.state, s.shown = s.pending, nil
	}
	s.over()
}

// End is a sync that has ended with an error, or nil, as the kit ends its run.
func (s *Store) End(err error) {
	switch {
	case err == nil:
		s.Complete()
	case errors.Is(err, worker.ErrRelist):
		s.Killed(false)
		s.mu.Lock()
		defer s.mu.Unlock()
		var kept struct {
			Place json.RawMessage `json:"place,omitempty"`
		}
		_ = json.Unmarshal(s.state, &kept)
		s.state, _ = json.Marshal(kept)
		s.shown = nil
	default:
		s.Killed(false)
	}
}

// Killed is a sync that has not: its last checkpoint may not be committed though documents after it are stored.
func (s *Store) Killed(lastCheckpointLost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lastCheckpointLost && len(s.marks) > 1 {
		last := s.marks[len(s.marks)-2]
		s.state, s.shown = last.state, last.shown
	}
	s.over()
}

// Crash is a sync that was killed, and of what it has sent some is lost: one of its checkpoints is the last that is committed, and of what it
// has sent of a document after that, the first few messages are stored. choose returns a number from 0 up to, and without, n.
func (s *Store) Crash(choose func(n int) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.marks) == 0 {
		return // no run has begun
	}
	last := s.marks[choose(len(s.marks))]
	s.docs, s.state, s.shown = s.begun, last.state, last.shown
	lost := map[string]bool{}
	for i, m := range s.sent {
		if i >= last.sent && !lost[m.id] {
			lost[m.id] = choose(2) == 0
		}
		switch {
		case lost[m.id]:
		case m.doc == nil:
			delete(s.docs, m.id)
		default:
			s.docs[m.id] = *m.doc
		}
	}
	s.over()
}

// over ends a run. s.mu is held.
func (s *Store) over() { s.pending, s.begun, s.marks = nil, nil, nil }

// Sent are the documents that the last run has stored so far, each time it did, with what stayed of them.
func (s *Store) Sent() (docs []worker.Document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.sent {
		if m.doc != nil {
			docs = append(docs, m.doc.Document)
		}
	}
	return docs
}
