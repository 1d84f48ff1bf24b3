package testkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/echomind/sync/internal/devstack/datadir"
	"github.com/echomind/sync/internal/pgserver"
)

const (
	// supervisorName is the first argument of a test binary that is to be a supervisor, and what ps shows.
	supervisorName = "echomind-test-supervisor"
	watchEvery     = 20 * time.Millisecond
	cleanTimeout   = time.Minute
	// maxConnections serves the pools of all tests that run at once.
	maxConnections = 400
)

// A test binary turns into a supervisor here, before its tests: there is no other place that every test binary which
// uses this package passes through.
func init() {
	if len(os.Args) == 3 && os.Args[0] == supervisorName {
		log := slog.New(slog.NewTextHandler(os.Stderr, nil))
		if err := supervise(log, os.Args[1], parseProcess(os.Args[2])); err != nil {
			log.Error("the supervisor gives up; its run has no servers", "err", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// supervise serves the run in dir until parent and all users are gone, then leaves nothing of it.
func supervise(log *slog.Logger, dir string, parent process) (err error) {
	s := supervisor{log: log, dir: dir, server: filepath.Join(dir, "postgres")}
	if err := s.forget(); err != nil {
		return err
	}
	users, err := os.Open(filepath.Join(dir, usersFile))
	if err != nil {
		return fmt.Errorf("open the run's lock: %w", err)
	}
	claim, err := datadir.Take(filepath.Join(dir, supervisorFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, claim.Release()) }()
	sweepFormerRuns(log, dir)
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		<-ticker.C
		if s.postgres == nil && !s.failed && exists(filepath.Join(dir, wantFile)) {
			if err := s.startCluster(); err != nil {
				return errors.Join(err, s.clean())
			}
		}
		if parent.alive() {
			continue
		}
		err := datadir.Flock(users, syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue
		}
		// The lock keeps new users out until the folder is gone; they make another one.
		return errors.Join(err, s.clean())
	}
}

type supervisor struct {
	log    *slog.Logger
	dir    string
	server string
	// postgres is nil until somebody asks for it; failed says that it could not be started.
	postgres *pgserver.Server
	failed   bool
}

// forget takes back what a former supervisor of the run has said.
func (s *supervisor) forget() error {
	for _, name := range []string{clusterFile, wantFile} {
		if err := os.Remove(filepath.Join(s.dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("forget the former cluster: %w", err)
		}
	}
	return nil
}

func (s *supervisor) startCluster() error {
	var said answer
	var err error
	s.postgres, err = startPostgres(s.server, s.log)
	if err != nil {
		s.failed = true
		said.Problem = err.Error()
	} else {
		said.URL = s.postgres.DatabaseURL("postgres")
	}
	raw, err := json.Marshal(said)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return datadir.Replace(filepath.Join(s.dir, clusterFile), raw)
}

func startPostgres(dir string, log *slog.Logger) (*pgserver.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), clusterTimeout)
	defer cancel()
	return pgserver.Start(ctx, pgserver.Config{Dir: dir, Volatile: true, MaxConnections: maxConnections, Log: log})
}

func (s *supervisor) clean() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTimeout)
	defer cancel()
	var stop error
	if s.postgres != nil {
		stop = s.postgres.Stop(ctx)
	}
	return errors.Join(stop, removeRun(ctx, s.dir))
}

// removeRun deletes a run's folder, and the clusters that tests kept below it, which may be elsewhere.
func removeRun(ctx context.Context, dir string) error {
	var errs []error
	for _, server := range []string{"*", "*/*"} {
		states, err := filepath.Glob(filepath.Join(dir, server, pgserver.StateFile))
		errs = append(errs, err)
		for _, state := range states {
			errs = append(errs, pgserver.Remove(ctx, filepath.Dir(state)))
		}
	}
	return errors.Join(append(errs, os.RemoveAll(dir))...)
}

// sweepFormerRuns removes what killed supervisors left. A run that anybody uses is left alone.
func sweepFormerRuns(log *slog.Logger, own string) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTimeout)
	defer cancel()
	pattern := filepath.Join(filepath.Dir(own), fmt.Sprintf("%s%d-*", runPrefix, os.Getuid()))
	former, err := filepath.Glob(pattern)
	if err != nil {
		log.Warn("former runs are not looked for; their folders stay", "err", err)
	}
	for _, dir := range former {
		if dir == own {
			continue
		}
		if err := sweep(ctx, dir); err != nil {
			log.Warn("a former run's folder stays", "dir", dir, "err", err)
		}
	}
}

func sweep(ctx context.Context, dir string) (err error) {
	users, err := os.Open(filepath.Join(dir, usersFile))
	if err != nil {
		return nil // being made, or being removed
	}
	defer func() { err = errors.Join(err, users.Close()) }()
	if datadir.Flock(users, syscall.LOCK_EX|syscall.LOCK_NB) != nil || !stillThere(users) {
		return nil
	}
	if _, alive, err := datadir.Holder(filepath.Join(dir, supervisorFile)); err != nil || alive {
		return err
	}
	return removeRun(ctx, dir)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
