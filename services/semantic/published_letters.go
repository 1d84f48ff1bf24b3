package semantic

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// maxLetters bounds how many dead letters are remembered whose messages are not counted yet.
const maxLetters = 10_000

// publishedLetters remembers messages whose dead letter is published and which are not counted yet. They are delivered again until
// then, and one letter of each is enough.
type publishedLetters struct {
	mu   sync.Mutex
	sent map[place]bool
}

// place is the place of a message in its stream. The time distinguishes the stream from a later one of the same name.
type place struct {
	seq uint64
	at  time.Time
}

func placeOf(msg jetstream.Msg) (place, bool) {
	meta, err := msg.Metadata()
	if err != nil {
		return place{}, false
	}
	return place{meta.Sequence.Stream, meta.Timestamp}, true
}

func (l *publishedLetters) has(msg jetstream.Msg) bool {
	p, known := placeOf(msg)
	l.mu.Lock()
	defer l.mu.Unlock()
	return known && l.sent[p]
}

func (l *publishedLetters) add(msg jetstream.Msg) {
	p, known := placeOf(msg)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !known {
		return
	}
	if l.sent == nil || len(l.sent) >= maxLetters {
		l.sent = map[place]bool{}
	}
	l.sent[p] = true
}

func (l *publishedLetters) forget(msg jetstream.Msg) {
	p, _ := placeOf(msg)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sent, p)
}
