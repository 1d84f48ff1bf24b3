// Package devstack starts the servers of `echomind run` (Postgres, NATS), keeps a second process off the data folder, and
// writes the servers' addresses into a state file for the command line.
//
//	<DataDir>/lock         held while the stack runs
//	<DataDir>/stack.json   where everything is (0600); removed by a clean stop
//	<DataDir>/postgres/    see pgserver
//	<DataDir>/nats/        see natsserver
package devstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/echomind/sync/internal/devstack/datadir"
	"github.com/echomind/sync/internal/natsserver"
	"github.com/echomind/sync/internal/pgserver"
)

// ErrAlreadyRunning means that another process uses the data folder. The error names both.
var ErrAlreadyRunning = errors.New("already running")

// Config is the configuration of a stack.
type Config struct {
	// DataDir is the folder of all data; it is created. Required.
	DataDir string
	// DatabaseURL and NATSURL, where set, name servers that are used instead of embedded ones.
	DatabaseURL, NATSURL string
	// Log gets the servers' events; default: none.
	Log *slog.Logger
}

// Stack has the running servers.
type Stack struct {
	dir      string
	claim    *datadir.Claim
	postgres *pgserver.Server   // nil: not embedded
	nats     *natsserver.Server // nil: not embedded

	mu   sync.Mutex // guards info
	info Info

	// ended is closed when a server ended by itself; then failure, the reason, may be read.
	ended   chan struct{}
	failure error
	// stopping ends the watcher, which then closes watched.
	stopping chan struct{}
	watched  chan struct{}
	stop     sync.Once
	stopped  error
}

// Start claims the data folder and starts the servers that are not configured elsewhere; ctx bounds the start only. Its error
// is ErrAlreadyRunning, or that of pgserver.Start or natsserver.Start; nothing is left running then.
func Start(ctx context.Context, cfg Config) (*Stack, error) {
	dir, err := filepath.Abs(cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("resolve the data folder: %w", err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := datadir.Make(dir); err != nil {
		return nil, err
	}
	s := &Stack{
		dir: dir, ended: make(chan struct{}), stopping: make(chan struct{}), watched: make(chan struct{}),
		info: Info{PID: os.Getpid(), DatabaseURL: cfg.DatabaseURL, NATSURL: cfg.NATSURL, StartedAt: time.Now().UTC()},
	}
	if s.claim, err = claim(dir); err != nil {
		return nil, err
	}
	if err := s.start(ctx, cfg); err != nil {
		return nil, errors.Join(err, s.close(context.WithoutCancel(ctx)))
	}
	go s.watch()
	return s, nil
}

func claim(dir string) (*datadir.Claim, error) {
	claim, err := datadir.Take(lockFile(dir))
	var held *datadir.HeldError
	if errors.As(err, &held) {
		return nil, fmt.Errorf("%w: process %d works on the data folder %s; stop it, or name another folder with "+
			"ECHOMIND_DATA_DIR", ErrAlreadyRunning, held.PID, dir)
	}
	return claim, err
}

func (s *Stack) start(ctx context.Context, cfg Config) (err error) {
	if err := removeInfo(s.dir); err != nil {
		return err
	}
	if cfg.DatabaseURL == "" {
		s.postgres, err = pgserver.Start(ctx, pgserver.Config{Dir: filepath.Join(s.dir, "postgres"), Log: cfg.Log})
		if err != nil {
			return fmt.Errorf("start the embedded PostgreSQL: %w", err)
		}
		s.info.DatabaseURL = s.postgres.URL()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if cfg.NATSURL == "" {
		s.nats, err = natsserver.Start(natsserver.Config{Dir: filepath.Join(s.dir, "nats"), Log: cfg.Log})
		if err != nil {
			return fmt.Errorf("start the embedded NATS: %w", err)
		}
		s.info.NATSURL = s.nats.URL()
	}
	return s.info.write(s.dir)
}

// Info returns the addresses of all servers.
func (s *Stack) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

// SetHTTPAddr writes down the address of health and metrics.
func (s *Stack) SetHTTPAddr(addr string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info.HTTPAddr = addr
	return s.info.write(s.dir)
}

// SetReach writes down what sources may read.
func (s *Stack) SetReach(reach any) error {
	raw, err := json.Marshal(reach)
	if err != nil {
		return fmt.Errorf("encode what sources may read: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info.Reach = raw
	return s.info.write(s.dir)
}

// PostgresDir is the folder of the embedded cluster; empty where Postgres is not embedded.
func (s *Stack) PostgresDir() string {
	if s.postgres == nil {
		return ""
	}
	return s.postgres.Dir()
}
