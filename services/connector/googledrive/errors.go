package googledrive

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/echomind/sync/services/connector/internal/answer"
	"github.com/echomind/sync/services/connector/internal/trouble"
)

// errStale says that a page token is not accepted any more.
var errStale = errors.New("the page token is no longer accepted")

// service is Google Drive in messages.
const service = "Google Drive"

func isGone(err error) bool {
	status := answer.RefusalOf(err).Status
	return status == http.StatusNotFound || status == http.StatusGone
}

// isStale tells whether a page token was refused: "if the token is rejected for any reason, it should be discarded,
// and pagination should be restarted" ("Method: files.list").
func isStale(err error) bool {
	r := answer.RefusalOf(err)
	return r.Status == http.StatusGone || r.Status == http.StatusBadRequest &&
		(r.Parameter == "pageToken" || strings.Contains(strings.ToLower(r.Code()), "pagetoken") || r.Code() == "invalid")
}

// quotaReasons concern the account. They arrive here only from a client that does not wait by itself.
var quotaReasons = []string{
	"userRateLimitExceeded", "rateLimitExceeded", "dailyLimitExceeded", "sharingRateLimitExceeded", "quotaExceeded", "activityLimitReached",
}

// endsSync tells whether an error is about the account and not about one document.
func endsSync(err error) bool {
	r := answer.RefusalOf(err)
	return answer.EndsSync(err) || r.Status == http.StatusUnauthorized || r.Status == http.StatusTooManyRequests || r.Has(quotaReasons...)
}

// isRefused tells whether the user, or the application, may not read this one item.
func isRefused(err error) bool { return answer.RefusalOf(err).Status/100 == 4 && !endsSync(err) }

// documentReason returns why one document could not be read, in words for its owner; true says that this lasts until the document
// changes.
func documentReason(err error) (reason string, lasting bool) {
	r := answer.RefusalOf(err)
	switch r.Code() {
	case "exportSizeLimitExceeded":
		return "too large to be exported: Google Drive exports up to 10 MB (exportSizeLimitExceeded)", true
	case "cannotExportFile":
		return "its owner does not allow it to be exported (cannotExportFile)", false
	case "cannotDownloadFile", "cannotDownload", "insufficientFilePermissions", "insufficientPermissions",
		"appNotAuthorizedToFile", "forbidden":
		return fmt.Sprintf("the connected account may not download it (%s); ask its owner for access", r.Code()), false
	case "cannotDownloadAbusiveFile":
		return "Google Drive has flagged it as malware or spam; it is not downloaded (cannotDownloadAbusiveFile)", true
	case "fileNotDownloadable", "fileNotExportable", "badRequest":
		return fmt.Sprintf("Google Drive offers no text of it (%s)", r.Code()), true
	case "downloadQuotaExceeded":
		return "it was downloaded too often lately (downloadQuotaExceeded); it is tried again", false
	}
	switch {
	case r.Status != 0:
		return r.Brief(), false
	case errors.Is(err, answer.ErrIncomplete):
		return answer.ErrIncomplete.Error(), false
	}
	return trouble.Text(err), false
}
