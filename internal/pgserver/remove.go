package pgserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/echomind/sync/internal/devstack/datadir"
)

// Remove deletes a server's folder and its cluster, wherever that is, with all data. A leftover server is stopped first; it
// returns ErrInUse where a server runs under its owner.
func Remove(ctx context.Context, dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("resolve the server's folder: %w", err)
	}
	if pid, held, err := datadir.Holder(filepath.Join(dir, "lock")); err != nil || held {
		return errors.Join(err, fmt.Errorf("%w by process %d", ErrInUse, pid))
	}
	st, _, err := readState(dir)
	if err != nil {
		return err
	}
	cluster := filepath.Join(dir, "cluster")
	if st.Elsewhere != "" {
		cluster = st.Elsewhere
	}
	if _, err := stopLeftover(ctx, slog.New(slog.DiscardHandler), cluster); err != nil {
		return err
	}
	if st.Elsewhere != "" {
		if err := os.RemoveAll(filepath.Dir(st.Elsewhere)); err != nil {
			return fmt.Errorf("remove the cluster: %w", err)
		}
		// The folder is removed with its last cluster; other data folders use it, too.
		_ = os.Remove(elsewhereRoot)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the server's folder: %w", err)
	}
	return nil
}
