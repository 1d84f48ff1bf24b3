package api_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/testonly/testkit"
)

// Searches take a connection for long each: others look at their sources meanwhile.
func TestManySearchesAtOnceLeaveConnectionsToOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	w.stores(w.source("x", identity.Ownership{UserID: 7, Scope: "user"}), "a", "", "", "the zebra runs")
	require.Len(t, me.finds("q=zebra"), 1)
	w.exec(`BEGIN`)
	w.exec(`LOCK TABLE chunks IN ACCESS EXCLUSIVE MODE`) // searches wait for it
	answers := make(chan int, 8)
	for range cap(answers) {
		go func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.server.URL+"/api/v1/search?q=zebra", nil)
			if err != nil {
				answers <- 0
				return
			}
			r.Header.Set("Authorization", "Bearer "+me.token)
			answered, err := http.DefaultClient.Do(r)
			if err != nil {
				answers <- 0
				return
			}
			_ = answered.Body.Close()
			answers <- answered.StatusCode
		}()
	}
	waiting := func() int {
		return one[int](w, `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE NOT l.granted AND d.datname = current_database()`)
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		if waiting() == 0 {
			return errors.New("no search waits")
		}
		return nil
	})
	for range 10 {
		require.Equal(t, http.StatusOK, me.do("GET", "/connectors", nil).status)
		require.LessOrEqual(t, waiting(), 1)
	}
	w.exec(`ROLLBACK`)
	for range cap(answers) {
		require.Contains(t, []int{200, 409, 503}, <-answers)
	}
	require.Len(t, me.finds("q=zebra"), 1)
}
