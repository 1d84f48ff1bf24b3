package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/echomind/sync/internal/line"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/internal/answer"
	"github.com/echomind/sync/services/connector/internal/trouble"
)

// ErrLink says that a link must not be followed.
var ErrLink = errors.New("the link is refused")

// ErrVanished says that an item is gone when it is read.
var ErrVanished = errors.New("the item is gone")

// ErrTooLarge says that content is larger than may be read.
var ErrTooLarge = errors.New("file too large")

// Error is an answer other than 200.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Codes are the error codes of the answer, the most general first ("Microsoft Graph error responses and resource types": decide
	// by the most detailed known code, never by the message).
	Codes []string
	// Message is the service's text for people, in one line; it may be empty. It may differ from one answer to the next.
	Message string
	// Location is where to start again after a 410.
	Location string
	// Target is the address that was asked for.
	Target string
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s answered %d %s", e.Target, e.Status, strings.Join(e.Codes, "/"))
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// Has tells whether the answer carries an error code.
func (e *Error) Has(codes ...string) bool {
	for _, have := range e.Codes {
		for _, code := range codes {
			if strings.EqualFold(have, code) {
				return true
			}
		}
	}
	return false
}

func answerError(resp *http.Response, asked string) error {
	e := &Error{Status: resp.StatusCode, Location: resp.Header.Get("Location"), Target: asked}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	type inner struct {
		Code       string `json:"code"`
		Message    string `json:"message"`
		InnerError *inner `json:"innerError"`
		Innererror *inner `json:"innererror"`
	}
	var answer struct {
		Error *inner `json:"error"`
	}
	if json.Unmarshal(body, &answer) == nil {
		if answer.Error != nil {
			e.Message = clipMessage(answer.Error.Message)
		}
		for at := answer.Error; at != nil && len(e.Codes) < 8; {
			// A longer text is no code. A cut text may be a part of a secret, which the cleaner would not recognise.
			if at.Code != "" && len(at.Code) <= maxCode {
				e.Codes = append(e.Codes, strings.ToValidUTF8(at.Code, ""))
			}
			if at.InnerError != nil {
				at = at.InnerError
			} else {
				at = at.Innererror
			}
		}
	}
	if len(e.Codes) == 0 {
		e.Codes = []string{http.StatusText(resp.StatusCode)}
	}
	return e
}

// maxCode is how long an error code may be; the longest that is documented has half of it.
const maxCode = 64

// maxMessage bounds what is kept of a message.
const maxMessage = 400

// clipMessage returns the first whole words of a message: a cut word may be a part of a secret, which the cleaner would not
// recognise.
func clipMessage(message string) string {
	message = line.One(message)
	if len(message) <= maxMessage {
		return message
	}
	last := strings.LastIndexByte(message[:maxMessage+1], ' ')
	return strings.TrimSpace(message[:max(last, 0)] + " …")
}

// status is the HTTP status of an error, or 0.
func status(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

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
	var about interface{ EndsSync() bool }
	if errors.As(err, &about) {
		return about.EndsSync()
	}
	var e *Error
	return errors.As(err, &e) && (e.Status == http.StatusTooManyRequests || e.Status == statusBandwidth ||
		e.Has("activityLimitReached", "throttledRequest", "quotaLimitReached"))
}

// statusBandwidth is SharePoint's answer to too many bytes.
const statusBandwidth = 509

// Resync tells whether a delta token is refused, and where to start again; start is empty where the answer does not say.
func Resync(err error) (start string, resync bool) {
	var e *Error
	if !errors.As(err, &e) {
		return "", false
	}
	if e.Status == http.StatusGone || e.Has("resyncRequired", "resyncApplyDifferences", "resyncUploadDifferences",
		"resyncChangesApplyDifferences", "resyncChangesUploadDifferences", "syncStateNotFound", "syncStateInvalid") {
		return e.Location, true
	}
	return "", false
}

const reasonMalware = "malware was detected in this file; it is not downloaded"

// Reason is the reason of a document that could not be fetched, in words for people. It stays the same as long as the problem is
// the same.
func Reason(err error) string {
	var e *Error
	switch {
	case errors.Is(err, errDiffers), errors.Is(err, errNoURL), errors.Is(err, answer.ErrTooLarge), errors.Is(err, ErrLink):
		return err.Error()
	case !errors.As(err, &e):
		return trouble.Text(err)
	case e.Has("malwareDetected", "virusSuspicious"):
		return reasonMalware
	case e.Status == http.StatusForbidden:
		return "no permission to read this file (" + strings.Join(e.Codes, "/") + ")"
	case e.Status == http.StatusLocked:
		return "the file is locked"
	}
	return fmt.Sprintf("the service answered %d %s", e.Status, strings.Join(e.Codes, "/"))
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

// truncatedError is the error of an incomplete answer.
type truncatedError struct{ err error }

func (b *truncatedError) Error() string { return b.err.Error() }
func (b *truncatedError) Unwrap() error { return b.err }
