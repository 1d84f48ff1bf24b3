package api

import (
	"cmp"
	"context"
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
	// readEvents is how many are read at once.
	readEvents = 500
	// pageEvents is how many are told at once: so many are in memory once more for each who watches and is slow.
	pageEvents = 100
	// mostSights is of how many viewers it is remembered at once what they see of new events.
	mostSights = 1000
	// lookEvery is how often the stream is asked for new events, while somebody watches, and lookTimeout bounds one look.
	lookEvery   = time.Second
	lookTimeout = 3 * time.Second // less than a stop waits
)

// position is a place in the stream of events, behind a message. made is when the stream was made, stored when it took the message, in nanoseconds: a stream
// that has lost its last messages gives their numbers to others. stored is 0 where no message is known of this number.
type position struct {
	made   int64
	seq    uint64
	stored int64
}

// String is the id of an event that is told.
func (p position) String() string { return fmt.Sprintf("%x-%d-%x", p.made, p.seq, p.stored) }

// positionOf is the place of an id; of what is none, a place of no stream.
func positionOf(text string) (p position) {
	if n, err := fmt.Sscanf(text, "%x-%d-%x", &p.made, &p.seq, &p.stored); err != nil || n != 3 || p.String() != text {
		return position{}
	}
	return p
}

// subject is what an event is of: a connector, or that one is deleted.
type subject struct {
	connector int32
	isGone    bool
}

// seenSince is what somebody sees, and since when; nil: since ever.
type seenSince map[subject]*time.Time

// told is a message of the stream as it is told to everybody.
type told struct {
	position
	subject
	// since is from when on somebody must see its connector to be told: when it happened, when the run began that it ended, or the first of the slots that none answers.
	since time.Time
	isRun bool
	// isAdded: its connector is new.
	isAdded bool
	// isWait: its connector begins to wait for a worker, or does so no more.
	isWait bool
	// text is empty where it is no event that is known here.
	text []byte
}

// feed has the newest events, for everybody who watches. One watcher that waits for more looks for all of them.
type feed struct {
	streams *streams
	looking chan struct{} // its one place is taken by the watcher that looks
	began   time.Time     // when the last look began; held by looking

	mu     sync.Mutex
	looked time.Time // when the last look was over
	away   error     // why the last look has not come to the end of the stream; at first: nobody has looked
	from   position  // all messages behind it, up to newest, are in kept
	newest position
	// isFilling: what is kept begins anew, and is not yet all that the stream had then. Nobody is told of it: newest would be a place of before.
	isFilling bool
	kept      []told
	seen      map[sightOf]*sight
}

func newFeed(s *streams) *feed {
	return &feed{streams: s, looking: make(chan struct{}, 1), away: errAsking}
}

// look reads what is new, unless another request reads it now, or did within lookEvery. It is for all requests, and goes on when the one that began it has gone.
func (f *feed) look(ctx context.Context) {
	select {
	case f.looking <- struct{}{}:
	default:
		return
	}
	defer func() { <-f.looking }()
	if !f.isFresh() {
		f.read(ctx)
	}
}

// end is the place behind everything that the stream has when somebody comes. Those who come at the same time wait for one look.
func (f *feed) end(ctx context.Context) (position, error) {
	came := time.Now()
	select {
	case f.looking <- struct{}{}:
	case <-ctx.Done():
		return position{}, ctx.Err()
	}
	defer func() { <-f.looking }()
	if !f.began.After(came) {
		for f.read(ctx) && ctx.Err() == nil { // a look is bounded, and may be one of several to the end
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.newest, f.away
}

// goesOn looks if it is not known what is behind a place: nobody has looked lately, or another replica is ahead.
func (f *feed) goesOn(ctx context.Context, at position) error {
	if f.isFresh() && f.has(at) {
		return nil
	}
	_, err := f.end(ctx)
	return err
}

func (f *feed) isFresh() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Since(f.looked) < lookEvery
}

func (f *feed) has(at position) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.away == nil && at.made == f.newest.made && at.seq <= f.newest.seq
}

