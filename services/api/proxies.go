package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

const (
	trustedSetting   = "API_TRUSTED_PROXIES"
	headerForwarded  = "X-Forwarded-For"
	maxForwardedHops = 32
	maxForwardedHop  = 64
)

// proxies are the networks whose word on where a request comes from is believed.
type proxies []netip.Prefix

// trustedProxies reads the setting. It returns every problem at once.
func trustedProxies(texts []string) (proxies, error) {
	var trusted proxies
	var problems []error
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("%s: %q is not a network such as 10.1.0.0/16: of one address write 10.1.2.3/32", trustedSetting, text))
		case prefix != prefix.Masked():
			problems = append(problems, fmt.Errorf("%s: %q names an address within a network: write %s, or its /%d alone", trustedSetting, text, prefix.Masked(), prefix.Addr().BitLen()))
		case prefix.Addr().Is4In6():
			problems = append(problems, fmt.Errorf("%s: %q is IPv4 as IPv6 spells it: write it as IPv4", trustedSetting, text))
		case prefix.Bits() == 0:
			problems = append(problems, fmt.Errorf("%s: %q is everybody, who could then call themselves as they like: name the proxies' networks", trustedSetting, text))
		default:
			trusted = append(trusted, prefix)
		}
	}
	return trusted, errors.Join(problems...)
}

func (p proxies) trust(a netip.Addr) bool {
	for _, prefix := range p {
		if prefix.Contains(a) {
			return true
		}
	}
	return false
}

// client is where a request comes from, as http.Request has it in RemoteAddr. What a trusted proxy has written at the end of
// X-Forwarded-For is believed, and what stands before that as far as it was a trusted proxy that wrote it: the last address that is
// none of theirs. What a client writes there itself stands before that.
func (p proxies) client(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !p.trust(plain(peer.Addr())) {
		return r.RemoteAddr
	}
	believed, hops := plain(peer.Addr()), 0
	lines := r.Header.Values(headerForwarded)
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; hops++ {
			comma := strings.LastIndexByte(rest, ',')
			hop, known := hopAddr(rest[comma+1:])
			if !known || hops == maxForwardedHops {
				return netip.AddrPortFrom(believed, 0).String()
			}
			if believed = hop; !p.trust(hop) {
				return netip.AddrPortFrom(hop, 0).String()
			}
			if more = comma >= 0; more {
				rest = rest[:comma]
			}
		}
	}
	return netip.AddrPortFrom(believed, 0).String()
}

// hopAddr reads one entry, which some proxies write with a port, or IPv6 in brackets.
func hopAddr(text string) (netip.Addr, bool) {
	if text = strings.TrimSpace(text); len(text) > maxForwardedHop {
		return netip.Addr{}, false
	}
	if at, err := netip.ParseAddrPort(text); err == nil {
		return plain(at.Addr()), true
	}
	if inside, found := strings.CutPrefix(text, "["); found {
		if text, found = strings.CutSuffix(inside, "]"); !found {
			return netip.Addr{}, false
		}
	}
	a, err := netip.ParseAddr(text)
	return plain(a), err == nil
}

// plain is an address as networks are compared with it.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
