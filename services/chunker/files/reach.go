package files

import (
	"errors"

	"github.com/echomind/sync/sdk/worker"
)

// CheckReach says whether a sync would refuse the folder of a configuration. It does not check what only the service can, such
// as whether it may enter the folder.
func CheckReach(cfg Config, roots *Roots) error {
	if cfg.IsUploaded() {
		return nil
	}
	folder, err := parseURL(cfg.URL)
	if err != nil {
		return err
	}
	opened, _, err := openFolder(folder, roots, true)
	if opened != nil {
		err = errors.Join(err, opened.Close())
	}
	if errors.Is(err, worker.ErrPermanent) {
		return err
	}
	return nil
}
