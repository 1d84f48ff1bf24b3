package provider_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/provider"
)

// permanent says whether the worker kit would not try again.
func permanent(err error) bool { return errors.Is(err, worker.ErrPermanent) }

func TestATokenIsFetchedOnceForAllAndAgainBeforeItEnds(t *testing.T) {
	t.Parallel()
	c, g := newClock(), &grant{life: 3600}
	tokens := provider.NewTokens(g, c)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if token, err := tokens.Token(t.Context()); err != nil || token != "t1" {
				t.Errorf("%q, %v", token, err)
			}
		})
	}
	group.Wait()
	require.Equal(t, 1, g.count())

	require.NoError(t, c.Sleep(t.Context(), 54*time.Minute))
	token, err := tokens.Token(t.Context())
	require.NoError(t, err)
	require.Equal(t, "t1", token)
	require.NoError(t, c.Sleep(t.Context(), 2*time.Minute))
	g.fails(errors.New("the provider is away"))
	token, err = tokens.Token(t.Context())
	require.NoError(t, err)
	require.Equal(t, "t1", token, "what still lives is good enough")
	g.fails(nil)
	token, err = tokens.Token(t.Context())
	require.NoError(t, err)
	require.Equal(t, "t2", token, "less than five minutes were left")

	g.fails(errors.New("the provider is away"))
	require.NoError(t, c.Sleep(t.Context(), time.Hour))
	_, err = tokens.Token(t.Context())
	require.ErrorContains(t, err, "away", "what has ended is not")

	short := &grant{life: 40}
	tokens = provider.NewTokens(short, c)
	for range 2 {
		_, err = tokens.Token(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.Sleep(t.Context(), 20*time.Second))
	}
	require.Equal(t, 1, short.count(), "one that lives for less than five minutes is used all the same")
}

func TestARefusedTokenIsNotDroppedTwice(t *testing.T) {
	t.Parallel()
	g := &grant{life: 3600}
	tokens := provider.NewTokens(g, nil)
	_, err := tokens.Token(t.Context())
	require.NoError(t, err)
	tokens.Refuse("t1")
	_, err = tokens.Token(t.Context())
	require.NoError(t, err)
	tokens.Refuse("t1") // by a request that was made before
	_, err = tokens.Token(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, g.count())
}

// keeper is where rotated tokens go.
type keeper struct {
	kept []string
	err  error
}

func (k *keeper) Rotate(_ context.Context, token string) error {
	if k.err == nil {
		k.kept = append(k.kept, token)
	}
	return k.err
}

func issuer(s *server, dialect provider.Dialect) provider.Issuer {
	return provider.Issuer{Dialect: dialect, TokenURL: s.URL, Clock: newClock(), Cleaner: secret.NewCleaner("hunter-two", "old-refresh", "new-refresh")}
}

