package connector_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector"
	"github.com/echomind/sync/testonly/fakegraph"
	"github.com/echomind/sync/testonly/testkit"
)

const (
	first  = "1//0g-refresh-token-of-alice"
	second = "1//0g-refresh-token-of-alice-again"
)

func TestARotatedRefreshTokenIsKeptSealedAndUsedByTheNextRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	_, root := w.graph.NewDrive("alice", "")
	w.graph.File(root, "plan.md", "# Plan\n\nzebra")
	w.add(7, first)
	before := w.text(`SELECT (config_version, config)::text FROM connectors WHERE id = 7`)
	w.fetched(w.claim(7))
	w.fetched(w.claim(7))
	require.Equal(t, []string{first, "rotated-refresh-token-1"}, w.login.asked())
	require.Equal(t, before, w.text(`SELECT (config_version, config)::text FROM connectors WHERE id = 7`), "no sync was released for it")
	stored := w.text(`SELECT envelope FROM connector_secrets WHERE connector_id = 7`)
	opened, err := w.ring.Open(7, "rotated.refresh_token", stored)
	require.NoError(t, err)
	require.Contains(t, opened, "rotated-refresh-token-2")

	// The user connects again: what the old consent gave is worthless, and forgotten.
	w.exec(`UPDATE connectors SET config = $1 WHERE id = 7`, w.sealed(7, second))
	w.fetched(w.claim(7))
	require.Equal(t, second, w.login.asked()[2])
	w.fetched(w.claim(7))
	require.Equal(t, "rotated-refresh-token-3", w.login.asked()[3])

	w.exec(`DELETE FROM connectors WHERE id = 7`)
	require.Equal(t, "0", w.text(`SELECT count(*)::text FROM connector_secrets`), "credentials do not outlive their connector")
	for _, said := range []string{first, second, "rotated-refresh-token", "fake-access-token", "tempauth"} {
		require.NotContains(t, w.log.String(), said)
	}
}

func TestARunThatIsNotItsOwnAnyMoreKeepsNoToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.graph.NewDrive("alice", "")
	w.add(7, first)
	w.login.set(func() {
		w.login.before = func() {
			_, _ = w.pool.Exec(context.Background(), `SELECT moves.release(r.id, r.try_id) FROM open_runs r WHERE r.connector_id = 7`)
		}
	})
	session := w.claim(7)
	testkit.Eventually(t, soon, func() error {
		if len(w.login.asked()) == 0 {
			return context.DeadlineExceeded
		}
		return nil
	})
	w.fencedOff()
	require.Equal(t, "0", w.text(`SELECT count(*)::text FROM connector_secrets`))
	require.Empty(t, w.graph.Requests(), "nor is the access token used that came with it")
	require.Equal(t, "superseded", w.text(`SELECT status FROM scheduler_runs WHERE id = $1`, session))
}

func TestARotatedTokenIsKeptThoughSomebodyHoldsTheConnectorMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	_, root := w.graph.NewDrive("alice", "")
	w.graph.File(root, "plan.md", "# Plan")
	w.add(7, first)
	lock, err := w.pool.Begin(context.Background())
	require.NoError(t, err)
	w.login.set(func() {
		w.login.before = func() { _, _ = lock.Exec(context.Background(), `SELECT FROM connectors WHERE id = 7 FOR UPDATE`) }
	})
	session := w.claim(7)
	testkit.Eventually(t, soon, func() error {
		if !strings.Contains(w.log.String(), "a sync waits for Postgres") {
			return context.DeadlineExceeded
		}
		return nil
	})
	require.Equal(t, "0", w.text(`SELECT count(*)::text FROM connector_secrets`))
	require.NoError(t, lock.Rollback(context.Background()))
	w.fetched(session)
	require.Len(t, w.login.asked(), 1, "the provider has taken the old one back")
	require.Equal(t, "1", w.text(`SELECT count(*)::text FROM connector_secrets`))
}

// fencedOff waits until the service has dropped a run.
func (w *world) fencedOff() {
	w.Helper()
	testkit.Eventually(w, soon, func() error {
		if text := w.log.String(); !strings.Contains(text, "no longer this worker's") && !strings.Contains(text, "the sync failed") {
			return context.DeadlineExceeded
		}
		return nil
	})
}

