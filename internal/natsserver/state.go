package natsserver

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/echomind/sync/internal/devstack/datadir"
)

const stateFile = "server.json"

// state is what the server's folder stores, in a 0600 file.
type state struct {
	// Password is the password made at the first start, or the configured one of the last start.
	Password string `json:"password"`
	// Port is the port of the last start.
	Port int `json:"port,omitempty"`
}

func readState(dir string) (state, error) {
	raw, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, os.ErrNotExist) {
		return state{Password: rand.Text()}, nil
	}
	if err != nil {
		return state{}, fmt.Errorf("read the server's password: %w", err)
	}
	var st state
	if err := json.Unmarshal(raw, &st); err != nil {
		return state{}, fmt.Errorf("read %s: %w", filepath.Join(dir, stateFile), err)
	}
	return st, nil
}

func (st state) write(dir string) error {
	raw, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the server's password: %w", err)
	}
	return datadir.Replace(filepath.Join(dir, stateFile), append(raw, '\n'))
}
