package crawl

import (
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// scope is the part of the web that a crawl covers: one origin, and in it one path prefix.
type scope struct {
	origin *url.URL
	// aliases are origins that are the same site, as its start page's redirects show, and plain http beside https.
	aliases     map[string]bool
	prefix      string
	ignoreQuery bool
}

// newScope makes the scope for the origin of the start page; via are the URLs that redirected to it.
func newScope(start *url.URL, via []*url.URL, cfg Config) *scope {
	s := &scope{origin: start, aliases: map[string]bool{}, ignoreQuery: cfg.IgnoreQuery}
	if cfg.PathPrefix != "" {
		s.prefix = canonicalPath(cfg.PathPrefix)
	}
	for _, u := range via {
		s.aliases[originOf(u)] = true
	}
	if start.Scheme == "https" && start.Port() == "" {
		s.aliases["http://"+start.Host] = true
	}
	return s
}

// resolve returns the canonical URL of ref on a page at base, and whether the scope covers it.
func (s *scope) resolve(base *url.URL, ref string) (*url.URL, bool) {
	u, err := canonical(base, ref, s.ignoreQuery)
	if err != nil {
		return nil, false
	}
	return s.admit(u)
}

// admit moves a canonical URL of an alias to the scope's origin, and tells whether the scope covers it.
func (s *scope) admit(u *url.URL) (*url.URL, bool) {
	if originOf(u) != originOf(s.origin) {
		if !s.aliases[originOf(u)] {
			return u, false
		}
		moved := *u
		moved.Scheme, moved.Host = s.origin.Scheme, s.origin.Host
		u = &moved
	}
	return u, below(u.EscapedPath(), s.prefix) && len(u.String()) <= maxSourceIDBytes
}

func originOf(u *url.URL) string { return u.Scheme + "://" + u.Host }

// sameSite tells whether the start page may redirect from one origin to another: the same registrable domain on default ports
// (www and back, http to https), or the same host and port, or the same host where http becomes https. It never allows https to
// http: anybody between could then choose the site.
func sameSite(from, to *url.URL) bool {
	if from.Scheme == "https" && to.Scheme == "http" {
		return false
	}
	if from.Hostname() == to.Hostname() {
		return from.Scheme != to.Scheme || from.Port() == to.Port()
	}
	if from.Port() != "" || to.Port() != "" || isIP(from.Hostname()) || isIP(to.Hostname()) {
		return false
	}
	a, errA := publicsuffix.EffectiveTLDPlusOne(from.Hostname())
	b, errB := publicsuffix.EffectiveTLDPlusOne(to.Hostname())
	return errA == nil && errB == nil && strings.EqualFold(a, b)
}

func isIP(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}
