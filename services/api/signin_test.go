package api_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/api"
)

// believing is an API that believes an issuer.
func believing(t *testing.T, change ...func(*api.Config)) (*world, *provider) {
	t.Helper()
	p := newProvider(t)
	return newWorld(t, append([]func(*api.Config){func(c *api.Config) { believes(c, p) }}, change...)...), p
}

func believes(c *api.Config, p *provider) {
	c.SignIn.Issuer, c.SignIn.Audience, c.SignIn.SubjectClaim, c.SignIn.SkewSeconds = p.server.URL, []string{"x", audience}, "sub", 30
	c.SignIn.Scopes = []string{"read", "operate", "write", "admin"}
}

func (w *world) link(user int32, issuer, subject string) {
	w.Helper()
	w.exec(`INSERT INTO identities (issuer, subject, user_id) VALUES ($1, $2, $3) ON CONFLICT (issuer, subject) DO UPDATE SET user_id = EXCLUDED.user_id`, issuer, subject, user)
}

// unsigned requires that a token does not count, and that the answer shows none of it.
func (w *world) unsigned(token, why string) {
	w.Helper()
	c := caller{w, token}
	r := c.do("GET", "/me", nil)
	c.refused(401, "unauthenticated", r)
	require.Contains(w, r.body["detail"], why)
	require.Equal(w, fmt.Sprintf(`Bearer realm="echomind", error="invalid_token", error_description="%s"`, r.body["detail"]), r.header.Get("WWW-Authenticate"))
	for _, part := range strings.Split(token, ".") {
		if len(part) > 20 {
			require.NotContains(w, r.text, part[:20])
		}
	}
}

// A key that the issuer has begun to use counts at once; made-up keys do not each cause a request.
func TestTheIssuersKeysAreFetchedAnewAndBoundedlyOften(t *testing.T) {
	t.Parallel()
	w, p := believing(t)
	w.link(7, p.server.URL, "alice")
	var all sync.WaitGroup
	first := p.gives("alice", nil)
	for range 20 {
		all.Go(func() { (caller{w, first}).get("/me") })
	}
	all.Wait()
	require.EqualValues(t, 2, p.asked.Load()) // the discovery and the keys, for all of them
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	began := time.Now()
	for n := range 100 {
		token := signedBy(t, jose.SigningKey{Algorithm: jose.ES256, Key: other}, p.usual(nil), nil, fmt.Sprint("made up ", n))
		require.Equal(t, 401, caller{w, token}.do("GET", "/me", nil).status)
	}
	require.LessOrEqual(t, p.asked.Load(), int32(2+2*(1+time.Since(began)/(5*time.Second)))) // two in 5 s, for as long as the hundred took
	(caller{w, first}).get("/me")
}

func TestASubjectThatManySeeFirstIsOneUser(t *testing.T) {
	t.Parallel()
	w, p := believing(t, func(c *api.Config) { c.SignIn.NewUsers = 100 })
	token := p.gives("alice", nil)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { (caller{w, token}).get("/me") })
	}
	all.Wait()
	require.Equal(t, 1, one[int](w, `SELECT count(*) FROM identities`))
}
