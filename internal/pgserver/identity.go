package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/echomind/sync/internal/deadline"
)

const probeTimeout = 10 * time.Second

// ErrNoUser means that root found no unprivileged user to run the server as.
var ErrNoUser = errors.New("no unprivileged user to run PostgreSQL as: it refuses to run as root, and this machine has neither a " +
	"user postgres nor nobody")

// identity is the user that the server runs as.
type identity struct {
	name     string
	uid, gid int
	// switched says that it is another user than ours; only root can switch.
	switched bool
}

// identify returns our own user, unless we are root: then the owner of the cluster, else postgres, else nobody.
func identify(cluster string) (identity, error) {
	if os.Geteuid() != 0 {
		return identity{name: "the current user", uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	if info, err := os.Stat(cluster); err == nil {
		if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 {
			name := "user " + strconv.Itoa(int(owner.Uid))
			return identity{name: name, uid: int(owner.Uid), gid: int(owner.Gid), switched: true}, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := osuser.Lookup(name); err == nil {
			uid, uidErr := strconv.Atoi(u.Uid)
			gid, gidErr := strconv.Atoi(u.Gid)
			if err := errors.Join(uidErr, gidErr); err != nil {
				return identity{}, fmt.Errorf("read the user %s: %w", name, err)
			}
			return identity{name: "user " + name, uid: uid, gid: gid, switched: true}, nil
		}
	}
	return identity{}, ErrNoUser
}

// own changes the owner of path to the identity.
func (id identity) own(path string) error {
	if !id.switched {
		return nil
	}
	if err := os.Chown(path, id.uid, id.gid); err != nil {
		return fmt.Errorf("give the folder to %s: %w", id.name, err)
	}
	return nil
}

// command is a program of binDir, run as the identity in folder dir, in a process group of its own, so that Ctrl-C in a
// terminal does not reach it, and without our environment.
func (id identity) command(ctx context.Context, binDir, dir, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(binDir, program), args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + binDir + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = id.attributes()
	return cmd
}

func (id identity) credential() *syscall.Credential {
	if !id.switched {
		return nil
	}
	return &syscall.Credential{Uid: uint32(id.uid), Gid: uint32(id.gid)}
}

// reaches tests whether the identity can own a folder in dir and start a program there: a folder above may be closed to it, as
// /root is.
func (id identity) reaches(ctx context.Context, binDir, dir string) (err error) {
	if !id.switched {
		return nil
	}
	probe, err := os.MkdirTemp(dir, ".probe-*")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(probe)) }()
	if err := id.own(probe); err != nil {
		return err
	}
	return deadline.Do(ctx, "pgserver.probe", probeTimeout, func(ctx context.Context) error {
		process, err := spawn(id.command(ctx, binDir, probe, "initdb", "--version"))
		if err != nil {
			return fmt.Errorf("start a program as %s in %s: %w", id.name, dir, err)
		}
		<-process.done
		return process.err
	})
}
