package connector

import (
	"errors"

	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/provider"
)

// postponed turns an error of a provider that asks for a longer wait than a sync waits into worker.Postponed, which is no failure.
func postponed(err error) error {
	asked, is := errors.AsType[*provider.Error](err)
	if !is || asked.Wait <= 0 || errors.Is(err, worker.ErrPermanent) || errors.Is(err, lifecycle.ErrFenced) {
		return err
	}
	return worker.Postponed(asked.Wait, errors.New(asked.WaitReason))
}
