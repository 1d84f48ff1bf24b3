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
	// creditPause is the least time between two questions. Semantic stores less than the default credit within it.
	creditPause   = 50 * time.Millisecond
	creditTimeout = 2 * time.Second
	creditPage    = 1000 // what moves.stored_up_to takes
	// creditSilence is after how long without any store of any run credit is written off: semantic or Postgres is away, or the
	// stream was purged. creditPatience is the same for one run while other runs are stored: its messages may wait behind theirs.
	creditSilence  = 30 * time.Second
	creditPatience = time.Minute
	// creditLeast: each of many large runs has at least the credit divided by this.
	creditLeast = 10
	// chunksPerDocument and seenPerDocument are how many chunks, and how many documents marked as seen, cost semantic about as much
	// as a small document.
	chunksPerDocument = 4
	seenPerDocument   = 50
)

// credits knows how far the runs of a worker are stored. It asks Postgres while a run waits for credit, one question at a time for
// all runs. A missing answer stops nothing: a run that sees no store for long continues as if everything that it has sent were
// stored.
type credits struct {
	stored            func(ctx context.Context, tries []uuid.UUID) ([]dbgen.StoredUpToRow, error)
	storedOfAll       func(ctx context.Context) (int64, error)
	silence, patience time.Duration
	metrics           *metrics
	log               *slog.Logger
	begun             chan struct{} // holds one element where a run may have begun to wait

	mu              sync.Mutex
	waiting         map[*credit]struct{}
	large           map[*credit]struct{} // runs with much outstanding: they share the credit
	progressAt      time.Time            // when something was last stored, or the first of the runs began to wait
	lastStoredOfAll int64                // the last answer of storedOfAll since then; -1 = it was not asked
}

// credit bounds how much of a run waits in the document stream, so that the documents of other runs do not wait behind much.
// credits.mu guards it.
type credit struct {
	of   *credits
	try  uuid.UUID
	most int64
	log  *slog.Logger

	taken       int64         // its highest number
	stored      int64         // the highest number that is known to be stored: the stream has passed all before it
	through     int64         // the highest number that needs no credit any more: it is stored, or written off
	sent        []load        // messages that need credit, by number
	outstanding int64         // the weight of sent
	ended       bool          // it takes no share any more
	more        chan struct{} // closed when there is room again
	waits       int           // how many of the handler's goroutines wait
	progressAt  time.Time     // when stored last moved, something was written off, or the run began to wait
}

// load is messages that were sent together: their last number, and as how many small documents they count.
type load struct{ no, weight int64 }

func weightOf(chunks, seen int) int64 {
	return int64(1 + chunks/chunksPerDocument + seen/seenPerDocument)
}

func newCredits(queries *dbgen.Queries, m *metrics, log *slog.Logger) *credits {
	return &credits{
		stored: queries.StoredUpTo, storedOfAll: queries.StoredOfAll, silence: creditSilence, patience: creditPatience, metrics: m, log: log,
		begun: make(chan struct{}, 1), waiting: map[*credit]struct{}{}, large: map[*credit]struct{}{},
	}
}

func (c *credits) of(try uuid.UUID, most int, log *slog.Logger) *credit {
	return &credit{of: c, try: try, most: int64(most), log: log, more: make(chan struct{})}
}

// roomOrWait returns nil where the run may send; otherwise a channel that is closed when asking again makes sense. Messages that
// are sent together may exceed the credit.
func (r *credit) roomOrWait() (more <-chan struct{}) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if r.hasCredit() {
		return nil
	}
	return r.more
}

// hasCredit says whether less is outstanding than the run's share. credits.mu is held.
func (r *credit) hasCredit() bool {
	least := max(r.most/creditLeast, 1)
	share := max(r.most/int64(max(len(r.of.large), 1)), least)
	return r.outstanding < share
}

// charge notes that a run sends messages whose last number is no.
func (r *credit) charge(no, weight int64) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.taken = no
	r.sent = append(r.sent, load{no, weight})
	r.addOutstanding(weight)
}

