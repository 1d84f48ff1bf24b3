package testkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/devstack/datadir"
)

const (
	// joinTimeout bounds the start of a supervisor.
	joinTimeout = 30 * time.Second
	// clusterTimeout bounds the first start of the run's cluster, on a machine busy with tests.
	clusterTimeout = 2 * time.Minute
	pollEvery      = 10 * time.Millisecond

	runPrefix = "echomind-test-"
	// Files of a run's folder.
	usersFile      = "users"        // locked: shared by each test binary, exclusively by a supervisor that cleans up
	startFile      = "start"        // locked by the test binary that starts a supervisor
	supervisorFile = "supervisor"   // claimed by the supervisor
	wantFile       = "want"         // its existence asks the supervisor for a cluster
	clusterFile    = "cluster.json" // the supervisor's answer
)

// answer is what the supervisor says of the run's cluster.
type answer struct {
	// URL is the cluster's database postgres.
	URL string `json:"url"`
	// Problem is why there is no cluster.
	Problem string `json:"problem,omitempty"`
}

// run is the one that this test binary belongs to.
type run struct {
	dir string
	// users is never closed: the lock ends with the process.
	users *os.File
}

// theRun joins the run once per process.
var theRun = sync.OnceValues(func() (run, error) {
	return joinRunOf(goTest(os.Getppid()))
})

// theCluster is the run's; the first call starts it.
var theCluster = sync.OnceValues(func() (string, error) {
	r, err := theRun()
	if err != nil {
		return "", err
	}
	return deadline.Get(context.Background(), "testkit.cluster", clusterTimeout, r.cluster)
})

func joinRunOf(parent process) (run, error) {
	return deadline.Get(context.Background(), "testkit.join", joinTimeout, func(ctx context.Context) (run, error) {
		return join(ctx, parent)
	})
}

func join(ctx context.Context, parent process) (run, error) {
	r := run{dir: runDir(parent)}
	for {
		if err := makeRunDir(r.dir); err != nil {
			return r, err
		}
		joined, err := r.lockUsers()
		if err != nil {
			return r, err
		}
		if joined {
			break
		}
		// The supervisor has removed the folder meanwhile.
		if err := ctx.Err(); err != nil {
			return r, err
		}
	}
	return r, r.ensureSupervisor(ctx, parent)
}

// runDir is the folder of parent's run; that of this process alone where parent is nobody.
func runDir(parent process) string {
	if parent.pid == 0 {
		parent = process{pid: os.Getpid(), started: "alone"}
	}
	return filepath.Join(temporary(), fmt.Sprintf("%s%d-%d-%s", runPrefix, os.Getuid(), parent.pid, parent.started))
}

// makeRunDir makes the folder, or takes ours; the name can be foreseen, so that somebody else may own it.
func makeRunDir(dir string) error {
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make the run's folder: %w", err)
	}
	info, err := os.Lstat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil // removed again: the lock will tell
	}
	if err != nil {
		return fmt.Errorf("look at the run's folder: %w", err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || !ok || int(stat.Uid) != os.Getuid() {
		return fmt.Errorf("%s is not ours", dir)
	}
	return nil
}

// lockUsers joins the run; false: the folder was removed over it.
func (r *run) lockUsers() (joined bool, err error) {
	file, err := os.OpenFile(filepath.Join(r.dir, usersFile), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open the run's lock: %w", err)
	}
	if err := datadir.Flock(file, syscall.LOCK_SH); err != nil {
		return false, errors.Join(fmt.Errorf("lock the run: %w", err), file.Close())
	}
	if !stillThere(file) {
		return false, file.Close()
	}
	r.users = file
	return true, nil
}

// stillThere says whether an open file is still the one of its name.
func stillThere(file *os.File) bool {
	mine, mineErr := file.Stat()
	named, namedErr := os.Stat(file.Name())
	return mineErr == nil && namedErr == nil && os.SameFile(mine, named)
}

// ensureSupervisor starts one where none lives.
func (r *run) ensureSupervisor(ctx context.Context, parent process) (err error) {
	start, err := os.OpenFile(filepath.Join(r.dir, startFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the supervisor's lock: %w", err)
	}
	defer func() { err = errors.Join(err, start.Close()) }()
	if err := datadir.Flock(start, syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock the supervisor's start: %w", err)
	}
	claim := filepath.Join(r.dir, supervisorFile)
	if _, alive, err := datadir.Holder(claim); err != nil || alive {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(r.dir, "supervisor.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the supervisor's log: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	// The name decides what the program does: see init. It has a session of its own, so that Ctrl-C does not end it
	// before its users, and none of our files: `go test` waits until nobody holds its pipes.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program)
	cmd.Args = []string{supervisorName, r.dir, parent.String()}
	cmd.Dir = r.dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	// It outlives us, and init reaps it.
	if err := cmd.Process.Release(); err != nil {
		return fmt.Errorf("let the supervisor go: %w", err)
	}
	return poll(ctx, func() (bool, error) {
		_, alive, err := datadir.Holder(claim)
		return alive, err
	})
}

// cluster asks the supervisor for the run's cluster.
func (r run) cluster(ctx context.Context) (url string, err error) {
	if err := os.WriteFile(filepath.Join(r.dir, wantFile), nil, 0o600); err != nil {
		return "", fmt.Errorf("ask for a cluster: %w", err)
	}
	var got answer
	err = poll(ctx, func() (bool, error) {
		raw, err := os.ReadFile(filepath.Join(r.dir, clusterFile))
		if errors.Is(err, os.ErrNotExist) {
			_, alive, err := datadir.Holder(filepath.Join(r.dir, supervisorFile))
			if err == nil && !alive {
				err = fmt.Errorf("the supervisor is gone: see %s", filepath.Join(r.dir, "supervisor.log"))
			}
			return false, err
		}
		if err != nil {
			return false, err
		}
		return true, json.Unmarshal(raw, &got)
	})
	if err == nil && got.Problem != "" {
		err = errors.New(got.Problem)
	}
	return got.URL, err
}

func poll(ctx context.Context, ask func() (done bool, err error)) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		done, err := ask()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
