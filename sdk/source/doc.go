// Package source keeps what is stored in sync with a place: a source describes the place, and one engine syncs it.
//
// A source says what there is (Sync.Item), what is gone (Sync.Remove), how far it has come (Sync.Checkpoint), and reads one item's
// content when it is asked to (Item.Read). What follows is the engine's: what is stored and what has changed, whether an item is put,
// touched, failed or removed, what is tried again and how often, how many are read at once and in how much memory, what is counted, and
// that a listing which suddenly shows little deletes nothing. A run that dies goes on from its last checkpoint.
//
//	func (w *wiki) List(ctx context.Context, s *source.Sync) (any, error) {
//		var at cursor
//		if err := s.Cursor(&at); err != nil {
//			return nil, err
//		}
//		if at.Since == "" {
//			s.BeginListing()
//		}
//		…
//		for _, page := range pages {
//			err = s.Item(ctx, source.Item{ID: page.ID, Title: page.Title, URL: page.URL, Version: page.Revision, Read: w.read(page)})
//			…
//		}
//		err = s.Checkpoint(ctx, at)
//		…
//		return at, nil
//	}
//
//	worker.Serve(ctx, "wiki", func(ctx context.Context, run *worker.Run) error {
//		…
//		_, err := source.Run(ctx, run, w, source.Options{})
//		return err
//	})
//
//	source.go   what a source gives, and what it may set
//	sync.go     one sync: its beginning, cursor and end
//	item.go     one item: is it as stored, touched, or read
//	fail.go     what cannot be read, and what is not there
//	listing.go  a listing of everything, and what it does not show
//	again.go    what failed before
//	trouble.go  items that cannot be read, or a place that is away
package source
