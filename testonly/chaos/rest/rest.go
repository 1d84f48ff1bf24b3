// Package rest is what people do over REST while things break: each of them asks a replica of the API chosen at random, asks another one again where nobody has
// answered, and writes down what was asked and answered, which the audit of the system must agree with.
//
//	rest.go   a request, and how it is repeated
//	acts.go   what somebody does with connectors
//	many.go   what somebody does with many at once
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/echomind/sync/testonly/chaos/audit"
)

const (
	// tryTimeout is how long an answer is waited for, and patience how long a change is repeated that has none.
	tryTimeout = 2 * time.Second
	patience   = 40 * time.Second
	// againPause is the time between two tries, at least.
	againPause = 300 * time.Millisecond
	// mostAnswer is the longest answer that is read.
	mostAnswer = 1 << 20
)

// Person is somebody with a token and connectors of their own, which nobody else changes.
type Person struct {
	user     int32
	token    string
	replicas []string
	kind     string
	rng      *rand.Rand
	log      *slog.Logger
	http     *http.Client

	asked   int // how many requests there were
	record  audit.Requests
	sources []*source
	many    many
}

// NewPerson makes one whose connectors are of a type, and who asks replicas at these addresses.
func NewPerson(user int32, token, kind string, replicas []string, rng *rand.Rand, log *slog.Logger) *Person {
	return &Person{
		user: user, token: token, kind: kind, replicas: replicas, rng: rng, log: log.With("person", user), http: &http.Client{Transport: &http.Transport{}},
	}
}

// Requests is what was written down, once Run has ended.
func (p *Person) Requests() audit.Requests { return p.record }

// request is what is asked, but for its id.
type request struct {
	method, path string
	body         any
	// key and version are its Idempotency-Key and its If-Match; empty = none.
	key, version string
}

// answer is what comes back.
type answer struct {
	status int
	etag   string
	body   []byte
	// again says after which time to come again; 0 = the answer stands.
	again time.Duration
}

func (a answer) isSuccess() bool { return a.status >= 200 && a.status < 300 }

// once asks one replica. An error says that there is no answer.
func (p *Person) once(ctx context.Context, replica int, r request, id string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	var body io.Reader
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return answer{}, err
		}
		body = bytes.NewReader(text)
	}
	asks, err := http.NewRequestWithContext(ctx, r.method, "http://"+p.replicas[replica]+"/api/v1"+r.path, body)
	if err != nil {
		return answer{}, err
	}
	for name, value := range map[string]string{"X-Request-Id": id, "Idempotency-Key": r.key, "If-Match": r.version} {
		if value != "" {
			asks.Header.Set(name, value)
		}
	}
	asks.Header.Set("Authorization", "Bearer "+p.token)
	asks.Header.Set("Content-Type", "application/json")
	got, err := p.http.Do(asks)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(got.Body, mostAnswer))
	if err != nil {
		return answer{}, err
	}
	p.record.Answers++
	a := answer{status: got.StatusCode, etag: got.Header.Get("ETag"), body: text}
	if seconds, err := strconv.Atoi(got.Header.Get("Retry-After")); err == nil {
		a.again = max(time.Duration(seconds)*time.Second, time.Millisecond)
	}
	if !isRight(r, a) {
		p.record.Wrong = append(p.record.Wrong, fmt.Sprintf("%s %s, request %s, of user %d to replica %d: %d %s", r.method, r.path, id, p.user, replica+1, a.status, text))
	}
	return a, nil
}

// isRight says whether an answer is one that somebody may have who asks for what is theirs. Others are a defect: a 500, or a 503 that does not say when to come again.
func isRight(r request, a answer) bool {
	switch a.status {
	case http.StatusNotFound: // one may be deleted; lists are there
		return strings.HasPrefix(r.path, "/connectors/") || strings.HasPrefix(r.path, "/operations/")
	case http.StatusConflict, http.StatusPreconditionFailed:
		return true
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return a.again > 0
	}
	return a.isSuccess()
}

// read asks a replica chosen at random, once, for what changes nothing.
func (p *Person) read(ctx context.Context, method, path string, body any) (answer, bool) {
	a, err := p.once(ctx, p.rng.IntN(len(p.replicas)), request{method: method, path: path, body: body}, p.id())
	return a, err == nil && a.isSuccess()
}

// id is the id of the next request.
func (p *Person) id() string {
	p.asked++
	return fmt.Sprintf("chaos-%d-%d", p.user, p.asked)
}

// change asks for a change until it is answered, and writes down what came of it. Each try has an id of its own.
func (p *Person) change(ctx context.Context, action string, r request) (answer, *audit.Asked) {
	p.record.Asked = append(p.record.Asked, audit.Asked{Name: r.key, IsKeyed: r.key != "", UserID: p.user, Action: action})
	asked := &p.record.Asked[len(p.record.Asked)-1]
	if r.key == "" {
		asked.Name = r.path
	}
	replica := p.rng.IntN(len(p.replicas))
	for until := time.Now().Add(patience); ; replica = (replica + 1) % len(p.replicas) {
		id := p.id()
		asked.Requests = append(asked.Requests, id)
		a, err := p.once(ctx, replica, r, id)
		switch {
		case err == nil && a.isSuccess():
			asked.Outcome = audit.Done
			return a, asked
		case err == nil && a.again == 0 && a.status < http.StatusInternalServerError:
			if len(asked.Requests) == 1 { // else an earlier try may have made it, or make it yet
				asked.Outcome = audit.Refused
			}
			return a, asked
		case err != nil:
			p.log.Debug("a change has no answer", "request", id, "err", err)
		}
		wait := max(againPause, min(a.again, time.Second))
		if time.Until(until) < wait || !sleep(ctx, wait) {
			return answer{}, asked
		}
	}
}

// sleep says whether the time has passed before ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
