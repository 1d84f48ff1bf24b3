package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/broker"
	"github.com/echomind/sync/internal/deadline"
)

const (
	// keptEvents is how many of the newest events are in memory: so far back somebody may go on.
	keptEvents = 5000
	// pageEvents is how many are told at once: so many are in memory once more for each who watches and is slow.
	pageEvents = 100
	// mostSights is of how many viewers it is remembered at once what they see of new events.
	mostSights = 1000
	// lookEvery is how often the stream is asked for new events, while somebody watches, and lookTimeout bounds one look.
	lookEvery   = time.Second
	lookTimeout = 3 * time.Second // less than a stop waits
)

// position is a place in the stream of events, behind a message; made is when the stream was made.
type position struct {
	made int64
	seq  uint64
}

// String is the id of an event that is told.
func (p position) String() string { return fmt.Sprintf("%x-%d", p.made, p.seq) }

func positionOf(text string) (p position, is bool) {
	n, err := fmt.Sscanf(text, "%x-%d", &p.made, &p.seq)
	return p, err == nil && n == 2 && p.String() == text
}

// told is an event as it is told to everybody.
type told struct {
	seq       uint64
	connector int32
	at        time.Time
	isRun     bool
	isGone    bool // its connector is deleted
	text      []byte
}

// feed has the newest events, for everybody who watches. Whoever waits for more looks for all.
type feed struct {
	streams *streams
	looking sync.Mutex
	looked  time.Time // held by looking

	mu     sync.Mutex
	away   error    // why the last look has read nothing; at first: nobody has looked
	from   position // all events behind it, up to newest, are in kept
	newest position
	kept   []told
	seen   map[sightOf]*sight
}

func newFeed(s *streams) *feed { return &feed{streams: s, away: errAsking} }

// look reads what is new, unless somebody is at it, or has been within lookEvery. It is for all, and goes on where whoever began it goes.
func (f *feed) look(ctx context.Context) {
	if !f.looking.TryLock() {
		return
	}
	defer f.looking.Unlock()
	if time.Since(f.looked) < lookEvery {
		return
	}
	asked, err := f.streams.get(time.Now())
	if err == nil {
		err = deadline.Do(context.WithoutCancel(ctx), "api.events", lookTimeout, func(ctx context.Context) error { return f.read(ctx, asked) })
	}
	f.looked = time.Now()
	f.mu.Lock()
	f.away = err
	f.mu.Unlock()
}

func (f *feed) read(ctx context.Context, asked *broker.Broker) error {
	depth, err := asked.Depth(ctx, topology.EventStream)
	if err != nil {
		return err
	}
	f.begin(position{depth.Made.UnixNano(), depth.LastSeq}, depth.FirstSeq)
	for at := f.position().seq; at < depth.LastSeq; {
		some, through, err := asked.Events(ctx, at, pageEvents)
		f.add(some, through)
		if err != nil {
			return err
		}
		if at = through; len(some) < pageEvents {
			break
		}
	}
	return nil
}

// begin leaves what is kept, if nothing joins on to it: the stream is another, or has lost or will have more between than is kept.
func (f *feed) begin(end position, first uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	oldest := max(first, 1) - 1
	if end.seq > keptEvents {
		oldest = max(oldest, end.seq-keptEvents)
	}
	if f.newest.made != end.made || f.newest.seq > end.seq || f.newest.seq < oldest {
		f.from = position{end.made, min(oldest, end.seq)}
		f.newest, f.kept = f.from, nil
	}
}

func (f *feed) add(some []broker.Told, through uint64) {
	all := make([]told, 0, len(some))
	for _, e := range some {
		if text, err := e.JSON(); err == nil { // else it is of no type that can be named
			all = append(all, told{e.Seq, e.ConnectorID(), e.Time, e.Run != nil, e.IsDeletion(), text})
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.newest.seq != through {
		f.seen = nil
	}
	f.newest.seq = max(f.newest.seq, through)
	f.kept = append(f.kept, all...)
	if over := len(f.kept) - keptEvents; over > 0 {
		f.from.seq = f.kept[over-1].seq
		f.kept = slices.Clone(f.kept[over:])
	}
}

// now is the newest place; err says why it is not known.
func (f *feed) now() (p position, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.newest, f.away
}

func (f *feed) position() position {
	p, _ := f.now()
	return p
}

// ready is now, once it is known: where somebody is at the first look, it waits for that.
func (f *feed) ready(ctx context.Context) (position, error) {
	f.look(ctx)
	newest, err := f.now()
	if errors.Is(err, errAsking) {
		f.looking.Lock()
		f.looking.Unlock() //nolint:staticcheck // whoever had it has looked
		newest, err = f.now()
	}
	return newest, err
}

// behind are up to so many events behind a place, and the place behind them. Where they are not all there any more, isWhole is false, and the place is the newest.
func (f *feed) behind(at position) (some []told, next position, isWhole bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at.made != f.newest.made || at.seq < f.from.seq || at.seq > f.newest.seq {
		return nil, f.newest, false
	}
	i, _ := slices.BinarySearchFunc(f.kept, at.seq+1, func(t told, seq uint64) int { return cmp.Compare(t.seq, seq) })
	if some = f.kept[i:]; len(some) > pageEvents {
		some = some[:pageEvents]
		return some, position{at.made, some[pageEvents-1].seq}, true
	}
	return some, f.newest, true
}

// sightOf is what somebody sees of the events between two places: whoever may see the same is shown the same.
type sightOf struct {
	viewer   string
	from, to position
}

type sight struct {
	once  sync.Once
	since map[int32]*time.Time
	err   error
}

// sight is what was found out of these events; ask finds out, once. It is forgotten with the next look that finds more.
func (f *feed) sight(of sightOf, ask func() (map[int32]*time.Time, error)) (map[int32]*time.Time, error) {
	f.mu.Lock()
	if f.seen == nil || len(f.seen) >= mostSights {
		f.seen = map[sightOf]*sight{}
	}
	s := f.seen[of]
	if s == nil {
		s = &sight{}
		f.seen[of] = s
	}
	f.mu.Unlock()
	s.once.Do(func() { s.since, s.err = ask() })
	if s.err != nil {
		f.mu.Lock()
		if f.seen[of] == s {
			delete(f.seen, of)
		}
		f.mu.Unlock()
	}
	return s.since, s.err
}
