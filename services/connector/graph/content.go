package graph

import (
	"context"
	"errors"

	"github.com/echomind/sync/sdk/source"
)

// Content is Read for the engine of syncs: it returns a *source.Unreadable, source.ErrAway, or an error that ends the sync. fresh is the
// item as it was then, also with an *source.Unreadable; Content.Now is the caller's to set.
func (r Reader) Content(ctx context.Context, drive string, item Item) (content source.Content, fresh Item, err error) {
	text, fresh, err := r.Read(ctx, drive, item)
	var unreadable *Unreadable
	switch {
	case errors.Is(err, ErrVanished):
		return content, fresh, source.ErrAway
	case errors.As(err, &unreadable):
		return content, fresh, &source.Unreadable{Reason: unreadable.Reason, Content: unreadable.Content, Trouble: unreadable.Trouble}
	}
	return source.Content{MediaType: text.MediaType, Sections: text.Sections, Hash: text.Hash}, fresh, err
}
