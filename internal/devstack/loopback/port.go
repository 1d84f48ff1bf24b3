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

// Host is where the embedded servers listen.
const Host = "127.0.0.1"

// Chosen ports lie below the range from which outgoing connections take theirs (from 32768 on Linux, 49152 on
// macOS). Inside it a client that calls again and again while its server restarts may be given the server's own port
// and connect to itself, which keeps the server from coming back.
const (
	lowest   = 20000
	highest  = 32000
	attempts = 100
)

// given are the ports that this process has chosen before: one that is free may be meant for a server that starts later.
var given sync.Map

// ErrNoPort means that no port was found free.
var ErrNoPort = errors.New("no free port on " + Host)

// Port is preferred where that is free, else another free one. preferred 0 = any.
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
