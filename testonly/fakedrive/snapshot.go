package fakedrive

import (
	"maps"
	"slices"
)

// Item is an item as it stands.
type Item struct {
	ID, Name, Mime, Content, Target string
	Link                            string
	CanDownload                     bool
}

// Get returns an item that the account can see and that is not in the trash.
func (s *Server) Get(id string) (Item, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[id]
	if !s.visible(f) || s.trashed(f) {
		return Item{}, false
	}
	return s.itemOf(f), true
}

func (s *Server) itemOf(f *file) Item {
	link, _ := s.resource(f)["webViewLink"].(string)
	return Item{
		ID: f.ID, Name: f.Name, Mime: f.Mime, Content: string(f.Content), Target: f.Target, Link: link, CanDownload: f.CanDownload,
	}
}

// Tree returns what the account sees below some folders: not in the trash, by way of folders that it can see.
func (s *Server) Tree(roots ...string) map[string]Item {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]Item{}
	queue := slices.Clone(roots)
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, f := range s.files {
			if _, had := found[f.ID]; had || !slices.Contains(f.Parents, at) || !s.visible(f) || s.trashed(f) {
				continue
			}
			if found[f.ID] = s.itemOf(f); f.Mime == FolderType {
				queue = append(queue, f.ID)
			}
		}
	}
	for _, root := range roots {
		delete(found, root)
	}
	return found
}

// IDs are those of all items, seen or not.
func (s *Server) IDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.files))
}
