package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/devstack/datadir"
	"github.com/echomind/sync/internal/repeat"
)

const (
	initTimeout = 2 * time.Minute
	// removeTries take 5 s at most.
	removeTries = 10
)

var removePauses = repeat.Pauses{First: 10 * time.Millisecond, Last: 3 * time.Second}

// halfDone is the prefix of the folder in which a cluster is made. The next start removes what a crash left.
const halfDone = ".init-"

// initialise makes the cluster in another folder and renames that, so that a crash at any moment leaves either no cluster or a
// complete one.
func (s *Server) initialise(ctx context.Context) (err error) {
	home := filepath.Dir(s.cluster)
	if err := sweepHalfDone(ctx, home); err != nil {
		return err
	}
	if _, err := os.Stat(s.cluster); err == nil {
		// The cluster is complete, but its maker died before it could write that down.
		return s.initialised()
	}
	// The password must be stored before the cluster exists.
	if err := s.state.write(s.cfg.Dir); err != nil {
		return err
	}
	workshop, err := os.MkdirTemp(home, halfDone)
	if err != nil {
		return fmt.Errorf("make a folder for the new cluster: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(workshop)) }()
	passwordFile := filepath.Join(workshop, "password")
	if err := os.WriteFile(passwordFile, []byte(s.state.Password+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the password for initdb: %w", err)
	}
	if err := errors.Join(s.id.own(passwordFile), s.id.own(workshop)); err != nil {
		return err
	}
	made := filepath.Join(workshop, "cluster")
	if err := s.initdb(ctx, workshop, made, passwordFile); err != nil {
		return err
	}
	if err := os.Rename(made, s.cluster); err != nil {
		return fmt.Errorf("move the new cluster to its place: %w", err)
	}
	if err := datadir.SyncFolder(home); err != nil {
		return err
	}
	return s.initialised()
}

func (s *Server) initdb(ctx context.Context, workshop, made, passwordFile string) error {
	args := []string{
		"-D", made, "-U", superuser, "--pwfile", passwordFile, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--no-instructions",
	}
	if s.cfg.Volatile {
		args = append(args, "--no-sync")
	}
	var output bytes.Buffer
	err := deadline.Do(ctx, "pgserver.initdb", initTimeout, func(ctx context.Context) error {
		cmd := s.id.command(ctx, s.cfg.BinDir, workshop, "initdb", args...)
		cmd.Stdout, cmd.Stderr = &output, &output
		cmd.WaitDelay = time.Second
		process, err := spawn(cmd)
		if err != nil {
			return err
		}
		<-process.done
		return process.err
	})
	if err != nil {
		return fmt.Errorf("initialise the cluster as %s: %w\n%s", s.id.name, err, lastLines(output.Bytes()))
	}
	return nil
}

func (s *Server) initialised() error {
	s.state.Initialised = true
	return s.state.write(s.cfg.Dir)
}

func sweepHalfDone(ctx context.Context, home string) error {
	left, err := filepath.Glob(filepath.Join(home, halfDone+"*"))
	if err != nil {
		return fmt.Errorf("look for half-made clusters: %w", err)
	}
	for _, dir := range left {
		if err := removeWhileWritten(ctx, dir); err != nil {
			return fmt.Errorf("remove a half-made cluster: %w", err)
		}
	}
	return nil
}

// removeWhileWritten tries again for a while: the children of a killed initdb write for some moments more.
func removeWhileWritten(ctx context.Context, dir string) (err error) {
	for try := range removePauses.Tries(ctx) {
		if err = os.RemoveAll(dir); err == nil || try == removeTries {
			break
		}
	}
	return err
}
