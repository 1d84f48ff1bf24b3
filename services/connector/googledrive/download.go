package googledrive

import (
	"context"
	"crypto/md5" //nolint:gosec // it is what the API lists; it finds broken transfers, not forgers
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/echomind/sync/services/connector/internal/answer"
)

// exports are the media types that Google's own documents are exported to ("Export MIME types for Google Workspace documents"). The
// CSV of a spreadsheet holds its first sheet only.
var exports = map[string]string{
	googleTypes + "document":     "text/markdown",
	googleTypes + "spreadsheet":  "text/csv",
	googleTypes + "presentation": "text/plain",
	googleTypes + "script":       "application/vnd.google-apps.script+json",
}

// maxExportBytes is what Google exports at most ("Method: files.export").
const maxExportBytes = 10 << 20

// errVanished says that a file went into the trash while it was being read.
var errVanished = &answer.Refusal{Target: service, Status: 404, Codes: []string{"notFound"}, Message: "it is in the trash"}

// download reads the content of a file. Where it does not match the listing, the file is asked for again: it may have changed
// meanwhile, and fresh is then its new state. At most as much is read as the listed size has reserved.
func (s *syncer) download(ctx context.Context, f item) (content []byte, mediaType string, fresh item, err error) {
	listed, bound := f.Size, s.bound(f)
	err = answer.Repeat(ctx, s.api.pause, func() error {
		content, mediaType, err = s.fetch(ctx, f, listed, bound)
		if err == nil && !f.isGoogleDocument() {
			err = verify(f, content)
		}
		if !errors.Is(err, answer.ErrIncomplete) || f.isGoogleDocument() {
			return err
		}
		now, asked := s.api.item(ctx, f.ID, f.key)
		switch {
		case asked != nil:
			return asked
		case now.Trashed:
			return errVanished
		case now.content() == f.content() && now.Size == f.Size:
			return err
		}
		now.key = f.key
		f, fresh = now, now
		switch {
		case now.Size > s.cfg.maxFileBytes():
			return answer.Oversize(now.Size, s.cfg.maxFileBytes())
		case now.Size > bound:
			return answer.Grown(now.Size, listed)
		}
		return err
	})
	return content, mediaType, fresh, err
}

// bound is how many bytes of a file are read at most: there is room for so many.
func (s *syncer) bound(f item) int64 {
	if f.isGoogleDocument() {
		return min(maxExportBytes, s.cfg.maxFileBytes())
	}
	return answer.Bound(f.Size, s.cfg.maxFileBytes())
}

// fetch reads content of at most bound bytes.
func (s *syncer) fetch(ctx context.Context, f item, listed, bound int64) ([]byte, string, error) {
	path, mediaType := "files/"+url.PathEscape(f.ID), f.MimeType
	query := values("alt", "media", "supportsAllDrives", "true")
	if f.isGoogleDocument() {
		mediaType = exports[f.MimeType]
		path, query = path+"/export", values("mimeType", mediaType)
	}
	resp, err := s.api.get(ctx, path, query, resourceKey(f.ID, f.key))
	if err != nil {
		return nil, "", err
	}
	defer func() { answer.Drain(resp.Body); _ = resp.Body.Close() }()
	content, size, err := answer.Content(resp, bound)
	switch {
	case size > bound && bound == s.cfg.maxFileBytes():
		return nil, "", answer.Oversize(size, bound)
	case size > bound && f.isGoogleDocument():
		return nil, "", fmt.Errorf("%w: more than %d bytes, which is what Google Drive exports", answer.ErrOversize, bound)
	case size > bound:
		return nil, "", answer.Grown(size, listed)
	case err != nil && endsSync(err):
		return nil, "", err
	case err != nil:
		return nil, "", fmt.Errorf("%w: %w", answer.ErrIncomplete, err)
	}
	return content, mediaType, nil
}

// verify tells whether content is what was listed.
func verify(f item, content []byte) error {
	sum := md5.Sum(content) //nolint:gosec // see above
	switch {
	case f.MD5 == "" && f.Size > 0 && int64(len(content)) != f.Size:
		return fmt.Errorf("%w: %d bytes of %d", answer.ErrIncomplete, len(content), f.Size)
	case f.MD5 != "" && !strings.EqualFold(hex.EncodeToString(sum[:]), f.MD5):
		return fmt.Errorf("%w: %d bytes of %d, whose checksum is another", answer.ErrIncomplete, len(content), f.Size)
	}
	return nil
}