func TestARotatedRefreshTokenIsKeptBeforeTheAccessTokenIsUsed(t *testing.T) {
	t.Parallel()
	rotating := answer{status: 200, header: map[string]string{"Content-Type": "application/json"},
		body: `{"access_token":"a","expires_in":3600,"token_type":"Bearer","refresh_token":"new-refresh"}`}
	s := serve(t, rotating)
	k := &keeper{}
	grant := &provider.Refresh{Issuer: issuer(s, provider.Microsoft), ClientID: "app", ClientSecret: "hunter-two", Token: "old-refresh", Rotator: k}
	for range 2 {
		token, err := grant.Fetch(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a", token.AccessToken)
		require.EqualValues(t, 3600, token.ExpiresIn)
	}
	require.Equal(t, []string{"new-refresh"}, k.kept, "once")
	require.Equal(t, "old-refresh", s.requests()[0].PostForm.Get("refresh_token"))
	require.Equal(t, "new-refresh", s.requests()[1].PostForm.Get("refresh_token"))
	require.Equal(t, "hunter-two", s.requests()[0].PostForm.Get("client_secret"))

	k = &keeper{err: lifecycle.ErrFenced}
	grant = &provider.Refresh{Issuer: issuer(s, provider.Microsoft), ClientID: "app", Token: "old-refresh", Rotator: k}
	_, err := grant.Fetch(t.Context())
	require.ErrorIs(t, err, lifecycle.ErrFenced)
	require.NotContains(t, err.Error(), "refresh-")
}

func TestWhatATokenEndpointRefusesTellsTheUserWhatToDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer    answer
		permanent bool
		says      string
	}{
		"revoked": {answer{status: 400, body: `{"error":"invalid_grant","error_description":"Token has been expired or revoked."}`}, true,
			"the consent has expired or was revoked; connect this Microsoft account again with `echomind connect microsoft`: Token has been expired or revoked."},
		"in need of the user": {answer{status: 400, body: `{"error":"interaction_required","error_description":"AADSTS50076: MFA\r\nTrace ID: 1"}`}, true,
			"connect this Microsoft account again with `echomind connect microsoft`: AADSTS50076: MFA"},
		"a wrong secret": {answer{status: 401, body: `{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret hunter-two"}`}, true,
			"check client_id, client_secret and what it may do: AADSTS7000215: Invalid client secret REDACTED"},
		"something else": {answer{status: 400, body: `{"error":"temporarily_unavailable"}`}, false, "no access token"},
		"no JSON":        {answer{status: 400, body: `<html>old-refresh</html>`}, false, "no access token"},
		"away":           {answer{status: 503}, false, "503"},
		"resets":         {answer{reset: true}, false, "get an access token from Microsoft sign-in: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, c.answer)
			if c.answer.body != "" {
				s.answers[0].header = map[string]string{"Content-Type": "application/json"}
			}
			for _, grant := range []provider.Grant{
				&provider.Refresh{Issuer: issuer(s, provider.Microsoft), ClientID: "app", ClientSecret: "hunter-two", Token: "old-refresh"},
				&provider.ClientCredentials{Issuer: issuer(s, provider.Microsoft), ClientID: "app", ClientSecret: "hunter-two", Scopes: []string{"x/.default"}},
			} {
				_, err := grant.Fetch(t.Context())
				require.ErrorContains(t, err, c.says)
				require.Equal(t, c.permanent, permanent(err))
				for _, secret := range []string{"hunter-two", "old-refresh", "Trace ID"} {
					require.NotContains(t, err.Error(), secret)
				}
			}
		})
	}
}

func TestClientCredentialsAskForTheApplication(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{status: 500}, answer{status: 200, header: map[string]string{"Content-Type": "application/json"},
		body: `{"access_token":"a","expires_in":3599,"token_type":"Bearer"}`})
	grant := &provider.ClientCredentials{Issuer: issuer(s, provider.Microsoft), ClientID: "app", ClientSecret: "hunter-two", Scopes: []string{"https://graph.example/.default"}}
	token, err := grant.Fetch(t.Context())
	require.NoError(t, err)
	require.Equal(t, "a", token.AccessToken)
	form := s.requests()[1].PostForm
	require.Equal(t, "client_credentials", form.Get("grant_type"))
	require.Equal(t, "https://graph.example/.default", form.Get("scope"))
}

// keyFile is a service account's.
func keyFile(t *testing.T, key *rsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	file, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "robot@project.example", "private_key_id": "k1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"token_uri":   "https://evil.example/token",
	})
	require.NoError(t, err)
	return string(file)
}

