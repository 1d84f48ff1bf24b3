package googledrive

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/echomind/sync/internal/line"
	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/services/connector/internal/answer"
)

// file describes a file to the engine. Its title is the file's name: a renamed file is touched without being read, so the title
// cannot come from its content.
func (s *syncer) file(f item, parents []string) source.Item {
	it := newItem(f, memo{Parents: parents})
	_, stored := s.sync.Stored(f.ID)
	s.setContent(&it, f, func(fresh item) source.Item { return newItem(fresh, memo{Parents: parents}) }, func(trashed bool) error {
		switch {
		case trashed:
			return source.ErrGone
		case !stored && !s.checkLater(f.ID):
			return &source.Unreadable{Reason: "it was not there when it was read"}
		}
		return source.ErrAway
	})
	return it
}

// setContent sets how an item's content is read from f. as makes the item from a newer f; gone is called where f does not exist, or
// is in the trash.
func (s *syncer) setContent(it *source.Item, f item, as func(fresh item) source.Item, gone func(trashed bool) error) {
	it.Version, it.Bytes, it.Unread = f.content(), f.Size, s.skipReason(f)
	if f.isGoogleDocument() {
		it.Bytes = s.bound(f)
	}
	it.Read = func(ctx context.Context) (content source.Content, err error) {
		bytes, mediaType, fresh, err := s.download(ctx, f)
		name := f.Name
		if fresh.ID != "" {
			now := as(fresh)
			now.Version, name = fresh.content(), fresh.Name
			content.Now = &now
		}
		if err != nil {
			return content, s.readError(ctx, f, err, gone)
		}
		text, err := s.opts.Extract.Extract(ctx, bytes, name, mediaType)
		if err != nil {
			return content, &source.Unreadable{Reason: err.Error(), Content: s.opts.Extract.OfContent(err)}
		}
		text.Now = content.Now
		return text, nil
	}
}

// readError says what an error of a download means.
func (s *syncer) readError(ctx context.Context, f item, err error, gone func(trashed bool) error) error {
	reason, lasting := documentReason(err)
	switch {
	case isGone(err):
		// Where it still exists, the answer was wrong, and no change will report it: the item fails.
		now, asked := s.api.item(ctx, f.ID, f.key)
		switch {
		case asked != nil && endsSync(asked):
			return fmt.Errorf("look for a file without content: %w", asked)
		case isGone(asked) || asked == nil && now.Trashed:
			return gone(asked == nil)
		}
		return &source.Unreadable{Reason: reason}
	case errors.Is(err, answer.ErrOversize):
		return &source.Unreadable{Reason: err.Error(), Content: true}
	case errors.Is(err, answer.ErrGrown):
		return &source.Unreadable{Reason: err.Error()}
	case endsSync(err):
		return fmt.Errorf("download: %w", err)
	}
	return &source.Unreadable{Reason: reason, Content: lasting, Trouble: !isRefused(err)}
}

// skipReason says why a file is not even downloaded; empty where it is.
func (s *syncer) skipReason(f item) string {
	if can := f.Capabilities.CanDownload; can != nil && !*can {
		return "its owner does not allow it to be downloaded (canDownload is false); ask for permission to download"
	}
	if f.isGoogleDocument() {
		if _, can := exports[f.MimeType]; !can {
			return fmt.Sprintf("%s holds no text that Google Drive exports", strings.TrimPrefix(line.Clip(f.MimeType, 100), googleTypes))
		}
		return ""
	}
	if f.Size > s.cfg.maxFileBytes() {
		return answer.Oversize(f.Size, s.cfg.maxFileBytes()).Error()
	}
	kind, _, _ := strings.Cut(strings.ToLower(f.MimeType), "/")
	switch kind {
	case "image", "audio", "video", "font":
		return line.Clip(f.MimeType, 100) + " holds no text that is read"
	}
	return ""
}