// read is within looking. It says whether it has read some, and not all.
func (f *feed) read(ctx context.Context) (isMore bool) {
	before := f.position()
	f.began = time.Now()
	asked, err := f.streams.get(time.Now())
	if err == nil {
		err = deadline.Do(context.WithoutCancel(ctx), "api.events", lookTimeout, func(ctx context.Context) error { return f.readFrom(ctx, asked) })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked, f.away, f.seen = time.Now(), err, nil
	return err != nil && f.newest != before
}

func (f *feed) readFrom(ctx context.Context, asked *broker.Broker) error {
	depth, err := asked.Depth(ctx, topology.EventStream)
	if err != nil {
		return err
	}
	at := f.begin(depth, false)
	if at.stored != 0 && at.seq >= depth.FirstSeq { // the last message that was read is asked for again
		last, _, err := asked.Events(ctx, at.seq-1, at.seq)
		if err != nil {
			return err
		}
		if len(last) != 1 || last[0].Stored.UnixNano() != at.stored {
			at = f.begin(depth, true)
		}
	}
	for at.seq < depth.LastSeq {
		some, through, away := asked.Events(ctx, at.seq, min(depth.LastSeq, at.seq+readEvents))
		if uint64(len(some)) < through-at.seq { // was it never there, or has the stream dropped it meanwhile?
			if depth, err = asked.Depth(ctx, topology.EventStream); err != nil {
				return err
			}
			if depth.Made.UnixNano() != at.made || depth.FirstSeq > at.seq+1 {
				at = f.begin(depth, false)
				continue
			}
		}
		if at = f.add(some, through); away != nil {
			return away // the next look goes on behind what has come
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isFilling = false
	return nil
}

// begin is the place behind which to read. It leaves what is kept, if nothing joins on to it: the stream has lost its end, is another, or has lost or will have more between
// than is kept. Watchers are then told that something may be left out.
func (f *feed) begin(depth broker.Depth, hasLost bool) position {
	f.mu.Lock()
	defer f.mu.Unlock()
	made, oldest := depth.Made.UnixNano(), max(depth.FirstSeq, 1)-1
	if depth.LastSeq > keptEvents {
		oldest = max(oldest, depth.LastSeq-keptEvents)
	}
	if hasLost || f.newest.made != made || f.newest.seq > depth.LastSeq || f.newest.seq < oldest {
		f.from = position{made: made, seq: min(oldest, depth.LastSeq)}
		f.newest, f.kept, f.isFilling = f.from, nil, true
	}
	return f.newest
}

// add keeps messages up to a number, and returns the place behind them.
func (f *feed) add(some []broker.Told, through uint64) position {
	all := make([]told, 0, len(some))
	for _, e := range some {
		one := told{position: position{seq: e.Seq, stored: e.Stored.UnixNano()}}
		if e.Event != nil {
			if text, err := e.JSON(); err == nil { // else it is of no type that can be named
				one.subject, one.since, one.isRun, one.text = subject{e.ConnectorID(), e.IsDeletion()}, e.Time, e.Run != nil, text
				one.isAdded, one.isWait = e.IsAddition(), e.IsWait()
			}
			if began := e.Run.GetStartedAt(); began != nil {
				one.since = began.AsTime()
			}
			if e.Run.GetSlotLast() != nil { // no run answers them: they are of the schedule that stood then
				one.since = e.Run.GetSlot().AsTime()
			}
		}
		all = append(all, one)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range all {
		all[i].made = f.newest.made
	}
	f.newest = position{made: f.newest.made, seq: through}
	if n := len(all); n > 0 && all[n-1].seq == through {
		f.newest = all[n-1].position
	}
	f.kept = append(f.kept, all...)
	if over := len(f.kept) - keptEvents; over > 0 {
		f.from = f.kept[over-1].position
		f.kept = slices.Clone(f.kept[over:])
	}
	return f.newest
}

func (f *feed) position() position {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.newest
}

// behind are up to so many messages behind a place, and the place behind them. Where they are not all there any more, isWhole is false, and the place is the newest.
func (f *feed) behind(at position) (some []told, next position, isWhole bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isFilling {
		return nil, at, true
	}
	i, is := slices.BinarySearchFunc(f.kept, at.seq, func(t told, seq uint64) int { return cmp.Compare(t.seq, seq) })
	known := int64(0)
	switch {
	case is:
		known = f.kept[i].stored
		i++
	case at.seq == f.from.seq:
		known = f.from.stored
	}
	if at.made != f.newest.made || at.seq < f.from.seq || at.seq > f.newest.seq || at.stored != 0 && known != 0 && at.stored != known {
		return nil, f.newest, false
	}
	if some = f.kept[i:]; len(some) > pageEvents {
		some = some[:pageEvents]
		return some, some[pageEvents-1].position, true
	}
	return some, f.newest, true
}

// sightOf is what a watcher sees of the events between two places. Watchers with the same rights share it.
type sightOf struct {
	viewer   string
	from, to position
}

type sight struct {
	once  sync.Once
	since seenSince
	err   error
}

// sight is what was found out of these events; ask finds out, once. It is forgotten with the next look.
func (f *feed) sight(of sightOf, ask func() (seenSince, error)) (seenSince, error) {
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
