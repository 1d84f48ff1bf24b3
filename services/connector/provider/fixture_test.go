package provider_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/echomind/sync/services/connector/provider"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// clock passes when somebody sleeps, and remembers.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	slept []time.Duration
}

func newClock() *clock { return &clock{now: time.Now()} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.slept = append(c.slept, d)
	return ctx.Err()
}

func (c *clock) sleeps() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]time.Duration(nil), c.slept...)
}

// answer is what a server says once.
type answer struct {
	status int
	header map[string]string
	body   string
	// reset breaks the connection instead.
	reset bool
}

// server answers in turn, the last answer for ever, and remembers what it was asked.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	answers []answer
	asked   []*http.Request
}

func serve(t *testing.T, answers ...answer) *server {
	t.Helper()
	s := &server{answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.Close)
	return s
}

func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_ = r.ParseForm()
	r.PostForm, _ = url.ParseQuery(string(body))
	s.mu.Lock()
	s.asked = append(s.asked, r)
	a := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	s.mu.Unlock()
	if a.reset {
		panic(http.ErrAbortHandler)
	}
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

func (s *server) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*http.Request(nil), s.asked...)
}

// quota remembers how long it was told to block.
type quota struct {
	mu      sync.Mutex
	taken   int
	blocked []time.Duration
}

func (q *quota) Take(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken++
	return ctx.Err()
}

func (q *quota) Block(_ context.Context, d time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.blocked = append(q.blocked, d)
	return nil
}

// grant gives tokens t1, t2, …
type grant struct {
	mu      sync.Mutex
	fetched int
	life    int64
	err     error
}

func (g *grant) Fetch(context.Context) (*oauth2.Token, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return nil, g.err
	}
	g.fetched++
	return &oauth2.Token{AccessToken: "t" + string(rune('0'+g.fetched)), ExpiresIn: g.life}, nil
}

func (g *grant) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fetched
}

func (g *grant) fails(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

// client is one of an account at a server, with a clock of its own.
func client(t *testing.T, s *server, change func(*provider.Options)) (*http.Client, *clock) {
	t.Helper()
	c := newClock()
	opts := provider.Options{Dialect: provider.Google, Endpoint: s.URL, Clock: c}
	if change != nil {
		change(&opts)
	}
	made, err := provider.NewClient(opts)
	require.NoError(t, err)
	t.Cleanup(made.CloseIdleConnections)
	return made, c
}

// get asks and reads the answer.
func get(t *testing.T, c *http.Client, url string) (status int, body string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(content), err
}

// google is an error as the Drive API writes it.
func google(status int, reason, message string) answer {
	return answer{status: status, body: `{"error":{"code":403,"message":"` + message + `","errors":[{"domain":"usageLimits","reason":"` + reason + `","message":"` + message + `"}]}}`}
}

// microsoft is an error as Graph writes it.
func microsoft(status int, code, inner string) answer {
	return answer{status: status, body: `{"error":{"code":"` + code + `","message":"m","innerError":{"code":"` + inner + `"}}}`}
}

var errWaitedEnough = errors.New("the sync has waited enough")

func refuseWaits(context.Context, time.Duration, string) (func(), error) { return nil, errWaitedEnough }

func requireEndsSync(t *testing.T, err error) {
	t.Helper()
	var ends interface{ EndsSync() bool }
	require.ErrorAs(t, err, &ends)
	require.True(t, ends.EndsSync())
}
