package natsserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Restart stops the server and starts it again on the same port, with its streams or, wiped, without any, as after the loss of
// its volume.
func (s *Server) Restart(wiped bool) error {
	return s.restart(func(store string) error {
		if !wiped {
			return nil
		}
		return os.RemoveAll(store)
	})
}

// RestartAsKilled restarts the server twice, and calls acknowledge between. After the second start the disk is as a killed
// server may leave it: with the acknowledgements of the stream's consumers, and the messages of before.
func (s *Server) RestartAsKilled(stream string, acknowledge func() error) error {
	kept, err := os.MkdirTemp(s.cfg.Dir, "killed")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(kept) }()
	before := filepath.Join(kept, "msgs")
	messages := func(store string) (string, error) {
		found, err := filepath.Glob(filepath.Join(store, "jetstream", "*", "streams", stream, "msgs"))
		if err != nil || len(found) != 1 {
			return "", fmt.Errorf("the messages of stream %s lie in %q: %w", stream, found, err)
		}
		return found[0], nil
	}
	err = s.restart(func(store string) error {
		dir, err := messages(store)
		if err != nil {
			return err
		}
		return os.CopyFS(before, os.DirFS(dir))
	})
	if err != nil {
		return err
	}
	if err := acknowledge(); err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	return s.restart(func(store string) error {
		dir, err := messages(store)
		if err != nil {
			return err
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		return os.CopyFS(dir, os.DirFS(before))
	})
}

// restart changes the store while the server is stopped.
func (s *Server) restart(change func(store string) error) error {
	if err := s.Stop(context.Background()); err != nil {
		return err
	}
	s.control.Lock()
	defer s.control.Unlock()
	if err := change(filepath.Join(s.cfg.Dir, "store")); err != nil {
		return fmt.Errorf("change what is stored: %w", err)
	}
	return s.start(s.state.Port)
}
