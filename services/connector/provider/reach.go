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

// Reach makes connections to providers, to be shared by all accounts. The endpoints are where the service's operator says
// they are. Wherever else an answer or a redirect leads, only public addresses are reached: who answers may be somebody
// who wants to see what is next to this service.
type Reach struct {
	endpoints     map[string]bool
	guard         *guard.Guard
	proxy         func(*http.Request) (*url.URL, error)
	open, guarded *http.Transport
}

// NewReach reaches these endpoints without the guard. proxy says which requests pass through which proxy;
// http.ProxyFromEnvironment if nil.
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

// RoundTrip makes a request. Behind a proxy it is the proxy that looks names up and connects: then an address that was
// given as such is judged here, and a name by the proxy.
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

// judge refuses a host that is an address which may not be connected to. It is judged as the proxy is asked for it: the
// transport spells names in ASCII, and makes 127.0.0.1 of digits in circles. What is no address to us, and one to a proxy
// that reads numbers as inet_aton does (127.1, 2130706433, 0x7f.0.0.1), is refused as it is: no name ends in a number.
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

// CloseIdleConnections closes what nobody uses.
func (r *Reach) CloseIdleConnections() {
	r.open.CloseIdleConnections()
	r.guarded.CloseIdleConnections()
}
