package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is who the server runs as. Postgres refuses to run as root; then it is postgres, else nobody.
type account struct {
	credential *syscall.Credential // nil: whoever we are
}

func findAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr != nil || gidErr != nil || uid == 0 {
			continue
		}
		return account{credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return account{}, errors.New("started by root, and there is neither a user postgres nor nobody to run PostgreSQL as")
}

// command runs a program as the account, in its own process group, so that Ctrl-C reaches only us, and such that it
// ends with us where the system can do that.
func (a account) command(dir, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=/usr/bin:/bin", "PGCTLTIMEOUT=30"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential, Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	return cmd
}

// own makes a folder, and hands it to the account.
func (a account) own(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", folder, err)
	}
	if a.credential == nil {
		return nil
	}
	if err := os.Chown(folder, int(a.credential.Uid), int(a.credential.Gid)); err != nil {
		return fmt.Errorf("hand %s to the user of PostgreSQL: %w", folder, err)
	}
	return nil
}

// write keeps a secret in a file that the account alone may read.
func (a account) write(file, secret string) error {
	err := os.Remove(file)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = os.WriteFile(file, []byte(secret+"\n"), 0o600)
	}
	if err == nil && a.credential != nil {
		err = os.Chown(file, int(a.credential.Uid), int(a.credential.Gid))
	}
	if err != nil {
		return fmt.Errorf("keep a secret for the user of PostgreSQL: %w", err)
	}
	return nil
}

// reaches says whether the account can enter a folder: it tries.
func (a account) reaches(folder, binDir string) bool {
	if a.credential == nil {
		return true
	}
	return a.command(folder, filepath.Join(binDir, "postgres"), "--version").Run() == nil
}
