package api

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/testkit"
)

// server holds 10 connections, and answers 204 once a request is read.
func server(t *testing.T) string {
	t.Helper()
	address, _ := serverWith(t)
	return address
}

// serverWith has its places, too.
func serverWith(t *testing.T) (string, *boundedListener) {
	t.Helper()
	listener, err := Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	places := bounded(listener, 10)
	s := &http.Server{ConnState: places.note, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = r.Body.Read(make([]byte, 1))
		w.WriteHeader(http.StatusNoContent)
	})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(places) }()
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		places.mu.Lock()
		defer places.mu.Unlock()
		require.Empty(t, places.held, "no place is lost")
	})
	return listener.Addr().String(), places
}

// rests waits until no request is under way: an answer comes before the server has noted that it is over.
func (l *boundedListener) rests(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for c := range l.open {
			if c.isActive {
				return errors.New("a request is under way")
			}
		}
		return nil
	})
}

// from connects from an address of this machine.
func from(t *testing.T, address, to string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).DialContext(context.WithoutCancel(t.Context()), "tcp", to)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return conn
}

func asks(conn net.Conn) error {
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		return err
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	return r.Body.Close()
}

const stranger, honest, other = "127.0.0.2", "127.0.0.1", "127.0.0.3"

// A client that lets connections idle, says nothing on them, or sends a body that never comes, keeps nobody of another network out.
func TestPlacesThatOneNetworkHoldsAreThereForOthers(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(net.Conn) error{
		"idle":   asks,
		"silent": func(net.Conn) error { return nil },
		"slow": func(c net.Conn) error {
			_, err := c.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := server(t)
			kept := from(t, honest, to)
			require.NoError(t, asks(kept))
			for range 30 {
				_ = hold(from(t, stranger, to)) // closed, where there is no place
			}
			for range 3 {
				require.NoError(t, asks(from(t, other, to)), "a new one of another network")
			}
			require.NoError(t, asks(kept), "what another network has had for long")
		})
	}
}

// Of one network, a proxy's, a new one has the place of what has been idle for longest.
func TestANewConnectionHasThePlaceOfWhatIsIdleForLongest(t *testing.T) {
	t.Parallel()
	to, places := serverWith(t)
	var all []net.Conn
	for range 11 {
		all = append(all, from(t, honest, to))
		require.NoError(t, asks(all[len(all)-1]))
		places.rests(t)
	}
	require.Error(t, asks(all[0]))
	require.NoError(t, asks(all[1]))
}
