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

// Registry is where the stacks of this user leave word of their data folders, so that they are found from any other folder;
// empty where the user has no place for that.
func Registry() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "echomind", "stacks")
}

// Register leaves word in a registry that this stack runs. The returned function takes it back.
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

// Registered are the data folders of the stacks that a registry has word of and that run. What a killed one left is removed.
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
			continue // taken back meanwhile
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
