// Package pgserver runs a private Postgres cluster as a child process: it makes the cluster, starts it, notices its
// end, and stops it. Started by root it runs the cluster as an unprivileged user.
package pgserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	initTimeout  = 60 * time.Second
	startTimeout = 60 * time.Second
	stopTimeout  = 10 * time.Second
	// superuser owns the cluster and its one database.
	superuser = "echomind"
)

// Config says where a cluster lives and how it runs.
type Config struct {
	// Dir is the folder of the cluster, its password and its log. It is made if missing.
	Dir string
	// Database is created at the first start. Default: echomind.
	Database string
	// Volatile trades every durability for speed; for tests alone.
	Volatile bool
	// MaxConnections is Postgres's max_connections. Default: 100.
	MaxConnections int
}

// Server is a running cluster.
type Server struct {
	config   Config
	binDir   string
	account  account
	cluster  string // where the data is
	password string
	port     int
	cmd      *exec.Cmd
	done     chan struct{}
	exit     error
}

// Start makes the cluster if there is none, ends a server of it that was left behind, and starts it. It returns
// ErrNoBinaries where Postgres is not installed.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", cfg.Dir, err)
	}
	cfg.Dir = dir
	if cfg.Database == "" {
		cfg.Database = "echomind"
	}
	if cfg.MaxConnections == 0 {
		cfg.MaxConnections = 100
	}
	s := &Server{config: cfg}
	if s.binDir, err = Find(); err != nil {
		return nil, err
	}
	if s.account, err = findAccount(); err != nil {
		return nil, err
	}
	if err := s.place(); err != nil {
		return nil, err
	}
	if err := s.stopLeftover(ctx); err != nil {
		return nil, err
	}
	if err := s.initialise(ctx); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// place decides where the cluster lies: below Dir or, where the unprivileged user cannot reach that, in a folder of
// /var/lib that is named for it. A cluster that exists already decides.
func (s *Server) place() error {
	if err := os.MkdirAll(s.config.Dir, 0o711); err != nil {
		return fmt.Errorf("make %s: %w", s.config.Dir, err)
	}
	near := s.config.Dir
	sum := sha256.Sum256([]byte(s.config.Dir))
	far := filepath.Join("/var/lib/echomind", hex.EncodeToString(sum[:8]))
	for _, base := range []string{near, far} {
		if _, err := os.Stat(filepath.Join(base, "cluster", "PG_VERSION")); err == nil && s.account.reaches(base, s.binDir) {
			s.cluster = filepath.Join(base, "cluster")
			return nil
		}
	}
	base := near
	if !s.account.reaches(near, s.binDir) {
		base = far
		if err := os.MkdirAll(base, 0o711); err != nil {
			return fmt.Errorf("make %s, because the user of PostgreSQL cannot reach %s: %w", base, near, err)
		}
	}
	s.cluster = filepath.Join(base, "cluster")
	return nil
}

// Dir is the folder that really holds the cluster's data.
func (s *Server) Dir() string { return s.cluster }

// PID is the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// URL connects to the cluster's database.
func (s *Server) URL() string { return s.DatabaseURL(s.config.Database) }

// DatabaseURL connects to another database of the cluster.
func (s *Server) DatabaseURL(name string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, s.password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), Path: "/" + name,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Done is closed when the server has ended, for whatever reason.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err says why the server ended; only after Done.
func (s *Server) Err() error { return s.exit }

// initialise makes the cluster in a folder beside its place and moves it there whole, so that a crash in between
// leaves nothing that looks like a cluster.
func (s *Server) initialise(ctx context.Context) error {
	passwordFile := filepath.Join(s.config.Dir, "password")
	if _, err := os.Stat(filepath.Join(s.cluster, "PG_VERSION")); err == nil {
		password, err := os.ReadFile(passwordFile)
		if err != nil {
			return fmt.Errorf("read the password of the cluster in %s: %w", s.cluster, err)
		}
		s.password = strings.TrimSpace(string(password))
		return nil
	}
	s.password = rand.Text()
	making := s.cluster + ".new"
	if err := errors.Join(os.RemoveAll(making), os.RemoveAll(s.cluster), s.account.own(making)); err != nil {
		return fmt.Errorf("clear the place of the cluster: %w", err)
	}
	if err := os.WriteFile(passwordFile, []byte(s.password+"\n"), 0o600); err != nil {
		return fmt.Errorf("keep the password: %w", err)
	}
	handed := s.cluster + ".password" // a copy that the server's user may read, for as long as initdb runs
	defer func() { _ = os.Remove(handed) }()
	if err := s.account.write(handed, s.password); err != nil {
		return err
	}
	args := []string{
		"-D", making, "-U", superuser, "--encoding=UTF8", "--locale=C", "--auth=scram-sha-256", "--pwfile", handed,
	}
	if s.config.Volatile {
		args = append(args, "--no-sync")
	}
	var output bytes.Buffer
	err := s.startAndWait(ctx, initTimeout, "pgserver.initdb", func() *exec.Cmd {
		cmd := s.account.command(making, filepath.Join(s.binDir, "initdb"), args...)
		cmd.Stdout, cmd.Stderr = &output, &output
		return cmd
	})
	if err != nil {
		return fmt.Errorf("make a cluster: %w\n%s", err, output.Bytes())
	}
	if err := os.Rename(making, s.cluster); err != nil {
		return fmt.Errorf("put the cluster in its place: %w", err)
	}
	return nil
}

