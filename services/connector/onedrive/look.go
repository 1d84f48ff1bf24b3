package onedrive

import (
	"cmp"
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/internal/caught"
	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/services/connector/graph"
)

// maxRetried is how many failed files are looked at beside a delta, until it shows that it helps.
const maxRetried = 200

// Look asks for files that failed before, several at a time: granting a permission does not change the item, so no delta reports
// it.
func (l *lister) Look(ctx context.Context, s *source.Sync, ids []string) error {
	items, errs := make([]graph.Item, len(ids)), make([]error, len(ids))
	group, grouped := errgroup.WithContext(ctx)
	group.SetLimit(cmp.Or(l.opts.Workers, source.DefaultWorkers))
	for i, id := range ids {
		group.Go(func() error {
			return caught.Do(func() error {
				items[i], errs[i] = l.api.Item(grouped, l.place.Drive, id)
				if err := errs[i]; err != nil && !graph.IsGone(err) && !graph.IsRefused(err) {
					return s.FailAlone(grouped, err)
				}
				return nil
			})
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("ask for files that failed: %w", err)
	}
	for i, id := range ids {
		if err := l.takeAnswer(ctx, id, items[i], errs[i]); err != nil {
			return err
		}
	}
	return nil
}

// takeAnswer handles the service's answer about one file.
func (l *lister) takeAnswer(ctx context.Context, id string, item graph.Item, err error) error {
	switch {
	case graph.IsGone(err):
		_, err := l.s.MarkAway(ctx, source.Item{ID: id})
		return err
	case graph.IsRefused(err):
		// Its deletion may have been given up, and its earlier text could then be found for ever where others may not read it. Only
		// a listing of everything tells whether the file still exists.
		of, _ := l.s.Stored(id)
		l.cursor.Relist = l.cursor.Relist || of.Failed == source.NotStored || of.Failed == source.Unknown
		return nil
	case err != nil:
		return nil // the stored file stays
	case item.Deleted != nil:
		return l.s.Remove(ctx, id)
	}
	return l.giveFile(ctx, item)
}