// addOutstanding changes the outstanding weight. credits.mu is held.
func (r *credit) addOutstanding(more int64) {
	r.outstanding += more
	if r.ended || r.outstanding < max(r.most/creditLeast, 1) {
		delete(r.of.large, r)
	} else {
		r.of.large[r] = struct{}{}
	}
}

// end gives the run's share to the others.
func (r *credit) end() {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.ended = true
	r.addOutstanding(0)
}

// wait has Postgres asked about the run until the returned function is called.
func (r *credit) wait() (end func()) {
	c := r.of
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.waits++; r.waits == 1 {
		r.progressAt = time.Now()
		if len(c.waiting) == 0 {
			c.noteProgress()
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

// run asks Postgres until ctx ends, while any run waits.
func (c *credits) run(ctx context.Context) {
	for c.awaitWaiting(ctx) {
		pause := time.After(creditPause)
		c.refresh(ctx)
		select {
		case <-pause:
		case <-ctx.Done():
		}
	}
}

// awaitWaiting waits until a run waits. It returns false when ctx has ended.
func (c *credits) awaitWaiting(ctx context.Context) bool {
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

// runs returns the waiting runs, and the large runs that share the credit with them.
func (c *credits) runs() []*credit {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := maps.Clone(c.large)
	maps.Copy(all, c.waiting)
	return slices.Collect(maps.Keys(all))
}

// refresh asks once for all waiting runs, and wakes those that have credit.
func (c *credits) refresh(ctx context.Context) {
	runs := c.runs()
	if err := c.ask(ctx, runs); err != nil { // other queries report that Postgres is away
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
		c.apply(page, stored)
	}
	return c.askOfAll(ctx)
}

// askOfAll asks whether anything of other workers' runs is stored, where nothing of this worker's runs was for a while: their
// messages may wait behind the others.
func (c *credits) askOfAll(ctx context.Context) error {
	c.mu.Lock()
	quiet := time.Since(c.progressAt) >= c.silence/2
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
	if c.lastStoredOfAll >= 0 && c.lastStoredOfAll != all {
		c.noteProgress()
	}
	c.lastStoredOfAll = all
	return nil
}

// noteProgress notes that something was stored. c.mu is held.
func (c *credits) noteProgress() { c.progressAt, c.lastStoredOfAll = time.Now(), -1 }

func (c *credits) apply(runs []*credit, stored []dbgen.StoredUpToRow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	highest := make(map[uuid.UUID]int64, len(stored))
	for _, s := range stored {
		highest[s.TryID] = s.No
	}
	for _, r := range runs {
		if no := min(highest[r.try], r.taken); no > r.stored {
			r.stored, r.progressAt = no, time.Now()
			c.noteProgress()
			r.release(no)
		}
	}
}

// writeOff gives new credit to waiting runs that have seen no store for long.
func (c *credits) writeOff(runs []*credit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	silent := time.Since(c.progressAt) >= c.silence
	for _, r := range runs {
		if since := time.Since(r.progressAt); r.waits == 0 || since < c.patience && (!silent || since < c.silence) {
			continue
		}
		r.log.Info("nothing of what the sync has sent was stored for long; it goes on", "sent", r.taken, "stored_up_to", r.stored)
		c.metrics.writtenOff.Add(float64(r.taken - r.through))
		r.progressAt = time.Now()
		r.release(r.taken)
	}
}

// release frees the credit of messages up to a number. credits.mu is held.
func (r *credit) release(through int64) {
	r.through = max(r.through, through)
	gone, n := int64(0), 0
	for ; n < len(r.sent) && r.sent[n].no <= r.through; n++ {
		gone += r.sent[n].weight
	}
	r.sent = slices.Delete(r.sent, 0, n)
	r.addOutstanding(-gone)
}

// wake wakes the waiting runs that have credit.
func (c *credits) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.waiting {
		if r.hasCredit() {
			close(r.more)
			r.more = make(chan struct{})
		}
	}
}

// awaitCredit waits until the run may have credit, the run ends, or ctx ends; only the last returns an error.
func (o *outbox) awaitCredit(ctx context.Context, more <-chan struct{}) error {
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
