// Package files is the file source: a folder whose files are kept in sync.
//
// A sync lists the folder, compares the version token of each file (its size and time of change) with the stored one, and reads
// only files whose token differs. A file that cannot be read fails as a document and the sync goes on.
package files

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/internal/strictjson"
	"github.com/echomind/sync/services/internal/uploads"
)

// Bounds and defaults of Config.
const (
	DefaultMaxFileBytes = uploads.DefaultFileBytes
	MaxMaxFileBytes     = uploads.MostFileBytes
	DefaultMaxFiles     = 100_000
	MaxMaxFiles         = 1_000_000
	maxPatterns         = 200
	maxPatternBytes     = 1024
)

// Config is the configuration of a connector of type file.
type Config struct {
	// URL names the folder: file:///absolute/folder; or UploadURL: the files that people upload to the connector.
	URL string `json:"url"`
	// Include are doublestar patterns of the files to take, relative to the folder, e.g. "docs/**/*.md".
	// Empty takes every file.
	Include []string `json:"include,omitempty"`
	// Exclude are patterns of the files and folders to leave out; it takes precedence over Include.
	Exclude []string `json:"exclude,omitempty"`
	// Hidden also takes files and folders whose names begin with a dot.
	Hidden bool `json:"hidden,omitempty"`
	// MaxFileBytes is the size up to which a file is read; larger files fail as documents. 0 means DefaultMaxFileBytes.
	MaxFileBytes int64 `json:"max_file_bytes,omitempty"`
	// MaxFiles bounds the files; a folder with more fails the sync. 0 means DefaultMaxFiles. The names in one folder, and in
	// the folders above it, may take 32 MB together: a million names of 25 bytes, or 450,000 of 64.
	MaxFiles int `json:"max_files,omitempty"`
}

// UploadURL is the URL of connectors whose files are uploaded.
const UploadURL = uploads.URL

// IsUploaded says whether the files are uploaded.
func (c Config) IsUploaded() bool { return c.URL == UploadURL }

// Validate returns every problem of c, joined, or nil. Each names the field, the value and the fix.
func (c Config) Validate() error {
	if c.IsUploaded() {
		return errors.Join(c.onlyOfFolders(), strictjson.UpTo("max_file_bytes", c.MaxFileBytes, MaxMaxFileBytes, DefaultMaxFileBytes))
	}
	_, err := parseURL(c.URL)
	return errors.Join(err, validatePatterns("include", c.Include), validatePatterns("exclude", c.Exclude),
		strictjson.UpTo("max_file_bytes", c.MaxFileBytes, MaxMaxFileBytes, DefaultMaxFileBytes),
		strictjson.UpTo("max_files", c.MaxFiles, MaxMaxFiles, DefaultMaxFiles))
}

// onlyOfFolders refuses what means nothing for uploaded files.
func (c Config) onlyOfFolders() error {
	var errs []error
	for _, one := range []struct {
		field string
		given bool
	}{{"include", len(c.Include) > 0}, {"exclude", len(c.Exclude) > 0}, {"hidden", c.Hidden}, {"max_files", c.MaxFiles != 0}} {
		if one.given {
			errs = append(errs, fmt.Errorf("%s: is for folders; leave it away with %q", one.field, UploadURL))
		}
	}
	return errors.Join(errs...)
}

func validatePatterns(field string, patterns []string) error {
	var errs []error
	if len(patterns) > maxPatterns {
		errs = append(errs, fmt.Errorf("%s: %d patterns are too many; use at most %d", field, len(patterns), maxPatterns))
	}
	all := 0
	for i, p := range patterns {
		var problem string
		switch {
		case p == "":
			problem = "is empty; remove it"
		case len(p) > maxPatternBytes:
			errs = append(errs, fmt.Errorf("%s[%d]: %d bytes are too long; use at most %d", field, i, len(p), maxPatternBytes))
			continue
		case !utf8.ValidString(p) || strings.IndexByte(p, 0) >= 0:
			problem = "is not valid text; write it in UTF-8"
		case strings.HasPrefix(p, "/"):
			problem = "is absolute; write it relative to the folder, without the slash at the beginning"
		case slices.Contains(strings.Split(p, "/"), ".."):
			problem = `holds ".."; only files in the folder can be taken`
		case !doublestar.ValidatePattern(p):
			problem = "is not a valid pattern; close its brackets and braces (e.g. **/*.{md,txt})"
		default:
			written, ok := expand(p)
			if all += len(written); ok {
				continue
			}
			problem = fmt.Sprintf("has too many braces; write at most %d alternatives, all combinations counted", maxAlternatives)
		}
		errs = append(errs, fmt.Errorf("%s[%d]: %q %s", field, i, secret.Short(p, maxShown), problem))
	}
	if all > maxAllAlternatives {
		errs = append(errs, fmt.Errorf("%s: %d alternatives are too many; use at most %d in all patterns together",
			field, all, maxAllAlternatives))
	}
	return errors.Join(errs...)
}

// maxShown is how many bytes of a URL or a pattern a message quotes.
const maxShown = 200

// parseURL returns the folder of a URL. Percent-encoding is decoded once (RFC 8089, RFC 3986).
func parseURL(raw string) (string, error) {
	const form = "write file:///absolute/folder, or upload: for files that are uploaded"
	u, err := url.Parse(raw)
	var problem string
	switch {
	case raw == "":
		return "", errors.New("url: it is missing; " + form)
	case err != nil:
		problem = "is not a valid URL; " + form + " and percent-encode special characters"
	case u.Scheme == "":
		problem = "has no scheme; " + form
	case u.Scheme != "file":
		problem = fmt.Sprintf("has the scheme %.20q, which is not supported yet; %s", u.Scheme, form)
	case u.Host != "" && u.Host != "localhost" || u.User != nil:
		problem = "names a host; " + form + " with three slashes"
	case u.Opaque != "" || !strings.HasPrefix(u.Path, "/"):
		problem = "is not absolute; " + form
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		problem = "has a query or fragment; percent-encode ? as %3F and # as %23 where they belong to the name"
	case strings.IndexByte(u.Path, 0) >= 0:
		problem = "holds a NUL character; " + form
	case slices.Contains(strings.Split(u.Path, "/"), ".."):
		problem = `holds ".."; write the folder's own path`
	default:
		return path.Clean(u.Path), nil
	}
	return "", fmt.Errorf("url: %q %s", secret.Typed(raw, maxShown), problem)
}

func (c Config) maxFileBytes() int64 { return cmp.Or(c.MaxFileBytes, DefaultMaxFileBytes) }

func (c Config) maxFiles() int { return cmp.Or(c.MaxFiles, DefaultMaxFiles) }
