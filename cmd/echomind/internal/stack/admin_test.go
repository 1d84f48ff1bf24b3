package stack_test

import (
	"context"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/stack"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/devstack"
	"github.com/echomind/sync/testonly/testkit"
)

// signedIn starts a stack with the API, asks who the local administrator's token is, opens the page by the link, once, and stops it.
func signedIn(t *testing.T, dataDir string) (token string) {
	t.Helper()
	var cfg stack.Config
	for _, part := range []any{&cfg.Scheduler, &cfg.Chunker, &cfg.Connector, &cfg.Semantic, &cfg.API} {
		require.NoError(t, config.Load(part))
	}
	cfg.Log, cfg.Devstack.DataDir, cfg.API.Addr, cfg.API.HTTPAddr = testkit.Logger(t), dataDir, "127.0.0.1:0", ""
	type place struct{ addr, file, code string }
	started, ended := make(chan place, 1), make(chan error, 1)
	cfg.Started = func(_ devstack.Info, _ *devstack.Stack, addr, file, code string) { started <- place{addr, file, code} }
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- stack.Run(ctx, cfg) }()
	var at place
	select {
	case at = <-started:
	case err := <-ended:
		t.Fatalf("the stack ended: %v", err)
	case <-time.After(90 * time.Second):
		t.Fatal("the stack does not start")
	}
	text, err := os.ReadFile(at.file)
	require.NoError(t, err)
	token = strings.TrimSpace(string(text))
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.addr+"/api/v1/me", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	for _, status := range []int{http.StatusOK, http.StatusUnauthorized} {
		require.Equal(t, status, opened(t, "http://"+at.addr+"/sign-in?code="+at.code))
	}
	stop()
	require.NoError(t, <-ended)
	return token
}

// opened is what a browser of its own is answered.
func opened(t *testing.T, address string) int {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	r.Header.Set("Sec-Fetch-Site", "none") // as a browser into which its user pastes it
	answer, err := (&http.Client{Jar: jar}).Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode
}

func TestTheLocalAdministratorsTokenSignsInAndStays(t *testing.T) {
	dir := dataFolder(t)
	first := signedIn(t, dir)
	file := filepath.Join(dir, "admin.token")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Equal(t, first, signedIn(t, dir))
	require.NoError(t, os.WriteFile(file, []byte("something else\n"), 0o600))
	require.NotEqual(t, first, signedIn(t, dir))
}
