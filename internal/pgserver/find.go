package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/echomind/sync/internal/deadline"
)

// MinVersion is the oldest major version that the schema works with.
const MinVersion = 15

const versionTimeout = 5 * time.Second

// ErrNoBinaries means that this machine has no Postgres server to start.
var ErrNoBinaries = errors.New("no PostgreSQL server found")

const howToInstall = `PostgreSQL %d or newer is needed (its programs initdb and postgres). Install it:
  Debian, Ubuntu:  sudo apt-get install postgresql
  Fedora:          sudo dnf install postgresql-server
  macOS:           brew install postgresql@17
or set DATABASE_URL to a server that is running already`

// folders are the folders of server binaries that packages do not add to PATH.
var folders = []string{
	"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
	"/usr/pgsql-*/bin",          // Fedora, RHEL: the PostgreSQL project's own packages
	"/usr/bin",                  // Fedora
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
	"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
	"/opt/homebrew/opt/postgresql/bin",
	"/usr/local/opt/postgresql/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// Find returns the folder of a Postgres server's binaries, version MinVersion or newer: the one on PATH, else the newest in the
// usual folders. It returns ErrNoBinaries, with what to install, where there is none.
func Find() (binDir string, err error) {
	var candidates []string
	if onPath, err := exec.LookPath("postgres"); err == nil {
		candidates = append(candidates, filepath.Dir(onPath))
		if target, err := filepath.EvalSymlinks(onPath); err == nil {
			candidates = append(candidates, filepath.Dir(target))
		}
	}
	return choose(append(candidates, list(folders)...))
}

// list returns the folders that match patterns; of one pattern the newest version comes first.
func list(patterns []string) []string {
	var found []string
	for _, pattern := range patterns {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			continue
		}
		slices.SortFunc(matches, func(a, b string) int { return slices.Compare(numbers(b), numbers(a)) })
		found = append(found, matches...)
	}
	return found
}

var digits = regexp.MustCompile(`\d+`)

// numbers are the numbers in a path: folders of one pattern differ in their versions only.
func numbers(path string) []int {
	var all []int
	for _, word := range digits.FindAllString(path, -1) {
		if n, err := strconv.Atoi(word); err == nil {
			all = append(all, n)
		}
	}
	return all
}

func choose(candidates []string) (string, error) {
	var tooOld []string
	for _, dir := range candidates {
		if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err != nil {
			continue
		}
		version, err := majorVersion(dir)
		if err != nil {
			continue
		}
		if version >= MinVersion {
			return dir, nil
		}
		tooOld = append(tooOld, fmt.Sprintf("%s is version %d", dir, version))
	}
	err := fmt.Errorf("%w: "+howToInstall, ErrNoBinaries, MinVersion)
	if len(tooOld) > 0 {
		err = fmt.Errorf("%w\n(too old: %s)", err, strings.Join(tooOld, ", "))
	}
	return "", err
}

var versionLine = regexp.MustCompile(`^postgres \(PostgreSQL\) (\d+)`)

func majorVersion(dir string) (int, error) {
	out, err := deadline.Get(context.Background(), "pgserver.version", versionTimeout,
		func(ctx context.Context) ([]byte, error) {
			return exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
		})
	if err != nil {
		return 0, fmt.Errorf("ask for the version: %w", err)
	}
	match := versionLine.FindSubmatch(bytes.TrimSpace(out))
	if match == nil {
		return 0, fmt.Errorf("read the version: unknown answer %q", out)
	}
	return strconv.Atoi(string(match[1]))
}
