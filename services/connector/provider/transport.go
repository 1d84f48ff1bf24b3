package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/guard"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/sdk/worker"
)

// maxErrorBody bounds how much is read of an error's body.
const maxErrorBody = 64 << 10

type transport struct {
	Options
	name   string
	origin string // requests to it are authorised
	limits Limits
}

// RoundTrip makes a request until its answer is final.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if req.Body != nil {
		defer func() { _ = req.Body.Close() }()
	}
	repeatable := repeats(req, t.repeatPosts)
	failures, throttles, renewed := 0, 0, false
	for {
		if err := t.Quota.Take(ctx); err != nil {
			return nil, accountError{err}
		}
		token, err := t.token(ctx, req)
		if err != nil {
			return nil, accountError{err}
		}
		resp, err := t.send(req, token)
		if err != nil {
			t.Metrics.count(t.name, "error")
			failures++
			if ctx.Err() != nil || !repeatable || errors.Is(err, guard.ErrBlocked) || failures >= t.limits.Tries {
				return nil, t.Cleaner.Error(err)
			}
			if err := t.Clock.Sleep(ctx, pauses.Scattered(failures)); err != nil {
				return nil, err
			}
			continue
		}
		how, reason, message, err := t.judge(req, resp)
		if err != nil { // its body could not be read
			t.Metrics.count(t.name, "error")
			how, message = broken, "the answer broke off"
		}
		t.Metrics.count(t.name, outcomes[how])
		switch how {
		case final:
			return resp, nil
		case refused:
			if token == "" {
				return resp, nil
			}
			if renewed || !repeatable {
				return nil, t.reconnect(resp.StatusCode, reason, message)
			}
			renewed = true
			t.Tokens.Refuse(token)
		case broken:
			failures++
			isFinal, err := t.retryLater(req, resp, reason, message, failures, repeatable)
			if err != nil {
				return nil, err
			}
			if isFinal {
				return resp, nil
			}
		case throttled, exhausted:
			throttles++
			if err := t.throttle(ctx, resp, how, reason, message, throttles, repeatable); err != nil {
				return nil, err
			}
		}
	}
}

// longestContentWait is how long a host other than the API may ask to wait before one more try.
const longestContentWait = 30 * time.Second

// retryLater waits before a request with a broken answer is repeated, or says that the answer is final. A host other than the API
// concerns one document, which fails alone: it is not waited for like the account.
func (t *transport) retryLater(
	req *http.Request, resp *http.Response, reason, message string, times int, repeatable bool,
) (isFinal bool, err error) {
	ctx, asked, accounts := req.Context(), repeat.RetryAfter(resp.Header, t.Clock.Now()), t.isAccountRequest(req)
	switch {
	case asked > t.limits.LongestWait && accounts:
		return false, t.postpone(resp, reason, message, asked, asked)
	case !repeatable || times >= t.limits.Tries || asked > longestContentWait && !accounts:
		return true, nil
	}
	pause := min(max(asked, pauses.Scattered(times)), t.limits.LongestWait)
	if asked == 0 || !accounts {
		return false, t.Clock.Sleep(ctx, pause)
	}
	return false, t.Waits.sleep(ctx, t.Clock, pause, t.Dialect.waitReason())
}

// isAccountRequest says whether a request is for the API, or for a token. Any other request is for content at a host that gives it
// to every holder of the URL.
func (t *transport) isAccountRequest(req *http.Request) bool {
	return t.repeatPosts || t.Tokens != nil && origin(req.URL) == t.origin
}

