package semantic

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// maxLetters bounds how many messages are remembered that are among the dead letters and not counted yet.
const maxLetters = 10_000

// letters remembers the messages of which a dead letter is published, while they cannot be counted: they are delivered again and
// again until then, and one letter of each is enough.
type letters struct {
	mu   sync.Mutex
	sent map[place]bool
}

// place is where a message is in its stream. The time tells a stream from one that was made again.
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

func (l *letters) has(msg jetstream.Msg) bool {
	p, known := placeOf(msg)
	l.mu.Lock()
	defer l.mu.Unlock()
	return known && l.sent[p]
}

func (l *letters) add(msg jetstream.Msg) {
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

func (l *letters) forget(msg jetstream.Msg) {
	p, _ := placeOf(msg)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sent, p)
}
