package world

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/internal/devstack/loopback"
)

// NATS is a nats-server in a process of its own.
type NATS struct {
	server
	dir  string
	port int
}

func newNATS(path, dir string, log io.Writer) (*NATS, error) {
	port, err := loopback.Port(0)
	if err != nil {
		return nil, fmt.Errorf("find a port for nats-server: %w", err)
	}
	args := []string{"-js", "-sd", dir, "-a", loopback.Host, "-p", strconv.Itoa(port)}
	return &NATS{server: server{name: "nats-server", path: path, args: args, log: log}, dir: dir, port: port}, nil
}

// Addr is where the server listens, host:port.
func (n *NATS) Addr() string { return loopback.Address(n.port) }

// URL is how to connect without a proxy.
func (n *NATS) URL() string { return "nats://" + n.Addr() }

// Start starts the server and returns when JetStream answers.
func (n *NATS) Start(ctx context.Context) error { return n.start(ctx, n.answers) }

func (n *NATS) answers(ctx context.Context) error {
	conn, err := nats.Connect(n.URL(), nats.Timeout(time.Second))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = js.AccountInfo(ctx)
	return err
}

// Wipe removes everything that a killed server has stored.
func (n *NATS) Wipe() error {
	if err := os.RemoveAll(filepath.Join(n.dir, "jetstream")); err != nil {
		return fmt.Errorf("wipe the streams: %w", err)
	}
	return nil
}
