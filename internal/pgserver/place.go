package pgserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/echomind/sync/internal/devstack/datadir"
)

// elsewhereRoot is the folder for root's clusters where the server's user cannot reach the server folder. Unlike /tmp it is
// durable.
const elsewhereRoot = "/var/lib/echomind"

// ErrClusterGone means that the folder's cluster is missing: starting an empty one in its place would hide the loss.
var ErrClusterGone = errors.New("the cluster is gone")

// elsewhere returns the cluster's folder for the server folder dir: always the same.
func elsewhere(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(elsewhereRoot, hex.EncodeToString(sum[:])[:16], "postgres")
}

// place decides where the cluster is, and as whom it runs.
func (s *Server) place(ctx context.Context) (err error) {
	here := filepath.Join(s.cfg.Dir, "cluster")
	s.cluster = here
	if s.state.Elsewhere != "" {
		s.cluster = s.state.Elsewhere
	}
	if s.id, err = identify(s.cluster); err != nil {
		return err
	}
	if s.cluster == here {
		err := s.id.reaches(ctx, s.cfg.BinDir, s.cfg.Dir)
		switch {
		case err == nil:
		case s.state.Initialised:
			return fmt.Errorf("reach the cluster %s as %s (are the folders above it open to that user, chmod o+x?): %w",
				here, s.id.name, err)
		case !errors.Is(err, os.ErrPermission):
			// An interrupted probe, or a machine out of processes, says nothing about the folder.
			return fmt.Errorf("try whether %s reaches %s: %w", s.id.name, s.cfg.Dir, err)
		default:
			s.cluster = elsewhere(s.cfg.Dir)
			s.cfg.Log.Info("The server's user cannot reach the data folder; the cluster is kept elsewhere",
				"user", s.id.name, "cluster", s.cluster)
		}
	}
	if s.cluster == here {
		return nil
	}
	return s.placeElsewhere(ctx)
}

func (s *Server) placeElsewhere(ctx context.Context) (err error) {
	home := filepath.Dir(s.cluster)
	for _, dir := range []string{filepath.Dir(home), home} {
		if err := datadir.Make(dir); err != nil {
			return err
		}
	}
	if s.id, err = identify(s.cluster); err != nil {
		return err
	}
	if err := s.id.reaches(ctx, s.cfg.BinDir, home); err != nil {
		return fmt.Errorf("use %s, since %s cannot reach %s: %w", home, s.id.name, s.cfg.Dir, err)
	}
	s.state.Elsewhere = s.cluster
	// A copy of the data folder names the same cluster: the second to start is refused.
	return s.claim(home)
}

// reconcile makes the cluster's folder agree with the state: a leftover server is stopped, and a cluster whose password is lost
// (its data folder was deleted) is moved aside.
func (s *Server) reconcile(ctx context.Context, known bool) error {
	_, err := os.Stat(s.cluster)
	missing := errors.Is(err, os.ErrNotExist)
	if err != nil && !missing {
		return fmt.Errorf("look at the cluster: %w", err)
	}
	if missing && s.state.Initialised {
		return fmt.Errorf("%w: %s; to start with an empty database remove %s",
			ErrClusterGone, s.cluster, filepath.Join(s.cfg.Dir, StateFile))
	}
	if missing {
		return nil
	}
	if s.crashed, err = stopLeftover(ctx, s.cfg.Log, s.cluster); err != nil {
		return err
	}
	if known {
		return nil
	}
	aside := s.cluster + ".aside-" + time.Now().UTC().Format("20060102T150405.000")
	s.cfg.Log.Warn("A cluster of a former data folder is put aside; delete it if nobody misses its data",
		"aside", aside)
	if err := os.Rename(s.cluster, aside); err != nil {
		return fmt.Errorf("put the former cluster aside: %w", err)
	}
	return nil
}
