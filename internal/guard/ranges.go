package guard

import "net/netip"

// named is a range that is not the public internet, and its name for people.
type named struct {
	prefix netip.Prefix
	reason string
}

// ranges follows the IANA special-purpose address registries (RFC 6890). The first match gives the reason.
var ranges = []named{
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified, RFC 1122"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private, RFC 1918"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared address space of carriers, RFC 6598"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local, where cloud metadata lives, RFC 3927"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private, RFC 1918"},
	{netip.MustParsePrefix("192.0.0.0/24"), "protocol assignments, RFC 6890"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation, RFC 5737"},
	{netip.MustParsePrefix("192.88.99.0/24"), "6to4 relay, RFC 7526"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private, RFC 1918"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking, RFC 2544"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation, RFC 5737"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation, RFC 5737"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved, RFC 1112"},
	// A public address that only the host of a virtual machine answers.
	{netip.MustParsePrefix("168.63.129.16/32"), "Azure's metadata service"},

	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("fc00::/7"), "private, RFC 4193"},
	{netip.MustParsePrefix("fe80::/10"), "link-local, RFC 4291"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "NAT64 for local use, RFC 8215"},
	{netip.MustParsePrefix("2001::/32"), "Teredo, RFC 4380"},
	{netip.MustParsePrefix("2001::/23"), "protocol assignments, RFC 2928"},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation, RFC 3849"},
	{netip.MustParsePrefix("3fff::/20"), "documentation, RFC 9637"},
}

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")
	nat64         = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour     = netip.MustParsePrefix("2002::/16")
)

// reserved returns why addr is not the public internet, or "" if it is.
func reserved(addr netip.Addr) string {
	if !addr.IsValid() {
		return "not an address"
	}
	for _, r := range ranges {
		if r.prefix.Contains(addr) {
			return r.reason
		}
	}
	if addr.Is6() && !globalUnicast.Contains(addr) {
		return "outside global unicast, RFC 4291"
	}
	return ""
}

// embedded returns the IPv4 address that addr is translated or tunnelled to.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	b := addr.As16()
	switch {
	case nat64.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}
