package api_test

import (
	"crypto/rand"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
)

// badge asks for a badge as somebody who has its link, and nothing else.
func (w *world) badge(path string) (status int, text string, header http.Header) {
	w.Helper()
	answer, err := http.Get(w.server.URL + path)
	require.NoError(w, err)
	defer func() { require.NoError(w, answer.Body.Close()) }()
	body, err := io.ReadAll(answer.Body)
	require.NoError(w, err)
	return answer.StatusCode, string(body), answer.Header
}

// madeUp is the path of a badge that there is not.
func madeUp() string { return "/badge/" + rand.Text() + ".svg" }

// Postgres is slow for who looks at a badge, as while a migration has the table.
func TestBadgesThatWaitHoldOneConnectionAndKeepNobodyFromSigningIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.Rate, c.Burst = 0.001, 20 }) // with four connections
	others := []caller{w.as(7, identity.User), w.as(8, identity.User), w.as(9, identity.User)}
	w.exec(`BEGIN`)
	w.exec(`LOCK TABLE badges IN ACCESS EXCLUSIVE MODE`)
	paths := []string{madeUp(), madeUp(), madeUp(), madeUp(), madeUp()}
	answered := make(chan int, 40)
	for n := range cap(answered) { // twice as many as may be tried, but five links
		go func() {
			status, _, _ := w.badge(paths[n%len(paths)])
			answered <- status
		}()
	}
	waiting := func() int {
		return one[int](w, `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE NOT l.granted AND d.datname = current_database() AND l.relation = 'badges'::regclass`)
	}
	require.Eventually(t, func() bool { return waiting() > 0 }, time.Minute, time.Millisecond)
	for range 50 {
		require.LessOrEqual(t, waiting(), 1)
	}
	for _, other := range others {
		other.get("/me")
		require.LessOrEqual(t, waiting(), 1)
	}
	w.exec(`ROLLBACK`)
	for range cap(answered) {
		require.Contains(t, []int{404, 409, 503}, <-answered, "it may have taken too long")
	}
	w.as(10, identity.User).get("/me")
}
