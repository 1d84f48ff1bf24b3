package onedrive

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/internal/caught"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/graph"
	"github.com/echomind/sync/services/connector/internal/again"
)

// maxAgain is how many documents that failed are tried again beside a delta, of those that could not be read and of those that could not
// be stored, until it shows that it helps; which ones is left to chance, so that all have their turn.
const maxAgain = 200

// nothingKnown tells whether nothing is remembered with a document: it was refused, or its deletion was given up.
func nothingKnown(k worker.Known) bool { return k.VersionToken == "" && k.ContentHash == "" }

// failedBefore are the documents that have failed and may not fail now, by what is remembered: those that an earlier
// sync could not read, those of another version of the extraction, and those that could not be stored.
func (s *syncer) failedBefore() map[string]string {
	var refused, waiting, unread []string
	for id, k := range s.known {
		f, ok := parseFailure(k.ContentHash)
		switch {
		case nothingKnown(k):
			if _, is := s.missing[id]; !is {
				s.unplaced = true
			}
			refused = append(refused, id)
		case ok && f.hash == waits:
			waiting = append(waiting, id)
		case k.VersionToken == "" && !(ok && f.kind == ofContent+s.opts.Extract.Version()):
			unread = append(unread, id)
		}
	}
	var try, place []string
	s.state.Refused, try, place = s.state.Refused.Refused(refused, waiting, maxAgain)
	s.state.Failed = s.state.Failed.Of(len(unread), maxAgain)
	failed := map[string]string{}
	for _, id := range slices.Concat(try, place, unread[:s.state.Failed.Tried]) { // in no order
		failed[id] = s.known[id].ContentHash
	}
	for _, id := range place {
		s.placing[id] = struct{}{}
	}
	return failed
}

// makeUp tries again what had failed, and finds out where those are of which nothing is known. It returns where to go on next time.
func (s *syncer) makeUp(ctx context.Context, failed map[string]string, delta string) (string, error) {
	if len(failed) > 0 && !(s.went && s.unplaced) {
		if err := s.sink.Checkpoint(ctx, s.after(delta)); err != nil {
			return "", err
		}
	}
	if err := s.tryAgain(ctx, failed); err != nil {
		return "", err
	}
	if !s.unplaced || !s.went && len(s.unconfirmed) == 0 {
		return delta, nil
	}
	return s.confirm(ctx, delta)
}

// tryAgain reads what could not be read before and was not in the delta: a permission that is granted does not change
// the item.
func (s *syncer) tryAgain(ctx context.Context, failed map[string]string) error {
	ids := make([]string, 0, maxAgain)
	next := func() error {
		files, err := s.look(ctx, ids)
		if err != nil {
			return err
		}
		ids = ids[:0]
		return s.files(ctx, files)
	}
	for id, hash := range failed {
		if k, ok := s.stored(id); !ok || k.VersionToken != "" || k.ContentHash != hash {
			continue
		}
		if ids = append(ids, id); len(ids) == maxAgain {
			if err := next(); err != nil {
				return err
			}
		}
	}
	return next()
}

// look asks for documents that have failed, several at a time, and removes those that are gone.
func (s *syncer) look(ctx context.Context, ids []string) (files []graph.Item, err error) {
	group, grouped := errgroup.WithContext(ctx)
	group.SetLimit(s.opts.Workers)
	for _, id := range ids {
		group.Go(func() error {
			return caught.Do(func() error {
				item, err := s.api.Item(grouped, s.state.Drive, id)
				switch {
				case graph.IsGone(err):
					return s.awayAlone(grouped, id)
				case err == nil && item.Deleted != nil:
					return s.remove(grouped, id)
				case graph.IsRefused(err):
					s.unchanged.Add(1)
					s.mu.Lock()
					defer s.mu.Unlock()
					if nothingKnown(s.known[id]) {
						s.unconfirmed[id] = struct{}{}
					}
				case err != nil:
					if err := s.troubles.Alone(grouped, err, graph.EndsSync, s.answers); err != nil {
						return fmt.Errorf("try a failed document again: %w", err)
					}
					s.unchanged.Add(1)
				default:
					s.mu.Lock()
					defer s.mu.Unlock()
					files = append(files, item)
				}
				return nil
			})
		})
	}
	return files, group.Wait()
}

// confirm lists everything where documents of which nothing is known may have gone with a folder, or may not be asked for: what is not
// shown goes. The earlier text of what has moved to where others may not read it would be found for ever otherwise.
func (s *syncer) confirm(ctx context.Context, delta string) (string, error) {
	left := false
	for _, id := range s.ids() {
		k, _ := s.stored(id)
		left = left || nothingKnown(k)
	}
	if !left {
		return delta, nil
	}
	s.confirming, s.state.Link = true, ""
	s.beginListing()
	return s.wholeRound(ctx)
}

// waits is the hash of a document that could not be stored, and of which only its place is known.
var waits = graph.Short(again.Waits)

// standsUnread tells whether a document is not read that is asked for only to find out where it is: it has its turn when it is tried
// again. In a listing for that, what may not be asked for is read, because it then fails with its place.
func (s *syncer) standsUnread(ctx context.Context, item graph.Item, stored worker.Known, now token) (bool, error) {
	_, place := s.placing[item.ID]
	_, ask := s.unconfirmed[item.ID]
	if !place && (!s.confirming || ask) || stored.VersionToken != "" {
		return false, nil
	}
	placed := failure{kind: ofReading, hash: waits, folders: now.folders}
	if f, ok := parseFailure(stored.ContentHash); ok && f.kind == ofReading {
		f.folders = now.folders
		placed = f
	}
	switch {
	case stored.ContentHash == placed.String():
		s.standsAsStored(item.ID)
		return true, nil
	case !nothingKnown(stored):
		return false, nil
	}
	doc := document(item)
	doc.ContentHash, doc.Err = placed.String(), again.Waits
	s.failed.Add(1)
	return true, s.send(ctx, doc)
}
