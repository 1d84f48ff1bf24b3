package trouble_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/internal/trouble"
)

func TestTheSameTroubleHasTheSameText(t *testing.T) {
	failed := func(port int, why error) error {
		from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
		return fmt.Errorf("download: %w", &net.OpError{Op: "read", Net: "tcp", Source: from, Err: why})
	}
	for want, of := range map[string]func(n int) error{
		"no answer came in time":     func(n int) error { return failed(n, os.ErrDeadlineExceeded) },
		"the connection was refused": func(n int) error { return failed(n, syscall.ECONNREFUSED) },
		"the connection broke off":   func(n int) error { return failed(n, syscall.ECONNRESET) },
		"the host was not found":     func(n int) error { return failed(n, &net.DNSError{Err: fmt.Sprint("try ", n)}) },
	} {
		require.Equal(t, want, trouble.Text(of(1)))
		require.Equal(t, want, trouble.Text(of(2)))
	}
	require.Equal(t, "no answer came in time", trouble.Text(fmt.Errorf("ask: %w", context.DeadlineExceeded)))
	for n := range 2 {
		require.Equal(t, "the connection broke off", trouble.Text(fmt.Errorf("after %d bytes: %w", n, io.ErrUnexpectedEOF)))
		require.Equal(t, "the connection broke off", trouble.Text(errors.New(fmt.Sprint("stream error: stream ID ", n))))
	}
}
