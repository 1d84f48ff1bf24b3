// Package natsserver runs a real nats-server with JetStream inside this process, on loopback, with file storage.
package natsserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	startTimeout = 10 * time.Second
	stopTimeout  = 10 * time.Second
	user         = "echomind"
)

// Config says where a server keeps its streams.
type Config struct {
	// Dir holds the streams, the password and the port of the last time. It is made if missing.
	Dir string
	// Volatile leaves out syncing to disk; for tests alone.
	Volatile bool
}

// Server is a running nats-server.
type Server struct {
	config   Config
	password string
	port     int
	server   *server.Server
}

// Start runs a server and waits until it takes connections.
func Start(cfg Config) (*Server, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make %s: %w", cfg.Dir, err)
	}
	password, err := remember(filepath.Join(cfg.Dir, "password"), rand.Text)
	if err != nil {
		return nil, err
	}
	s := &Server{config: cfg, password: password}
	if err := s.start(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) start() error {
	portFile := filepath.Join(s.config.Dir, "port")
	port, err := strconv.Atoi(mustRead(portFile))
	if err != nil || !isFree(port) {
		port = server.RANDOM_PORT
	}
	s.server, err = server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, ServerName: "echomind", JetStream: true, StoreDir: filepath.Join(s.config.Dir, "store"),
		NoSigs: true, NoLog: true, Username: user, Password: s.password, DontListen: false,
		MaxPayload: 1 << 20, SyncAlways: false,
	})
	if err != nil {
		return fmt.Errorf("make a nats-server: %w", err)
	}
	go s.server.Start()
	if !s.server.ReadyForConnections(startTimeout) {
		s.server.Shutdown()
		return fmt.Errorf("natsserver.start: no answer within %s", startTimeout)
	}
	if s.server.JetStreamEnabled() {
		s.port = s.server.Addr().(*net.TCPAddr).Port
		return os.WriteFile(portFile, []byte(strconv.Itoa(s.port)), 0o600)
	}
	s.server.Shutdown()
	return errors.New("nats-server started without JetStream")
}

// URL connects to the server.
func (s *Server) URL() string {
	u := url.URL{
		Scheme: "nats", User: url.UserPassword(user, s.password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
	}
	return u.String()
}

// Stop shuts the server down; what streams hold stays on disk.
func (s *Server) Stop(ctx context.Context) error {
	s.server.Shutdown()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.server.WaitForShutdown()
	}()
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop nats-server: %w", ctx.Err())
	case <-time.After(stopTimeout):
		return fmt.Errorf("natsserver.stop: no answer within %s", stopTimeout)
	}
}

// Restart starts a stopped server again on the same port, with the streams it had or, wiped, without any.
func (s *Server) Restart(wiped bool) error {
	if wiped {
		if err := os.RemoveAll(filepath.Join(s.config.Dir, "store")); err != nil {
			return fmt.Errorf("wipe the streams: %w", err)
		}
	}
	return s.start()
}

func remember(file string, make_ func() string) (string, error) {
	if kept := mustRead(file); kept != "" {
		return kept, nil
	}
	value := make_()
	if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("keep %s: %w", file, err)
	}
	return value, nil
}

// mustRead is a small file's content, "" where there is none.
func mustRead(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func isFree(port int) bool {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}