func (s *Server) arguments() []string {
	settings := []string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=", "port=" + strconv.Itoa(s.port),
		"max_connections=" + strconv.Itoa(s.config.MaxConnections), "shared_buffers=128MB", "jit=off",
		"log_timezone=UTC", "timezone=UTC", "logging_collector=off", "max_wal_size=2GB",
	}
	if s.config.Volatile {
		settings = append(settings, "fsync=off", "full_page_writes=off", "synchronous_commit=off", "autovacuum_naptime=60")
	}
	args := []string{"-D", s.cluster}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

// start runs the server until it answers. Its port is the one of the last time, if that is free.
func (s *Server) start(ctx context.Context) error {
	var err error
	if s.port, err = choosePort(filepath.Join(s.config.Dir, "port")); err != nil {
		return err
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the server's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	s.cmd = s.account.command(s.cluster, filepath.Join(s.binDir, "postgres"), s.arguments()...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.done, s.exit = make(chan struct{}), nil
	started := make(chan error, 1)
	go func() {
		defer close(s.done)
		runtime.LockOSThread() // the kernel ties the server's life to this thread
		defer runtime.UnlockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			s.exit = s.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	if err := s.answer(ctx); err != nil {
		return errors.Join(fmt.Errorf("start PostgreSQL: %w\n%s", err, s.logTail()), s.Stop(context.WithoutCancel(ctx)))
	}
	return nil
}

// answer waits until the database answers, and makes it at the first start.
func (s *Server) answer(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("pgserver.start: no answer within %s", startTimeout))
	defer cancel()
	for {
		err := s.ensureDatabase(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.done:
			return fmt.Errorf("the server ended: %w", s.exit)
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *Server) ensureDatabase(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.DatabaseURL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var exists bool
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)`, s.config.Database).Scan(&exists)
	if err != nil || exists {
		return err
	}
	_, err = conn.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{s.config.Database}.Sanitize())
	return err
}

// Stop ends the server: fast, then immediately, then by force. It never leaves one behind.
func (s *Server) Stop(ctx context.Context) error {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		select {
		case <-s.done:
			return nil
		default:
		}
		if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop PostgreSQL: %w", err)
		}
		select {
		case <-s.done:
			return nil
		case <-ctx.Done():
		case <-time.After(stopTimeout):
		}
	}
	<-s.done
	return nil
}

// Kill ends the server as a crash would.
func (s *Server) Kill() error {
	if err := s.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		return err
	}
	<-s.done
	return nil
}

// Restart starts a server that was stopped or killed again, on the same port.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.stopLeftover(ctx); err != nil {
		return err
	}
	return s.start(ctx)
}

// startAndWait runs a program to its end on a thread that lives as long.
func (s *Server) startAndWait(ctx context.Context, limit time.Duration, name string, make_ func() *exec.Cmd) error {
	ended := make(chan error, 1)
	cmd := make_()
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		ended <- cmd.Run()
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		_ = cmd.Process.Kill()
		return errors.Join(fmt.Errorf("%s: no answer within %s", name, limit), <-ended)
	case <-ctx.Done():
		if cmd.Process != nil {
			_ = cmd.Process.Kill()
		}
		return errors.Join(ctx.Err(), <-ended)
	}
}

func (s *Server) logFile() string { return filepath.Join(s.config.Dir, "postgres.log") }

// logTail is the end of the server's log, for error messages.
func (s *Server) logTail() []byte {
	const tail = 2000
	data, err := os.ReadFile(s.logFile())
	if err != nil {
		return nil
	}
	return data[max(0, len(data)-tail):]
}

// choosePort returns the remembered port if it is free, else another, which it remembers.
func choosePort(file string) (int, error) {
	if data, err := os.ReadFile(file); err == nil {
		if port, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && isFree(port) {
			return port, nil
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(port)+"\n"), 0o600); err != nil {
		return 0, fmt.Errorf("remember the port: %w", err)
	}
	return port, nil
}

func isFree(port int) bool {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}
