package crawl

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// robotsFiles keeps the robots.txt of each origin of a crawl, read once.
type robotsFiles struct {
	opt      Options
	client   *http.Client
	hostUser *hostUser
	mu       sync.Mutex
	files    map[string]*robotsFile
}

type robotsFile struct {
	rules *robots
	err   error
}

// check returns nil if robots.txt lets this crawler fetch u. The origin's file is read at the first call.
func (r *robotsFiles) check(ctx context.Context, u *url.URL) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	file := r.files[originOf(u)]
	if file == nil {
		file = &robotsFile{}
		file.rules, file.err = r.fetch(ctx, u)
		r.files[originOf(u)] = file
	}
	if file.err != nil {
		return file.err
	}
	if file.rules.tooMany {
		return &failure{kind: disallowed, url: u.String(), err: fmt.Errorf("robots.txt of %s has more than %d rules with wildcards; "+
			"nothing is asked for, since not all of them can be heeded", originOf(u), maxWildRules)}
	}
	if !file.rules.allows(u.RequestURI()) {
		return &failure{kind: disallowed, url: u.String(), err: fmt.Errorf("robots.txt of %s forbids %s", originOf(u), withoutSecrets(u))}
	}
	return nil
}

// allows is check for an origin whose file has been read.
func (r *robotsFiles) allows(u *url.URL) bool {
	r.mu.Lock()
	file := r.files[originOf(u)]
	r.mu.Unlock()
	return file != nil && file.rules != nil && file.rules.allows(u.RequestURI())
}

// delay is the Crawl-delay of the origin's robots.txt, within bounds.
func (r *robotsFiles) delay(u *url.URL) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if file := r.files[originOf(u)]; file != nil && file.rules != nil {
		return min(file.rules.delay, r.opt.MaxDelay)
	}
	return 0
}

// fetch reads the robots.txt of u's origin (RFC 9309, 2.3.1): a 4xx or too many redirects allow everything; 5xx and no answer
// forbid everything, which fails the crawl for now. So does 429, which says nothing about a robots.txt.
func (r *robotsFiles) fetch(ctx context.Context, u *url.URL) (*robots, error) {
	at := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/robots.txt"}
	seen := map[string]bool{}
	for range r.opt.MaxRedirects + 1 {
		if seen[at.String()] {
			break
		}
		seen[at.String()] = true
		var rules *robots
		var next *url.URL
		err := r.hostUser.retry(at.Host, func() (later time.Duration, err error) {
			rules, next, later, err = r.ask(ctx, at)
			return later, err
		})
		if err != nil || next == nil {
			return rules, err
		}
		at = next
	}
	return &robots{}, nil
}

func (r *robotsFiles) ask(ctx context.Context, at *url.URL) (rules *robots, next *url.URL, later time.Duration, err error) {
	release, err := r.hostUser.acquire(ctx, at.Host, r.opt.MinDelay)
	if err != nil {
		return nil, nil, 0, err
	}
	defer release()
	late := fmt.Errorf("crawl.robots: no complete answer within %s", r.opt.RobotsTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, r.opt.RobotsTimeout, late)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, nil, 0, &failure{kind: refused, url: at.String(), err: err}
	}
	req.Header.Set("User-Agent", r.opt.UserAgent)
	res, err := r.client.Do(req)
	if err != nil {
		return nil, nil, 0, noAnswer(ctx, at, err)
	}
	defer func() { _ = res.Body.Close() }()

	unavailable := &failure{kind: unanswered, url: at.String(), down: true,
		err: fmt.Errorf("GET %s answered %d %s, which forbids crawling for now", at, res.StatusCode, http.StatusText(res.StatusCode))}
	switch status := res.StatusCode; {
	case isRedirect(status) && res.Header.Get("Location") != "":
		to, err := canonical(at, res.Header.Get("Location"), false)
		if err != nil {
			return &robots{}, nil, 0, nil
		}
		return nil, to, 0, nil
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return nil, nil, comeBackAfter(res.Header, r.opt.Now()), unavailable
	case status >= 500:
		return nil, nil, 0, unavailable
	case status < 200 || status > 299:
		return &robots{}, nil, 0, nil
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, r.opt.MaxRobotsBytes))
	if err != nil {
		return nil, nil, 0, noAnswer(ctx, at, err)
	}
	if int64(len(body)) == r.opt.MaxRobotsBytes {
		// The last rule may be cut, and then means something else.
		body = body[:bytes.LastIndexByte(body, '\n')+1]
	}
	return parseRobots(body, productToken(r.opt.UserAgent)), nil, 0, nil
}
