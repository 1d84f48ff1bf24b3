package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// NameError says that a name leads to no allowed address. It does not say whether the name exists: the author of a connector
// could otherwise ask for the names of the private network, one by one.
type NameError struct {
	Name    string
	Setting string
	// Blocked says that the name has an address, which is not allowed. It is for a metric, and not shown to people.
	Blocked bool
}

// Error names the name and the setting to change.
func (e *NameError) Error() string {
	return fmt.Sprintf("%q has no public address: correct the name, or add its private address to %s if this service may connect to it",
		e.Name, e.Setting)
}

type dial = func(ctx context.Context, network, address string) (net.Conn, error)

// named is a dialer whose errors do not reveal what private names resolve to. An address that was given in place of a name is
// no secret.
func (g *Guard) named(d *net.Dialer) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		host, _, split := net.SplitHostPort(address)
		if err == nil || split != nil {
			return conn, err
		}
		if _, literal := netip.ParseAddr(host); literal == nil {
			return nil, err
		}
		var lookup *net.DNSError
		switch blocked := errors.Is(err, ErrBlocked); {
		case blocked, errors.As(err, &lookup) && lookup.IsNotFound:
			return nil, &NameError{Name: host, Setting: g.setting, Blocked: blocked}
		case lookup != nil && ctx.Err() != nil:
			return nil, fmt.Errorf("look up %q: %w", host, ctx.Err())
		case lookup != nil:
			// The resolver's error text holds its own address and this service's.
			return nil, fmt.Errorf("%q cannot be looked up now; it is tried again", host)
		}
		return nil, err
	}
}
