package pgserver

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/echomind/sync/internal/devstack/datadir"
)

// StateFile is the name of the file that marks a server's folder.
const StateFile = "cluster.json"

// state is what the server's folder stores about its cluster, in a 0600 file.
type state struct {
	// Password is the password of the cluster's only user.
	Password string `json:"password"`
	// Port is the port of the last start.
	Port int `json:"port,omitempty"`
	// Elsewhere is the cluster's folder where the server's user cannot reach Dir; empty: it is in Dir. Only a folder outside
	// Dir is named, so that Dir may be moved.
	Elsewhere string `json:"elsewhere,omitempty"`
	// Initialised says that the cluster was complete once: a missing cluster is a loss, and not a first start.
	Initialised bool `json:"initialised"`
}

// readState returns a new state, with a new password, where dir has none; known says whether dir had one.
func readState(dir string) (st state, known bool, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, StateFile))
	if errors.Is(err, os.ErrNotExist) {
		return state{Password: rand.Text()}, false, nil
	}
	if err != nil {
		return state{}, false, fmt.Errorf("read what is known of the cluster: %w", err)
	}
	if err := json.Unmarshal(raw, &st); err != nil {
		return state{}, false, fmt.Errorf("read %s: %w", filepath.Join(dir, StateFile), err)
	}
	return st, true, nil
}

func (st state) write(dir string) error {
	raw, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return fmt.Errorf("encode what is known of the cluster: %w", err)
	}
	return datadir.Replace(filepath.Join(dir, StateFile), append(raw, '\n'))
}
