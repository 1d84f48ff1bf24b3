package campaign

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/contract/events"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/world"
)

const (
	listenEvery   = 200 * time.Millisecond
	listenTimeout = 5 * time.Second
	// removedAfter is how long after an event came into the stream it is removed in Postgres at the latest, as long as nothing is away.
	removedAfter = 10 * time.Second
)

// listener reads the event stream as another service does, and remembers what it has read: the stream may be wiped.
type listener struct {
	mu       sync.Mutex
	next     uint64
	created  time.Time
	readAt   time.Time // all that was there then is read
	verdicts map[uuid.UUID]bool
	seen     map[string]bool // the ids of events of status
	last     map[int32]int64 // the highest number of each connector's
	order    []string        // what came behind a later one
	wipes    []wipe
}

// wipe is a time within which the stream was lost: what was published in it, nobody may have read.
type wipe struct{ from, to time.Time }

func newListener() *listener {
	return &listener{next: 1, readAt: time.Now(), verdicts: map[uuid.UUID]bool{}, seen: map[string]bool{}, last: map[int32]int64{}}
}

func (l *listener) run(ctx context.Context, w *world.World) {
	for ctx.Err() == nil {
		_ = l.look(ctx, w) // NATS may be away
		select {
		case <-ctx.Done():
		case <-time.After(listenEvery):
		}
	}
}

func (l *listener) look(ctx context.Context, w *world.World) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	began := time.Now()
	stream, err := w.Stream.Stream(ctx, topology.EventStream)
	if err != nil {
		return wrap("ask for stream "+topology.EventStream, err)
	}
	info := stream.CachedInfo()
	if !l.created.IsZero() && !info.Created.Equal(l.created) || info.State.LastSeq+1 < l.next {
		l.wipes = append(l.wipes, wipe{l.readAt, time.Now()})
		l.next = 1
		clear(l.last) // what was lost with the stream may be published again
	}
	l.created = info.Created
	for l.next = max(l.next, info.State.FirstSeq); l.next <= info.State.LastSeq; l.next++ {
		msg, err := stream.GetMsg(ctx, l.next)
		if err != nil {
			return wrap("read an event", err)
		}
		e, err := events.Read(msg.Header, msg.Data)
		if err != nil {
			l.order = append(l.order, fmt.Sprintf("message %d on %s: %v", l.next, msg.Subject, err))
			continue
		}
		l.hear(e)
	}
	l.readAt = began
	return nil
}

func (l *listener) hear(e events.Event) {
	if e.Run != nil {
		if id, err := uuid.Parse(e.ID); err == nil {
			l.verdicts[id] = true
		}
		return
	}
	if l.seen[e.ID] {
		return // a repeat
	}
	l.seen[e.ID] = true
	var no int64
	if _, err := fmt.Sscanf(strings.SplitN(e.ID, ".", 2)[1], "%d.", &no); err != nil {
		l.order = append(l.order, fmt.Sprintf("event %q has no number", e.ID))
		return
	}
	connector := e.Connector.ConnectorId
	if no <= l.last[connector] {
		l.order = append(l.order, fmt.Sprintf("event %s of connector %d came behind number %d", e.ID, connector, l.last[connector]))
	}
	l.last[connector] = max(no, l.last[connector])
}

// missed says whether the stream was lost about when an event was removed in Postgres.
func (l *listener) missed(removed time.Time) bool {
	for _, w := range l.wipes {
		if removed.After(w.from.Add(-listenEvery)) && removed.Before(w.to.Add(removedAfter)) {
			return true
		}
	}
	return false
}

// finding is asked when everything is at rest.
func (l *listener) finding(ctx context.Context, w *world.World) (audit.Finding, error) {
	if err := l.look(ctx, w); err != nil {
		return audit.Finding{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := audit.Told(ctx, w.Pool, l.verdicts, l.missed)
	for _, what := range l.order {
		violated(&f, what)
	}
	return f, err
}
