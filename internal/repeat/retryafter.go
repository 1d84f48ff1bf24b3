package repeat

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longestRetryAfter bounds the wait: a date far in the future would otherwise lock an account for ever.
const longestRetryAfter = 24 * time.Hour

// RetryAfter reads how long a response asks to wait: seconds, which Microsoft writes with a fraction at times ("Microsoft Graph
// throttling guidance"), or a date. A date is compared with the response's own Date where it has one: our clock may differ. 0
// means that the response does not say.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		switch {
		case !(seconds > 0): // also NaN
			return 0
		case seconds > longestRetryAfter.Seconds():
			return longestRetryAfter
		}
		return time.Duration(seconds * float64(time.Second))
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), longestRetryAfter)
}
