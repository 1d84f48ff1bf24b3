package crawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/sdk/worker"
)

// fetcher requests pages within the limits of their hosts. It is safe for concurrent use.
type fetcher struct {
	opt      Options
	client   *http.Client
	hostUser *hostUser
	known    map[string]worker.Known
	robots   *robotsFiles
	// deleted are the URLs whose pages say that they are gone: their documents are deleted at the end, and they are requested without a
	// condition.
	deleted sync.Map
}

// answer is a page's content, or "not modified".
type answer struct {
	*reply
	url *url.URL
	// via are the URLs that redirected here.
	via []*url.URL
}

// follow decides whether a redirect may be followed, and returns where it leads.
type follow func(from, to *url.URL) (*url.URL, error)

func newFetcher(opt Options, known map[string]worker.Known) *fetcher {
	client := &http.Client{
		Transport:     opt.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	user := newHostUser(opt)
	robots := &robotsFiles{opt: opt, client: client, hostUser: user, files: map[string]*robotsFile{}}
	return &fetcher{opt: opt, client: client, hostUser: user, known: known, robots: robots}
}

// close releases the fetcher's use of shared limits.
func (f *fetcher) close() { f.hostUser.leave() }

// storedBefore is the stored state of a URL's document that the crawl has not deleted.
func (f *fetcher) storedBefore(url string) (k worker.Known, is bool) {
	if !f.isDeleted(url) {
		k, is = f.known[url]
	}
	return k, is
}

func (f *fetcher) isDeleted(url string) bool {
	_, is := f.deleted.Load(hashed(url))
	return is
}

// page requests u and follows its redirects; each URL must pass may and robots.txt before it is requested. Where there is no
// content the error is a *failure, unless ctx ended.
func (f *fetcher) page(ctx context.Context, u *url.URL, may follow, in *visitRoom) (*answer, error) {
	var via []*url.URL
	asked := map[string]bool{}
	for {
		asked[u.String()] = true
		if err := f.robots.check(ctx, u); err != nil {
			return nil, err
		}
		res, err := f.fetchWithRetries(ctx, u, in)
		if err != nil {
			return nil, err
		}
		if res.location == "" {
			return &answer{res, u, via}, nil
		}
		to, err := canonical(u, res.location, false)
		if err != nil {
			return nil, &failure{kind: outOfScope, url: u.String(), err: fmt.Errorf("follow the redirect of %s to %q: %w", withoutSecrets(u), redact(res.location), err)}
		}
		via = append(via, u)
		if to, err = may(u, to); err != nil {
			return nil, &failure{kind: outOfScope, url: u.String(), err: err}
		}
		if asked[to.String()] {
			return nil, &failure{kind: refused, url: via[0].String(), err: fmt.Errorf("follow the redirects of %s: they lead back to %s", withoutSecrets(via[0]), withoutSecrets(to))}
		}
		if len(via) > f.opt.MaxRedirects {
			return nil, &failure{kind: refused, url: via[0].String(), err: fmt.Errorf("follow the redirects of %s: more than %d", withoutSecrets(via[0]), f.opt.MaxRedirects)}
		}
		u = to
	}
}

// reply is one response of the server: content, "not modified", or a redirect.
type reply struct {
	header      http.Header
	notModified bool
	location    string
	body        []byte
}

// fetchWithRetries requests u, and again where the server asks to come back later (RFC 9110, 10.2.3; RFC 6585, 4).
func (f *fetcher) fetchWithRetries(ctx context.Context, u *url.URL, in *visitRoom) (res *reply, err error) {
	err = f.hostUser.retry(u.Host, func() (later time.Duration, err error) {
		res, later, err = f.ask(ctx, u, in)
		return later, err
	})
	return res, err
}

// checkAnswers requests u like any page, and does not read the body: its error says why u gives no page.
func (f *fetcher) checkAnswers(ctx context.Context, u *url.URL) error {
	_, err := f.fetchWithRetries(ctx, u, nil)
	return err
}

// ask sends one request. later is set where the server says that the same request may work after a while. Without a visitRoom
// the body is not read.
func (f *fetcher) ask(ctx context.Context, u *url.URL, in *visitRoom) (r *reply, later time.Duration, err error) {
	release, err := f.hostUser.acquire(ctx, u.Host, max(f.opt.MinDelay, f.robots.delay(u)))
	if err != nil {
		return nil, 0, err
	}
	release = sync.OnceFunc(release)
	defer release()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(f.opt.RequestTimeout, func() { cancel(tooLate{f.opt.RequestTimeout}) })
	defer timer.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, 0, &failure{kind: refused, url: u.String(), err: err}
	}
	req.Header.Set("User-Agent", f.opt.UserAgent)
	req.Header.Set("Accept", "text/html,application/xhtml+xml,text/markdown,text/plain,application/json,text/csv,*/*;q=0.5")
	known, _ := f.storedBefore(u.String())
	conditional := askConditionally(req.Header, known)

	res, err := f.client.Do(req)
	if err != nil {
		return nil, 0, noAnswer(ctx, u, err)
	}
	defer func() { _ = res.Body.Close() }()
	if in == nil {
		return f.read(ctx, u, res, conditional, nil)
	}
	return f.read(ctx, u, res, conditional, func(body int64) error {
		// The host is not at fault while a body waits for room, and may get other requests meanwhile: an earlier page may be
		// among them.
		waited := false
		err := in.reserve(ctx, f.opt.Room, body, func() { waited = true; timer.Stop(); release() })
		if waited {
			timer.Reset(f.opt.RequestTimeout)
		}
		return err
	})
}

