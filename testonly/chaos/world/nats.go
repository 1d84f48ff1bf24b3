package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/internal/devstack/loopback"
	"github.com/echomind/sync/internal/streams"
)

const (
	clusterName = "echomind"
	// clusterSize is how many servers a cluster has, and on how many of them each stream is kept.
	clusterSize = 3
)

// NATS is what the programs know as NATS: one nats-server, or a cluster of three. Each is a process of its own.
type NATS struct {
	Servers []*NATSServer
	users   *Users // nil where everybody may do anything
}

// NATSServer is one nats-server.
type NATSServer struct {
	server
	dir, clock string
	port       int
	// monitor is where one of a cluster says whether it is healthy.
	monitor int
	users   *Users
}

// newNATS prepares the servers. Those of a cluster do not tell clients of each other: a client would go past its proxies.
func newNATS(path, dir string, size int, users *Users, log io.Writer) (*NATS, error) {
	const client, route, monitor = 0, 1, 2
	ports := make([][3]int, size)
	var routes []string
	for i := range ports {
		for use := range ports[i] {
			var err error
			if ports[i][use], err = loopback.Port(0); err != nil {
				return nil, fmt.Errorf("find a port for nats-server: %w", err)
			}
		}
		routes = append(routes, "nats://"+loopback.Address(ports[i][route]))
	}
	n := &NATS{users: users}
	for i := range size {
		name := fmt.Sprint("nats-", i)
		s := &NATSServer{dir: filepath.Join(dir, name), clock: filepath.Join(dir, name+".clock"), port: ports[i][client], monitor: ports[i][monitor], users: users}
		if err := os.MkdirAll(s.dir, 0o755); err != nil {
			return nil, fmt.Errorf("make a folder for %s: %w", name, err)
		}
		args := []string{"-js", "-sd", s.dir, "-a", loopback.Host, "-p", strconv.Itoa(s.port), "-n", name}
		if size > 1 {
			args = append(args, "--cluster_name", clusterName, "--cluster", "nats://"+loopback.Address(ports[i][route]),
				"--routes", strings.Join(routes, ","), "--no_advertise", "-m", strconv.Itoa(s.monitor))
		}
		env := []string{"CHAOS_CLOCK_FILE=" + s.clock}
		if users != nil {
			args, env = append(args, "-c", users.file), append(env, users.env...)
		}
		s.server = server{name: name, path: path, args: args, env: env, log: log}
		n.Servers = append(n.Servers, s)
	}
	return n, nil
}

// Name is what the server is called in its cluster.
func (s *NATSServer) Name() string { return s.name }

// Addr is where the server listens, host:port.
func (s *NATSServer) Addr() string { return loopback.Address(s.port) }

// SetClock makes the server's clock differ from the machine's; it notices within a tenth of a second.
func (s *NATSServer) SetClock(by time.Duration) error {
	said := s.clock + ".new" // nobody reads half of it
	err := os.WriteFile(said, fmt.Appendf(nil, "%d", int(by.Seconds())), 0o644)
	if err == nil {
		err = os.Rename(said, s.clock)
	}
	if err != nil {
		return fmt.Errorf("set the clock of %s: %w", s.name, err)
	}
	return nil
}

// URL is how the harness connects, without a proxy.
func (n *NATS) URL() string { return n.URLOf(harness) }

// URLOf is how one of the users connects, without a proxy.
func (n *NATS) URLOf(user string) string {
	var all []string
	for _, s := range n.Servers {
		all = append(all, "nats://"+n.users.as(user)+s.Addr())
	}
	return strings.Join(all, ",")
}

// Start starts the servers and returns when JetStream answers.
func (n *NATS) Start(ctx context.Context) error { return n.StartSome(ctx, n.Servers...) }

// StartSome starts some of the servers and returns when JetStream answers on each of them.
func (n *NATS) StartSome(ctx context.Context, some ...*NATSServer) error {
	for _, s := range some {
		if err := s.spawn(); err != nil {
			return err
		}
	}
	for _, s := range some {
		if err := s.await(ctx, s.answers); err != nil {
			return err
		}
	}
	return nil
}

// Kill ends all of them without a word.
func (n *NATS) Kill() {
	for _, s := range n.Servers {
		s.Kill()
	}
}

func (s *NATSServer) answers(ctx context.Context) error {
	conn, err := nats.Connect("nats://"+s.users.as(harness)+s.Addr(), nats.Timeout(time.Second))
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

// Wipe removes everything that killed servers have stored.
func (n *NATS) Wipe() error {
	for _, s := range n.Servers {
		if err := os.RemoveAll(filepath.Join(s.dir, "jetstream")); err != nil {
			return fmt.Errorf("wipe the streams: %w", err)
		}
	}
	return nil
}

// replicate makes the streams, each on every server, and returns when all of them have everything.
func (w *World) replicate(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, serverStartTimeout, fmt.Errorf("world.replicate: no streams within %s", serverStartTimeout))
	defer cancel()
	for {
		err := streams.Apply(ctx, w.Stream, streams.Size{Replicas: clusterSize})
		if err == nil {
			err = w.replicated(ctx)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(serverPoll):
		}
	}
}

func (w *World) replicated(ctx context.Context) error {
	all, err := streams.Inspect(ctx, w.Stream)
	if err != nil {
		return err
	}
	for name, s := range all {
		if s.Info == nil || s.Info.Cluster == nil || len(s.Info.Cluster.Replicas) != clusterSize-1 {
			return fmt.Errorf("stream %s is not on %d servers", name, clusterSize)
		}
		for _, r := range s.Info.Cluster.Replicas {
			if !r.Current {
				return fmt.Errorf("stream %s: %s is behind", name, r.Name)
			}
		}
	}
	for _, s := range w.NATS.Servers {
		if err := s.healthy(ctx); err != nil {
			return err
		}
	}
	return nil
}

// healthy asks a server of a cluster whether it has all of its streams. A replica that is current by the leader's account has the leader's log, and may still
// fetch what a snapshot in it has stood for: if it is elected before it has that, the streams have lost it.
func (s *NATSServer) healthy(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+loopback.Address(s.monitor)+"/healthz", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return fmt.Errorf("%s is not healthy: %s", s.name, said)
	}
	return nil
}

// Replicated waits until every server has everything that the streams hold.
func (w *World) Replicated(ctx context.Context) error {
	for {
		asking, cancel := context.WithTimeout(ctx, readyTimeout)
		err := w.replicated(asking)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(serverPoll):
		}
	}
}

// Leader is the server that leads a stream, and the others.
func (w *World) Leader(ctx context.Context, stream string) (leader *NATSServer, others []*NATSServer, err error) {
	s, err := w.Stream.Stream(ctx, stream)
	if err != nil {
		return nil, nil, fmt.Errorf("ask who leads %s: %w", stream, err)
	}
	info := s.CachedInfo()
	for _, one := range w.NATS.Servers {
		if info.Cluster != nil && one.name == info.Cluster.Leader {
			leader = one
		} else {
			others = append(others, one)
		}
	}
	if leader == nil {
		return nil, nil, fmt.Errorf("nobody leads %s", stream)
	}
	return leader, others, nil
}
