package guard

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// MaxHeaderBytes bounds a response's header. Decoded it takes up to fifteen times as much memory, which no Room counts.
const MaxHeaderBytes = 64 << 10

// TransportConfig tunes the connections that Transport makes. Zero fields take their defaults.
type TransportConfig struct {
	// Resolver turns names into addresses. Default: the system's.
	Resolver *net.Resolver
	// DialTimeout bounds name resolution and TCP connect together. Default: 10 s.
	DialTimeout time.Duration
	// TLSTimeout bounds the TLS handshake. Default: 10 s.
	TLSTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept. Default: 30 s.
	IdleTimeout time.Duration
}

// Transport returns an HTTP transport whose every connection passes the guard. It ignores the proxy
// settings of the environment: through a proxy the guard would see the proxy's address only.
// The caller closes its idle connections.
func (g *Guard) Transport(cfg TransportConfig) *http.Transport {
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            g.named(g.Dialer(cfg)),
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    or(cfg.TLSTimeout, 10*time.Second),
		IdleConnTimeout:        or(cfg.IdleTimeout, 30*time.Second),
		MaxResponseHeaderBytes: MaxHeaderBytes,
		MaxIdleConnsPerHost:    8,
		MaxIdleConns:           64,
	}
}

// Dialer returns a dialer that checks each address after name resolution, just before connecting. Its
// errors match ErrBlocked where the guard refused.
func (g *Guard) Dialer(cfg TransportConfig) *net.Dialer {
	return &net.Dialer{
		Timeout:        or(cfg.DialTimeout, 10*time.Second),
		Resolver:       cfg.Resolver,
		ControlContext: g.control,
	}
}

func (g *Guard) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%w: network %s instead of TCP", ErrBlocked, network)
	}
	resolved, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: reading resolved address %q: %w", ErrBlocked, address, err)
	}
	return g.Check(resolved.Addr())
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
