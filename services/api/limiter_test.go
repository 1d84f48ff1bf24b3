package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
)

// Made-up tokens are of the right form: only Postgres knows that there are none.
func TestMadeUpTokensSoonAskPostgresNoMoreAndHoldUpNobodyWhoIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.Rate, c.Burst = 0.001, 20 })
	me, late := w.as(7, identity.User), w.as(7, identity.User)
	me.get("/me")
	answers := map[int]int{}
	for range 50 {
		answers[caller{w, identity.Token(1, identity.NewSecret())}.do("GET", "/me", nil).status]++
	}
	require.Equal(t, map[int]int{http.StatusUnauthorized: 20, http.StatusTooManyRequests: 30}, answers)
	me.get("/me")
	r := late.do("GET", "/me", nil)
	late.refused(429, "too-many-requests", r)
	require.NotEmpty(t, r.header.Get("Retry-After"))
}

func TestATokenThatIsRevokedIsAStrangerAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.Rate, c.Burst = 0.001, 3 })
	me := w.as(7, identity.User)
	me.get("/me")
	w.exec(`UPDATE access_tokens SET revoked_at = clock_timestamp()`)
	answers := map[int]int{}
	for range 6 {
		answers[me.do("GET", "/me", nil).status]++
	}
	require.Equal(t, map[int]int{http.StatusUnauthorized: 4, http.StatusTooManyRequests: 2}, answers, "once as it was known, and three times as a stranger")
}
