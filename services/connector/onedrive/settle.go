package onedrive

import (
	"context"
	"fmt"

	"github.com/echomind/sync/services/connector/graph"
)

// settle deletes, at the end of a round, what is gone without having been reported.
func (s *syncer) settle(ctx context.Context) error {
	if s.listing {
		for id := range s.missing {
			if err := s.remove(ctx, id); err != nil {
				return err
			}
		}
		s.listing, s.missing = false, nil
		s.sink.EndListing()
	}
	return s.settleLost(ctx)
}

// settleLost deletes what is below folders that have gone.
func (s *syncer) settleLost(ctx context.Context) error {
	if s.lost == 0 {
		return nil
	}
	for _, id := range s.ids() {
		k, _ := s.stored(id)
		folders, ok := foldersOf(k)
		if !ok || len(folders) == 0 {
			continue
		}
		at := inside
		if folders[0].id != cut {
			var err error
			if _, at, err = s.above(ctx, folders[0].id); err != nil {
				return fmt.Errorf("find the folder of %s: %w", id, err)
			}
		}
		if at == away || at == unknown {
			if err := s.away(ctx, graph.Item{ID: id, Name: "File"}, folders, at); err != nil {
				return err
			}
		}
		if at == outside {
			if err := s.remove(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *syncer) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(s.known))
	for id := range s.known {
		ids = append(ids, id)
	}
	return ids
}
