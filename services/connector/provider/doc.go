// Package provider is what lies between a source and its provider's API: authorisation, quota, retries, deadlines. A
// source gets an *http.Client and asks; what comes back is final.
//
//	client.go       the client of one account
//	transport.go    one request, from the quota to the answer
//	body.go         a body that stalls ends
//	answer.go       what an answer means, by status and by the provider's reasons
//	patience.go     how often, and how long, a request is tried
//	quota.go        the token bucket of an account, shared by all replicas
//	token.go        access tokens: fetched early, shared, fetched again where one is refused
//	grant.go        OAuth 2: refresh tokens, client credentials
//	assertion.go    OAuth 2: service accounts
//	consent.go      what a refused grant means for the user
//	browser.go      a user's consent, had in a browser on this machine
//	device.go       a user's consent, had by a code on any machine
//	credentials.go  the fields of a configuration that say who asks
//
// # What a source sees
//
//	answer                         what the source gets
//	2xx, 3xx (redirects followed)  the response; its body has deadlines
//	401                            a new token once; then an error, permanent: connect again
//	429, 503 that asks to wait,
//	quota by reason                waits and tries again; then an error
//	other 5xx, resets, timeouts    tries again; then the response, or the error
//	any other 4xx                  the response, its body bounded: it is about what was asked for
//
// An *Error is about the account, whatever was asked for: a source must end its sync with it, wrapped by %w, and never
// write it down as the failure of one document. EndsSync says so without importing this package. An error that no
// waiting mends is a worker.Permanent as well.
//
// # Waiting for quota
//
// A wait is no failure: the run waits, and keeps its lease and its slot. Up to Limits.LongestWait (10 minutes) is waited; where the
// provider asks for more, the run fails for now with that as its message, and its slot is free for others. While an account must
// wait, no replica makes requests with it.
//
// Only requests that may be repeated are: GET, HEAD and OPTIONS. A download that breaks off midway is its reader's to
// repeat: only the reader knows whether the content is still the same.
package provider
