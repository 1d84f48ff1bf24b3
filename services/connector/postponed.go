package connector

import (
	"errors"

	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/provider"
)

// postponed turns the error of a sync that its provider asks to wait, for longer than a sync does, into an end that is no failure.
func postponed(err error) error {
	var asked *provider.Error
	if !errors.As(err, &asked) || asked.Wait <= 0 || errors.Is(err, worker.ErrPermanent) || errors.Is(err, lifecycle.ErrFenced) {
		return err
	}
	return worker.Postponed(asked.Wait, errors.New(asked.WaitReason))
}
