package provider

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/echomind/sync/services/connector/internal/answer"
)

// verdict says how an answer is treated.
type verdict int

const (
	final     verdict = iota // the source gets the answer
	refused                  // the access token is not accepted
	throttled                // the account must wait, and ask again
	exhausted                // the account has no quota left for hours
	broken                   // the provider is disturbed; ask again
)

// Dialect is a provider's names for its errors.
type Dialect struct {
	// Name is the provider's name, in messages and metrics.
	Name string
	// Maker is the company that runs it, for people.
	Maker string
	// Account is the users' word for the account.
	Account string
	// Connect is the command that gets a user's consent.
	Connect string
	// Connector is the id in commands that renew its credentials; 0 where there is no connector yet.
	Connector int32
	// Throttled are reasons to wait, whatever the status.
	Throttled []string
	// Exhausted are reasons that last until another day.
	Exhausted []string
	// Offline says how to get a refresh token, for a user whose consent left none.
	Offline string
}

// Google is the dialect of the Drive API ("Resolve errors", "Usage limits").
var Google = Dialect{
	Name: "Google Drive", Maker: "Google", Account: "Google account", Connect: "echomind connect google",
	Throttled: []string{"userRateLimitExceeded", "rateLimitExceeded", "RATE_LIMIT_EXCEEDED"},
	Exhausted: []string{"dailyLimitExceeded", "dailyLimitExceededUnreg", "quotaExceeded"},
	Offline: "it gives one where access_type=offline and prompt=consent are asked for, as they were; take the application's access away at " +
		"https://myaccount.google.com/connections, and connect again",
}

// Microsoft is the dialect of Graph ("Microsoft Graph error responses and resource types", "Microsoft Graph throttling guidance").
var Microsoft = Dialect{
	Name: "Microsoft Graph", Maker: "Microsoft", Account: "Microsoft account", Connect: "echomind connect microsoft",
	Throttled: []string{"activityLimitReached", "throttledRequest", "TooManyRequests", "tooManyRequests"},
	Exhausted: []string{"quotaLimitReached"},
	Offline: "it gives one with the permission offline_access, which was asked for; add it to the application's registration " +
		"(API permissions, Microsoft Graph, delegated), consent to it, and connect again",
}

// signIn names the provider's token endpoint, which is another server than its API.
func (d Dialect) signIn() string { return cmp.Or(d.Maker, d.Name) + " sign-in" }

// reconnect says how an account is connected again.
func (d Dialect) reconnect() string {
	if d.Connector == 0 {
		return fmt.Sprintf("connect this %s again with `%s`", d.Account, d.Connect)
	}
	return fmt.Sprintf("connect this %s again with `%s --connector %d`, or give it other credentials%s", d.Account, d.Connect, d.Connector, d.update())
}

// update names the command that changes a connector's credentials; empty where there is no connector yet.
func (d Dialect) update() string {
	if d.Connector == 0 {
		return ""
	}
	return fmt.Sprintf(" with `echomind connectors update %d --config @FILE`", d.Connector)
}

// waitReason says that the provider asked us to wait.
func (d Dialect) waitReason() string { return cmp.Or(d.Maker, d.Name) + " asked us to wait" }

// exhaustedReason says that an account may make no more requests today.
func (d Dialect) exhaustedReason() string {
	return d.Name + " allows this account no more requests for now; we wait"
}

// statusBandwidth is SharePoint's answer to too many bytes.
const statusBandwidth = 509

// judge says what an answer means, with the provider's reason and message, which are not cleaned yet. body is the body of an answer
// of 400 and above. asked says whether the answer asks the account to wait: a 503 that does not ask concerns this request only, and
// does not stop the others.
func (d Dialect) judge(status int, asked bool, body []byte) (how verdict, reason, message string) {
	if status < http.StatusBadRequest {
		return final, "", ""
	}
	says := answer.ParseRefusal(body)
	reason, message = says.Code(), says.Message
	has := func(known []string) bool {
		i := slices.IndexFunc(says.Codes, func(r string) bool { return slices.Contains(known, r) })
		if i >= 0 {
			reason = says.Codes[i]
		}
		return i >= 0
	}
	switch {
	case has(d.Exhausted) && (status == http.StatusForbidden || status == http.StatusTooManyRequests):
		return exhausted, reason, message
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable && asked,
		status == statusBandwidth, has(d.Throttled):
		return throttled, reason, message
	case status == http.StatusUnauthorized:
		return refused, reason, message
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented,
		status == http.StatusRequestTimeout:
		return broken, reason, message
	}
	return final, reason, message
}
