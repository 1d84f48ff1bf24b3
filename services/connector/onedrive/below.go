package onedrive

import (
	"context"
	"fmt"
	"slices"

	"github.com/echomind/sync/services/connector/graph"
)

// heldWaiting is about what a folder takes beside its id that waits to be listed.
const heldWaiting = 64

// below reads what lies below a folder that has come, or stands elsewhere now. Items that come or go meanwhile may
// be missed by it, and are in the next delta.
func (s *syncer) below(ctx context.Context, top graph.Item) error {
	_, at, err := s.above(ctx, top.Parent.ID)
	switch {
	case err != nil:
		return err
	case at == outside:
		s.loses(top.ID)
		return nil
	case at != inside:
		s.listLater(top.ID)
		return nil
	}
	return s.under(ctx, top.ID, 0)
}

// under brings up to date all that lies below a folder: its files, and then folder by folder. Of very many folders only some wait;
// then the folder is listed again for those behind them, in the order of their ids.
func (s *syncer) under(ctx context.Context, id string, depth int) error {
	if depth > maxDepth {
		return nil // nothing below it is inside, either
	}
	for behind, more := "", true; more; {
		waiting, others, err := s.children(ctx, id, behind)
		if err != nil {
			return err
		}
		more = others
		for _, next := range waiting {
			if err := s.under(ctx, next, depth+1); err != nil {
				return err
			}
			behind = next
		}
		s.waiting -= weigh(waiting)
	}
	return nil
}

// children lists a folder. It returns the folders in it whose ids come behind one, sorted, as many as may wait; more: there are
// others. Its files are brought up to date when it is listed first.
func (s *syncer) children(ctx context.Context, id, behind string) (waiting []string, more bool, err error) {
	upTo := ""
	for link := s.api.Children(s.state.Drive, id, s.opts.PageSize); link != ""; {
		page, err := s.api.Items(ctx, link)
		if graph.IsGone(err) || graph.IsRefused(err) {
			s.listLater(id)
			break
		}
		if err != nil {
			if err := s.notListed(ctx, id, err); err != nil {
				return nil, false, fmt.Errorf("list a folder: %w", err)
			}
			break
		}
		var files []graph.Item
		for _, item := range lastOf(page.Value) {
			switch {
			case !item.IsFolder():
				files = append(files, item)
			case item.ID > behind && (!more || item.ID <= upTo):
				s.tree.reported(item)
				waiting = append(waiting, item.ID)
				s.waiting += heldWaiting + len(item.ID)
			}
		}
		// A page of them may wait in any case: with less, a deep tree would be listed over and over.
		if n := len(waiting); n > s.opts.PageSize && s.waiting > s.opts.HeldBytes/2 {
			waiting = s.first(waiting, max(n/2, s.opts.PageSize))
			upTo, more = waiting[len(waiting)-1], true
		}
		s.forget()
		if behind == "" {
			if err := s.files(ctx, files); err != nil {
				return nil, false, err
			}
		}
		if page.Next == link {
			break
		}
		if link = page.Next; link != "" {
			if err := s.api.CheckLink(link); err != nil {
				return nil, false, fmt.Errorf("list a folder: %w", err)
			}
		}
	}
	return s.first(waiting, len(waiting)), more, nil
}

// maxUnlisted bounds the folders that are remembered because they could not be listed, maxUnlistedBytes the id of one: they have their
// place in the state.
const (
	maxUnlisted      = 50
	maxUnlistedBytes = 200
)

// notListed remembers a folder that cannot be listed, so that the next sync lists it. It returns nil where this one goes on.
func (s *syncer) notListed(ctx context.Context, id string, why error) error {
	if err := s.troubles.Alone(ctx, why, graph.EndsSync, s.answers); err != nil {
		return err
	}
	if !s.listLater(id) {
		return why
	}
	return nil
}

// listLater has the next sync list a folder. It returns false where no more are remembered.
func (s *syncer) listLater(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case slices.Contains(s.state.Unlisted, id):
	case len(s.state.Unlisted) >= maxUnlisted || len(id) > maxUnlistedBytes:
		return false
	default:
		s.state.Unlisted = append(slices.Clone(s.state.Unlisted), id)
	}
	return true
}

// listUnlisted lists the folders that earlier syncs could not list. What is below one that is not there now either goes.
func (s *syncer) listUnlisted(ctx context.Context, folders []string) error {
	for _, id := range folders {
		_, at, err := s.above(ctx, id)
		if err != nil {
			return err
		}
		if at == unknown {
			continue
		}
		s.state.Unlisted = slices.DeleteFunc(slices.Clone(s.state.Unlisted), func(one string) bool { return one == id })
		if at != inside {
			s.loses(id)
			continue
		}
		if err := s.under(ctx, id, 0); err != nil {
			return err
		}
	}
	return s.settleLost(ctx)
}

// first returns the folders that come first, sorted, each once. The others do not wait.
func (s *syncer) first(waiting []string, most int) []string {
	s.waiting -= weigh(waiting)
	slices.Sort(waiting)
	kept := slices.Compact(waiting)
	kept = kept[:min(most, len(kept))]
	clear(waiting[len(kept):])
	s.waiting += weigh(kept)
	return kept
}

// weigh is about what folders take that wait to be listed.
func weigh(waiting []string) (n int) {
	for _, id := range waiting {
		n += heldWaiting + len(id)
	}
	return n
}
