package worker

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/sdk/worker/internal/dbgen"
)

const (
	// creditPause is the least time between two questions. In it semantic stores less than the default credit.
	creditPause   = 50 * time.Millisecond
	creditTimeout = 2 * time.Second
	creditPage    = 1000 // what moves.stored_up_to takes
	// creditSilence is how long nothing may be stored at all: semantic or Postgres is away then, or the stream was purged.
	// creditPatience is how long nothing may be stored of one run while others get on: its messages may stand behind theirs.
	creditSilence  = 30 * time.Second
	creditPatience = time.Minute
	// creditLeast is the part of the credit that each of many large runs has all the same.
	creditLeast = 10
	// chunksAsMuch and seenAsMuch are how many chunks cost semantic about as much as a small document, and how many documents that are
	// said to be there.
	chunksAsMuch = 4
	seenAsMuch   = 50
)

// credits is how far the runs of a worker are stored. It asks Postgres while a run waits for that, one question at a time for all
// of them. Nothing depends on an answer: a run of which nothing is stored for long goes on as if all it has sent were.
type credits struct {
	stored            func(ctx context.Context, tries []uuid.UUID) ([]dbgen.StoredUpToRow, error)
	storedOfAll       func(ctx context.Context) (int64, error)
	silence, patience time.Duration
	metrics           *metrics
	log               *slog.Logger
	begun             chan struct{} // holds one where a run may have begun to wait

	mu      sync.Mutex
	waiting map[*credit]struct{}
	large   map[*credit]struct{} // those of which much is not known to be stored: they share the credit
	moved   time.Time            // when something was last stored, or the first of the runs began to wait
	all     int64                // what storedOfAll said since then; -1 = it was not asked
}

// credit is how much of a run may stand in the document stream, so that others' documents stand behind little. credits.mu guards it.
type credit struct {
	of   *credits
	try  uuid.UUID
	most int64
	log  *slog.Logger

	taken    int64         // its highest number
	stored   int64         // the highest that is known to be stored: the stream has passed all before it
	through  int64         // the highest that needs no credit any more: it is stored, or written off
	sent     []load        // what needs credit, by its number
	standing int64         // the weight of all that
	ended    bool          // it shares no more
	more     chan struct{} // closed when there is room again
	waits    int           // how many of the handler's goroutines wait
	moved    time.Time     // when stored last moved, something was written off, or the run began to wait
}

// load is what was sent together: the last number of it, and how many small documents cost semantic as much.
type load struct{ no, weight int64 }

func weightOf(chunks, seen int) int64 { return int64(1 + chunks/chunksAsMuch + seen/seenAsMuch) }

func newCredits(queries *dbgen.Queries, m *metrics, log *slog.Logger) *credits {
	return &credits{
		stored: queries.StoredUpTo, storedOfAll: queries.StoredOfAll, silence: creditSilence, patience: creditPatience, metrics: m, log: log,
		begun: make(chan struct{}, 1), waiting: map[*credit]struct{}{}, large: map[*credit]struct{}{},
	}
}

func (c *credits) of(try uuid.UUID, most int, log *slog.Logger) *credit {
	return &credit{of: c, try: try, most: int64(most), log: log, more: make(chan struct{})}
}

// room says whether a run may send something: more is nil then. Else more is closed when it is worth another look. What is sent
// together may go beyond the credit by all of it.
func (r *credit) room() (more <-chan struct{}) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if r.mayGoOn() {
		return nil
	}
	return r.more
}

// mayGoOn says whether less stands than the run's share. credits.mu is held.
func (r *credit) mayGoOn() bool {
	least := max(r.most/creditLeast, 1)
	share := max(r.most/int64(max(len(r.of.large), 1)), least)
	return r.standing < share
}

// takes notes that a run sends something whose last number is no.
func (r *credit) takes(no, weight int64) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.taken = no
	r.sent = append(r.sent, load{no, weight})
	r.stands(weight)
}

// stands counts what stands. credits.mu is held.
func (r *credit) stands(more int64) {
	r.standing += more
	if r.ended || r.standing < max(r.most/creditLeast, 1) {
		delete(r.of.large, r)
	} else {
		r.of.large[r] = struct{}{}
	}
}

// end leaves its share to the others.
func (r *credit) end() {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.ended = true
	r.stands(0)
}

// wait has Postgres asked for the run, until the returned function is called.
func (r *credit) wait() (end func()) {
	c := r.of
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.waits++; r.waits == 1 {
		r.moved = time.Now()
		if len(c.waiting) == 0 {
			c.moves()
		}
		c.waiting[r] = struct{}{}
		c.metrics.waiting.Inc()
		select {
		case c.begun <- struct{}{}:
		default:
		}
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.waits--; r.waits == 0 {
			delete(c.waiting, r)
			c.metrics.waiting.Dec()
		}
	}
}

