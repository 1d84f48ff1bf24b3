package leastprivilege

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/events"
	"github.com/echomind/sync/contract/proto/gen/publicpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/broker"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/streams"
	rest "github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

// serveAPI serves the API as its own users of both servers, to somebody with a token, and is a connection of its database's owner.
func serveAPI(t *testing.T, url, database, role, scopes string) (conn *pgx.Conn, do func(want int, method, path string) []byte) {
	t.Helper()
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
	conn, err = pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	secret := identity.NewSecret()
	var token int32
	require.NoError(t, conn.QueryRow(t.Context(), `INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by)
		VALUES (7, $1, $2::text[], $3, 'test') RETURNING id`, role, scopes, secret.Hash()).Scan(&token))
	return conn, func(want int, method, path string) []byte {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/api/v1"+path, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+identity.Token(token, secret))
		r.Header.Set("If-Match", "*")
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer func() { _ = answer.Body.Close() }()
		require.Equal(t, want, answer.StatusCode)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return body
	}
}

// What NATS knows it learns as its own user, for each status that has it ask something else.
func TestTheAPIAnswersWhyAConnectorDoesNotRunAsItsOwnUser(t *testing.T) {
	t.Parallel()
	url, database := serve(t), testkit.Database(t, db.Up)
	apply(t, url)
	conn, do := serveAPI(t, url, database, "user", "{read}")
	var id int32
	require.NoError(t, conn.QueryRow(t.Context(), `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes)
		VALUES ('x', 'web', 7, 60) RETURNING id`).Scan(&id))
	why := func() (cause string, evidence []string) {
		answer := do(http.StatusOK, http.MethodGet, fmt.Sprintf("/connectors/%d/why", id))
		var body struct {
			Cause    string
			Evidence []string
		}
		require.NoError(t, json.Unmarshal(answer, &body))
		return body.Cause, body.Evidence
	}

	run := movestest.Claim(t, conn, id)
	_, scheduler := as(t, url, "scheduler")
	_, err := scheduler.Publish(t.Context(), "connector.sync.web", []byte("trigger"))
	require.NoError(t, err)
	_, evidence := why()
	require.Contains(t, fmt.Sprint(evidence), "1 message of connector.sync.web queued")
	require.Contains(t, fmt.Sprint(evidence), "connector.sync.web has no consumer")
	_, chunker := as(t, url, "chunker")
	declared, err := topology.SyncConsumer("web")
	require.NoError(t, err)
	_, err = streams.EnsureConsumer(t.Context(), chunker, topology.SyncStream, declared)
	require.NoError(t, err)
	_, evidence = why()
	require.NotContains(t, fmt.Sprint(evidence), "has no consumer")

	movestest.PickUp(t, conn, id, run, time.Minute)
	cause, evidence := why()
	require.Equal(t, "fetching", cause, evidence)

	// What is asked of the documents shows only while a run drains.
	b, err := broker.Open(url, access("api"))
	require.NoError(t, err)
	defer b.Close()
	_, err = b.Depth(t.Context(), topology.DocumentStream)
	require.NoError(t, err)
	storers, err := b.Subscriptions(t.Context(), topology.DocumentStream, topology.DocumentSubject)
	require.NoError(t, err)
	require.Empty(t, storers)

	_, semantic := as(t, url, "semantic")
	msg, err := events.Event{ID: "e", Time: time.Now(), Run: &publicpb.RunEvent{ConnectorId: id, Type: "web", Verdict: "completed"}}.Message()
	require.NoError(t, err)
	_, err = semantic.PublishMsg(t.Context(), msg)
	require.NoError(t, err)
	told, _, err := b.Events(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, told, 1)
}
