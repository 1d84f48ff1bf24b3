package api_test

import (
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

// browser is one without scripts: it keeps cookies, follows links and sends forms.
type browser struct {
	*world
	client *http.Client
}

func (w *world) browser() *browser {
	w.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(w, err)
	return &browser{w, &http.Client{Jar: jar}}
}

// shown is a page.
type shown struct {
	status int
	header http.Header
	text   string
	at     *url.URL
}

func (b *browser) do(method, path string, form url.Values, headers ...string) shown {
	b.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(b.Context(), method, b.server.URL+path, body)
	require.NoError(b, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answered, err := b.client.Do(r)
	require.NoError(b, err)
	defer func() { require.NoError(b, answered.Body.Close()) }()
	text, err := io.ReadAll(answered.Body)
	require.NoError(b, err)
	return shown{answered.StatusCode, answered.Header, string(text), answered.Request.URL}
}

func (b *browser) get(path string) shown {
	b.Helper()
	return b.do("GET", path, nil)
}

// opens opens a link that its user has pasted.
func (b *browser) opens(code string) shown {
	b.Helper()
	return b.do("GET", "/sign-in?code="+code, nil, "Sec-Fetch-Site", "none")
}

// signedIn is a browser with a session of somebody's token.
func (c caller) signedIn() *browser {
	c.Helper()
	b := c.browser()
	page := b.do("POST", "/sign-in", url.Values{"token": {c.token}})
	require.Equal(c, http.StatusOK, page.status, page.text)
	require.Equal(c, "/", page.at.Path)
	return b
}

// link makes a link of a token's, and returns its code.
func (w *world) linkOf(token string) string {
	w.Helper()
	id, _, err := identity.ParseToken(token)
	require.NoError(w, err)
	code := string(identity.NewSecret())
	sum := sha256.Sum256([]byte(code))
	w.exec(`INSERT INTO sign_in_links VALUES ($1, $2, clock_timestamp() + interval '15 minutes')`, sum[:], id)
	return code
}

func (w *world) sessions() int {
	w.Helper()
	return one[int](w, `SELECT count(*) FROM access_tokens WHERE name = 'browser' AND revoked_at IS NULL`)
}

// session begins one with a token, and returns what its cookie holds.
func (w *world) session(token string) string {
	w.Helper()
	b := w.browser()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	found := regexp.MustCompile(`^echomind_session=([^;]+);`).FindStringSubmatch(b.do("POST", "/sign-in", url.Values{"token": {token}}).header.Get("Set-Cookie"))
	require.Len(w, found, 2)
	return found[1]
}

func TestOfManyWhoSignInAtOnceByOneTokenNobodyIsRefusedAnd20StaySignedIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine := w.as(7, identity.User)
	var group sync.WaitGroup
	var refused atomic.Int32
	for range 40 {
		group.Go(func() {
			r, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.server.URL+"/sign-in", strings.NewReader(url.Values{"token": {mine.token}}.Encode()))
			if err != nil {
				refused.Add(1)
				return
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			answered, err := http.DefaultTransport.RoundTrip(r)
			if err != nil || answered.Body.Close() != nil || answered.StatusCode != http.StatusSeeOther {
				refused.Add(1)
			}
		})
	}
	group.Wait()
	require.Zero(t, refused.Load())
	require.Equal(t, 20, w.sessions())
}
