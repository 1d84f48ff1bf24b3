package crawl

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/echomind/sync/internal/secret"
)

// Limits and defaults of Config.
const (
	DefaultMaxDepth = 3
	MaxMaxDepth     = 20
	DefaultMaxPages = 500
	MaxMaxPages     = 50_000
)

// Config is the configuration of a web connector, as its user writes it. Its decoder refuses unknown fields.
type Config struct {
	// URL is the start page of the crawl: http or https, without user name and password. The crawl stays on its scheme, host
	// and port; a redirect of the start page within the same site changes them.
	URL string `json:"url"`
	// MaxDepth is how many links a page may be away from the start page; 0 reads only the start page. Default: 3. At most 20.
	MaxDepth *int `json:"max_depth,omitempty"`
	// MaxPages bounds the documents of the crawl, 1 to 50,000. Default: 500.
	MaxPages *int `json:"max_pages,omitempty"`
	// PathPrefix keeps the crawl below a path, by whole segments: "/docs" contains /docs and /docs/x, not
	// /docs2. The start URL must be below it. Default: the whole host.
	PathPrefix string `json:"path_prefix,omitempty"`
	// IgnoreQuery takes URLs that differ only after the "?" for one page and requests it without a query: for calendars, sort
	// orders and filters. Default: false.
	IgnoreQuery bool `json:"ignore_query,omitempty"`
}

// Validate returns all problems at once, each with the field, its value and the fix.
func (c Config) Validate() error {
	var problems []error
	report := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }

	start, err := c.start()
	if err != nil {
		report("url %q: %w", redact(c.URL), err)
	}
	if d := c.maxDepth(); d < 0 || d > MaxMaxDepth {
		report("max_depth %d: set it between 0 (the start page alone) and %d, or leave it out for %d", d, MaxMaxDepth, DefaultMaxDepth)
	}
	if p := c.maxPages(); p < 1 || p > MaxMaxPages {
		report("max_pages %d: set it between 1 and %d, or leave it out for %d", p, MaxMaxPages, DefaultMaxPages)
	}
	switch {
	case c.PathPrefix == "":
	case !strings.HasPrefix(c.PathPrefix, "/"):
		report("path_prefix %q: start it with a slash, like %q", redact(c.PathPrefix), "/"+redact(c.PathPrefix))
	case strings.ContainsAny(c.PathPrefix, "?#"):
		report("path_prefix %q: leave out the query and the fragment, it is compared with paths only", redact(c.PathPrefix))
	case err == nil && !below(start.EscapedPath(), canonicalPath(c.PathPrefix)):
		report("path_prefix %q: url's path %q is not below it; start the crawl below the prefix", redact(c.PathPrefix), redact(start.Path))
	}
	return errors.Join(problems...)
}

func (c Config) start() (*url.URL, error) {
	if strings.TrimSpace(c.URL) == "" {
		return nil, errors.New("set it to the page to start from, like https://example.com/docs/")
	}
	u, err := canonical(nil, c.URL, c.IgnoreQuery)
	if err != nil {
		return nil, fmt.Errorf("%w; give an address like https://example.com/docs/", err)
	}
	if len(u.String()) > maxSourceIDBytes {
		return nil, fmt.Errorf("longer than %d bytes; start from a shorter one", maxSourceIDBytes)
	}
	return u, nil
}

func (c Config) maxDepth() int { return deref(c.MaxDepth, DefaultMaxDepth) }
func (c Config) maxPages() int { return deref(c.MaxPages, DefaultMaxPages) }

func deref(p *int, otherwise int) int {
	if p == nil {
		return otherwise
	}
	return *p
}

// redact removes credentials from a text for messages and logs: from a user's URL, or from a text that a site sent as one.
func redact(raw string) string { return clip(secret.Typed(raw, maxShown), maxShown) }

// maxShown is how many bytes of such a text are shown. Masks look at a few more, whatever its length.
const maxShown = 200

// withoutSecrets returns a URL for messages and logs.
func withoutSecrets(u *url.URL) string { return secret.OfURL(u) }