// tooLate ends a request.
type tooLate struct{ after time.Duration }

func (t tooLate) Error() string {
	return fmt.Sprintf("crawl.fetch: no complete answer within %s", t.after)
}

func (f *fetcher) read(
	ctx context.Context, u *url.URL, res *http.Response, conditional bool, take func(body int64) error,
) (*reply, time.Duration, error) {
	status := res.StatusCode
	switch {
	case status == http.StatusNotModified && conditional:
		return &reply{header: res.Header, notModified: true}, 0, nil
	case isRedirect(status) && res.Header.Get("Location") != "":
		return &reply{header: res.Header, location: res.Header.Get("Location")}, 0, nil
	case status == http.StatusOK, status == http.StatusNonAuthoritativeInfo:
		if take == nil {
			return &reply{header: res.Header}, 0, nil
		}
		body, err := f.body(ctx, u, res, take)
		return &reply{header: res.Header, body: body}, 0, err
	}
	fail := &failure{kind: kindOf(status), url: u.String(), err: fmt.Errorf("GET %s answered %d %s", withoutSecrets(u), status, http.StatusText(status))}
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return nil, 0, fail
	}
	fail.down = true
	return nil, comeBackAfter(res.Header, f.opt.Now()), fail
}

// body calls take before it reads more than the free size.
func (f *fetcher) body(ctx context.Context, u *url.URL, res *http.Response, take func(body int64) error) ([]byte, error) {
	unusable := func(err error) error { return &failure{kind: unreadable, url: u.String(), err: err} }
	if encoding := res.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, unusable(fmt.Errorf("unsupported content encoding %s", clip(encoding, 100)))
	}
	limited := io.LimitReader(res.Body, f.opt.MaxBodyBytes+1)
	beginning, err := io.ReadAll(io.LimitReader(limited, sniffBytes))
	if err != nil {
		return nil, noAnswer(ctx, u, err)
	}
	if err := checkHasText(res.Header.Get("Content-Type"), beginning); err != nil {
		return nil, unusable(err)
	}
	tooLong := fmt.Errorf("body is longer than %d bytes", f.opt.MaxBodyBytes)
	if res.ContentLength > f.opt.MaxBodyBytes {
		return nil, unusable(tooLong)
	}
	expected, taken := res.ContentLength, false
	if expected < 0 {
		expected = f.opt.MaxBodyBytes
	}
	body := make([]byte, 0, max(sniffBytes, min(expected, room.Free)))
	body = append(body, beginning...)
	for {
		if len(body) == cap(body) && !taken && room.Needed(int64(len(body))+1) {
			if err := take(expected); err != nil {
				return nil, noAnswer(ctx, u, err)
			}
			taken = true
			body = append(make([]byte, 0, max(int64(2*len(body)), res.ContentLength)), body...)
		}
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		n, err := limited.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if int64(len(body)) > f.opt.MaxBodyBytes {
			return nil, unusable(tooLong)
		}
		if errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			return nil, noAnswer(ctx, u, err)
		}
	}
}

// noAnswer is the failure of a request without a complete answer. Where the crawl itself was stopped it is the cause of that.
func noAnswer(ctx context.Context, u *url.URL, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if late := (tooLate{}); errors.Is(ctx.Err(), context.Canceled) && !errors.As(cause, &late) {
			return cause
		}
		err = cause
	}
	return &failure{kind: unanswered, url: u.String(), down: true, err: fmt.Errorf("GET %s: %w", withoutSecrets(u), withoutPorts(unwrapURLError(err)))}
}

// withoutPorts removes our own address, whose port differs each time, from a network's error: the same failure is stored once.
func withoutPorts(err error) error {
	if op, is := errors.AsType[*net.OpError](err); is && op.Source != nil {
		return fmt.Errorf("%s %s: %w", op.Op, op.Net, op.Err)
	}
	return err
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// comeBackAfter is the wait that a response asks for, and at least a second.
func comeBackAfter(h http.Header, now time.Time) time.Duration {
	return max(repeat.RetryAfter(h, now), time.Second)
}
