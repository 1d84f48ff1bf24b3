package googledrive

import (
	"iter"
	"maps"
	"slices"
)

// tree knows the parents of each folder. It holds every folder that is stored or was seen in this sync. Only the listing uses it,
// not the workers.
type tree struct {
	// roots are the drives and folders that are synced.
	roots   map[string]bool
	folders map[string][]string // by id: the parents
}

// maxDepth ends a walk upwards in a tree that is none. Drive allows 100 levels ("Limits").
const maxDepth = 1000

func newTree(drives map[string]string) *tree {
	t := &tree{roots: map[string]bool{}, folders: map[string][]string{}}
	for _, root := range drives {
		t.roots[root] = true
	}
	return t
}

func (t *tree) set(id string, parents []string) { t.folders[id] = validParents(parents) }

// holds tells whether a folder is a root, or is below one.
func (t *tree) holds(id string) bool {
	// There is nearly always one parent, and then visited folders need not be remembered.
	for range maxDepth {
		if t.roots[id] {
			return true
		}
		parents := t.folders[id]
		switch len(parents) {
		case 0:
			return false
		case 1:
			id = parents[0]
			continue
		}
		return t.isBelow(id, memo{}, t.roots)
	}
	return false
}

// holdsItem tells whether a stored item is below a root.
func (t *tree) holdsItem(id string, m memo) bool {
	if m.Kind == kindFolder {
		return t.holds(id)
	}
	_, in := t.place(m.Parents)
	return in
}

// above yields a stored item and the folders above it, as far as they are known.
func (t *tree) above(id string, m memo) iter.Seq[string] {
	return func(yield func(string) bool) {
		queue, visited := append([]string{id}, m.Parents...), map[string]bool{}
		for len(queue) > 0 && len(visited) < maxDepth {
			id, queue = queue[0], queue[1:]
			if visited[id] {
				continue
			}
			visited[id] = true
			if !yield(id) {
				return
			}
			queue = append(queue, t.folders[id]...)
		}
	}
}

// isBelow tells whether a stored item is one of some folders, or is below one.
func (t *tree) isBelow(id string, m memo, folders map[string]bool) bool {
	if len(folders) > 0 {
		for up := range t.above(id, m) {
			if folders[up] {
				return true
			}
		}
	}
	return false
}

// without is the tree without some folders.
func (t *tree) without(ids map[string]bool) *tree {
	if len(ids) == 0 {
		return t
	}
	folders := maps.Clone(t.folders)
	maps.DeleteFunc(folders, func(id string, _ []string) bool { return ids[id] })
	return &tree{roots: t.roots, folders: folders}
}

// place returns the parents to remember; in says whether any of them is below a root. Where there are very many, parents below a
// root come first.
func (t *tree) place(parents []string) (kept []string, in bool) {
	kept = validParents(parents)
	if len(kept) > maxParents {
		inside := slices.DeleteFunc(slices.Clone(kept), func(id string) bool { return !t.holds(id) })
		kept = slices.Concat(inside, kept)[:maxParents]
	}
	return kept, slices.ContainsFunc(kept, t.holds)
}

// validParents returns the valid parents, sorted, so that their order does not matter.
func validParents(parents []string) []string {
	if len(parents) == 1 && validID(parents[0]) {
		return parents
	}
	ids := slices.DeleteFunc(slices.Clone(parents), func(id string) bool { return !validID(id) })
	slices.Sort(ids)
	return slices.Compact(ids)
}
