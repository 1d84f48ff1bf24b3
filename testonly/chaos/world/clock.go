package world

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/echomind/sync/internal/pgserver"
)

// fakers is where packages put the library that shifts the clock of a process.
var fakers = []string{"/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib/faketime/libfaketime.so.1", "/usr/lib64/faketime/libfaketime.so.1"}

// ErrNoClock says that nothing on this machine shifts Postgres's clock.
var ErrNoClock = errors.New("libfaketime is not installed (Debian: apt-get install faketime)")

// shiftable makes a folder of Postgres's programs in which the server reads its clock through a file.
func (w *World) shiftable(dir string) (binDir string, err error) {
	library := ""
	for _, pattern := range fakers {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			library = found[0]
		}
	}
	if library == "" {
		return "", ErrNoClock
	}
	bin, err := pgserver.Find()
	if err != nil {
		return "", err
	}
	binDir = filepath.Join(dir, "postgres-bin")
	clock := filepath.Join(dir, "clock")
	server := fmt.Sprintf("#!/bin/sh\nLD_PRELOAD=%s FAKETIME_TIMESTAMP_FILE=%s FAKETIME_CACHE_DURATION=1 FAKETIME_DONT_FAKE_MONOTONIC=1 "+
		"FAKETIME_DISABLE_SHM=1 exec %s \"$@\"\n", library, clock, filepath.Join(bin, "postgres"))
	err = errors.Join(
		os.Mkdir(binDir, 0o755),
		os.Symlink(filepath.Join(bin, "initdb"), filepath.Join(binDir, "initdb")),
		os.WriteFile(filepath.Join(binDir, "postgres"), []byte(server), 0o755),
	)
	if err != nil {
		return "", fmt.Errorf("make a server with a clock of its own: %w", err)
	}
	w.clock = clock
	return binDir, w.SetClock(0)
}

// Clock says whether Postgres's clock can be set.
func (w *World) Clock() bool { return w.clock != "" }

// SetClock makes Postgres's clock differ from the machine's; it notices within a second.
func (w *World) SetClock(by time.Duration) error {
	w.clockSet.Store(time.Now().UnixNano())
	return os.WriteFile(w.clock, fmt.Appendf(nil, "%+d", int(by.Seconds())), 0o644)
}

// ClockSet is when Postgres's clock was set last.
func (w *World) ClockSet() time.Time { return time.Unix(0, w.clockSet.Load()) }
