package model

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/echomind/sync/sdk/worker"
)

// pageSize is how many documents a page of a shelf holds.
const pageSize = 3

// shelf is a source that lists its documents a page at a time, by name, and tells what has changed since a moment. Its
// handler is written as one for a real provider is: a listing, continued over as many runs as it takes, then changes.
type shelf struct {
	*source
	mu sync.Mutex
	// refusing: the next request is answered with "start all over".
	refusing bool
	// shown is what a listing had shown by each of its checkpoints, through all its runs.
	shown map[int]map[string]bool
	// fetched counts how often each version was put.
	fetched map[string]int
	defect  error
	turns   chan turn
}

// turn is where a test says what becomes of a worker: after a page, or at its end.
type turn struct {
	ended bool
	lives chan bool
}

// place is the state of a shelf's connector. Zero: nothing is synced yet.
type place struct {
	ID      int    `json:"id,omitempty"` // of the checkpoint
	Listing bool   `json:"listing,omitempty"`
	After   string `json:"after,omitempty"`
	// Since is where the changes begin that are not applied yet; a listing takes it before it begins.
	Since int `json:"since,omitempty"`
}

func newShelf() *shelf {
	changes := 0
	return &shelf{
		source: newSource("shelf", "a", &changes), shown: map[int]map[string]bool{}, fetched: map[string]int{},
		turns: make(chan turn),
	}
}

func (s *shelf) do(what func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what()
}

// sync is the handler.
func (s *shelf) sync(ctx context.Context, run *worker.Run) error {
	var at place
	if err := run.State(&at); err != nil {
		return err
	}
	known, err := run.Known(ctx)
	if err != nil {
		return err
	}
	s.compare(at, known)
	v := &visit{shelf: s, run: run, known: known, at: at, seen: map[string]bool{}, shown: map[string]bool{}}
	s.do(func() { maps.Copy(v.shown, s.shown[at.ID]) })
	for name, k := range known {
		v.seen[name] = k.Seen
	}
	if at == (place{}) {
		v.begin()
	}
	if err := v.list(ctx); err != nil {
		return err
	}
	if err := v.follow(ctx); err != nil {
		return err
	}
	return s.ask(ctx, turn{ended: true})
}

// ask stands still until the test has taken notice.
func (s *shelf) ask(ctx context.Context, asks turn) error {
	select {
	case s.turns <- asks:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// compare holds what the kit says was seen against what was shown.
func (s *shelf) compare(at place, known map[string]worker.Known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, k := range known {
		if want := at.Listing && s.shown[at.ID][name]; k.Seen != want && s.defect == nil {
			s.defect = fmt.Errorf("after checkpoint %d (%v) %s is known with seen = %t", at.ID, s.shown[at.ID], name, k.Seen)
		}
	}
}

// visit is one run of a shelf's handler.
type visit struct {
	*shelf
	run         *worker.Run
	known       map[string]worker.Known
	at          place
	seen, shown map[string]bool
}

func (v *visit) begin() {
	v.run.BeginListing()
	v.seen, v.shown = map[string]bool{}, map[string]bool{}
	v.do(func() { v.at = place{Listing: true, Since: *v.changes} })
}

// list lists, from wherever the state has it go on, with a checkpoint after each page.
func (v *visit) list(ctx context.Context) error {
	for v.at.Listing {
		documents, more := v.page()
		if documents == nil && more {
			v.begin()
			continue
		}
		var unchanged []string
		for _, d := range documents {
			v.seen[d.name], v.shown[d.name] = true, true
			v.at.After = d.name
			if v.known[d.name].VersionToken == d.token() {
				unchanged = append(unchanged, d.name)
			} else if err := v.put(ctx, d); err != nil {
				return err
			}
		}
		if err := v.run.Seen(ctx, unchanged...); err != nil {
			return err
		}
		if !more {
			for name := range v.known {
				if v.seen[name] {
					continue
				}
				if err := v.delete(ctx, name); err != nil {
					return err
				}
			}
			v.run.EndListing()
			v.at = place{Since: v.at.Since}
		}
		if err := v.checkpoint(ctx); err != nil {
			return err
		}
	}
	return nil
}

// page is the next page of the listing; none, and more, where the source wants it to begin all over.
func (v *visit) page() (documents []document, more bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.refusing {
		v.refusing = false
		return nil, true
	}
	for _, name := range v.names() {
		switch {
		case name <= v.at.After:
		case len(documents) == pageSize:
			return documents, true
		default:
			documents = append(documents, v.documents[name])
		}
	}
	return documents, false
}

// follow applies what has changed, and what could not be stored before.
func (v *visit) follow(ctx context.Context) error {
	v.mu.Lock()
	since := v.at.Since
	now := *v.changes
	changed := map[string]document{}
	gone := map[string]bool{}
	follows := func(name string) {
		if d, exists := v.documents[name]; exists {
			changed[name] = d
		} else {
			gone[name] = true
		}
	}
	for name, change := range v.changed {
		if change > since {
			follows(name)
		}
	}
	for name, k := range v.known {
		if k.VersionToken == "" { // given up, after which a checkpoint has passed it
			follows(name)
		}
	}
	v.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		if d := changed[name]; v.known[name].VersionToken != d.token() {
			if err := v.put(ctx, d); err != nil {
				return err
			}
		}
	}
	for name := range gone {
		if _, stored := v.known[name]; stored {
			if err := v.delete(ctx, name); err != nil {
				return err
			}
		}
	}
	return v.run.SetState(place{Since: max(now, 1)})
}

func (v *visit) put(ctx context.Context, d document) error {
	doc := v.offer(d)
	v.known[d.name] = worker.Known{VersionToken: doc.VersionToken}
	v.do(func() { v.fetched[d.name+"@"+doc.VersionToken]++ })
	return v.run.Put(ctx, doc)
}

func (v *visit) delete(ctx context.Context, name string) error {
	delete(v.known, name)
	return v.run.Delete(ctx, name)
}

// checkpoint sets one, and asks whether the worker lives on. One that does not stands still until its run is over.
func (v *visit) checkpoint(ctx context.Context) error {
	v.do(func() {
		v.at.ID = len(v.shelf.shown) + 1
		v.shelf.shown[v.at.ID] = maps.Clone(v.shown)
	})
	if err := v.run.Checkpoint(ctx, v.at); err != nil {
		return err
	}
	asks := turn{lives: make(chan bool)}
	if err := v.ask(ctx, asks); err != nil {
		return err
	}
	select {
	case lives := <-asks.lives:
		if lives {
			return nil
		}
		<-ctx.Done()
	case <-ctx.Done():
	}
	return errors.New("a dead worker does nothing more")
}
