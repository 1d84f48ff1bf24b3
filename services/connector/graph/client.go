package graph

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/services/connector/internal/answer"
)

// DefaultEndpoint is the global service. Sovereign clouds have others ("National cloud deployments").
const DefaultEndpoint = "https://graph.microsoft.com/v1.0"

const (
	// MaxLinkBytes bounds the links that an answer may ask us to follow. They are kept in the connector's state,
	// which is bounded as well.
	MaxLinkBytes = 24 << 10
	// tries is how often an incomplete answer is asked for.
	tries = 4
)

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
func (c *Client) get(ctx context.Context, link string, header http.Header, v any) (time.Time, error) {
	if err := c.CheckLink(link); err != nil {
		return time.Time{}, err
	}
	for try := 1; ; try++ {
		at, err := c.try(ctx, link, header, v)
		var broken *truncatedError
		if !errors.As(err, &broken) || try == tries {
			return at, err
		}
		if err := c.wait(ctx, try); err != nil {
			return time.Time{}, err
		}
	}
}

func (c *Client) try(ctx context.Context, link string, header http.Header, v any) (at time.Time, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
	if err != nil {
		return at, fmt.Errorf("ask %s: %w", withoutQuery(link), err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.api.Do(req)
	switch {
	case err != nil && EndsSync(err):
		return at, withoutURL(err) // the error names who answered: without an access token Graph was never asked
	case err != nil:
		return at, fmt.Errorf("ask %s: %w", withoutQuery(link), withoutURL(err))
	}
	defer func() { drain(resp.Body); _ = resp.Body.Close() }()
	at, _ = http.ParseTime(resp.Header.Get("Date"))
	if resp.StatusCode != http.StatusOK {
		return at, answerError(resp, withoutQuery(link))
	}
	err = answer.Decode(resp.Body, limits(v), v)
	switch {
	case err == nil:
		return at, nil
	case ctx.Err() != nil:
		return at, ctx.Err()
	}
	err = fmt.Errorf("read the answer of %s: %w", withoutQuery(link), err)
	if errors.Is(err, answer.ErrTooLarge) {
		return at, err
	}
	return at, &truncatedError{err}
}

func (c *Client) wait(ctx context.Context, try int) error {
	return repeat.Sleep(ctx, repeat.Pauses{First: c.pause, Last: c.pause << (tries - 1)}.After(try))
}

// drain lets the connection be used again, unless much is left to read.
func drain(body io.Reader) { _, _ = io.CopyN(io.Discard, body, 64<<10) }

// withoutQuery is a link without its query: tokens in it are long, and tokens of downloads are secret.
func withoutQuery(link string) string {
	link, _, _ = strings.Cut(link, "?")
	if len(link) > 300 {
		link = link[:300] + "…"
	}
	return link
}

// withoutURL removes the URL from a client's error, for the same reason.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// Segment escapes an identifier for a path.
func Segment(id string) string { return url.PathEscape(id) }