// run asks until ctx ends, and nothing while no run waits.
func (c *credits) run(ctx context.Context) {
	for c.isWaitedFor(ctx) {
		pause := time.After(creditPause)
		c.look(ctx)
		select {
		case <-pause:
		case <-ctx.Done():
		}
	}
}

// isWaitedFor waits until a run waits. It says no when ctx has ended.
func (c *credits) isWaitedFor(ctx context.Context) bool {
	for ctx.Err() == nil {
		c.mu.Lock()
		waited := len(c.waiting) > 0
		c.mu.Unlock()
		if waited {
			return true
		}
		select {
		case <-c.begun:
		case <-ctx.Done():
		}
	}
	return false
}

// runs are those that wait, and the large ones with which they share.
func (c *credits) runs() []*credit {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := maps.Clone(c.large)
	maps.Copy(all, c.waiting)
	return slices.Collect(maps.Keys(all))
}

// look asks once for all runs that wait, and lets go on those that may.
func (c *credits) look(ctx context.Context) {
	runs := c.runs()
	if err := c.ask(ctx, runs); err != nil { // who cares is told by what else asks Postgres
		c.log.Debug("nobody knows how far the syncs that wait are stored", "err", err)
	}
	c.writeOff(runs)
	c.wake()
}

func (c *credits) ask(ctx context.Context, runs []*credit) error {
	for page := range slices.Chunk(runs, creditPage) {
		tries := make([]uuid.UUID, len(page))
		for i, r := range page {
			tries[i] = r.try
		}
		stored, err := deadline.Get(ctx, "worker.stored_up_to", creditTimeout,
			func(ctx context.Context) ([]dbgen.StoredUpToRow, error) { return c.stored(ctx, tries) })
		if err != nil {
			return err
		}
		c.answered(page, stored)
	}
	return c.listen(ctx)
}

// listen asks whether anything is stored of others where nothing was of the runs of this worker for a while: theirs may stand before it.
func (c *credits) listen(ctx context.Context) error {
	c.mu.Lock()
	quiet := time.Since(c.moved) >= c.silence/2
	c.mu.Unlock()
	if !quiet {
		return nil
	}
	all, err := deadline.Get(ctx, "worker.stored_of_all", creditTimeout, c.storedOfAll)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= 0 && c.all != all {
		c.moves()
	}
	c.all = all
	return nil
}

// moves notes that something was stored. c.mu is held.
func (c *credits) moves() { c.moved, c.all = time.Now(), -1 }

func (c *credits) answered(runs []*credit, stored []dbgen.StoredUpToRow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	highest := make(map[uuid.UUID]int64, len(stored))
	for _, s := range stored {
		highest[s.TryID] = s.No
	}
	for _, r := range runs {
		if no := min(highest[r.try], r.taken); no > r.stored {
			r.stored, r.moved = no, time.Now()
			c.moves()
			r.passes(no)
		}
	}
}

// writeOff gives another credit to runs of which nothing was stored for long.
func (c *credits) writeOff(runs []*credit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	silent := time.Since(c.moved) >= c.silence
	for _, r := range runs {
		if since := time.Since(r.moved); r.waits == 0 || since < c.patience && (!silent || since < c.silence) {
			continue
		}
		r.log.Info("nothing of what the sync has sent was stored for long; it goes on", "sent", r.taken, "stored_up_to", r.stored)
		c.metrics.writtenOff.Add(float64(r.taken - r.through))
		r.moved = time.Now()
		r.passes(r.taken)
	}
}

// passes takes off what needs no credit any more. credits.mu is held.
func (r *credit) passes(through int64) {
	r.through = max(r.through, through)
	gone, n := int64(0), 0
	for ; n < len(r.sent) && r.sent[n].no <= r.through; n++ {
		gone += r.sent[n].weight
	}
	r.sent = slices.Delete(r.sent, 0, n)
	r.stands(-gone)
}

// wake lets go on those that have room.
func (c *credits) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.waiting {
		if r.mayGoOn() {
			close(r.more)
			r.more = make(chan struct{})
		}
	}
}

// awaitRoom waits until there may be room for another number, the run ends, or ctx does: that alone is an error.
func (o *outbox) awaitRoom(ctx context.Context, more <-chan struct{}) error {
	defer o.clock.wait(time.Now())()
	defer o.credit.wait()()
	select {
	case <-more:
	case <-o.handling.Done():
	case <-ctx.Done():
		if o.handling.Err() == nil {
			return context.Cause(ctx)
		}
	}
	return nil
}
