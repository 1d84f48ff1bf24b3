package googledrive

import (
	"context"
	"crypto/md5" //nolint:gosec // it is what the API lists; it finds broken transfers, not forgers
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// exports are what Google's own documents are asked for ("Export MIME types for Google Workspace documents"). Of a
// spreadsheet, CSV is the first sheet only.
var exports = map[string]string{
	googleTypes + "document":     "text/markdown",
	googleTypes + "spreadsheet":  "text/csv",
	googleTypes + "presentation": "text/plain",
	googleTypes + "script":       "application/vnd.google-apps.script+json",
}

// maxExportBytes is what Google exports at most ("Method: files.export").
const maxExportBytes = 10 << 20

// errVanished says that a file went into the trash while it was being read.
var errVanished = &refusal{Status: 404, Reason: "notFound", Message: "it is in the trash"}

// download reads the content of a file. Where it is not what was listed, the file is looked at again: it may have
// changed meanwhile, and fresh is then what it is now.
func (s *syncer) download(ctx context.Context, f item) (content []byte, mediaType string, fresh item, err error) {
	err = s.api.again(ctx, func() error {
		content, mediaType, err = s.fetch(ctx, f)
		if err == nil && !f.isGoogles() {
			err = verify(f, content)
		}
		if !errors.Is(err, errBroken) || f.isGoogles() {
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
		if now.Size > s.cfg.maxFileBytes() {
			return s.tooLarge(now.Size)
		}
		return err
	})
	return content, mediaType, fresh, err
}

func (s *syncer) fetch(ctx context.Context, f item) ([]byte, string, error) {
	path, mediaType := "files/"+url.PathEscape(f.ID), f.MimeType
	query := values("alt", "media", "supportsAllDrives", "true")
	if f.isGoogles() {
		mediaType = exports[f.MimeType]
		path, query = path+"/export", values("mimeType", mediaType)
	}
	resp, err := s.api.get(ctx, path, query, resourceKey(f.ID, f.key))
	if err != nil {
		return nil, "", err
	}
	defer func() {
		drain(resp.Body)
		_ = resp.Body.Close()
	}()
	limit := s.cfg.maxFileBytes()
	if resp.ContentLength > limit {
		return nil, "", s.tooLarge(resp.ContentLength)
	}
	// One more than the size, so that a file that did not grow ends without the buffer growing.
	content := make([]byte, 0, min(max(f.Size, resp.ContentLength, 511), limit)+1)
	for {
		n, err := resp.Body.Read(content[len(content):cap(content)])
		content = content[:len(content)+n]
		switch {
		case int64(len(content)) > limit:
			return nil, "", s.tooLarge(int64(len(content)))
		case errors.Is(err, io.EOF):
			return content, mediaType, nil
		case err != nil && endsSync(err):
			return nil, "", err
		case err != nil:
			return nil, "", fmt.Errorf("%w: %w", errBroken, err)
		case len(content) == cap(content):
			content = append(content, 0)[:len(content)]
		}
	}
}

// verify tells whether content is what was listed.
func verify(f item, content []byte) error {
	if f.MD5 == "" {
		if f.Size > 0 && int64(len(content)) != f.Size {
			return fmt.Errorf("%w: %d bytes of %d", errBroken, len(content), f.Size)
		}
		return nil
	}
	sum := md5.Sum(content) //nolint:gosec // see above
	if !strings.EqualFold(hex.EncodeToString(sum[:]), f.MD5) {
		return fmt.Errorf("%w: %d bytes of %d, whose checksum is another", errBroken, len(content), f.Size)
	}
	return nil
}
