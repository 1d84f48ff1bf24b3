// Package loopback chooses ports for servers that only this machine may reach.
package loopback

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Host is the address on which the embedded servers listen.
const Host = "127.0.0.1"

// Chosen ports lie below the range of outgoing connections (from 32768 on Linux, 49152 on macOS). Inside that range a client
// that reconnects while its server restarts may be given the server's own port and connect to itself, which keeps the server
// from coming back.
const (
	lowest   = 20000
	highest  = 32000
	attempts = 100
)

// given are the ports that this process has chosen before: a free port may be meant for a server that starts later.
var given sync.Map

// ErrNoPort means that no free port was found.
var ErrNoPort = errors.New("no free port on " + Host)

// Port returns preferred where it is free, else another free port. preferred 0 = any.
func Port(preferred int) (int, error) {
	if preferred > 0 && Free(preferred) {
		return preferred, nil
	}
	for range attempts {
		port := lowest + rand.IntN(highest-lowest)
		if _, before := given.LoadOrStore(port, true); !before && Free(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("%w between %d and %d", ErrNoPort, lowest, highest)
}

// Free says whether a server could listen on port now.
func Free(port int) bool {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", Address(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// Address is host:port.
func Address(port int) string { return net.JoinHostPort(Host, strconv.Itoa(port)) }