func TestAServiceAccountSignsForItsUserAndInGooglesTime(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	theirs := time.Now().Add(23 * time.Minute)
	var mu sync.Mutex
	var asked []map[string]any
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Date", theirs.UTC().Format(http.TimeFormat))
		parts := strings.Split(r.PostFormValue("assertion"), ".")
		signature, _ := base64.RawURLEncoding.DecodeString(parts[2])
		sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
		if err := rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, sum[:], signature); err != nil {
			t.Error(err)
		}
		text, _ := base64.RawURLEncoding.DecodeString(parts[1])
		claims := map[string]any{}
		_ = json.Unmarshal(text, &claims)
		asked = append(asked, claims)
		issued := time.Unix(int64(claims["iat"].(float64)), 0)
		if off := theirs.Sub(issued); off > time.Minute || off < -time.Minute {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"invalid_grant","error_description":"Invalid JWT: Token must be a short-lived token"}`))
			return
		}
		_, _ = w.Write([]byte(`{"access_token":"a","expires_in":3599}`))
	}))
	t.Cleanup(s.Close)
	grant := &provider.ServiceAccount{
		Issuer: provider.Issuer{Dialect: provider.Google, TokenURL: s.URL}, Scopes: []string{"drive.readonly"}, Subject: "alice@example.com",
	}
	require.NoError(t, grant.ReadKey(keyFile(t, key)))
	for range 2 {
		token, err := grant.Fetch(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a", token.AccessToken)
	}
	require.Len(t, asked, 3, "the difference is learned once")
	require.Equal(t, "alice@example.com", asked[1]["sub"])
	require.Equal(t, "robot@project.example", asked[1]["iss"])
	require.Equal(t, s.URL, asked[1]["aud"], "and not what the key file says")
	require.Equal(t, "drive.readonly", asked[1]["scope"])
	require.EqualValues(t, 3600, asked[1]["exp"].(float64)-asked[1]["iat"].(float64))

	refusing := serve(t, answer{status: 400, body: `{"error":"invalid_grant","error_description":"Invalid email or User ID"}`})
	grant.TokenURL = refusing.URL
	grant.Clock = newClock()
	fresh := &provider.ServiceAccount{Issuer: grant.Issuer, Scopes: grant.Scopes}
	require.NoError(t, fresh.ReadKey(keyFile(t, key)))
	_, err = fresh.Fetch(t.Context())
	require.ErrorContains(t, err, "connect this Google account again with `echomind connect google`: Invalid email or User ID")
	require.True(t, permanent(err))
	require.Len(t, refusing.requests(), 1, "our clock was right")
}

func TestAKeyFileThatIsNoneIsRefusedWithoutRepeatingIt(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"hunter-two", `{"type":"authorized_user","private_key":"hunter-two"}`,
		`{"type":"service_account","client_email":"x","private_key":"hunter-two"}`,
		`{"type":"service_account","client_email":"x","private_key":"-----BEGIN PRIVATE KEY-----\naHVudGVy\n-----END PRIVATE KEY-----\n"}`} {
		err := (&provider.ServiceAccount{}).ReadKey(file)
		require.ErrorContains(t, err, "service_account")
		require.NotContains(t, err.Error(), "hunter")
	}
}

func TestASignInThatRedirectsIsGivenNoSecretTwice(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for _, status := range []int{301, 302, 303, 307, 308} {
		thief := serve(t, ok)
		s := serve(t, answer{status: status, header: map[string]string{"Location": thief.URL + "/token"}})
		issuer := provider.Issuer{Dialect: provider.Microsoft, TokenURL: s.URL, Clock: newClock(), Limits: provider.Limits{Tries: 1}}
		robot := &provider.ServiceAccount{Issuer: issuer}
		require.NoError(t, robot.ReadKey(keyFile(t, key)))
		for name, grant := range map[string]provider.Grant{
			"a refresh token":    &provider.Refresh{Issuer: issuer, ClientID: "app", ClientSecret: "hunter-two", Token: "the-refresh-token"},
			"client credentials": &provider.ClientCredentials{Issuer: issuer, ClientID: "app", ClientSecret: "hunter-two"},
			"a service account":  robot,
		} {
			_, err := grant.Fetch(t.Context())
			require.ErrorContains(t, err, "the redirect is refused", "%d %s", status, name)
			require.False(t, permanent(err), "it is the provider's, or the operator's")
			require.NotContains(t, err.Error(), "hunter-two")
			require.Empty(t, thief.requests(), "%d %s", status, name)
		}
	}
}
