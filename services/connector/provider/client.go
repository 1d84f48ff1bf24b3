package provider

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/echomind/sync/internal/guard"
	"github.com/echomind/sync/internal/secret"
)

// userAgent names us: providers treat identified traffic better ("Avoid getting throttled or blocked in SharePoint Online", How to
// decorate your HTTP traffic).
const userAgent = "NONISV|EchoMind|Sync/1.0"

const maxRedirects = 5

// errRedirect refuses a redirect.
var errRedirect = errors.New("the redirect is refused")

// Options configure a client. The zero value of a field that is not required means its default.
type Options struct {
	// Dialect is the dialect of the provider; required.
	Dialect Dialect
	// Endpoint is the API's base URL; the access token goes to its host and to no other. It may be empty without
	// Tokens.
	Endpoint string
	// Tokens authorise; nil for pre-authenticated URLs.
	Tokens *Tokens
	// Quota is the quota of the account; Unlimited if nil.
	Quota Quota
	// Base makes the requests; Transport() if nil. It is shared.
	Base http.RoundTripper
	// Limits bound every request.
	Limits Limits
	// Cleaner removes secrets from errors, and learns the access tokens. If nil, an empty one is made.
	Cleaner *secret.Cleaner
	// Metrics count; nil counts nothing.
	Metrics *Metrics
	// Clock is System if nil.
	Clock Clock
	// Waits is called for each wait that the provider asks for, and may refuse it; nil calls nothing.
	Waits Waits
	// repeatPosts allows repeating POST requests, for token endpoints: asking twice for a token does no harm.
	repeatPosts bool
}

// NewClient makes the client of one account. It has no timeout of its own: every request has its deadlines.
func NewClient(opts Options) (*http.Client, error) {
	t := &transport{Options: opts, limits: opts.Limits.orDefault()}
	t.name = strings.ToLower(strings.NewReplacer(" ", "_", "-", "_").Replace(opts.Dialect.Name))
	if opts.Tokens != nil {
		u, err := url.Parse(opts.Endpoint)
		if err != nil || u.Host == "" {
			return nil, errors.New("provider: Tokens need the Endpoint that they are for")
		}
		t.origin = origin(u)
	}
	t.Cleaner = cmp.Or(t.Cleaner, secret.NewCleaner())
	t.Quota = cmp.Or[Quota](t.Quota, Unlimited{})
	t.Clock = cmp.Or[Clock](t.Clock, System{})
	if t.Base == nil {
		t.Base = Transport()
	}
	return &http.Client{Transport: t, CheckRedirect: checkRedirect}, nil
}

// checkRedirect bounds redirects. Each hop passes through the transport, which authorises no other host.
func checkRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) >= maxRedirects:
		return errors.Join(errRedirect, errors.New("too many of them"))
	case req.URL.Scheme != "https" && via[len(via)-1].URL.Scheme == "https":
		return errors.Join(errRedirect, errors.New("it leads out of TLS"))
	}
	req.Header.Del("Referer") // it would carry the URL of the previous hop, which may be pre-authenticated
	return nil
}

func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(u.Scheme + "://" + u.Hostname() + ":" + port)
}

// Transport makes connections to providers, to be shared by all accounts.
func Transport() *http.Transport {
	return transportOf(http.ProxyFromEnvironment, (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext)
}

func transportOf(proxy func(*http.Request) (*url.URL, error), dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		Proxy: proxy, DialContext: dial,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        100, MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second,
		MaxResponseHeaderBytes: guard.MaxHeaderBytes,
		// A silent connection is detected and does not get the next request.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
	}
}
