package devstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/echomind/sync/internal/devstack/datadir"
)

// ErrNotRunning means that no stack runs on the data folder, or that it is not ready. The error says what to do.
var ErrNotRunning = errors.New("not running")

// Info is what the command line needs to find a running stack.
type Info struct {
	// PID is the process that runs the stack.
	PID int `json:"pid"`
	// DatabaseURL and NATSURL are the servers' URLs, with passwords.
	DatabaseURL string `json:"database_url"`
	NATSURL     string `json:"nats_url"`
	// HTTPAddr is the address of health and metrics; empty = they are not served, or not yet.
	HTTPAddr string `json:"http_addr"`
	// Reach is what its file and web sources may read, as their service reports it; null where no services run.
	Reach     json.RawMessage `json:"reach,omitempty"`
	StartedAt time.Time       `json:"started_at"`
}

// Discover finds the stack that runs on a data folder. It returns ErrNotRunning where none does, also where a killed stack left
// its state file.
func Discover(dataDir string) (Info, error) {
	dir, err := filepath.Abs(dataDir)
	if err != nil {
		return Info{}, fmt.Errorf("resolve the data folder: %w", err)
	}
	holder, held, err := datadir.Holder(lockFile(dir))
	if err != nil {
		return Info{}, fmt.Errorf("find the running stack: %w", err)
	}
	if !held {
		return Info{}, fmt.Errorf("%w: no process works on the data folder %s; start one with `echomind run`, name "+
			"another folder with ECHOMIND_DATA_DIR, or set DATABASE_URL and NATS_URL", ErrNotRunning, dir)
	}
	starting := fmt.Errorf("%w: process %d is starting or stopping on the data folder %s; try again in a moment",
		ErrNotRunning, holder, dir)
	raw, err := os.ReadFile(infoFile(dir))
	if errors.Is(err, os.ErrNotExist) {
		return Info{}, starting
	}
	if err != nil {
		return Info{}, fmt.Errorf("find the running stack: %w", err)
	}
	var info Info
	if err := json.Unmarshal(raw, &info); err != nil {
		return Info{}, fmt.Errorf("read %s: %w", infoFile(dir), err)
	}
	if info.PID != holder {
		return Info{}, starting
	}
	return info, nil
}

func (i Info) write(dir string) error {
	raw, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return fmt.Errorf("encode where everything is: %w", err)
	}
	return datadir.Replace(infoFile(dir), append(raw, '\n'))
}

func removeInfo(dir string) error {
	if err := os.Remove(infoFile(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("take back where everything is: %w", err)
	}
	return nil
}

func infoFile(dir string) string { return filepath.Join(dir, "stack.json") }

func lockFile(dir string) string { return filepath.Join(dir, "lock") }
