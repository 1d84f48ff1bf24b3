package telemetry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/telemetry"
)

func fine(context.Context) error { return nil }

// readyz requests a served /readyz.
func readyz(t *testing.T, ready *telemetry.Readiness) (status int, problems map[string]string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	addr, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- telemetry.Serve(ctx, "127.0.0.1:0", prometheus.NewRegistry(), ready, func(a string) { addr <- a })
	}()
	answer, err := http.Get(fmt.Sprintf("http://%s/readyz", <-addr))
	require.NoError(t, err)
	var body struct{ Problems map[string]string }
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&body))
	require.NoError(t, answer.Body.Close())
	cancel()
	require.NoError(t, <-ended)
	return answer.StatusCode, body.Problems
}

func TestAProcessInWhichNothingHasStartedIsNotReady(t *testing.T) {
	ready := &telemetry.Readiness{}
	status, problems := readyz(t, ready)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.NotEmpty(t, problems)
	ready.Add("a", fine)
	status, problems = readyz(t, ready)
	require.Equal(t, http.StatusOK, status)
	require.Empty(t, problems)
}

func TestACheckThatIsNotAnsweredIsNamedAndHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := &telemetry.Readiness{}
		free := make(chan struct{})
		defer close(free)
		ready.Add("fine", fine)
		ready.Add("bad", func(context.Context) error { return errors.New("broken") })
		ready.Add("slow", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		ready.Add("silent", func(context.Context) error { <-free; return nil })
		asked, problems := ready.Ask(t.Context())
		require.Equal(t, 4, asked)
		require.Equal(t, "broken", problems["bad"])
		require.Equal(t, "silent: no answer within 2s", problems["silent"])
		require.Contains(t, problems, "slow")
		require.NotContains(t, problems, "fine")
	})
}
