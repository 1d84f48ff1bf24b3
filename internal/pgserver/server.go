// Package pgserver runs a private Postgres cluster as a child process: created at the first start, reached over 127.0.0.1 with
// a password of its own, stopped with its owner, and complete again after any crash.
//
//	<Dir>/cluster.json   the password, the last port, where the cluster is (0600)
//	<Dir>/cluster/       the cluster; owned by an unprivileged user where we are root
//	<Dir>/postgres.log   what the server says
//	<Dir>/lock           held while the server runs
//
// What may happen, and the consequence:
//
//	we are killed                      Linux stops the server (SIGQUIT); elsewhere the next start does
//	a crash in the middle of initdb    the half-made cluster is removed by the next start
//	a stale postmaster.pid             removed, whatever process has its number now
//	root, and Dir cannot be reached    the cluster is kept in /var/lib/echomind/<hash of Dir>/postgres
//	the port is taken                  another is used, and remembered
package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/echomind/sync/internal/devstack/datadir"
	"github.com/echomind/sync/internal/devstack/loopback"
)

// killTimeout exceeds the five seconds that Postgres gives its backends.
const killTimeout = 10 * time.Second

// ErrInUse means that another process runs a server on the same folder. The error names it.
var ErrInUse = errors.New("the Postgres folder is in use")

// Server is a running Postgres server.
type Server struct {
	cfg     Config
	state   state
	cluster string
	id      identity
	// crashed says that the last server on the cluster left its pid file behind.
	crashed bool

	// control is held while the server is started or stopped.
	control sync.Mutex
	claims  []*datadir.Claim

	// current guards the fields below it.
	current   sync.Mutex
	process   *process
	logOffset int64
	stopped   bool
}

// Start runs a server on cfg.Dir and returns when it accepts connections; ctx bounds the start only. A leftover server on the
// folder is stopped first. It returns ErrNoBinaries, ErrNoUser, ErrInUse or ErrClusterGone, a *deadline.Error, or else an error
// with the end of the server's log.
func Start(ctx context.Context, cfg Config) (s *Server, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := datadir.Make(cfg.Dir); err != nil {
		return nil, err
	}
	// The name decides where the cluster is, so each folder must have one name only.
	if cfg.Dir, err = filepath.EvalSymlinks(cfg.Dir); err != nil {
		return nil, fmt.Errorf("resolve the server's folder: %w", err)
	}
	s = &Server{cfg: cfg}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) error {
	if err := s.claim(s.cfg.Dir); err != nil {
		return err
	}
	var known bool
	var err error
	if s.state, known, err = readState(s.cfg.Dir); err != nil {
		return err
	}
	if err := s.place(ctx); err != nil {
		return err
	}
	if err := s.reconcile(ctx, known); err != nil {
		return err
	}
	if err := s.initialise(ctx); err != nil {
		return err
	}
	return s.launch(ctx, s.cfg.Port)
}

// Restart stops the server and starts it again on the same port, so that clients reconnect.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(ctx); err != nil {
		return err
	}
	s.control.Lock()
	defer s.control.Unlock()
	err := s.claim(s.cfg.Dir)
	if err == nil && s.state.Elsewhere != "" {
		err = s.claim(filepath.Dir(s.cluster))
	}
	if err == nil {
		err = s.reconcile(ctx, true)
	}
	if err == nil {
		err = s.launch(ctx, s.state.Port)
	}
	if err != nil {
		return errors.Join(err, s.release())
	}
	return nil
}

// Stop ends the server: by a fast shutdown as long as ctx allows, at most 15 s, then an immediate one, then a kill. It returns
// once the server has ended, within 28 s in all, and may be called again.
func (s *Server) Stop(ctx context.Context) error {
	s.control.Lock()
	defer s.control.Unlock()
	s.current.Lock()
	s.stopped = true
	running := s.process
	s.current.Unlock()
	err := end(ctx, s.cfg.Log, running.handle, running.ended)
	return errors.Join(err, s.release())
}

// Kill ends the server as a crash would: the state file does not record it, and Err reports it. Clients are cut off at once.
func (s *Server) Kill() error {
	s.control.Lock()
	defer s.control.Unlock()
	s.current.Lock()
	running := s.process
	s.current.Unlock()
	if err := running.handle.Signal(syscall.SIGQUIT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill postgres: %w", err)
	}
	wait, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	if !running.ended(wait) {
		return fmt.Errorf("pgserver.kill: no end within %s", killTimeout)
	}
	return nil
}

// URL is the server's URL, with the password.
func (s *Server) URL() string { return s.DatabaseURL(s.cfg.Database) }

// DatabaseURL is the URL of another database of the cluster.
func (s *Server) DatabaseURL(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, s.state.Password),
		Host: loopback.Address(s.state.Port), Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Dir is the folder of the cluster, which is not below Config.Dir where the server's user cannot reach that.
func (s *Server) Dir() string { return s.cluster }

// PID is the process id of the server.
func (s *Server) PID() int {
	s.current.Lock()
	defer s.current.Unlock()
	return s.process.handle.Pid
}

// Done is closed when the server has ended, by Stop or by itself. Restart makes a new channel.
func (s *Server) Done() <-chan struct{} {
	s.current.Lock()
	defer s.current.Unlock()
	return s.process.done
}

// Err says how the server ended by itself, with the end of its log; nil while it runs and after Stop.
func (s *Server) Err() error {
	s.current.Lock()
	defer s.current.Unlock()
	select {
	case <-s.process.done:
	default:
		return nil
	}
	if s.stopped {
		return nil
	}
	cause := s.process.err
	if cause == nil {
		cause = errors.New("somebody stopped it")
	}
	return fmt.Errorf("postgres ended: %w\n%s", cause, tail(s.cfg.Dir, s.logOffset))
}

func (s *Server) running(p *process, logOffset int64) {
	s.current.Lock()
	defer s.current.Unlock()
	s.process, s.logOffset, s.stopped = p, logOffset, false
}

func (s *Server) claim(dir string) error {
	claim, err := datadir.Take(filepath.Join(dir, "lock"))
	var held *datadir.HeldError
	if errors.As(err, &held) {
		return fmt.Errorf("%w: %w", ErrInUse, err)
	}
	if err != nil {
		return err
	}
	s.claims = append(s.claims, claim)
	return nil
}

func (s *Server) release() error {
	var errs []error
	for _, claim := range s.claims {
		errs = append(errs, claim.Release())
	}
	s.claims = nil
	return errors.Join(errs...)
}
