package model

import (
	"fmt"
	"maps"
	"slices"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
)

// document is one version of a document in a source.
type document struct {
	name string
	// rev changes with the content, touch with what the source says about unchanged content.
	rev, touch int
	// parts is how many messages it takes.
	parts int
	// unreadable: the source lists it and does not hand it out.
	unreadable bool
	// draft is set for what was there shortly before.
	draft bool
}

func (d document) token() string { return fmt.Sprintf("t%d.%d.%t", d.rev, d.touch, d.draft) }
func (d document) hash() string  { return fmt.Sprintf("h%d.%t", d.rev, d.draft) }

// source is what one connector finds under one configuration.
type source struct {
	connector, folder string
	documents         map[string]document
	// changed is the source's change log: the count of changes at which a document last changed or vanished.
	changed map[string]int
	changes *int // one count for all folders of a connector, so that a cursor kept by mistake skips something
	// versions holds every text that a whole version ever consisted of.
	versions map[string]bool
}

func newSource(connector, folder string, changes *int) *source {
	return &source{
		connector: connector, folder: folder, changes: changes,
		documents: map[string]document{}, changed: map[string]int{}, versions: map[string]bool{},
	}
}

// text is what one chunk of a version says; it names everything that a wrong mixture would betray.
func (s *source) text(d document, no int) string {
	return fmt.Sprintf("%s/%s/%s@%d:%d/%d", s.connector, s.folder, d.name, d.rev, no, d.parts)
}

func (s *source) whole(d document) string {
	var all string
	for no := range d.parts {
		all += s.text(d, no) + "\n"
	}
	return all
}

func (s *source) note(name string) {
	*s.changes++
	s.changed[name] = *s.changes
}

// write adds a document or gives it new content.
func (s *source) write(name string, parts int) {
	d := s.documents[name]
	*s.changes++
	d.name, d.rev, d.parts = name, *s.changes, parts
	s.documents[name] = d
	s.changed[name] = *s.changes
	s.versions[s.whole(d)] = true
}

// restamp changes what the source says about a document whose content stands.
func (s *source) restamp(name string) {
	d := s.documents[name]
	d.touch++
	s.documents[name] = d
	s.note(name)
}

func (s *source) setUnreadable(name string, unreadable bool) {
	d := s.documents[name]
	d.unreadable = unreadable
	s.documents[name] = d
	s.note(name)
}

func (s *source) remove(name string) {
	delete(s.documents, name)
	s.note(name)
}

func (s *source) names() []string { return slices.Sorted(maps.Keys(s.documents)) }

// snapshot is a source as one fetch finds it.
type snapshot struct {
	source    *source
	documents map[string]document
	cursor    int
}

func (s *source) snapshot() *snapshot {
	return &snapshot{source: s, documents: maps.Clone(s.documents), cursor: *s.changes}
}

// plan is what one fetch has to send.
type plan struct {
	put, touch []document
	gone       []string
	unchanged  int
}

// draft is an earlier version of a document that changes while it is listed, so that one session sends both; false
// where it did not change.
func (s *source) draft(d document) (document, bool) {
	if d.rev%3 > 0 || d.unreadable {
		return d, false
	}
	d.parts, d.draft = d.parts%3+1, true
	s.versions[s.whole(d)] = true
	return d, true
}

// fetch compares a source with what is stored. A delta fetch looks only at what changed since the cursor, and at
// documents that are stored without a token; a listing looks at everything.
func (s *source) fetch(known map[string]worker.Known, cursor int, delta bool) plan {
	names := map[string]bool{}
	for name := range s.documents {
		names[name] = !delta || s.changed[name] > cursor
	}
	for name, k := range known {
		names[name] = names[name] || !delta || k.VersionToken == "" || s.changed[name] > cursor
	}
	if delta && cursor == 0 {
		for name := range names {
			names[name] = true
		}
	}
	var p plan
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d, exists := s.documents[name]
		k, isKnown := known[name]
		switch {
		case !names[name]:
			p.unchanged++
		case !exists && isKnown:
			p.gone = append(p.gone, name)
		case !exists:
		case k.VersionToken == d.token() && !d.unreadable:
			p.unchanged++
		case k.VersionToken != "" && k.ContentHash == d.hash() && !d.unreadable:
			p.touch = append(p.touch, d)
		default:
			p.put = append(p.put, d)
		}
	}
	return p
}

// offer is a document as a handler puts it.
func (s *source) offer(d document) worker.Document {
	out := worker.Document{
		SourceID: d.name, Title: d.name, URL: "model:" + d.name, MediaType: "text/plain",
		ContentHash: d.hash(), VersionToken: d.token(),
	}
	if d.unreadable {
		out.Err, out.VersionToken = "the source does not hand it out", ""
		return out
	}
	for no := range d.parts {
		text := s.text(d, no)
		out.Chunks = append(out.Chunks, chunk.Chunk{Text: text, End: int64(len(text))})
	}
	return out
}