// throttle blocks the account in all replicas, and waits; or returns why it does not wait. The next Take waits for the quota.
func (t *transport) throttle(
	ctx context.Context, resp *http.Response, how verdict, reason, message string, times int, repeatable bool,
) error {
	asked := repeat.RetryAfter(resp.Header, t.Clock.Now())
	pause := asked
	switch {
	case how == exhausted:
		pause = max(asked, exhaustedFor)
	case asked == 0:
		pause = throttlePauses.Scattered(times)
	}
	isOver := how == exhausted || pause > t.limits.LongestWait || times >= t.limits.Throttles || !repeatable
	if isOver && asked == 0 {
		pause = max(pause, leastPostponed)
	}
	answer := t.postpone(resp, reason, message, asked, pause)
	if how == exhausted {
		answer.WaitReason = t.Dialect.exhaustedReason()
	}
	if err := t.Quota.Block(ctx, pause); err != nil {
		return errors.Join(answer, err)
	}
	if isOver {
		return answer
	}
	t.Metrics.waited(t.name, pause)
	return t.Waits.sleep(ctx, t.Clock, pause, answer.WaitReason)
}

// postpone is the error for a provider that must be waited for, but not by this request.
func (t *transport) postpone(resp *http.Response, reason, message string, asked, wait time.Duration) *Error {
	return &Error{
		Provider: t.Dialect.Name, Status: resp.StatusCode, Reason: reason, Message: message, RetryAfter: asked,
		Wait: wait, WaitReason: t.Dialect.waitReason(),
	}
}

// reconnect is the error for an account whose fresh token the provider refuses.
func (t *transport) reconnect(status int, reason, message string) error {
	return worker.Permanent(&Error{
		Provider: t.Dialect.Name, Status: status, Reason: reason,
		Message: strings.TrimSpace(fmt.Sprintf("a fresh access token is refused; %s. %s", t.Dialect.reconnect(), message)),
	})
}

// token is the token of a request; "" for a host other than the API.
func (t *transport) token(ctx context.Context, req *http.Request) (string, error) {
	if t.Tokens == nil || origin(req.URL) != t.origin {
		return "", nil
	}
	token, err := t.Tokens.Token(ctx)
	t.Cleaner.Learn(token) // a refusal may repeat the token
	return token, err
}

// line is a line of the provider's words, cleaned while it is whole.
func (t *transport) line(text string) string { return clipLine(t.Cleaner.Text(text)) }

// send makes the request once.
func (t *transport) send(req *http.Request, token string) (*http.Response, error) {
	ctx, end := context.WithCancelCause(req.Context())
	late := &deadline.Error{Name: t.name + ".answer", After: t.limits.Answer}
	timer := time.AfterFunc(t.limits.Answer, func() { end(late) })
	out := req.Clone(ctx)
	if req.GetBody != nil {
		content, err := req.GetBody()
		if err != nil {
			end(nil)
			return nil, err
		}
		out.Body = content
	}
	out.Header.Set("User-Agent", userAgent)
	if t.Tokens != nil {
		out.Header.Del("Authorization") // only our own is sent
	}
	if token != "" {
		out.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := t.Base.RoundTrip(out)
	timer.Stop()
	if err != nil {
		err = lateOr(ctx, err)
		end(nil)
		return nil, err
	}
	resp.Body = newBody(ctx, end, resp.Body, t.name, t.limits)
	return resp, nil
}

// judge says what an answer means. It reads the body of an error, bounded, and leaves it readable.
func (t *transport) judge(req *http.Request, resp *http.Response) (how verdict, reason, message string, err error) {
	if resp.StatusCode < http.StatusBadRequest {
		return final, "", "", nil
	}
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(content))
	resp.ContentLength = int64(len(content))
	resp.Header.Del("Content-Length")
	how, reason, message = t.Dialect.judge(resp.StatusCode, t.isAccountRequest(req) && resp.Header.Get("Retry-After") != "", content)
	reason, message = t.line(reason), t.line(message)
	if how != final {
		err = nil // the status says enough
	}
	return how, reason, message, err
}

// repeats says whether a request may be made more than once.
func repeats(req *http.Request, posts bool) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
	case http.MethodPost:
		if !posts {
			return false
		}
	default:
		return false
	}
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}
