package graph

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is the hash that the service lists; it protects nothing
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/echomind/sync/internal/quickxor"
	"github.com/echomind/sync/services/connector/internal/answer"
)

// ErrGrown says that content is larger than there is room for by what was listed.
var ErrGrown = answer.ErrGrown

// errDiffers says that a download does not match the listing: it is incomplete, or newer.
var errDiffers = errors.New("the content is not what was listed")

var errNoURL = errors.New("the service gives no download URL for it")

// Download returns the content of a file, at most `most` bytes, and the item as it was then. It returns ErrVanished for an item
// that is gone, ErrTooLarge for a file larger than most, and ErrGrown for a file that is much larger than listed.
//
// The URL of an item is pre-authenticated, leads to another host, and lives for minutes ("Download the contents of
// a DriveItem"): one that has expired is replaced by asking for the item again. What differs in size or hash from
// the item is downloaded again. SharePoint rewrites some Office and HTML files while it serves them, so that they
// never match what it lists: two equal downloads that are whole, and no shorter than listed, are believed.
func (c *Client) Download(ctx context.Context, drive string, item Item, most int64) ([]byte, Item, error) {
	listed := item.Size
	bound := answer.Bound(listed, most)
	var before [sha256.Size]byte // hash of the last download that differed: a second content would need twice the room
	var last error
	for try := 1; try <= answer.Tries; try++ {
		if try > 1 {
			if err := answer.Pause(ctx, c.pause, try-1); err != nil {
				return nil, item, err
			}
		}
		if item.DownloadURL == "" {
			fresh, err := c.Item(ctx, drive, item.ID)
			if err == nil && fresh.Deleted != nil || IsGone(err) {
				return nil, item, ErrVanished
			}
			if err != nil {
				return nil, item, err
			}
			if item = fresh; item.DownloadURL == "" {
				return nil, item, errNoURL
			}
		}
		if item.Size > most {
			return nil, item, answer.Oversize(item.Size, most)
		}
		if item.Size > bound {
			return nil, item, answer.Grown(item.Size, listed)
		}
		if item.Size == 0 {
			return nil, item, nil
		}
		content, err := c.fetch(ctx, item.DownloadURL, bound)
		if errors.Is(err, ErrTooLarge) && bound < most {
			return nil, item, answer.Grown(bound+1, listed)
		}
		if err == nil {
			if err = verify(item, content); err == nil {
				return content, item, nil
			}
			sum := sha256.Sum256(content)
			if int64(len(content)) >= item.Size && sum == before {
				return content, item, nil
			}
			before = sum
		}
		if ctx.Err() != nil {
			return nil, item, ctx.Err()
		}
		if errors.Is(err, ErrTooLarge) || EndsSync(err) {
			return nil, item, err
		}
		last, item.DownloadURL = err, ""
	}
	return nil, item, last
}

func (c *Client) fetch(ctx context.Context, link string, most int64) ([]byte, error) {
	if u, err := url.Parse(link); err != nil || u.Host == "" || u.Scheme != c.base.Scheme && u.Scheme != "https" {
		return nil, fmt.Errorf("%w: the download URL is not one of %s", ErrLink, c.base.Scheme)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
	if err != nil {
		return nil, errors.New("download: the URL is not one")
	}
	resp, err := answer.Do(c.plain, req)
	if err != nil {
		return nil, fmt.Errorf("download: %w", err)
	}
	defer func() { answer.Drain(resp.Body); _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, answer.ReadRefusal(resp, "the download")
	}
	content, size, err := answer.Content(resp, most)
	switch {
	case size > most:
		return nil, answer.Oversize(size, most)
	case err != nil:
		return nil, fmt.Errorf("download: it broke off after %d bytes: %w", size, err)
	}
	return content, nil
}

// verify compares content with the size and hash of the item.
func verify(item Item, content []byte) error {
	if int64(len(content)) != item.Size {
		return fmt.Errorf("%w: not as many bytes came as are listed", errDiffers)
	}
	if item.File == nil {
		return nil
	}
	var name, want, got string
	switch hashes := item.File.Hashes; {
	case hashes.SHA256 != "":
		sum := sha256.Sum256(content)
		name, want, got = "sha256Hash", hashes.SHA256, hex.EncodeToString(sum[:])
	case hashes.QuickXor != "":
		sum := quickxor.Sum(content)
		name, want, got = "quickXorHash", hashes.QuickXor, base64.StdEncoding.EncodeToString(sum[:])
		if want == got {
			return nil
		}
		return fmt.Errorf("%w: its %s differs", errDiffers, name)
	case hashes.SHA1 != "":
		sum := sha1.Sum(content) //nolint:gosec // see above
		name, want, got = "sha1Hash", hashes.SHA1, hex.EncodeToString(sum[:])
	}
	if !strings.EqualFold(want, got) {
		return fmt.Errorf("%w: its %s differs", errDiffers, name)
	}
	return nil
}
