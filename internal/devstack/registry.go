package devstack

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Registry is the folder in which the stacks of this user register their data folders, so that they are found from any other
// folder; empty where the user has no such folder.
func Registry() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "echomind", "stacks")
}

// Register registers this stack. The returned function removes it again.
func (s *Stack) Register(registry string) (forget func() error, err error) {
	if err := os.MkdirAll(registry, 0o700); err != nil {
		return nil, fmt.Errorf("leave word of the data folder: %w", err)
	}
	name := sha256.Sum256([]byte(s.dir))
	file := filepath.Join(registry, hex.EncodeToString(name[:8]))
	if err := os.WriteFile(file, []byte(s.dir), 0o600); err != nil {
		return nil, fmt.Errorf("leave word of the data folder: %w", err)
	}
	return func() error {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("take back word of the data folder: %w", err)
		}
		return nil
	}, nil
}

// Registered returns the data folders of running stacks. Entries of killed stacks are removed.
func Registered(registry string) ([]string, error) {
	files, err := os.ReadDir(registry)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for running stacks: %w", err)
	}
	var running []string
	for _, file := range files {
		path := filepath.Join(registry, file.Name())
		dir, err := os.ReadFile(path)
		if err != nil {
			continue // removed meanwhile
		}
		if _, err := Discover(string(dir)); errors.Is(err, ErrNotRunning) {
			_ = os.Remove(path)
			continue
		}
		running = append(running, string(dir))
	}
	slices.Sort(running)
	return running, nil
}
