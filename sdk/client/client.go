// Package client asks the API of EchoMind Sync: REST, as docs/api.md has it. Its operations and types are generated from services/api/openapi.json.
//
//	c, err := client.New("https://sync.example", os.Getenv("ECHOMIND_TOKEN"))
//	…
//	page, err := c.ConnectorsListWithResponse(ctx, &client.ConnectorsListParams{})
//	var refused *client.Error
//	switch {
//	case errors.As(err, &refused): // the API's answer: refused.Problem says what is wrong, and what to do
//	case err != nil: // nobody has answered, or not as the API does
//	}
//	for _, connector := range *page.JSON200.Connectors { … }
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// timeout is how long an operation may take, whatever its context says; of an upload, how long nothing of it may be sent, or answered.
	timeout = 30 * time.Second
	// maxAnswer is the longest answer. A page of a list has 1 MiB at most, one connector with its configuration much less.
	maxAnswer = 8 << 20
	base      = "/api/v1"
)

// Error is an answer of the API that is none of those that were asked for (RFC 9457).
type Error struct {
	// Status is the answer's, such as 404.
	Status int
	// Problem says what is wrong, and what to do.
	Problem Problem
	// RetryAfter is how long to wait before it is asked again; 0 where the API does not say.
	RetryAfter time.Duration
}

// Error is part of error.
func (e *Error) Error() string {
	text := strconv.Itoa(e.Status) + " " + e.Problem.Title
	between := ": "
	for _, more := range []*string{e.Problem.Detail, e.Problem.Fix} {
		if more != nil && *more != "" {
			text, between = text+between+*more, " "
		}
	}
	if e.Problem.Errors != nil {
		for _, field := range *e.Problem.Errors {
			text += fmt.Sprintf("; %s %s", field.Field, field.Detail)
		}
	}
	return text
}

// New makes a client of the API at an address such as https://sync.example, for somebody's token: one of EchoMind's, or an issuer's. An address
// without TLS is refused, but for those of this machine. It asks nobody yet. Operations have 30 s, but for uploads, which go on while something of them is sent; their answers have at most
// 8 MiB. Redirects are not followed.
func New(address, token string) (*ClientWithResponses, error) {
	u, err := url.Parse(strings.TrimSuffix(address, "/"))
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("address %q: must be the API's, such as https://sync.example", withoutUser(address))
	case !isSafe(u):
		return nil, fmt.Errorf("address %q: must begin with https://, since a token is sent there; http is for this machine alone", withoutUser(address))
	case token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return nil, errors.New("token: must be one, such as ems_… of `echomind tokens create`")
	}
	as := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
	return NewClientWithResponses(strings.TrimSuffix(u.String(), base), WithHTTPClient(doer{newHTTPClient(), timeout}), WithRequestEditorFn(as))
}

// Ask does any operation, by its method and its path below /api/v1, such as /connectors?late=true; body is JSON, or nil. It is for callers that have no use for types.
func Ask(ctx context.Context, c *ClientWithResponses, method, path string, body []byte, header http.Header) (answer []byte, headers http.Header, err error) {
	one, ok := c.ClientInterface.(*Client)
	if !ok || !strings.HasPrefix(path, "/") {
		return nil, nil, fmt.Errorf("path %q: must begin with /, and be below /api/v1", path)
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(one.Server, "/")+base+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, fmt.Errorf("path %q: %w", path, err)
	}
	if isEndless(r) || r.URL.Fragment != "" {
		return nil, nil, fmt.Errorf("path %q: must have no fragment (#), and an end, which /events has not", path)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if err := one.applyEditors(ctx, r, nil); err != nil {
		return nil, nil, err
	}
	got, err := one.Client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = got.Body.Close() }()
	answer, err = io.ReadAll(io.LimitReader(got.Body, maxAnswer))
	return answer, got.Header, err
}

func withoutUser(address string) string {
	if before, after, found := strings.Cut(address, "@"); found {
		scheme, _, _ := strings.Cut(before, "//")
		return scheme + "//…@" + after
	}
	return address
}

func isSafe(u *url.URL) bool {
	at, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && at.IsLoopback())
}

