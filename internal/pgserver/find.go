package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// MinVersion is the oldest major version of Postgres that will do.
const MinVersion = 15

// ErrNoBinaries says that no usable Postgres server is installed, and what to install.
var ErrNoBinaries = errors.New("no PostgreSQL server found")

const findAdvice = `%w: initdb and postgres, version %d or newer, are needed. Install them:
  Debian, Ubuntu:  apt-get install postgresql
  Fedora:          dnf install postgresql-server
  macOS:           brew install postgresql@16
or set DATABASE_URL to a server that runs already`

// folders are where distributions put the server's programs, besides PATH.
var folders = []string{
	"/usr/lib/postgresql/*/bin",                // Debian, Ubuntu
	"/usr/pgsql-*/bin",                         // Fedora and its kin, from PostgreSQL's own packages
	"/usr/bin",                                 // Fedora
	"/opt/homebrew/opt/postgresql@*/bin",       // Homebrew on Apple silicon
	"/usr/local/opt/postgresql@*/bin",          // Homebrew on Intel
	"/home/linuxbrew/.linuxbrew/opt/post*/bin", // Homebrew on Linux
}

// Find returns the folder of the newest usable server programs. It returns ErrNoBinaries where there are none.
func Find() (string, error) {
	candidates := filepath.SplitList(os.Getenv("PATH"))
	for _, pattern := range folders {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("look into %s: %w", pattern, err)
		}
		candidates = append(candidates, found...)
	}
	type server struct {
		folder  string
		version int
	}
	var servers []server
	for _, folder := range candidates {
		if v := version(folder); v >= MinVersion {
			servers = append(servers, server{folder, v})
		}
	}
	if len(servers) == 0 {
		return "", fmt.Errorf(findAdvice, ErrNoBinaries, MinVersion)
	}
	return slices.MaxFunc(servers, func(a, b server) int { return a.version - b.version }).folder, nil
}

var versionNumber = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// version is the major version of the server in a folder; 0 where there is none.
func version(folder string) int {
	if folder == "" {
		return 0
	}
	for _, program := range []string{"initdb", "postgres"} {
		if info, err := os.Stat(filepath.Join(folder, program)); err != nil || info.IsDir() {
			return 0
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(folder, "postgres"), "--version").Output()
	if err != nil {
		return 0
	}
	match := versionNumber.FindSubmatch(out)
	if match == nil {
		return 0
	}
	major, err := strconv.Atoi(string(match[1]))
	if err != nil {
		return 0
	}
	return major
}