func TestWhatIsWrongWithTheSecretsIsSaidToWhoCanMendIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys      bool
		arrange   func(w *world)
		permanent bool
		says      string
	}{
		"no key":              {false, func(w *world) { w.add(7, first) }, false, "SECRETS_KEY_FILE"},
		"in the open":         {true, func(w *world) { w.insert(7, `{"client_id":"app","refresh_token":"`+first+`"}`) }, true, "refresh_token is not sealed"},
		"another connector's": {true, func(w *world) { w.insert(7, w.sealed(8, first)) }, true, "another connector's"},
		"revoked": {true, func(w *world) {
			w.add(7, first)
			w.login.set(func() { w.login.error = "invalid_grant" })
		}, true, "Microsoft sign-in answered 400 invalid_grant: the consent has expired or was revoked; connect this Microsoft account again " +
			"with `echomind connect microsoft --connector 7`, or give it other credentials with `echomind connectors update 7 --config @FILE`: what the provider says of REDACTED"},
		"no credentials":          {true, func(w *world) { w.insert(7, `{"client_id":"app"}`) }, true, "no credentials"},
		"no application":          {true, func(w *world) { w.insert(7, `{}`) }, true, "client_id"},
		"a tenant that is a path": {true, func(w *world) { w.insert(7, `{"client_id":"app","tenant_id":"../../evil"}`) }, true, "tenant_id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.keys)
			w.graph.NewDrive("alice", "")
			c.arrange(w)
			message, permanent := w.failed(w.claim(7))
			require.Contains(t, message, c.says)
			require.NotContains(t, message, "raph", "Graph was not asked")
			require.NotContains(t, message, first)
			require.Equal(t, c.permanent, permanent)
			require.NotContains(t, w.log.String(), first)
		})
	}
}

func TestWhatMicrosoftGraphSaysIsToldWithoutTheSecretsThatItRepeats(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.graph.NewDrive("alice", "")
	token := strings.TrimPrefix(fakegraph.Token, "Bearer ")
	w.graph.Inject(fakegraph.Fault{
		Times: 1, Status: 400, Code: "invalidRequest",
		Message: "Tenant does not have a SPO license.\r\nAsked with " + token + " and " + first,
	})
	w.add(7, first)
	message, permanent := w.failed(w.claim(7))
	require.Contains(t, message, "Microsoft Graph does not take it")
	require.Contains(t, message, "answered 400 invalidRequest: Tenant does not have a SPO license. Asked with REDACTED and REDACTED")
	require.True(t, permanent)
	for _, said := range []string{token, first} {
		require.NotContains(t, message+w.log.String(), said)
	}
}

func TestAServiceAccountAsksGoogleAndAnEmptyQuotaIsAWaitOfAllWhoAskWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	file, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "robot@project.example",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	require.NoError(t, err)
	for id := int32(1); id <= 2; id++ {
		config, err := w.ring.SealConfig(id, connector.SecretFields("google_drive"), []byte(`{"subject":"alice@example.com","service_account":`+string(file)+`}`))
		require.NoError(t, err)
		require.NotContains(t, string(config), "PRIVATE KEY")
		w.exec(`INSERT INTO connectors (id, name, type, user_id, config) VALUES ($1, 'drive', 'google_drive', 1, $2)`, id, config)
	}
	w.postponed(1, "Google Drive allows this account no more requests for now; we wait", 30*time.Minute)
	require.Contains(t, w.log.String(), "Google Drive answered 403 dailyLimitExceeded: Daily Limit Exceeded")
	require.Equal(t, []string{fakegraph.Token}, w.drive.requests())
	w.postponed(2, "Google asked us to wait", 30*time.Minute)
	require.Len(t, w.drive.requests(), 1, "nobody asks with this account meanwhile")
	require.NotContains(t, w.text(`SELECT string_agg(q::text, '') FROM provider_quotas q`), "robot")
	require.NotContains(t, w.log.String(), "PRIVATE KEY")
}

func TestTheFieldsThatAreSecretAreDeclaredByTheTypesConfigs(t *testing.T) {
	t.Parallel()
	for connectorType, fields := range map[string][]string{
		"onedrive": {"client_secret", "refresh_token"}, "teams": {"client_secret", "refresh_token"},
		"google_drive": {"client_secret", "refresh_token", "service_account"}, "web": nil,
	} {
		require.ElementsMatch(t, fields, connector.SecretFields(connectorType), connectorType)
	}
}
