package source

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// PoisonID is the document that Poison adds. It is handed out once, in version 1, and never changes.
const PoisonID = "poison"

// Document is a document as the source hands it out, or as it must be stored.
type Document struct {
	Title, Text string
	// Token names this version of it; empty means that it has to be fetched again.
	Token string
	// Err is how its error begins. Handed out, it comes instead of a text; stored, Text is what is still found of an
	// earlier version.
	Err string
}

// Kind is what a Change is.
type Kind string

// The kinds of changes.
const (
	// Written: created, edited, or readable again.
	Written Kind = "written"
	// Renamed: another title and the same text.
	Renamed Kind = "renamed"
	Deleted Kind = "deleted"
)

// Change is one document that differs between two versions.
type Change struct {
	SourceID string
	Kind     Kind
	// Document is what it is afterwards; empty for one that is deleted.
	Document Document
}

// Step returns what changes from version v to v+1; at times nothing does.
func Step(cfg Config, v int) []Change { return contentAt(cfg, v).advance() }

// List returns what the source says at version v that there is. Version 0 is empty.
func List(cfg Config, v int) map[string]Document {
	c := contentAt(cfg, v)
	all := map[string]Document{}
	for id := range c.entries {
		all[id] = c.handedOut(id)
	}
	return all
}

// At returns what must be stored once version v is: what the source handed out, except for documents that failed.
func At(cfg Config, v int) map[string]Document {
	c := contentAt(cfg, v)
	all := map[string]Document{}
	for id, e := range c.entries {
		d := c.handedOut(id)
		if id == PoisonID {
			d = Document{Err: "given up: "}
		} else if d.Err != "" && e.found > 0 {
			d.Text = cfg.text(id, e.found)
		}
		all[id] = d
	}
	return all
}

// Passed returns, in order, the documents that the fetch after version v has gone past once it has done n of them: of
// the changes with Delta, of all that are there with Listing. ok is false where there are not so many.
func Passed(cfg Config, v, n int) (ids []string, ok bool) {
	if cfg.Mode == Delta {
		for _, change := range Step(cfg, v) {
			ids = append(ids, change.SourceID)
		}
	} else {
		ids = slices.Sorted(maps.Keys(List(cfg, v+1)))
	}
	return ids[:min(n, len(ids))], n <= len(ids)
}

// entry is a document by the versions in which its text and its title were last changed; found is the text that was
// last handed out, 0 for none.
type entry struct{ text, title, found int }

// content is what the source holds at a version.
type content struct {
	cfg        Config
	version    int
	entries    map[string]entry
	unreadable string
	// changed is what the step to this version has done, in order.
	changed []string
	kinds   map[string]Kind
}

func contentAt(cfg Config, v int) *content {
	c := &content{cfg: cfg, entries: map[string]entry{}}
	for c.version < v {
		c.step()
	}
	return c
}

func (c *content) advance() []Change {
	c.step()
	changes := make([]Change, 0, len(c.changed))
	for _, id := range c.changed {
		change := Change{SourceID: id, Kind: c.kinds[id]}
		if change.Kind != Deleted {
			change.Document = c.handedOut(id)
		}
		changes = append(changes, change)
	}
	return changes
}

func (c *content) handedOut(id string) Document {
	e := c.entries[id]
	d := Document{Title: fmt.Sprintf("%s, called so since version %d", id, e.title)}
	switch id {
	case c.unreadable:
		d.Err = fmt.Sprintf("version %d cannot be read", c.version)
		return d
	case PoisonID:
		d.Text = poisonText(c.cfg.Seed)
	default:
		d.Text = c.cfg.text(id, e.text)
	}
	d.Token = fmt.Sprintf("%d/%d.%d", c.cfg.Seed, e.text, e.title)
	return d
}

// step goes to the next version.
func (c *content) step() {
	rng := rand.New(rand.NewPCG(uint64(c.cfg.Seed), uint64(c.version)))
	ids := slices.Sorted(maps.Keys(c.entries))
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == PoisonID })
	c.version++
	c.changed, c.kinds = nil, map[string]Kind{}
	switch {
	case c.version == 1:
		for i := range c.cfg.Documents {
			c.write(name(i))
		}
		if c.cfg.Trouble == Poison {
			c.write(PoisonID)
		}
	case rng.IntN(8) > 0:
		for range c.cfg.Changes {
			c.change(rng, ids)
		}
	}
	if c.unreadable != "" && c.kinds[c.unreadable] != Deleted {
		c.mark(c.unreadable, Written) // a renamed one too: there is no text to keep
	}
	healed := c.unreadable
	c.unreadable = ""
	if c.cfg.Trouble == Unreadable {
		c.breakOne(rng, healed)
	}
	for _, id := range c.changed {
		if e, exists := c.entries[id]; exists && id != c.unreadable && id != PoisonID {
			e.found = e.text
			c.entries[id] = e
		}
	}
}

func name(number int) string { return fmt.Sprintf("doc/%d", number) }

// change does one thing to a document that this step has left alone; a deleted one may come back.
func (c *content) change(rng *rand.Rand, ids []string) {
	what, id := rng.IntN(10), name(rng.IntN(2*c.cfg.Documents+8))
	if what >= 3 { // more are created than deleted: some that are created exist
		if len(ids) == 0 {
			return
		}
		id = ids[rng.IntN(len(ids))]
	}
	if _, done := c.kinds[id]; done {
		return
	}
	switch {
	case what < 6:
		c.write(id)
	case what < 8:
		e := c.entries[id]
		e.title = c.version
		c.entries[id] = e
		c.mark(id, Renamed)
	default:
		delete(c.entries, id)
		c.mark(id, Deleted)
	}
}

// write creates a document or changes its text; the title of one that exists stays.
func (c *content) write(id string) {
	e, exists := c.entries[id]
	if e.text = c.version; !exists {
		e.title = c.version
	}
	c.entries[id] = e
	c.mark(id, Written)
}

func (c *content) mark(id string, kind Kind) {
	if _, done := c.kinds[id]; !done {
		c.changed = append(c.changed, id)
	}
	c.kinds[id] = kind
}

// breakOne makes a document unreadable in this version, but not the one that was in the version before.
func (c *content) breakOne(rng *rand.Rand, healed string) {
	ids := slices.Sorted(maps.Keys(c.entries))
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == healed })
	if len(ids) == 0 {
		return
	}
	c.unreadable = ids[rng.IntN(len(ids))]
	c.mark(c.unreadable, Written)
}
