package onedrive

import (
	"context"
	"fmt"

	"github.com/echomind/sync/services/connector/graph"
)

// maxAgain bounds how many failed documents are tried again beside a delta; which ones is left to chance, so that
// all have their turn.
const maxAgain = 200

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

// failedBefore are the documents that have failed and may not fail now, by what is remembered: those that an earlier
// sync could not read, those of another version of the extraction, and those that could not be stored.
func (s *syncer) failedBefore() map[string]string {
	failed := map[string]string{}
	for id, k := range s.known {
		f, ok := parseFailure(k.ContentHash)
		if k.VersionToken == "" && !(ok && f.kind == ofContent+s.opts.Extract.Version()) && len(failed) < maxAgain {
			failed[id] = k.ContentHash
		}
	}
	return failed
}

// tryAgain reads what could not be read before and was not in the delta: a permission that is granted does not change
// the item.
func (s *syncer) tryAgain(ctx context.Context, failed map[string]string) error {
	var files []graph.Item
	for id, hash := range failed {
		if k, ok := s.stored(id); !ok || k.VersionToken != "" || k.ContentHash != hash {
			continue
		}
		item, err := s.api.Item(ctx, s.state.Drive, id)
		switch {
		case graph.IsGone(err) || err == nil && item.Deleted != nil:
			if err := s.remove(ctx, id); err != nil {
				return err
			}
		case graph.IsRefused(err):
			s.unchanged.Add(1)
		case err != nil:
			return fmt.Errorf("try a failed document again: %w", err)
		default:
			files = append(files, item)
		}
	}
	return s.files(ctx, files)
}
