package endtoend

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/connector"
	"github.com/echomind/sync/testonly/fakedrive"
)

const (
	consent     = "1//0g-the-consent-of-alice"
	application = "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n"
	accessToken = "ya29.an-access-token"
	robot       = "robot@project.example"
)

// signIn is Google's token endpoint ("Using OAuth 2.0 for Web Server Applications", "Using OAuth 2.0 for Server to
// Server Applications"): it knows one consent and one service account.
type signIn struct {
	*httptest.Server
	mu      sync.Mutex
	key     *rsa.PrivateKey
	revoked bool
	asked   int
}

func newSignIn(t *testing.T) *signIn {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	s := &signIn{key: key}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *signIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	w.Header().Set("Content-Type", "application/json")
	if s.revoked || !s.consents(r) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant","error_description":"Token has been expired or revoked."}`))
		return
	}
	_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3599}`, accessToken)
}

func (s *signIn) consents(r *http.Request) bool {
	switch r.PostFormValue("grant_type") {
	case "refresh_token":
		return r.PostFormValue("refresh_token") == consent && r.PostFormValue("client_id") == "app" &&
			r.PostFormValue("client_secret") == application
	case "urn:ietf:params:oauth:grant-type:jwt-bearer":
		return s.signed(r.PostFormValue("assertion"))
	}
	return false
}

// signed tells whether an assertion is the service account's, for one user, and to read only.
func (s *signIn) signed(assertion string) bool {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return false
	}
	claims, _ := base64.RawURLEncoding.DecodeString(parts[1])
	signature, _ := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	var says struct{ Iss, Sub, Aud, Scope string }
	return json.Unmarshal(claims, &says) == nil && says.Iss == robot && says.Sub == "alice@example.com" && says.Aud == s.URL &&
		says.Scope == "https://www.googleapis.com/auth/drive.readonly" &&
		rsa.VerifyPKCS1v15(&s.key.PublicKey, crypto.SHA256, sum[:], signature) == nil
}

func (s *signIn) revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = true
}

func (s *signIn) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// user is a configuration with the consent of a user.
func (s *signIn) user() map[string]any {
	return map[string]any{"client_id": "app", "client_secret": application, "refresh_token": consent}
}

// robot is a configuration with a service account.
func (s *signIn) robot(t *testing.T) map[string]any {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(s.key)
	require.NoError(t, err)
	return map[string]any{"subject": "alice@example.com", "service_account": map[string]string{
		"type": "service_account", "client_email": robot,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	}}
}

// served is a Google Drive that wants to be asked with an access token, and all that keeps it in sync but the service.
type served struct {
	*google
	signIn *signIn
	key    string
	// tokenURL is the token endpoint; signIn if empty.
	tokenURL string
}

func newServed(t *testing.T) *served {
	t.Helper()
	fake := fakedrive.New()
	fake.Token = accessToken
	t.Cleanup(fake.Close)
	s := &served{
		google: &google{line: newStorage(t, "google_drive", `{}`), fake: fake, root: fake.Folder(fakedrive.Root, "Top")},
		signIn: newSignIn(t),
	}
	var err error
	s.key, err = secret.NewKey()
	require.NoError(t, err)
	return s
}

// connect gives the connector its configuration, sealed as `echomind connectors add` does.
func (s *served) connect(credentials map[string]any) {
	s.Helper()
	open := maps.Clone(credentials)
	open["folder_id"] = s.root
	data, err := json.Marshal(open)
	require.NoError(s, err)
	ring, err := secret.Parse(s.key)
	require.NoError(s, err)
	sealed, err := ring.SealConfig(s.id, connector.SecretFields("google_drive"), data)
	require.NoError(s, err)
	s.exec(`UPDATE connectors SET config = $2 WHERE id = $1`, s.id, sealed)
}

// serve runs the service, and returns what it logs, to be read when the test has stopped it.
func (s *served) serve() (log *bytes.Buffer, stop func()) {
	s.Helper()
	var cfg connector.Config
	require.NoError(s, config.Load(&cfg))
	cfg.DatabaseURL, cfg.NATSURL, cfg.DatabaseMaxConns = s.database, s.broker, 4
	cfg.GoogleDriveURL, cfg.GoogleTokenURL = s.fake.URL, s.signIn.URL
	if s.tokenURL != "" {
		cfg.GoogleTokenURL = s.tokenURL
	}
	cfg.SecretsKey, cfg.SecretsKeyFile = s.key, ""
	cfg.ShutdownGraceSeconds = 1
	log = &bytes.Buffer{} // slog's handler writes one line at a time
	process := connect.NewProcess(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- connector.Run(ctx, cfg, process) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("the service ended: %v", err)
		}
	})
	s.Cleanup(stop)
	return log, stop
}

// status is the connector's, and what its user is told.
func (s *served) status() (status, message string) {
	s.Helper()
	require.NoError(s, s.pool.QueryRow(context.Background(), `SELECT status, coalesce(status_message, '') FROM connectors WHERE id = $1`, s.id).
		Scan(&status, &message))
	return status, message
}

func TestTheServiceSyncsAGoogleDriveThatThrottlesItWithEitherKindOfCredentials(t *testing.T) {
	t.Parallel()
	for name, credentials := range map[string]func(*served) map[string]any{
		"a user's consent":  func(s *served) map[string]any { return s.signIn.user() },
		"a service account": func(s *served) map[string]any { return s.signIn.robot(s.T) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServed(t)
			var ids []string
			for i := range 10 {
				ids = append(ids, s.fake.File(s.root, fmt.Sprint(i, ".txt"), "text/plain", fmt.Sprint("the text of ", i)))
			}
			s.connect(credentials(s))
			log, stop := s.serve()

			var mu sync.Mutex
			var lists []time.Time
			s.fake.Before(func(kind, _ string) {
				mu.Lock()
				defer mu.Unlock()
				if kind == "list" {
					lists = append(lists, time.Now())
				}
			})
			s.fake.Inject(fakedrive.TooMany.On("list", 1), fakedrive.Throttled.On("media", 2), fakedrive.Unavailable.On("media", 1),
				fakedrive.Broken.On("media", 1))
			require.Equal(t, "completed", s.trigger())
			s.equal()
			require.Zero(t, s.fake.Heal(), "every fault was met")
			require.GreaterOrEqual(t, lists[1].Sub(lists[0]), time.Second, "what Retry-After says is waited")
			status, message := s.status()
			require.Equal(t, "ACTIVE", status, message)
			require.Equal(t, 1, s.signIn.requests(), "one access token serves a run")
			for _, id := range ids {
				require.Equal(t, 1, s.fake.Reads(id), "what waited is not read twice")
			}

			s.fake.Write(ids[0], "another text")
			s.fake.Inject(fakedrive.Throttled.On("changes", 1), fakedrive.TooMany.On("media", 1))
			require.Equal(t, "completed", s.trigger())
			s.equal()
			require.Zero(t, s.fake.Heal())

			stop()
			for _, plain := range []string{consent, application, accessToken, "PRIVATE KEY"} {
				require.NotContains(t, log.String(), plain)
			}
		})
	}
}

func TestARevokedConsentToAGoogleDriveIsAnErrorThatSaysToConnectAgainAndKeepsWhatIsStored(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	s.fake.File(s.root, "plan.txt", "text/plain", "the plan")
	s.connect(s.signIn.user())
	s.serve()
	require.Equal(t, "completed", s.trigger())
	s.signIn.revoke()
	s.fake.ResetCalls()
	says := fmt.Sprintf("Google sign-in answered 400 invalid_grant: the consent has expired or was revoked; connect this Google account again with "+
		"`echomind connect google --connector %d`, or give it other credentials with `echomind connectors update %d --config @FILE`: "+
		"Token has been expired or revoked.", s.id, s.id)
	verdict := s.trigger()
	require.Contains(t, verdict, says)
	status, message := s.status()
	require.Equal(t, "ERROR", status)
	require.Contains(t, message, says)
	var reason string
	require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT reason FROM scheduler_runs WHERE connector_id = $1 ORDER BY started_at DESC LIMIT 1`, s.id).
		Scan(&reason))
	require.Equal(t, "permanent failure", reason, "it is not tried again by itself")
	require.Zero(t, s.fake.Calls(), "nobody is asked without a token")
	s.equal()
}

func TestAShortcutIsFollowedUntilOthersThanTheOwnerRead(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	shortcut := s.fake.Shortcut(s.root, "notes", s.fake.File(fakedrive.Root, "mine.txt", "text/plain", "the owner's words"))
	s.connect(s.signIn.user())
	s.serve()
	require.Equal(t, "completed", s.trigger())
	require.Equal(t, "the owner's words", s.documents()[shortcut].Text)
	s.exec(`UPDATE connectors SET scope = 'org' WHERE id = $1`, s.id)
	require.Equal(t, "completed", s.trigger())
	stored := s.documents()[shortcut]
	require.Contains(t, stored.Err, "is not among what this connector syncs")
	require.Empty(t, stored.Text)
}
