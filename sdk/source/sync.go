package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/echomind/sync/sdk/worker"
)

// Sync is one sync of a place. Item, Wait, Checkpoint, BeginListing, ResumeListing and EndListing are called by one goroutine at a
// time; the other methods by any goroutine at any time. Item.Read calls none of them but Stored.
type Sync struct {
	ctx   context.Context // the sync's
	store Store
	opts  Options
	state state
	bytes *semaphore.Weighted

	streak failureStreak
	// looks says that the source is a Looker.
	looks bool
	// listing says that everything is listed, and that items that are not shown are gone. partial says that something was left out.
	listing, partial bool
	// unmarked says that a listing has ended, and that no checkpoint was set since.
	unmarked bool

	group   *errgroup.Group // reads items; nil: none
	grouped context.Context // ends with the group's first error
	broken  error           // what ended the group

	mu        sync.Mutex
	stored    map[string]entry
	reading   map[string]chan struct{} // closed when the item's reading is over
	missing   int                      // how many stored items the listing has not shown
	known     int                      // how many were stored under this configuration when the sync began
	hadPlace  bool                     // an earlier sync has called SetPlace
	findable  int                      // how many of the known items a search may find
	unwritten []string                 // items that were shown and not written: to be marked as seen
	retried   map[string]struct{}      // items that could not be stored and are read again, for a source that is no Looker
	lost      map[string]Item          // see MarkLost
	allowed   bool                     // the owner allows many deletions
	removed   int                      // how many findable items this sync has removed without a change that names them
	// likelyAway is how many of the findable items that lookAtAll has not looked at are likely not there.
	likelyAway int

	listed, put, touched, unchanged, deleted, failed atomic.Int64
	badIDs                                           atomic.Int64 // items whose ids cannot be stored
}

// state is the state of a connector, as it is stored.
type state struct {
	Cursor json.RawMessage `json:"cursor,omitempty"`
	// Place stays when the cursor is forgotten: see worker.Relist, which knows its name.
	Place placeState `json:"place,omitzero"`
	// Unread and NotStored are the retries of the last sync.
	Unread    retries `json:"unread,omitzero"`
	NotStored retries `json:"not_stored,omitzero"`
	// Partial says that the listing that continues has left something out.
	Partial bool `json:"partial,omitempty"`
}

// placeState is what finds everything again when it is listed again.
type placeState struct {
	// At is the value of the source: see Sync.SetPlace.
	At json.RawMessage `json:"at,omitempty"`
	// Round counts the syncs that left an item that was not there, and that have completed or were refused its deletion: see Sync.MarkAway.
	Round int `json:"round,omitempty"`
	// Since is the first round that no completed sync has ended.
	Since int `json:"since,omitempty"`
}

// entry is what is stored of an item, and what this sync has done with it.
type entry struct {
	worker.Known
	shown, fresh, missing bool
}

