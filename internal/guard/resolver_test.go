package guard_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/guard"
)

func TestANameThatCannotBeLookedUpTellsNothingOfTheResolverOrOfThisMachine(t *testing.T) {
	closed, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	dials := map[string]func(ctx context.Context) (net.Conn, error){
		"refused": func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "udp", closed.LocalAddr().String())
		},
		"silent": func(context.Context) (net.Conn, error) {
			return nil, &net.OpError{Op: "read", Net: "udp", Source: closed.LocalAddr(), Addr: closed.LocalAddr(), Err: os.ErrDeadlineExceeded}
		},
		"waiting": func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Net: "udp", Source: closed.LocalAddr(), Addr: closed.LocalAddr(), Err: ctx.Err()}
		},
	}
	for name, dial := range dials {
		resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
		transport := guard.New("CHUNKER_ALLOW_CIDRS", nil).Transport(guard.TransportConfig{Resolver: resolver, DialTimeout: 200 * time.Millisecond})
		for _, within := range []time.Duration{time.Minute, 50 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			_, err := transport.DialContext(ctx, "tcp", "slow.attacker.example:80")
			cancel()
			require.ErrorContains(t, err, `"slow.attacker.example"`, name)
			require.NotContains(t, err.Error(), "127.0.0.1", name)
		}
		client := http.Client{Transport: transport}
		resp, err := client.Get("http://slow.attacker.example/")
		if err == nil {
			_ = resp.Body.Close()
		}
		require.ErrorContains(t, err, "slow.attacker.example", name)
		require.NotContains(t, err.Error(), "127.0.0.1", name)
		transport.CloseIdleConnections()
	}
}
