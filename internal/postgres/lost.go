package postgres

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// connectionLost says whether a connection broke during a query: whether the query took effect is unknown.
func connectionLost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNREFUSED)
}
