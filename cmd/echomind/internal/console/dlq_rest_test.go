package console_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/testkit"
)

// replays asks the API on the pipeline's servers, as a superadmin, for the replay of a dead letter.
func (p *pipeline) replays(path string) int {
	p.t.Helper()
	var cfg api.Config
	require.NoError(p.t, config.Load(&cfg))
	cfg.DatabaseURL, cfg.NATSURL = p.lookup.DatabaseURL, p.lookup.NATSURL
	pool, err := postgres.Open(p.ctx, cfg.DatabaseURL, "echomind-api", 2, postgres.As("echomind_api"))
	require.NoError(p.t, err)
	p.t.Cleanup(pool.Close)
	a, err := api.New(cfg, pool, connect.NewProcess(testkit.Logger(p.t)))
	require.NoError(p.t, err)
	server := httptest.NewServer(a.Handler())
	p.t.Cleanup(server.Close)
	secret := identity.NewSecret()
	var token int32
	require.NoError(p.t, p.pool.QueryRow(p.ctx, `INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by)
		VALUES (1, 'superadmin', '{operate}', $1, 'test') RETURNING id`, secret.Hash()).Scan(&token))
	r, err := http.NewRequestWithContext(p.ctx, http.MethodPost, server.URL+"/api/v1/deadletters/"+path, nil)
	require.NoError(p.t, err)
	r.Header.Set("If-Match", "*")
	r.Header.Set("Authorization", "Bearer "+identity.Token(token, secret))
	answer, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	require.NoError(p.t, answer.Body.Close())
	return answer.StatusCode
}

func TestADocumentThatWasGivenUpIsFetchedAndStoredAgainByReplayOverREST(t *testing.T) {
	t.Parallel()
	p := newPoisoned(t)
	require.Len(t, p.ids(), 1)
	p.healed.Store(true)
	require.Equal(t, http.StatusAccepted, p.replays("1/replay"))
	p.verdicts("new completed", "manual completed")
	require.Equal(t, []string{"fine stored", "poison stored"}, p.documents())
	require.Empty(t, p.ids())
	require.Equal(t, http.StatusNotFound, p.replays("1/replay"))
}
