package load

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEachRequestHasItsShareAndTheSharesAreSpread(t *testing.T) {
	order := mix([]Ask{{Share: 3}, {Share: 1}, {Share: 2}})
	require.Equal(t, []int{0, 2, 0, 1, 2, 0}, order)
}

// The server answers nothing until all requests are due: the wait of those that were due meanwhile counts.
func TestARequestsTimeCountsFromWhenItWasDue(t *testing.T) {
	opened := make(chan struct{})
	open := sync.OnceFunc(func() { time.AfterFunc(200*time.Millisecond, func() { close(opened) }) })
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { open(); <-opened }))
	defer server.Close()
	ask := Ask{Name: "one", Share: 1, Make: func(ctx context.Context, _ int) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	}}
	result, err := Run(t.Context(), server.Client(), []Ask{ask}, 5000, 100*time.Millisecond)
	require.NoError(t, err)
	require.Len(t, result.Took["one"], 500)
	require.Empty(t, result.Refused)
	for _, took := range result.Took["one"] {
		require.GreaterOrEqual(t, took, 100.0)
	}
}