// Run brings store up to date with a place. When it returns, none of its goroutines is left.
//
// A listing of everything that List has begun and not ended ends with it (Sync.EndListing). Then what failed before is tried again, where
// src is a Looker, and the cursor becomes the connector's state.
func Run(ctx context.Context, store Store, src Source, opts Options) (Result, error) {
	if err := opts.Chunk.Validate(); err != nil {
		return Result{}, worker.Permanent(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Sync{ctx: ctx, store: store, opts: opts.withDefaults(), reading: map[string]chan struct{}{}, lost: map[string]Item{}}
	defer func() { // also where List panics
		cancel()
		_ = s.Wait()
	}()
	s.bytes = semaphore.NewWeighted(s.opts.InFlightBytes)
	if err := store.State(&s.state); err != nil {
		return Result{}, worker.Permanent(err)
	}
	s.hadPlace = len(s.state.Place.At) > 0
	known, err := store.Known(ctx)
	if err != nil {
		return Result{}, err
	}
	s.loadKnown(known)
	err = s.run(ctx, src)
	if err == nil && s.unchanged.Load() > 0 {
		store.Unchanged(int(s.unchanged.Load()))
	}
	return s.Result(), err
}

func (s *Sync) loadKnown(known map[string]worker.Known) {
	s.stored = make(map[string]entry, len(known))
	for id, k := range known {
		e := entry{Known: k}
		of := e.describe(s.opts.Reading)
		if of.Failed != Unknown {
			s.known++
		}
		if of.Found {
			s.findable++
		}
		s.stored[id] = e
	}
}

func (s *Sync) run(ctx context.Context, src Source) error {
	looker, can := src.(Looker)
	if s.looks = can; !can {
		s.chooseRetries()
	}
	cursor, err := src.List(ctx, s)
	if err = s.finishReading(err); err != nil {
		return err
	}
	if s.listing {
		if err := s.EndListing(ctx, nil); err != nil {
			return err
		}
	}
	var look func(context.Context) error
	if can {
		look = func(ctx context.Context) error { return s.finishReading(s.lookAtAll(ctx, looker)) }
	}
	if err := s.removeLost(ctx, cursor, look); err != nil { // before the next checkpoint, which does not remember the lost items
		return err
	}
	if can {
		if err := s.finishReading(s.retryFailed(ctx, looker, cursor)); err != nil {
			return err
		}
		if err := s.removeLost(ctx, cursor, look); err != nil {
			return err
		}
	}
	if err := s.checkMaxItems(1); err != nil {
		return err
	}
	if n := s.badIDs.Load(); n > 0 {
		s.store.Remark(fmt.Sprintf("%d items have ids that cannot be stored; they are left out", n))
	}
	at, err := s.stateAt(cursor)
	if err != nil {
		return err
	}
	at.Unread.Allowed = 0
	if s.hasAway() {
		at.Place.Round++
		at.Place.Since = at.Place.Round
	}
	return s.store.SetState(at)
}

// finishReading waits for all readings. An error of a reading comes before err, which may only follow from it.
func (s *Sync) finishReading(err error) error {
	if waited := s.Wait(); waited != nil && !errors.Is(waited, context.Canceled) {
		return waited
	} else if err == nil {
		return waited
	}
	return err
}

// Cursor decodes what List returned at the last sync that completed, or what it checkpointed since; v, a pointer, stays as it is at the
// first sync, and where everything is to be listed again. An integer above 2^53 comes back as a string: write one (`json:",string"`).
func (s *Sync) Cursor(v any) error {
	return decode("the cursor", s.state.Cursor, v)
}

func decode(what string, data []byte, v any) error {
	if len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return worker.Permanent(fmt.Errorf("%s cannot be read: %w; change the connector's configuration to begin again", what, err))
	}
	return nil
}

// Place decodes what SetPlace was given by this sync or one before it, under this configuration.
func (s *Sync) Place(v any) error {
	return decode("where the source is", s.state.Place.At, v)
}

// SetPlace stores what finds the place again, such as the id of a folder that the configuration names by its path. It stays when
// everything is to be listed again and the cursor is forgotten. v encodes as a JSON object; it is stored with the next cursor.
func (s *Sync) SetPlace(v any) (err error) {
	s.state.Place.At, err = json.Marshal(v)
	return err
}

// First tells whether the place has not been found so far under this configuration: nothing was stored, and no sync has completed
// or set a checkpoint. A missing place may then be a mistake in the configuration; later it is away.
func (s *Sync) First() bool {
	return len(s.state.Cursor) == 0 && !s.hadPlace && s.known == 0
}

// remembersRefusal stores, with the latest checkpoint, that deletions were refused: what was not found until now is lost as soon as the owner allows it.
// A checkpoint in the middle of a listing that has ended is none to go on from: what the listing had shown until then is known no more.
func (s *Sync) remembersRefusal(ctx context.Context) error {
	if err := s.sendAll(ctx); err != nil {
		return err
	}
	s.state.Place.Round++
	if s.unmarked {
		s.state.Cursor = nil
	}
	return s.store.Checkpoint(ctx, s.state)
}

// Checkpoint waits until everything that was given is sent. Should this run die, the next run continues from cursor: a value that
// encodes as a JSON object.
func (s *Sync) Checkpoint(ctx context.Context, cursor any) error {
	if err := s.sendAll(ctx); err != nil {
		return err
	}
	at, err := s.stateAt(cursor)
	if err != nil {
		return err
	}
	if err := s.store.Checkpoint(ctx, at); err != nil {
		return err
	}
	s.state.Cursor, s.unmarked = at.Cursor, false
	return nil
}

// sendAll waits until everything that was given is sent, and says what was shown.
func (s *Sync) sendAll(ctx context.Context) error {
	if err := s.Wait(); err != nil {
		return err
	}
	return s.markSeen(ctx)
}

func (s *Sync) stateAt(cursor any) (state, error) {
	data, err := json.Marshal(cursor)
	if err != nil {
		return state{}, fmt.Errorf("encode the cursor: %w", err)
	}
	now := s.state
	now.Cursor = data
	return now, nil
}

// Wait returns when everything that was given is sent.
func (s *Sync) Wait() error {
	if s.group != nil {
		s.broken = s.group.Wait()
		s.group, s.grouped = nil, nil
	}
	return s.broken
}

// Stored returns what is stored of an item, as of now.
func (s *Sync) Stored(id string) (Stored, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, is := s.stored[id]
	return e.describe(s.opts.Reading), is
}

// All yields the items that are stored now, in no order. Items that are stored or removed meanwhile may be among them.
func (s *Sync) All() iter.Seq2[string, Stored] {
	s.mu.Lock()
	ids := slices.AppendSeq(make([]string, 0, len(s.stored)), maps.Keys(s.stored))
	s.mu.Unlock()
	return func(yield func(string, Stored) bool) {
		for _, id := range ids {
			if one, is := s.Stored(id); is && !yield(id, one) {
				return
			}
		}
	}
}

// Len is how many items are stored now, without the items that a listing has not shown so far.
func (s *Sync) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.stored) - s.missing
}

// Result is what the sync has done so far.
func (s *Sync) Result() Result {
	return Result{
		Listed: int(s.listed.Load()), Put: int(s.put.Load()), Touched: int(s.touched.Load()), Unchanged: int(s.unchanged.Load()),
		Deleted: int(s.deleted.Load()), Failed: int(s.failed.Load()),
	}
}

// checkMaxItems fails a sync of a place with more than times as many items as allowed. Items that a listing has not shown yet do
// not count. Other removals may be known only at the end, so until then twice as many are accepted.
func (s *Sync) checkMaxItems(times int) error {
	if s.opts.MaxItems > 0 && s.Len() > times*s.opts.MaxItems {
		if s.opts.TooMany == nil {
			return worker.Permanent(fmt.Errorf("there are more than %d items", s.opts.MaxItems))
		}
		return worker.Permanent(s.opts.TooMany)
	}
	return nil
}
