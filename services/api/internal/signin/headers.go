package signin

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Headers finds out whom a proxy has signed in; false: it has nobody. They count from the networks of its proxies alone. peer is who has connected, not who it is said to be.
func (w *Ways) Headers(r *http.Request, peer string) (Said, bool, error) {
	if len(w.networks) == 0 {
		return Said{}, false, nil
	}
	c := w.config
	has := false
	for _, name := range []string{c.UserHeader, c.UserIDHeader, c.GroupsHeader, c.RolesHeader} {
		has = has || name != "" && len(r.Header.Values(name)) > 0
	}
	switch {
	case !has:
		return Said{}, false, nil
	case !w.believes(peer):
		return Said{}, false, Refused("The request has headers that say who somebody is, and comes from where these are not believed.")
	case len(r.Header.Values(c.UserHeader)) == 0:
		return Said{}, false, Refused("The proxy's headers do not say who it is.")
	}
	s, err := w.headers(r)
	return s, err == nil, err
}

func (w *Ways) believes(peer string) bool {
	at, err := netip.ParseAddrPort(peer)
	if err != nil {
		return false
	}
	address := at.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(w.networks, func(n netip.Prefix) bool {
		return n.Contains(address) || n.Addr().Is4In6() && n.Contains(netip.AddrFrom16(address.As16()))
	})
}

func (w *Ways) headers(r *http.Request) (s Said, err error) {
	c := w.config
	for _, name := range []string{c.UserHeader, c.UserIDHeader, c.GroupsHeader, c.RolesHeader} {
		if name != "" && len(r.Header.Values(name)) > 1 {
			return s, Refused("One of the proxy's headers is there twice.")
		}
	}
	s.Issuer, s.Subject, s.Scopes = "header:"+strings.ToLower(c.UserHeader), r.Header.Get(c.UserHeader), w.scopes
	if !isSubject(s.Subject) {
		return s, Refused("The proxy's headers do not say who it is, in 1 to 255 bytes.")
	}
	if c.UserIDHeader != "" {
		if s.Named, err = named(r.Header.Get(c.UserIDHeader)); err != nil {
			return s, err
		}
	}
	if c.RolesHeader != "" {
		s.Role = w.role(w.values(r.Header.Get(c.RolesHeader)))
	}
	if c.GroupsHeader != "" {
		s.Groups, s.Leads = w.ours(w.values(r.Header.Get(c.GroupsHeader)))
	}
	return s, nil
}

func (w *Ways) values(header string) []string {
	values := strings.Split(header, w.config.Separator)
	for i, value := range values {
		values[i] = strings.TrimSpace(value)
	}
	return slices.DeleteFunc(values, func(value string) bool { return value == "" })
}
