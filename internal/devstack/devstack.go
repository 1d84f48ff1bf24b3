// Package devstack starts the servers that `echomind run` brings along (Postgres, NATS), guards the data folder
// against a second process, and leaves word for the command line where everything is.
package devstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/echomind/sync/internal/natsserver"
	"github.com/echomind/sync/internal/pgserver"
)

var (
	// ErrAlreadyRunning says that another process works on the data folder.
	ErrAlreadyRunning = errors.New("already running")
	// ErrNotRunning says that no process works on the data folder.
	ErrNotRunning = errors.New("not running")
)

// Config says what to start.
type Config struct {
	// DataDir holds everything; it is made if missing.
	DataDir string
	// DatabaseURL and NATSURL, where set, are used instead of an embedded server.
	DatabaseURL, NATSURL string
}

// Info is what the command line needs to find a running stack.
type Info struct {
	PID         int       `json:"pid"`
	DatabaseURL string    `json:"database_url"`
	NATSURL     string    `json:"nats_url"`
	HTTPAddr    string    `json:"http_addr"`
	StartedAt   time.Time `json:"started_at"`
}

// Stack is the running servers.
type Stack struct {
	dir      string
	lock     *os.File
	postgres *pgserver.Server // nil: somebody else's
	nats     *natsserver.Server
	info     Info
}

// Start takes the data folder and starts what is not configured elsewhere. It returns ErrAlreadyRunning, naming the
// folder and the process, where another one works on it.
func Start(ctx context.Context, cfg Config) (_ *Stack, err error) {
	dir, err := filepath.Abs(cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("find the data folder: %w", err)
	}
	// 0711: the user that Postgres runs as must reach its own folder below; secrets are 0600.
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	s := &Stack{dir: dir, info: Info{
		PID: os.Getpid(), DatabaseURL: cfg.DatabaseURL, NATSURL: cfg.NATSURL, StartedAt: time.Now().UTC(),
	}}
	if s.lock, err = lock(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
		}
	}()
	if cfg.DatabaseURL == "" {
		if s.postgres, err = pgserver.Start(ctx, pgserver.Config{Dir: filepath.Join(dir, "postgres")}); err != nil {
			return nil, err
		}
		s.info.DatabaseURL = s.postgres.URL()
	}
	if cfg.NATSURL == "" {
		if s.nats, err = natsserver.Start(natsserver.Config{Dir: filepath.Join(dir, "nats")}); err != nil {
			return nil, err
		}
		s.info.NATSURL = s.nats.URL()
	}
	return s, s.publish()
}

// Info tells where everything is.
func (s *Stack) Info() Info { return s.info }

// PostgresDir is where the embedded cluster's data is; empty for somebody else's.
func (s *Stack) PostgresDir() string {
	if s.postgres == nil {
		return ""
	}
	return s.postgres.Dir()
}

// SetHTTPAddr leaves word where health and metrics are served.
func (s *Stack) SetHTTPAddr(addr string) error {
	s.info.HTTPAddr = addr
	return s.publish()
}

// Ended is closed when the embedded Postgres has ended; nil, which never is, where there is none.
func (s *Stack) Ended() <-chan struct{} {
	if s.postgres == nil {
		return nil
	}
	return s.postgres.Done()
}

// Stop stops NATS, then Postgres, then gives the data folder free; one failing stop never skips the next.
func (s *Stack) Stop(ctx context.Context) error {
	var problems []error
	if s.nats != nil {
		problems = append(problems, s.nats.Stop(ctx))
	}
	if s.postgres != nil {
		problems = append(problems, s.postgres.Stop(ctx))
	}
	if err := os.Remove(infoFile(s.dir)); !errors.Is(err, os.ErrNotExist) {
		problems = append(problems, err)
	}
	return errors.Join(append(problems, s.lock.Close())...)
}

// Discover finds the stack that runs on a data folder. It returns ErrNotRunning, saying what to start, where none does.
func Discover(dataDir string) (Info, error) {
	var info Info
	notRunning := fmt.Errorf("%w: nothing runs on data folder %s; start it with `echomind run` there, "+
		"or set DATABASE_URL and NATS_URL", ErrNotRunning, dataDir)
	data, err := os.ReadFile(infoFile(dataDir))
	if errors.Is(err, os.ErrNotExist) {
		return info, notRunning
	}
	if err != nil {
		return info, fmt.Errorf("find the running stack: %w", err)
	}
	held, err := lock(dataDir)
	if err == nil {
		return info, errors.Join(notRunning, held.Close())
	}
	if !errors.Is(err, ErrAlreadyRunning) {
		return info, err
	}
	if err := json.Unmarshal(data, &info); err != nil {
		return info, fmt.Errorf("read %s: %w", infoFile(dataDir), err)
	}
	return info, nil
}

func (s *Stack) publish() error {
	data, err := json.MarshalIndent(s.info, "", "  ")
	if err != nil {
		return fmt.Errorf("encode where everything is: %w", err)
	}
	fresh := infoFile(s.dir) + ".new"
	if err := os.WriteFile(fresh, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("leave word where everything is: %w", err)
	}
	return os.Rename(fresh, infoFile(s.dir))
}

func infoFile(dir string) string { return filepath.Join(dir, "stack.json") }

// lock takes the data folder. The kernel gives it back when this process ends, however it ends.
func lock(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the data folder: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer func() { _ = file.Close() }()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s works on data folder %s; stop it, or set ECHOMIND_DATA_DIR to another folder",
				ErrAlreadyRunning, holder(dir), dir)
		}
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	return file, nil
}

func holder(dir string) string {
	var info Info
	data, err := os.ReadFile(infoFile(dir))
	if err != nil || json.Unmarshal(data, &info) != nil {
		return "another process"
	}
	return fmt.Sprintf("process %d", info.PID)
}
