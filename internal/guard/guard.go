// Package guard keeps outgoing connections out of the private network.
//
// A user's connector names a URL, and a name under that user's control may resolve to anything: a loopback service, a cloud's
// metadata endpoint, a database in the private network. The guard therefore checks the address that a socket is about to
// connect to, after name resolution and for every single connection. A name that changes its answer between check and use, a
// redirect, a literal in octal: all meet the same check.
package guard

import (
	"errors"
	"fmt"
	"net/netip"
)

// ErrBlocked is matched by every refused connection. Trying again does not help.
var ErrBlocked = errors.New("address refused")

// BlockedError says which address was refused and why. It matches ErrBlocked.
type BlockedError struct {
	// Addr is the resolved address.
	Addr netip.Addr
	// Reason names the range the address is in, e.g. "loopback".
	Reason string
	// Setting is the name of the setting that lists exceptions.
	Setting string
}

// Error names the address and the setting to change.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("address %s is refused (%s): add %s to %s if this service may connect to it",
		e.Addr, e.Reason, netip.PrefixFrom(e.Addr, e.Addr.BitLen()), e.Setting)
}

// Is makes errors.Is(err, ErrBlocked) true.
func (e *BlockedError) Is(target error) bool { return target == ErrBlocked }

// Guard decides which addresses may be connected to. Its zero value allows public addresses only.
// It is safe for concurrent use.
type Guard struct {
	setting string
	allow   []netip.Prefix
	// only: public addresses are exceptions as well.
	only bool
}

// New returns a guard that allows public addresses and those in allow. setting is the name of the setting that lists allow;
// error texts name it.
func New(setting string, allow []netip.Prefix) *Guard {
	g := &Guard{setting: setting}
	for _, p := range allow {
		g.allow = append(g.allow, unmapPrefix(p))
	}
	return g
}

// Only returns a guard that allows the addresses in allow and no others, public ones neither.
func Only(setting string, allow []netip.Prefix) *Guard {
	g := New(setting, allow)
	g.only = true
	return g
}

// Check returns nil if addr may be connected to, else a *BlockedError.
//
// Addresses that contain an IPv4 address (IPv4-mapped, RFC 4291; NAT64, RFC 6052; 6to4, RFC 3056) are judged by the IPv4
// address, because the packets end there.
func (g *Guard) Check(addr netip.Addr) error {
	addr = addr.WithZone("").Unmap()
	target := addr
	if inner, ok := embedded(addr); ok {
		target = inner
	}
	reason := reserved(target)
	if reason == "" && g.only {
		reason = "not listed"
	}
	if reason == "" {
		return nil
	}
	for _, p := range g.allow {
		if p.Contains(addr) || p.Contains(target) {
			return nil
		}
	}
	return &BlockedError{Addr: addr, Reason: reason, Setting: g.setting}
}

// Prefixes parses the ranges in a setting, and returns every problem at once.
func Prefixes(setting string, ranges []string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	var problems []error
	for _, text := range ranges {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %q is not a CIDR such as 10.1.0.0/16", setting, text))
			continue
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, errors.Join(problems...)
}

// unmapPrefix turns ::ffff:a.b.c.d/n into a.b.c.d/(n-96), since addresses are compared unmapped.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Masked()
	}
	return p.Masked()
}
