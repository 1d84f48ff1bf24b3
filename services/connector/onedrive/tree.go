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
}

// unsureName stands in a token for the name of a folder that is unsure.
const unsureName = "unsure"

// tree says which folder is in which. It belongs to the listing, not to the workers.
type tree struct {
	root    string
	folders map[string]folder
	// held is about how many bytes the folders take that are not stored.
	held int
}

const (
	// maxHeldBytes bounds them. 300,000 folders take 70 MB.
	maxHeldBytes = 96 << 20
	// heldBeside is about what a map takes for a folder beside its texts.
	heldBeside = 128
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

// full says that there are more folders than are held.
func (t *tree) full() error {
	if t.held <= maxHeldBytes {
		return nil
	}
	return fmt.Errorf("%w: the drive or folder has more folders than are held at once: at most %d bytes of their ids; make connectors of its folders",
		ErrPermanent, maxHeldBytes)
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

type where int

const (
	inside  where = iota // below the connector's folder
	outside              // not, or no longer
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
				f.gone = true
			case err != nil:
				return nil, outside, err
			case item.Deleted != nil:
				f.gone = true
			default:
				f = folder{parent: item.Parent.ID, name: nameHash(item.Name), unsure: true}
				if item.Root != nil {
					f.parent = ""
				}
			}
			s.tree.set(id, f)
			if err := s.tree.full(); err != nil {
				return nil, outside, err
			}
		}
		if f.gone {
			return nil, outside, nil
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
