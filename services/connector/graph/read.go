package graph

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/services/connector/extraction"
	"github.com/echomind/sync/services/connector/internal/answer"
)

// Reader reads files.
type Reader struct {
	Client  *Client
	Extract extraction.Extractor
	// MaxBytes is the size up to which a file is read.
	MaxBytes int64
}

// Refusal says why an item is not even downloaded; empty where it is.
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
		return answer.Oversize(item.Size, r.MaxBytes).Error()
	}
	kind, _, _ := strings.Cut(item.MediaType(), "/")
	switch strings.ToLower(kind) {
	case "image", "audio", "video":
		return fmt.Sprintf("%s holds no text that is read", item.MediaType())
	}
	return ""
}

// Content downloads a file and extracts its text; fresh is the item as it was then, also beside an *source.Unreadable. It returns
// source.ErrAway, an *source.Unreadable, or an error that ends the sync. The caller sets Content.Now.
func (r Reader) Content(ctx context.Context, drive string, item Item) (content source.Content, fresh Item, err error) {
	if reason := r.Refusal(item); reason != "" {
		return content, item, &source.Unreadable{Reason: reason, Content: true}
	}
	data, fresh, err := r.Client.Download(ctx, drive, item, r.MaxBytes)
	switch {
	case ctx.Err() != nil:
		return content, item, ctx.Err()
	case errors.Is(err, ErrVanished):
		return content, item, source.ErrAway
	case errors.Is(err, ErrTooLarge):
		return content, fresh, &source.Unreadable{Reason: err.Error(), Content: true}
	case errors.Is(err, ErrGrown):
		return content, fresh, &source.Unreadable{Reason: err.Error()}
	case EndsSync(err):
		return content, item, fmt.Errorf("download: %w", err)
	case IsRefused(err):
		return content, item, &source.Unreadable{Reason: Reason(err)}
	case err != nil:
		return content, item, &source.Unreadable{Reason: Reason(err), Trouble: true}
	}
	content, err = r.Extract.Extract(ctx, data, fresh.Name, fresh.MediaType())
	switch {
	case ctx.Err() != nil:
		return source.Content{}, item, ctx.Err()
	case err != nil:
		// An error that is not caused by the content is tried again. It is no Trouble either: a folder of slow documents
		// would end the sync.
		return source.Content{}, fresh, &source.Unreadable{Reason: err.Error(), Content: r.Extract.OfContent(err)}
	}
	return content, fresh, nil
}