func newHTTPClient() *http.Client {
	return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// doer asks, and returns an answer that is whole, or an error.
type doer struct {
	client   *http.Client
	patience time.Duration
}

// Do is part of HttpRequestDoer.
func (d doer) Do(r *http.Request) (*http.Response, error) {
	if isEndless(r) {
		return d.watch(r)
	}
	ctx, cancel := d.within(r)
	defer cancel()
	answer, err := d.client.Do(r.WithContext(ctx))
	if err != nil {
		return nil, whatEnded(ctx, err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, whatEnded(ctx, brokenOff(r, err))
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("the answer of %s has more than %d bytes", r.URL.Host, maxAnswer)
	case answer.StatusCode >= http.StatusMultipleChoices:
		return nil, refusal(r, answer, body)
	case answer.StatusCode != http.StatusNoContent && kindOf(answer) != "application/json":
		return nil, strangerOf(r, answer)
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, nil
}

// within is the time that a request has. An upload has it anew with each part of its files that is sent.
func (d doer) within(r *http.Request) (context.Context, context.CancelFunc) {
	late := lateError{d.patience}
	if r.Body == nil || !strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		return context.WithTimeoutCause(r.Context(), d.patience, late)
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	over := time.AfterFunc(d.patience, func() { cancel(late) })
	r.Body = sending{r.Body, func() { over.Reset(d.patience) }}
	return ctx, func() {
		over.Stop()
		cancel(nil)
	}
}

// sending is a body that is sent piece by piece.
type sending struct {
	io.ReadCloser
	goesOn func()
}

// Read is part of io.Reader.
func (s sending) Read(into []byte) (int, error) {
	n, err := s.ReadCloser.Read(into)
	s.goesOn()
	return n, err
}

// isEndless says whether an answer goes on for as long as somebody watches.
func isEndless(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, base+"/events") }

func (d doer) watch(r *http.Request) (*http.Response, error) {
	answer, err := d.client.Do(r)
	if err != nil || answer.StatusCode < http.StatusMultipleChoices {
		return answer, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, brokenOff(r, err)
	}
	return nil, refusal(r, answer, body)
}

// brokenOff is the error of an answer that ends before its end, as http.Client has those that do not begin.
func brokenOff(r *http.Request, err error) error {
	return &url.Error{Op: r.Method, URL: r.URL.Redacted(), Err: err}
}

// whatEnded is the deadline where that has ended a request.
func whatEnded(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func kindOf(answer *http.Response) string {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")) // empty where it is none
	return kind
}

// stranger is the error of an answer that the API does not give, such as a gateway's.
type stranger struct {
	host, status string
	code         int
}

func strangerOf(r *http.Request, answer *http.Response) error {
	return &stranger{r.URL.Host, answer.Status, answer.StatusCode}
}

func (s *stranger) Error() string {
	return fmt.Sprintf("%s answers %s, and not as the API of EchoMind does: is the address right?", s.host, s.status)
}

// lateError is that of a request that has ended at its deadline.
type lateError struct{ within time.Duration }

func (e lateError) Error() string { return fmt.Sprintf("the API has not answered within %s", e.within) }

// IsAway says whether an error of the API may pass by itself: it was not reached, has not answered in time, is too busy, or somebody holds what it needs; it or a gateway before it.
func IsAway(err error) bool {
	var refused *Error
	var other *stranger
	var unreached *url.Error
	var late lateError
	switch {
	case errors.As(err, &refused):
		return refused.Status >= http.StatusInternalServerError || refused.Status == http.StatusTooManyRequests || refused.Status == http.StatusConflict && refused.RetryAfter > 0
	case errors.As(err, &other):
		return other.code >= http.StatusInternalServerError || other.code == http.StatusTooManyRequests
	}
	return errors.As(err, &unreached) || errors.As(err, &late)
}

func refusal(r *http.Request, answer *http.Response, body []byte) error {
	refused := &Error{Status: answer.StatusCode}
	if kindOf(answer) != "application/problem+json" || json.Unmarshal(body, &refused.Problem) != nil {
		return strangerOf(r, answer)
	}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 && seconds <= 24*60*60 {
		refused.RetryAfter = time.Duration(seconds) * time.Second
	}
	return refused
}
