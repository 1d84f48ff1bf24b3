package api_test

import (
	"net/http"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
)

// API_WATCHERS=4000 has so many come.
func TestManyWhoWatchBeyondTheLimitAreToldWhenToComeBackAndOthersAreServed(t *testing.T) {
	t.Parallel()
	come, places := 400, 20
	if given, err := strconv.Atoi(os.Getenv("API_WATCHERS")); err == nil {
		come = given
	}
	b := newBroadcast(t, func(c *api.Config) { c.MaxWatchers = places })
	var tokens []string
	for user := range int32(20) {
		tokens = append(tokens, b.as(user+1, identity.User).token)
	}
	answers := make(chan *http.Response, come)
	var asked errgroup.Group
	for n := range come {
		asked.Go(func() error {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.server.URL+"/api/v1/events", nil)
			if err != nil {
				return err
			}
			r.Header.Set("Authorization", "Bearer "+tokens[n%len(tokens)])
			answered, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = answered.Body.Close() })
			answers <- answered
			return nil
		})
	}
	require.NoError(t, asked.Wait())
	close(answers)
	watch := 0
	for r := range answers {
		if r.StatusCode == http.StatusOK {
			watch++
			continue
		}
		require.Equal(t, http.StatusServiceUnavailable, r.StatusCode)
		require.NotEmpty(t, r.Header.Get("Retry-After"))
		require.Equal(t, "application/problem+json", r.Header.Get("Content-Type"))
	}
	require.Equal(t, places, watch)
	b.as(30, identity.User).get("/connectors")
}
