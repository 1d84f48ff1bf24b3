package natsserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Restart stops the server where it runs and starts it again on the same port, with the streams it had or, wiped,
// without any, as after the loss of its volume.
func (s *Server) Restart(wiped bool) error {
	if err := s.Stop(context.Background()); err != nil {
		return err
	}
	s.control.Lock()
	defer s.control.Unlock()
	if wiped {
		if err := os.RemoveAll(filepath.Join(s.cfg.Dir, "store")); err != nil {
			return fmt.Errorf("wipe the streams: %w", err)
		}
	}
	return s.start(s.state.Port)
}
