// Package natsserver runs a real nats-server with JetStream inside this process: file storage, 127.0.0.1 only, with
// credentials of its own.
//
//	<Dir>/server.json   the password and the last port (0600)
//	<Dir>/store/        the streams
//	<Dir>/lock          held while the server runs
package natsserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/echomind/sync/internal/devstack/datadir"
	"github.com/echomind/sync/internal/devstack/loopback"
)

const (
	startTimeout   = 30 * time.Second
	readyPoll      = 100 * time.Millisecond
	stopTimeout    = 20 * time.Second
	neverSync      = 365 * 24 * time.Hour
	launchAttempts = 5
	defaultUser    = "echomind"
	maxMemory      = 256 << 20
)

var (
	// ErrInUse means that another process runs a server on the same folder. The error names it.
	ErrInUse = errors.New("the NATS folder is in use")
	// ErrRefused means that the server ended while it started; the error has its last message.
	ErrRefused = errors.New("nats-server did not start")
)

// Config is the configuration of a server.
type Config struct {
	// Dir is the server's folder: its streams, password and port. It is created. Required.
	Dir string
	// Port is the TCP port on 127.0.0.1; 0 = the port of the last start where it is free, else any.
	Port int
	// User and Password are the clients' credentials; default: "echomind", and a password made once and kept in Dir.
	User, Password string
	// MaxStore bounds the size of all streams, in bytes; default: the server's own, three quarters of the free disk.
	MaxStore int64
	// MaxPayload bounds one message, in bytes; default 1 MiB.
	MaxPayload int32
	// Volatile never syncs to disk; for tests only. Default: every two minutes, which is JetStream's own. In both cases a
	// message is acknowledged before it is synced.
	Volatile bool
	// Log gets the server's warnings and errors; default: none.
	Log *slog.Logger
}

// Server is a running nats-server.
type Server struct {
	cfg   Config
	state state

	// control is held while the server is started or stopped.
	control sync.Mutex
	claim   *datadir.Claim

	// current guards the fields below it.
	current sync.Mutex
	server  *server.Server
	done    chan struct{}
	// url is kept while the server is stopped: it will have the same again.
	url string
}

// Start runs a server on cfg.Dir and returns when it accepts connections and JetStream is up. It returns ErrInUse or
// ErrRefused, or an error that names its deadline.
func Start(cfg Config) (*Server, error) {
	cfg.User = cmp.Or(cfg.User, defaultUser)
	cfg.MaxPayload = cmp.Or(cfg.MaxPayload, 1<<20)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := datadir.Make(cfg.Dir); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg}
	if err := s.start(cfg.Port); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) start(port int) (err error) {
	if s.claim, err = datadir.Take(filepath.Join(s.cfg.Dir, "lock")); err != nil {
		var held *datadir.HeldError
		if errors.As(err, &held) {
			return fmt.Errorf("%w: %w", ErrInUse, err)
		}
		return err
	}
	if s.state, err = readState(s.cfg.Dir); err == nil {
		s.state.Password = cmp.Or(s.cfg.Password, s.state.Password)
		err = s.launch(port)
	}
	if err == nil {
		if err = s.state.write(s.cfg.Dir); err != nil {
			err = errors.Join(err, s.halt(context.Background()))
		}
	}
	if err != nil {
		return errors.Join(err, s.claim.Release())
	}
	return nil
}

// launch tries again where another process took the port meanwhile.
func (s *Server) launch(port int) error {
	for attempt := 1; ; attempt++ {
		chosen := port
		if chosen == 0 {
			var err error
			if chosen, err = loopback.Port(s.state.Port); err != nil {
				return err
			}
		}
		err := s.launchOn(chosen)
		if err == nil || attempt == launchAttempts || loopback.Free(chosen) {
			return err
		}
	}
}

func (s *Server) launchOn(port int) error {
	options := &server.Options{
		ServerName: "echomind", Host: loopback.Host, Port: port,
		CustomClientAuthentication: credentials{user: s.cfg.User, password: s.state.Password},
		JetStream:                  true, StoreDir: filepath.Join(s.cfg.Dir, "store"),
		JetStreamMaxStore: s.cfg.MaxStore, JetStreamMaxMemory: maxMemory,
		MaxPayload: s.cfg.MaxPayload,
		// Our program handles signals and the process's exit.
		NoSigs: true, DisableJetStreamBanner: true,
	}
	if s.cfg.Volatile {
		options.SyncInterval = neverSync
	}
	running, err := server.NewServer(options)
	if err != nil {
		return fmt.Errorf("configure nats-server: %w", err)
	}
	log := newLog(s.cfg.Log)
	running.SetLoggerV2(log, false, false, false)
	done := make(chan struct{})
	go func() {
		defer close(done)
		running.Start()
		running.WaitForShutdown()
	}()
	if err := awaitReady(running, log.fatal); err != nil {
		running.Shutdown()
		<-done
		return err
	}
	s.running(running, done, port)
	return nil
}

func awaitReady(running *server.Server, fatal <-chan string) error {
	for until := time.Now().Add(startTimeout); time.Now().Before(until); {
		ready := running.ReadyForConnections(readyPoll)
		select {
		case words := <-fatal:
			return fmt.Errorf("%w: %s", ErrRefused, words)
		default:
		}
		if ready && running.JetStreamEnabled() {
			return nil
		}
	}
	return fmt.Errorf("natsserver.ready: no answer within %s", startTimeout)
}

func (s *Server) running(running *server.Server, done chan struct{}, port int) {
	s.current.Lock()
	defer s.current.Unlock()
	s.state.Port = port
	s.server, s.done = running, done
	u := url.URL{
		Scheme: "nats", Host: loopback.Address(port), User: url.UserPassword(s.cfg.User, s.state.Password),
	}
	s.url = u.String()
}

// Stop shuts the server down and returns when it has ended, after 20 s at most; its streams stay on disk. It may be called
// again.
func (s *Server) Stop(ctx context.Context) error {
	s.control.Lock()
	defer s.control.Unlock()
	err := s.halt(ctx)
	if err != nil {
		// The server may still write: the folder stays claimed.
		return err
	}
	err = s.claim.Release()
	s.claim = nil
	return err
}

func (s *Server) halt(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stopTimeout,
		fmt.Errorf("natsserver.stop: no answer within %s", stopTimeout))
	defer cancel()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.server.Shutdown()
		<-s.done
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop nats-server: %w", context.Cause(ctx))
	}
}

// URL is the server's URL, with the password.
func (s *Server) URL() string {
	s.current.Lock()
	defer s.current.Unlock()
	return s.url
}

// Done is closed when the server has ended, by Stop or by itself. Restart makes a new channel.
func (s *Server) Done() <-chan struct{} {
	s.current.Lock()
	defer s.current.Unlock()
	return s.done
}
