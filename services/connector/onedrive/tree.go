package onedrive

import (
	"context"
	"fmt"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/graph"
)

// folder is what is known of one.
type folder struct {
	parent, name string // name is hashed
	// unsure: what is known may be newer than the URLs of documents below it, since it was asked for after they were
	// listed; or they disagree about it, as a sync leaves them that died while it touched them. When the folder is
	// reported next, what lies below it is looked at.
	unsure bool
	// gone: deleted, or moved out of the connector's folder, in this round.
	gone bool
	// away: it was not there when this sync asked for it, or could not be asked for.
	away where
}

// unsureName stands in a token for the name of a folder that is unsure.
const unsureName = "unsure"

// tree says which folder is in which. It belongs to the listing, not to the workers.
type tree struct {
	root    string
	folders map[string]folder
	// held is about how many bytes the folders take that are not remembered with documents.
	held int
}

const (
	// DefaultHeldBytes bounds them. 65,000 folders take it.
	DefaultHeldBytes = 16 << 20
	// heldBeside is about what a folder takes beside its texts: in a map, and by the texts' ends.
	heldBeside = 176
)

// set takes what is known of a folder.
func (t *tree) set(id string, f folder) {
	if had, ok := t.folders[id]; ok {
		t.held += len(f.parent) - len(had.parent)
	} else {
		t.held += heldBeside + len(id) + len(f.parent) + len(f.name)
	}
	t.folders[id] = f
}

// forget makes room where more folders are held than may be. What stays is what is remembered with documents, as when a sync
// dies and another goes on; which of these folders are gone; and those that the page names, below which not all documents
// may have been touched yet. Any other folder is asked for when it is needed.
func (s *syncer) forget() {
	if s.tree.held+s.waiting <= s.opts.HeldBytes {
		return
	}
	before := s.tree
	s.mu.Lock()
	s.tree = newTree(before.root, s.known)
	s.mu.Unlock()
	for id := range s.tree.folders {
		if before.folders[id].gone {
			s.tree.lost(id)
		}
	}
	for id := range s.named {
		if f, is := before.folders[id]; is {
			s.tree.set(id, f)
		}
	}
}

// newTree builds the tree again from what is remembered with documents.
func newTree(root string, known map[string]worker.Known) *tree {
	t := &tree{root: root, folders: map[string]folder{}}
	for _, k := range known {
		steps, _ := foldersOf(k)
		for i, s := range steps {
			if s.id == cut {
				break
			}
			parent := root
			if i+1 < len(steps) {
				parent = steps[i+1].id
			}
			if parent == cut {
				break // what follows is asked for
			}
			had, ok := t.folders[s.id]
			now := folder{parent: parent, name: s.name}
			if s.name == unsureName || ok && (had.parent != now.parent || had.name != now.name) {
				now.unsure = true
			}
			now.unsure = now.unsure || had.unsure
			t.folders[s.id] = now
		}
	}
	return t
}

// reported takes a folder out of an answer, and tells whether documents below it may now stand elsewhere.
func (t *tree) reported(item graph.Item) (changed, had bool) {
	before, had := t.folders[item.ID]
	now := folder{parent: item.Parent.ID, name: nameHash(item.Name)}
	t.set(item.ID, now)
	return had && (before.unsure || before.parent != now.parent || before.name != now.name), had
}

// lost marks a folder whose contents are to go.
func (t *tree) lost(id string) {
	f := t.folders[id]
	f.gone = true
	t.set(id, f)
}

// loses takes note of a folder whose contents are to go at the end of the round.
func (s *syncer) loses(id string) {
	s.tree.lost(id)
	s.lost++
	s.went = true
}

type where int

const (
	inside  where = iota // below the connector's folder
	outside              // not, or no longer
	away                 // a folder above is not there now, or may not be asked for
	unknown              // one could not be asked for
)

// maxDepth ends a walk upwards in a tree that is none.
const maxDepth = 400

// above returns the folders above an item whose parent is id, nearest first. A folder that is not known is asked
// for, once.
func (s *syncer) above(ctx context.Context, id string) ([]step, where, error) {
	var steps []step
	for range maxDepth {
		if id == s.tree.root {
			return steps, inside, nil
		}
		if id == "" {
			return nil, outside, nil
		}
		f, ok := s.tree.folders[id]
		if !ok {
			item, err := s.api.Item(ctx, s.state.Drive, id)
			switch {
			case graph.IsGone(err) || graph.IsRefused(err):
				f.away = away
			case err != nil:
				if err := s.troubles.Alone(ctx, err, graph.EndsSync, s.answers); err != nil {
					return nil, unknown, fmt.Errorf("find a folder: %w", err)
				}
				f.away = unknown
			case item.Deleted != nil:
				f.gone = true
			default:
				f = folder{parent: item.Parent.ID, name: nameHash(item.Name), unsure: true}
				if item.Root != nil {
					f.parent = ""
				}
			}
			s.tree.set(id, f)
			s.forget()
		}
		if f.gone {
			return nil, outside, nil
		}
		if f.away != inside {
			return nil, f.away, nil
		}
		above := step{id: id, name: f.name}
		if f.unsure {
			above.name = unsureName
		}
		steps = append(steps, above)
		id = f.parent
	}
	return nil, outside, nil
}
