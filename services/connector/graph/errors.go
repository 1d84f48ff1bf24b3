package graph

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/internal/answer"
	"github.com/echomind/sync/services/connector/internal/trouble"
)

// ErrLink says that a link must not be followed.
var ErrLink = errors.New("the link is refused")

// ErrVanished says that an item is gone when it is read.
var ErrVanished = errors.New("the item is gone")

// ErrTooLarge says that content is larger than may be read.
var ErrTooLarge = answer.ErrOversize

// status is the HTTP status of an error, or 0.
func status(err error) int { return answer.RefusalOf(err).Status }

// IsGone tells whether the answer says that the item does not exist.
func IsGone(err error) bool {
	return errors.Is(err, ErrVanished) || status(err) == http.StatusNotFound
}

// IsRefused tells whether the account may not read the item, or the item is locked for everyone.
func IsRefused(err error) bool {
	switch status(err) {
	case http.StatusForbidden, http.StatusLocked, http.StatusUnavailableForLegalReasons:
		return true
	}
	return false
}

// EndsSync tells whether an error concerns the account or the service as a whole, so that other requests would fail, too.
func EndsSync(err error) bool {
	r := answer.RefusalOf(err)
	return answer.EndsSync(err) || r.Status == http.StatusTooManyRequests || r.Status == statusBandwidth ||
		r.Has("activityLimitReached", "throttledRequest", "quotaLimitReached")
}

// statusBandwidth is SharePoint's answer to too many bytes.
const statusBandwidth = 509

// Resync tells whether a delta token is refused, and where to start again; start is empty where the answer does not say.
func Resync(err error) (start string, resync bool) {
	r := answer.RefusalOf(err)
	if r.Status == http.StatusGone || r.Has("resyncRequired", "resyncApplyDifferences", "resyncUploadDifferences",
		"resyncChangesApplyDifferences", "resyncChangesUploadDifferences", "syncStateNotFound", "syncStateInvalid") {
		return r.Location, true
	}
	return "", false
}

const reasonMalware = "malware was detected in this file; it is not downloaded"

// Reason is the reason of a document that could not be fetched, in words for people. It stays the same as long as the problem is
// the same.
func Reason(err error) string {
	r := answer.RefusalOf(err)
	switch {
	case errors.Is(err, errDiffers), errors.Is(err, errNoURL), errors.Is(err, answer.ErrTooLarge), errors.Is(err, ErrLink):
		return err.Error()
	case r.Status == 0:
		return trouble.Text(err)
	case r.Has("malwareDetected", "virusSuspicious"):
		return reasonMalware
	case r.Status == http.StatusForbidden:
		return "no permission to read this file (" + strings.Join(r.Codes, "/") + ")"
	case r.Status == http.StatusLocked:
		return "the file is locked"
	}
	return fmt.Sprintf("the service answered %d %s", r.Status, strings.Join(r.Codes, "/"))
}

// AsPermanent marks an error of the source as a whole as permanent where trying again does not help. named is the configuration to
// look at.
func AsPermanent(err error, named string) error {
	switch status(err) {
	case http.StatusUnauthorized:
		return worker.Permanent(fmt.Errorf("the account's consent is not valid any more; connect it again with `echomind connect microsoft --connector ID`: %w", err))
	case http.StatusForbidden:
		return worker.Permanent(fmt.Errorf("%s: the account may not read it; grant access, or connect another account: %w", named, err))
	case http.StatusNotFound:
		return worker.Permanent(fmt.Errorf("%s: it does not exist, or the account cannot see it: %w", named, err))
	case http.StatusBadRequest:
		return worker.Permanent(fmt.Errorf("%s: Microsoft Graph does not take it: %w", named, err))
	}
	if errors.Is(err, ErrLink) {
		return worker.Permanent(fmt.Errorf("%s: %w", named, err))
	}
	return err
}
