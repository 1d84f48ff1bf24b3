// Package trouble says in plain words why no answer came.
package trouble

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// Text says why no answer came, in words that are the same whenever the same thing happens: what goes over the network names ports,
// streams and bytes, and a failure whose text differs is written again at every sync.
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
