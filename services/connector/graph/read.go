package graph

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Unreadable says why a document cannot be read, in words for people.
type Unreadable struct {
	Reason string
	// Content says that the reason lies in the content: it stays until the content, or our reading of it, changes.
	Content bool
	// Trouble says that the reason may be the way there, and the same for other documents.
	Trouble bool
}

func (u *Unreadable) Error() string { return u.Reason }

// Reader reads files.
type Reader struct {
	Client  *Client
	Extract Extractor
	// MaxBytes is the size up to which a file is read.
	MaxBytes int64
}

// Refusal says why an item is not even downloaded; empty if it is.
func (r Reader) Refusal(item Item) string {
	switch {
	case item.Malware != nil:
		return reasonMalware
	case item.RemoteItem != nil:
		return "a shortcut to another drive; connect that drive to have its content"
	case item.Package != nil && strings.EqualFold(item.Package.Type, "oneNote"):
		return "a OneNote notebook is not a file; its pages are not read"
	case item.Package != nil:
		return "a package is not a file; it is not read"
	case item.File == nil:
		return "it is neither a file nor a folder"
	case item.Size > r.MaxBytes:
		return tooLarge(item.Size, r.MaxBytes).Error()
	}
	kind, _, _ := strings.Cut(item.MediaType(), "/")
	switch strings.ToLower(kind) {
	case "image", "audio", "video":
		return fmt.Sprintf("%s holds no text that is read", item.MediaType())
	}
	return ""
}

// Read downloads a file and extracts its text; fresh is the item as it was then. It returns ErrVanished, an
// *Unreadable, or an error that ends the sync.
func (r Reader) Read(ctx context.Context, drive string, item Item) (text Text, fresh Item, err error) {
	if reason := r.Refusal(item); reason != "" {
		return Text{}, item, &Unreadable{Reason: reason, Content: true}
	}
	content, fresh, err := r.Client.Download(ctx, drive, item, r.MaxBytes)
	switch {
	case ctx.Err() != nil:
		return Text{}, item, ctx.Err()
	case errors.Is(err, ErrVanished):
		return Text{}, item, err
	case errors.Is(err, ErrTooLarge):
		return Text{}, fresh, &Unreadable{Reason: err.Error(), Content: true}
	case errors.Is(err, ErrGrown):
		return Text{}, fresh, &Unreadable{Reason: err.Error()}
	case EndsSync(err):
		return Text{}, item, fmt.Errorf("download: %w", err)
	case IsRefused(err):
		return Text{}, item, &Unreadable{Reason: Reason(err)}
	case err != nil:
		return Text{}, item, &Unreadable{Reason: Reason(err), Trouble: true}
	}
	text, err = r.Extract.Extract(ctx, content, fresh.Name, fresh.MediaType())
	switch {
	case ctx.Err() != nil:
		return Text{}, item, ctx.Err()
	case err != nil:
		// What is not the content's own is tried again. It is no Trouble either: a folder of documents that linger
		// would end the sync.
		return Text{}, fresh, &Unreadable{Reason: err.Error(), Content: r.Extract.OfContent(err)}
	}
	return text, fresh, nil
}
