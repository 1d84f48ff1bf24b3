package provider

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/echomind/sync/internal/guard"
)

// Reach makes connections to providers, shared by all accounts. The operator has configured the endpoints, which may be anywhere.
// Any other address in an answer or a redirect must be public: the server that answers may belong to somebody who wants to see the
// service's network.
type Reach struct {
	endpoints     map[string]bool
	guard         *guard.Guard
	proxy         func(*http.Request) (*url.URL, error)
	open, guarded *http.Transport
}

// NewReach exempts these endpoints from the guard. proxy returns the proxy of a request; http.ProxyFromEnvironment if nil.
func NewReach(g *guard.Guard, proxy func(*http.Request) (*url.URL, error), endpoints ...string) (*Reach, error) {
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	r := &Reach{endpoints: map[string]bool{}, guard: g, proxy: proxy, open: Transport()}
	r.open.Proxy = proxy
	r.guarded = transportOf(nil, g.Transport(guard.TransportConfig{}).DialContext)
	for _, endpoint := range endpoints {
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("provider: the endpoint %q is not a URL", endpoint)
		}
		r.endpoints[origin(u)] = true
	}
	return r, nil
}

// RoundTrip makes a request. Behind a proxy, the proxy resolves names and connects: then an address is checked here, and a name by
// the proxy.
func (r *Reach) RoundTrip(req *http.Request) (*http.Response, error) {
	if r.endpoints[origin(req.URL)] {
		return r.open.RoundTrip(req)
	}
	through, err := r.proxy(req)
	if err != nil {
		return nil, err
	}
	if through == nil {
		return r.guarded.RoundTrip(req)
	}
	if err := r.judge(req.URL.Hostname()); err != nil {
		return nil, err
	}
	return r.open.RoundTrip(req)
}

// judge refuses a host that is an address which may not be connected to. It checks the host as the proxy will see it: the transport
// spells names in ASCII, and turns circled digits into 127.0.0.1. A text that is no address to us but is to a proxy that reads
// numbers as inet_aton does (127.1, 2130706433, 0x7f.0.0.1) is refused: no name ends in a number.
func (r *Reach) judge(host string) error {
	if strings.IndexFunc(host, func(c rune) bool { return c >= utf8.RuneSelf }) >= 0 {
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil {
			return fmt.Errorf("%w: %q is not an international name", guard.ErrBlocked, host)
		}
		host = ascii
	}
	host = strings.TrimRight(host, ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		return r.guard.Check(addr)
	}
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	if digits, hex := strings.CutPrefix(last, "0x"); strings.Trim(digits, "0123456789") == "" || hex && strings.Trim(digits, "0123456789abcdef") == "" {
		return fmt.Errorf("%w: %q is neither a name nor an address in its usual form", guard.ErrBlocked, host)
	}
	if last == "localhost" {
		return r.guard.Check(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return nil
}

// CloseIdleConnections closes connections that are not in use.
func (r *Reach) CloseIdleConnections() {
	r.open.CloseIdleConnections()
	r.guarded.CloseIdleConnections()
}
