package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/echomind/sync/services/connector/internal/answer"
)

// DefaultEndpoint is the global service. Sovereign clouds have others ("National cloud deployments").
const DefaultEndpoint = "https://graph.microsoft.com/v1.0"

// MaxLinkBytes bounds the links that an answer may ask us to follow. They are kept in the connector's state, which is bounded as well.
const MaxLinkBytes = 24 << 10

// Options configure a Client.
type Options struct {
	// Endpoint is the base URL with version; empty means DefaultEndpoint.
	Endpoint string
	// API authorises, keeps to the quota, and retries.
	API *http.Client
	// Plain downloads by pre-authenticated URL. It must not authorise: the URL leads to another host, which would refuse, or learn,
	// the token.
	Plain *http.Client
	// Pause is the first of the doubling pauses before an incomplete answer is asked for again. 0 means none.
	Pause time.Duration
}

// Client asks Microsoft Graph. It is safe for concurrent use.
type Client struct {
	api, plain *http.Client
	base       *url.URL
	pause      time.Duration
}

// New returns a Client. It returns an error for an endpoint that is no URL.
func New(opts Options) (*Client, error) {
	if opts.Endpoint == "" {
		opts.Endpoint = DefaultEndpoint
	}
	base, err := url.Parse(opts.Endpoint)
	if err != nil || base.Host == "" || base.User != nil || base.Scheme != "https" && base.Scheme != "http" {
		return nil, fmt.Errorf("endpoint: %q is not a base URL; write e.g. %s", opts.Endpoint, DefaultEndpoint)
	}
	if opts.API == nil || opts.Plain == nil {
		return nil, errors.New("graph: both clients are required")
	}
	base.Path = strings.TrimRight(base.Path, "/")
	// A client that authorises every request would hand the token to whatever host an answer redirects to.
	api := *opts.API
	api.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{api: &api, plain: opts.Plain, base: base, pause: opts.Pause}, nil
}

// URL returns the address of a path below the endpoint. The path's segments must be escaped already.
func (c *Client) URL(path string, query url.Values) string {
	u := c.base.String() + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	return u
}

// CheckLink says whether a link from an answer, or from the connector's state, may be followed with our token. Everyone who may
// write connectors may write the state, and answers pass through proxies: a link to another host would send the token there.
func (c *Client) CheckLink(link string) error {
	if len(link) > MaxLinkBytes {
		return fmt.Errorf("%w: it has %d bytes, more than %d", ErrLink, len(link), MaxLinkBytes)
	}
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return fmt.Errorf("%w: it is not a URL", ErrLink)
	case u.Scheme != c.base.Scheme || !strings.EqualFold(u.Host, c.base.Host) || u.User != nil || u.Opaque != "":
		return fmt.Errorf("%w: it leads to %q, not to the configured endpoint %s://%s",
			ErrLink, u.Host, c.base.Scheme, c.base.Host)
	}
	return nil
}

// Get asks for a URL of the endpoint's and decodes its answer. Header may be nil.
func (c *Client) Get(ctx context.Context, link string, header http.Header, v any) error {
	_, err := c.get(ctx, link, header, v)
	return err
}

// get also returns the service's time, or the zero time where the answer does not say it.
func (c *Client) get(ctx context.Context, link string, header http.Header, v any) (at time.Time, err error) {
	if err := c.CheckLink(link); err != nil {
		return at, err
	}
	err = answer.Repeat(ctx, c.pause, func() error {
		at, err = c.try(ctx, link, header, v)
		return err
	})
	return at, err
}

func (c *Client) try(ctx context.Context, link string, header http.Header, v any) (at time.Time, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
	if err != nil {
		return at, fmt.Errorf("ask %s: %w", withoutQuery(link), err)
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Accept", "application/json")
	resp, err := answer.Do(c.api, req)
	switch {
	case err != nil && EndsSync(err):
		return at, err // the error names who answered: without an access token Graph was never asked
	case err != nil:
		return at, fmt.Errorf("ask %s: %w", withoutQuery(link), err)
	}
	defer func() { answer.Drain(resp.Body); _ = resp.Body.Close() }()
	at, _ = http.ParseTime(resp.Header.Get("Date"))
	if resp.StatusCode != http.StatusOK {
		return at, answer.ReadRefusal(resp, withoutQuery(link))
	}
	if err := answer.Decode(resp.Body, limits(v), v); err != nil {
		return at, cmp.Or(ctx.Err(), fmt.Errorf("read the answer of %s: %w", withoutQuery(link), err))
	}
	return at, nil
}

// withoutQuery is a link without its query: tokens in it are long, and tokens of downloads are secret.
func withoutQuery(link string) string {
	link, _, _ = strings.Cut(link, "?")
	if len(link) > 300 {
		link = link[:300] + "…"
	}
	return link
}

// Segment escapes an identifier for a path.
func Segment(id string) string { return url.PathEscape(id) }
