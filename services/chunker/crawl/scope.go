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
	// aliases are origins that are the same site by the site's own word: the ones its start page
	// redirected from, and plain http beside https.
	aliases     map[string]bool
	prefix      string
	ignoreQuery bool
}

// newScope covers the origin that the start page was found on; via are the URLs that led there.
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

// resolve returns the canonical URL that ref stands for on a page at base, and whether it is covered.
func (s *scope) resolve(base *url.URL, ref string) (*url.URL, bool) {
	u, err := canonical(base, ref, s.ignoreQuery)
	if err != nil {
		return nil, false
	}
	return s.admit(u)
}

// admit moves a canonical URL of an alias to the scope's origin, and tells whether it is covered.
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

// sameSite tells whether the start page may redirect from one origin to another: the same registrable
// domain on default ports (www and back, http to https), or the same host and port, or the same host where
// http becomes https. Never from https down to http: that would let anybody on the way choose the site.
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
