package onedrive

import (
	"context"

	"github.com/echomind/sync/services/connector/graph"
	"github.com/echomind/sync/services/connector/internal/again"
)

// awayHash is that of a document that was not there; unfoundHash that of one whose folder could not be asked for.
var (
	awayHash    = graph.Short(again.Away)
	unfoundHash = graph.Short(reasonUnfound)
)

const reasonUnfound = "its folder cannot be asked for now; it is looked for again by the next sync"

// placeless are the folders of a document of which it is not known where it is.
func placeless() []step { return []step{{id: cut}} }

// away keeps what is stored of a document that is not there now, or whose folder is not, and marks it: the next sync looks for it again.
// Where that says the same, it is deleted (again.Goes). Of one that is not stored only the folder is listed again.
func (s *syncer) away(ctx context.Context, item graph.Item, folders []step, at where) error {
	now := failure{kind: ofReading, hash: awayHash, folders: folders}
	doc := document(item)
	doc.Err = again.Away
	if at == unknown {
		now.hash, doc.Err = unfoundHash, reasonUnfound
	}
	stored, known := s.stored(item.ID)
	f, failed := parseFailure(stored.ContentHash)
	if at == away && again.Goes(failed && f.hash == awayHash, s.isFresh(item.ID)) {
		return s.remove(ctx, item.ID)
	}
	if !known && at == away && s.listLater(item.Parent.ID) {
		return nil
	}
	doc.ContentHash = now.String()
	if stored.VersionToken == "" && stored.ContentHash == doc.ContentHash {
		s.standsAsStored(item.ID)
		return nil
	}
	s.failed.Add(1)
	return s.send(ctx, doc)
}

// awayAlone is away for a document that was asked for by its id.
func (s *syncer) awayAlone(ctx context.Context, id string) error {
	stored, known := s.stored(id)
	if !known {
		return nil
	}
	folders, ok := foldersOf(stored)
	if !ok {
		folders = placeless()
	}
	return s.away(ctx, graph.Item{ID: id, Name: "File"}, folders, away)
}
