package googledrive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/echomind/sync/internal/line"
	"github.com/echomind/sync/services/connector/internal/trouble"
)

var (
	// errStale says that a page token is not accepted any more.
	errStale = errors.New("the page token is no longer accepted")
	// errBroken says that an answer was incomplete or did not match the listing.
	errBroken = errors.New("the answer is incomplete")
	// errTooLarge says that a file is larger than it may be.
	errTooLarge = errors.New("file too large")
)

// refusal is an answer other than 2xx ("Resolve errors").
type refusal struct {
	Status           int
	Reason, Location string
	Message          string
}

func (r *refusal) Error() string {
	text := r.brief()
	if r.Message != "" {
		text += ": " + r.Message
	}
	return text
}

// brief leaves out the message, which may differ from one answer to the next.
func (r *refusal) brief() string {
	text := fmt.Sprintf("Google Drive answered %d", r.Status)
	if r.Reason != "" {
		text += " " + r.Reason
	}
	return text
}

const maxErrorBytes = 64 << 10

func readRefusal(resp *http.Response) error {
	var body struct {
		Error struct {
			Message string `json:"message"`
			Errors  []struct {
				Reason   string `json:"reason"`
				Location string `json:"location"`
			} `json:"errors"`
		} `json:"error"`
	}
	r := &refusal{Status: resp.StatusCode}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	if err == nil && json.Unmarshal(text, &body) == nil {
		r.Message = line.Clip(body.Error.Message, 300)
		if len(body.Error.Errors) > 0 {
			r.Reason, r.Location = line.Clip(body.Error.Errors[0].Reason, 100), body.Error.Errors[0].Location
		}
	}
	return r
}

// refusedWith is the refusal in an error; empty where there is none.
func refusedWith(err error) refusal {
	var r *refusal
	if errors.As(err, &r) {
		return *r
	}
	return refusal{}
}

func isGone(err error) bool {
	status := refusedWith(err).Status
	return status == http.StatusNotFound || status == http.StatusGone
}

// isStale tells whether a page token was refused: "if the token is rejected for any reason, it should be discarded,
// and pagination should be restarted" ("Method: files.list").
func isStale(err error) bool {
	r := refusedWith(err)
	return r.Status == http.StatusGone || r.Status == http.StatusBadRequest &&
		(r.Location == "pageToken" || strings.Contains(strings.ToLower(r.Reason), "pagetoken") || r.Reason == "invalid")
}

// quotaReasons concern the account. They arrive here only from a client that does not wait by itself.
var quotaReasons = map[string]bool{
	"userRateLimitExceeded": true, "rateLimitExceeded": true, "dailyLimitExceeded": true,
	"sharingRateLimitExceeded": true, "quotaExceeded": true, "activityLimitReached": true,
}

// endsSync tells whether an error is about the account and not about one document.
func endsSync(err error) bool {
	var about interface{ EndsSync() bool }
	r := refusedWith(err)
	return errors.As(err, &about) && about.EndsSync() ||
		r.Status == http.StatusUnauthorized || r.Status == http.StatusTooManyRequests || quotaReasons[r.Reason]
}

// isRefused tells whether the user, or the application, may not read this one item.
func isRefused(err error) bool { return refusedWith(err).Status/100 == 4 && !endsSync(err) }

// documentReason returns why one document could not be read, in words for its owner; true says that this lasts until the document
// changes.
func documentReason(err error) (reason string, lasting bool) {
	r := refusedWith(err)
	switch r.Reason {
	case "exportSizeLimitExceeded":
		return "too large to be exported: Google Drive exports up to 10 MB (exportSizeLimitExceeded)", true
	case "cannotExportFile":
		return "its owner does not allow it to be exported (cannotExportFile)", false
	case "cannotDownloadFile", "cannotDownload", "insufficientFilePermissions", "insufficientPermissions",
		"appNotAuthorizedToFile", "forbidden":
		return fmt.Sprintf("the connected account may not download it (%s); ask its owner for access", r.Reason), false
	case "cannotDownloadAbusiveFile":
		return "Google Drive has flagged it as malware or spam; it is not downloaded (cannotDownloadAbusiveFile)", true
	case "fileNotDownloadable", "fileNotExportable", "badRequest":
		return fmt.Sprintf("Google Drive offers no text of it (%s)", r.Reason), true
	case "downloadQuotaExceeded":
		return "it was downloaded too often lately (downloadQuotaExceeded); it is tried again", false
	}
	switch {
	case r.Status != 0:
		return r.brief(), false
	case errors.Is(err, errBroken):
		return errBroken.Error(), false
	}
	return trouble.Text(err), false
}
