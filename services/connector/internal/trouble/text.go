// Package trouble says in plain words why a request got no answer.
package trouble

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// Text says why a request got no answer, in words that are the same for the same problem: errors of the network name ports, streams
// and bytes, and a failure with another text would be written again at every sync.
func Text(err error) string {
	var timeout interface{ Timeout() bool }
	var unknown *net.DNSError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer came in time"
	case errors.As(err, &unknown):
		return "the host was not found"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused"
	}
	return "the connection broke off"
}
