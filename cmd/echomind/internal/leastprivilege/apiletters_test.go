package leastprivilege

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/postgres"
	rest "github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/testkit"
)

func TestTheAPIListsShowsReplaysAndDropsDeadLettersAsItsOwnUser(t *testing.T) {
	t.Parallel()
	url, database := serve(t), testkit.Database(t, db.Up)
	apply(t, url)
	var cfg rest.Config
	require.NoError(t, config.Load(&cfg))
	cfg.DatabaseURL, cfg.NATSURL, cfg.NATSAccess = database, url, access("api")
	pool, err := postgres.Open(t.Context(), database, "echomind-api", 4, postgres.As("echomind_api"))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	a, err := rest.New(cfg, pool, connect.NewProcess(testkit.Logger(t)))
	require.NoError(t, err)
	server := httptest.NewServer(a.Handler())
	t.Cleanup(server.Close)
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })

	secret := identity.NewSecret()
	var token, id int32
	require.NoError(t, conn.QueryRow(t.Context(), `INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by)
		VALUES (7, 'superadmin', '{read,operate,write}', $1, 'test') RETURNING id`, secret.Hash()).Scan(&token))
	require.NoError(t, conn.QueryRow(t.Context(), `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'web', 7) RETURNING id`).Scan(&id))
	_, semantic := as(t, url, "semantic")
	letter, err := proto.Marshal(&internalpb.DocumentProcessRequest{ConnectorId: id, Number: 1})
	require.NoError(t, err)
	for range 2 {
		_, err = semantic.Publish(t.Context(), "dlq.document.process", letter)
		require.NoError(t, err)
	}
	do := func(want int, method, path string) (body struct {
		DeadLetters []struct{} `json:"dead_letters"`
	}) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/api/v1/deadletters"+path, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+identity.Token(token, secret))
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer func() { _ = answer.Body.Close() }()
		require.Equal(t, want, answer.StatusCode)
		if want == http.StatusOK {
			require.NoError(t, json.NewDecoder(answer.Body).Decode(&body))
		}
		return body
	}
	require.Len(t, do(http.StatusOK, http.MethodGet, "").DeadLetters, 2)
	do(http.StatusOK, http.MethodGet, "/1")
	do(http.StatusAccepted, http.MethodPost, "/1/replay")
	do(http.StatusNoContent, http.MethodDelete, "/2")
	require.Empty(t, do(http.StatusOK, http.MethodGet, "").DeadLetters)
}
