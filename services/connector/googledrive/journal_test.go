package googledrive_test

import (
	"maps"

	"github.com/echomind/sync/sdk/worker"
)

// journal is what a sync has sent, so that a kill can lose some of it: what was sent before the checkpoint that is
// committed is stored; of what was sent after it any part may be, of one document in order.
type journal struct {
	docs    map[string]worker.Document // before the sync
	seen    map[string]int
	entries []journalEntry
	marks   []mark
}

type journalEntry struct {
	id   string
	seen bool // only marked
	doc  *worker.Document
	in   int // the listing
}

type mark struct {
	at      int // entries before it
	state   []byte
	listing int
}

func (s *store) open() {
	s.journal = &journal{docs: maps.Clone(s.docs), seen: maps.Clone(s.seen)}
	s.journal.marks = []mark{{0, s.state, s.listing}}
}

func (s *store) note(e journalEntry) {
	if s.journal != nil {
		e.in = s.listing
		s.journal.entries = append(s.journal.entries, e)
	}
}

// crash leaves what a kill leaves; choose returns a number from 0 up to, and without, n.
func (s *store) crash(choose func(n int) int) {
	j := s.journal
	m := j.marks[choose(len(j.marks))]
	s.docs, s.seen, s.state, s.listing, s.committed = j.docs, j.seen, m.state, m.listing, m.listing
	stopped := map[string]bool{}
	for i, e := range j.entries {
		if i >= m.at {
			if e.seen || stopped[e.id] {
				continue
			}
			if choose(2) == 0 {
				stopped[e.id] = true
				continue
			}
		}
		switch {
		case e.seen:
			s.seen[e.id] = e.in
		case e.doc == nil:
			delete(s.docs, e.id)
		default:
			s.docs[e.id] = *e.doc
			if i < m.at {
				s.seen[e.id] = e.in
			} else {
				delete(s.seen, e.id) // its mark is beyond the checkpoint
			}
		}
	}
	s.journal = nil
}
