package source_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker/workertest"
)

// thing is what the place holds.
type thing struct {
	title, text, folder string
	version             int
	damaged             string // why it cannot be read
	content             bool   // that lies in the content
}

// place is a list of things with changes, as a provider has it.
type place struct {
	mu      sync.Mutex
	things  map[string]thing
	changes []string // ids, in order
	hidden  map[string]bool
	page    int
	last    int // version
	reads   int
	looks   []string
	listed  int // whole listings that were begun
	// between runs before each page is given.
	between func()
	// twice says of a thing that a later page of a listing shows it again, as it was on the page before.
	twice func() bool
	// stale says that cursors are not accepted.
	stale bool
}

func newPlace() *place { return &place{things: map[string]thing{}, hidden: map[string]bool{}, page: 3} }

func (p *place) set(id string, f func(*thing)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.things[id]
	f(&t)
	p.things[id] = t
	p.changes = append(p.changes, id)
}

func (p *place) write(id, text string) {
	p.set(id, func(t *thing) { t.text, t.version, t.title = text, p.next(), "Title of "+id })
}

// next is a version that nothing has had.
func (p *place) next() int { p.last++; return p.last }

func (p *place) has(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, there := p.things[id]
	return there
}

func (p *place) remove(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.things, id)
	p.changes = append(p.changes, id)
}

type cursor struct {
	Listing bool   `json:"listing,omitempty"`
	After   string `json:"after,omitempty"`
	Changes int    `json:"changes"`
}

func (p *place) item(id string, t thing) source.Item {
	return source.Item{
		ID: id, Title: t.title, URL: "https://place/" + t.folder + "/" + id, Version: strconv.Itoa(t.version),
		Memo: map[string]string{"folder": t.folder}, Bytes: int64(len(t.text)),
		Read: func(context.Context) (source.Content, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.reads++
			now, there := p.things[id]
			switch {
			case p.hidden[id]:
				return source.Content{}, source.ErrAway
			case !there:
				return source.Content{}, source.ErrGone
			case now.damaged != "":
				return source.Content{}, &source.Unreadable{Reason: now.damaged, Content: now.content}
			}
			fresh := p.itemNow(id, now)
			return source.Content{
				MediaType: "text/plain", Hash: "h" + now.text, Sections: []chunk.Section{{Text: now.text}}, Now: &fresh,
			}, nil
		},
	}
}

func (p *place) itemNow(id string, t thing) source.Item {
	return source.Item{
		Title: t.title, URL: "https://place/" + t.folder + "/" + id, Version: strconv.Itoa(t.version), Memo: map[string]string{"folder": t.folder},
	}
}

// List lists everything in pages, or the changes since.
func (p *place) List(ctx context.Context, s *source.Sync) (any, error) {
	at := cursor{Changes: -1}
	if err := s.Cursor(&at); err != nil {
		return nil, err
	}
	switch {
	case at.Changes < 0 || p.stale:
		p.stale = false
		at = cursor{Listing: true, Changes: len(p.changes)}
		p.listed++
		s.BeginListing()
	case at.Listing:
		s.ResumeListing()
	}
	before := map[string]thing{}
	for at.Listing {
		if p.between != nil {
			p.between()
		}
		p.mu.Lock()
		ids := slices.Sorted(maps.Keys(p.things))
		page := map[string]thing{}
		for _, id := range ids {
			if id > at.After && len(page) < p.page {
				page[id] = p.things[id]
			}
		}
		p.mu.Unlock()
		for _, id := range slices.Sorted(maps.Keys(page)) {
			at.After = id
			if err := s.Item(ctx, p.item(id, page[id])); err != nil {
				return nil, err
			}
		}
		for id, t := range before {
			if p.twice != nil && p.twice() {
				if err := s.Item(ctx, p.item(id, t)); err != nil {
					return nil, err
				}
			}
		}
		before = page
		if at.Listing = len(page) > 0; !at.Listing {
			at.After = ""
			if err := s.EndListing(ctx, nil); err != nil {
				return nil, err
			}
		}
		if err := s.Checkpoint(ctx, at); err != nil {
			return nil, err
		}
	}
	for {
		if p.between != nil {
			p.between()
		}
		p.mu.Lock()
		upTo := min(at.Changes+p.page, len(p.changes))
		ids := slices.Clone(p.changes[at.Changes:upTo])
		p.mu.Unlock()
		if len(ids) == 0 {
			return at, nil
		}
		if err := p.Look(ctx, s, ids); err != nil {
			return nil, err
		}
		at.Changes = upTo
		if err := s.Checkpoint(ctx, at); err != nil {
			return nil, err
		}
	}
}

// Look asks for single things.
func (p *place) Look(ctx context.Context, s *source.Sync, ids []string) error {
	p.mu.Lock()
	p.looks = append(p.looks, ids...)
	p.mu.Unlock()
	for _, id := range ids {
		p.mu.Lock()
		t, there := p.things[id]
		hidden := p.hidden[id]
		p.mu.Unlock()
		var err error
		switch {
		case hidden:
			_, err = s.MarkAway(ctx, source.Item{ID: id, Title: "A thing"})
		case there:
			err = s.Item(ctx, p.item(id, t))
		default:
			err = s.Remove(ctx, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func sync1(ctx context.Context, store *workertest.Store, p source.Source, opts source.Options) (source.Result, error) {
	opts.Chunk, opts.Connector = chunk.Options{MaxTokens: 200}, 7
	result, err := source.Run(ctx, store, p, opts)
	store.End(err)
	return result, err
}

// differs says how what is stored differs from the place.
func (p *place) differs(store *workertest.Store) error {
	var problems []error
	docs := store.Docs()
	for id, t := range p.things {
		d, is := docs[id]
		want := p.item(id, t)
		switch {
		case !is:
			problems = append(problems, fmt.Errorf("%s is not stored", id))
		case t.damaged == "" && !p.hidden[id] && (d.Err != "" || workertest.Text(d) != t.text || d.Title != want.Title || d.URL != want.URL ||
			string(d.Memo) != fmt.Sprintf(`{"folder":%q}`, t.folder)):
			problems = append(problems, fmt.Errorf("%s is %q %q %q %s %q, should be %+v", id, workertest.Text(d), d.Title, d.URL, d.Memo, d.Err, t))
		}
	}
	for id := range docs {
		if _, is := p.things[id]; !is {
			problems = append(problems, fmt.Errorf("%s is stored, and gone", id))
		}
	}
	return errors.Join(problems...)
}
