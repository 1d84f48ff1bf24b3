package provider_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/connector/provider"
)

// given is a grant of one access token.
type given string

func (g given) Fetch(context.Context) (*oauth2.Token, error) {
	return &oauth2.Token{AccessToken: string(g), ExpiresIn: 3600}, nil
}

// echo refuses every token, and says which.
func echo(t *testing.T, says string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"error":{"code":"InvalidAuthenticationToken","message":%q}}`,
			strings.ReplaceAll(says, "TOKEN", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestATokenThatTheProviderRepeatsIsNotShown(t *testing.T) {
	t.Parallel()
	const token = "EwBwA8l6BAAU7p9QDpi1Acc3ssT0kenVa1ue/+=="
	for _, says := range []string{
		"Access token TOKEN is malformed", "The token 'TOKEN' has expired", "CompactToken parsing failed: TOKEN", "Authorization header 'Bearer TOKEN' is not valid",
		strings.Repeat("x ", 140) + "TOKEN", strings.Repeat("x ", 140) + "password=TOKEN", // over the end of what is shown
	} {
		url, cleaner := echo(t, says), secret.NewCleaner("the-refresh-token")
		for _, c := range []*secret.Cleaner{cleaner, nil} {
			client, err := provider.NewClient(provider.Options{
				Dialect: provider.Microsoft, Endpoint: url, Tokens: provider.NewTokens(given(token), nil), Clock: newClock(), Cleaner: c,
			})
			require.NoError(t, err)
			_, _, err = get(t, client, url+"/x")
			require.ErrorContains(t, err, "connect this Microsoft account again with `echomind connect microsoft`")
			require.NotContains(t, err.Error(), token[:8])
		}
		require.Equal(t, "a source says REDACTED", cleaner.Text("a source says "+token), "the cleaner knows the token from then on")
	}
}

func TestASecretIsNotShownInPartWhereAMessageIsCut(t *testing.T) {
	t.Parallel()
	const known = "hunter-two-the-secret"
	for left := 1; left < len(known); left++ {
		message := strings.Repeat("x", 299-left) + " " + known + " and more"
		s := serve(t, google(403, "dailyLimitExceeded", message))
		c, _ := client(t, s, func(o *provider.Options) { o.Cleaner = secret.NewCleaner(known) })
		_, _, err := get(t, c, s.URL)
		require.Error(t, err)
		require.NotContains(t, err.Error(), " h")
	}
}

func TestARotatedTokenIsNotShownBeforeItIsKept(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{status: 200, header: map[string]string{"Content-Type": "application/json"},
		body: `{"access_token":"a","expires_in":3600,"token_type":"Bearer","refresh_token":"rotated-in-this-run"}`})
	issuer := issuer(s, provider.Microsoft)
	grant := &provider.Refresh{Issuer: issuer, ClientID: "app", Token: "old-refresh", Rotator: &keeper{err: fmt.Errorf("keep rotated-in-this-run: %w", context.Canceled)}}
	_, err := grant.Fetch(t.Context())
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, issuer.Cleaner.Error(err).Error(), "rotated-in")
}

func TestAnAccessTokenHasALength(t *testing.T) {
	t.Parallel()
	_, err := provider.NewTokens(given(strings.Repeat("a", secret.MaxBytes+1)), nil).Token(t.Context())
	require.EqualError(t, err, "get an access token: it has 16385 bytes, and at most 16384 are taken")
}
