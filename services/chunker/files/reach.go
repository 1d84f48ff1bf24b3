package files

import (
	"errors"

	"github.com/echomind/sync/sdk/worker"
)

// CheckReach says whether a sync would refuse the folder of a configuration. What only the service itself can tell, such as
// whether it may enter the folder, is not asked.
func CheckReach(cfg Config, roots *Roots) error {
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
