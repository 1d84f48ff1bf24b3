package onedrive

import (
	"context"
	"fmt"
	"iter"
	"maps"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/services/connector/graph"
)

// folder is a folder of the tree.
type folder struct {
	parent string
	// name is a hash. It is empty where the name in the URLs of files below is uncertain: the folder was asked for after they were
	// listed, or their memos disagree, as an interrupted sync leaves them. When the folder is reported next, its contents are
	// listed.
	name string
	at   location
}

type location int

const (
	inside  location = iota // below the connector's folder, as far as this folder tells
	outside                 // not below it, or no longer
	away                    // the folder does not exist now, or may not be asked for
	unknown                 // the folder could not be asked for
)

// tree knows the parent of each folder.
type tree struct {
	folders map[string]folder
	// held is about how many bytes the folders take that are not remembered with files.
	held int
	// cut says that some files do not remember all their folders.
	cut bool
}

const (
	// DefaultHeldBytes bounds tree.held. 65,000 folders take it.
	DefaultHeldBytes = 16 << 20
	// folderOverhead is about how many bytes a folder takes besides its texts.
	folderOverhead = 176
	// maxDepth ends a walk in a tree that is none.
	maxDepth = 400
)

// newTree builds the tree from the memos of stored files. A file that could not be stored may be one whose deletion was given up,
// so the names of folders that only such files mention are uncertain.
func newTree(root string, stored iter.Seq2[string, source.Stored]) *tree {
	t := &tree{folders: map[string]folder{}}
	var notStored []memo
	for _, of := range stored {
		m := memoOf(of)
		t.cut = t.cut || m.Cut
		if of.Failed == source.NotStored {
			notStored = append(notStored, m)
			continue
		}
		m.eachFolder(root, func(id string, now folder) {
			if had, is := t.folders[id]; is && had != now {
				now.name = ""
			}
			t.folders[id] = now
		})
	}
	for _, m := range notStored {
		m.eachFolder(root, func(id string, was folder) {
			if _, is := t.folders[id]; !is {
				t.folders[id] = folder{parent: was.parent}
			}
		})
	}
	return t
}

// eachFolder calls f for each folder above a file whose parent is known, too.
func (m memo) eachFolder(root string, f func(id string, of folder)) {
	steps := m.steps()
	for i, s := range steps {
		switch {
		case i+1 < len(steps):
			f(s.id, folder{parent: steps[i+1].id, name: s.name})
		case !m.Cut: // a cut memo's last folder is asked for
			f(s.id, folder{parent: root, name: s.name})
		}
	}
}

// dropUnsure removes folders whose names are uncertain, so that they are asked for again.
func (t *tree) dropUnsure() {
	maps.DeleteFunc(t.folders, func(_ string, f folder) bool { return f.name == "" })
}

// set stores a folder.
func (t *tree) set(id string, f folder) {
	if had, is := t.folders[id]; is {
		t.held += len(f.parent) - len(had.parent)
	} else {
		t.held += folderOverhead + len(id) + len(f.parent) + len(f.name)
	}
	t.folders[id] = f
}

// update stores a folder of an answer, and tells whether it was known, and whether URLs of files below it may have changed.
func (t *tree) update(item graph.Item) (changed, had bool) {
	before, had := t.folders[item.ID]
	now := folder{parent: item.Parent.ID, name: nameHash(item.Name)}
	t.set(item.ID, now)
	return had && (before.parent != now.parent || before.name != now.name), had
}

// lost marks a folder that is gone.
func (t *tree) lost(id string) {
	f := t.folders[id]
	f.at = outside
	t.set(id, f)
}

// shrinkTree rebuilds the tree where it holds more folders than it may. It keeps the folders in the files' memos, lost folders, and
// the folders of the current page, whose files may not have been given yet. Any other folder is asked for when it is needed.
func (l *lister) shrinkTree() error {
	before := l.tree
	if before == nil || before.held <= l.opts.HeldBytes {
		return nil
	}
	if err := l.s.Wait(); err != nil {
		return err // the memos of files are complete only after all readings
	}
	l.tree = nil
	for id := range l.folderTree().folders {
		if before.folders[id].at == outside {
			l.tree.lost(id)
		}
	}
	for id := range l.pageFolders {
		if f, is := before.folders[id]; is {
			l.tree.set(id, f)
		}
	}
	return nil
}

// folderTree returns the tree. It is built on first use: a sync without changes needs none.
func (l *lister) folderTree() *tree {
	if l.tree != nil {
		return l.tree
	}
	l.tree = newTree(l.place.Root, l.s.All())
	if l.looking {
		l.tree.dropUnsure()
	}
	for _, id := range l.cursor.Lost {
		if _, is := l.tree.folders[id]; is || l.tree.cut {
			l.tree.lost(id)
		}
	}
	return l.tree
}

// foldersAbove returns the folders above an item whose parent is id, nearest first, up to the first that cannot be asked for. An
// unknown folder is asked for, once.
func (l *lister) foldersAbove(ctx context.Context, id string) (steps []step, at location, err error) {
	for range maxDepth {
		if id == l.place.Root {
			return steps, inside, nil
		}
		if id == "" {
			break
		}
		f, is := l.folderTree().folders[id]
		if !is {
			if f, err = l.fetchFolder(ctx, id); err != nil {
				return nil, unknown, fmt.Errorf("find a folder: %w", err)
			}
			l.folderTree().set(id, f)
			if err := l.shrinkTree(); err != nil {
				return nil, unknown, err
			}
		}
		if f.at == outside {
			break
		}
		steps = append(steps, step{id: id, name: f.name})
		if f.at != inside {
			return steps, f.at, nil
		}
		id = f.parent
	}
	return nil, outside, nil
}

// fetchFolder asks for a folder. An error ends the sync.
func (l *lister) fetchFolder(ctx context.Context, id string) (folder, error) {
	item, err := l.api.Item(ctx, l.place.Drive, id)
	switch {
	case graph.IsGone(err) || graph.IsRefused(err):
		return folder{at: away}, nil
	case err != nil:
		return folder{at: unknown}, l.s.FailAlone(ctx, err)
	case item.Deleted != nil:
		return folder{at: outside}, nil
	case item.Root != nil:
		return folder{}, nil
	}
	return folder{parent: item.Parent.ID}, nil
}
