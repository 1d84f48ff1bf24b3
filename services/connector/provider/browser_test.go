package provider_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/connector/provider"
	"github.com/echomind/sync/testonly/signintest"
)

const driveScope = "https://www.googleapis.com/auth/drive.readonly"

// signIn is one that a test has consents at.
func signIn(t *testing.T, change func(*signintest.Server)) *signintest.Server {
	t.Helper()
	s := signintest.New()
	t.Cleanup(s.Close)
	if change != nil {
		change(s)
	}
	return s
}

// googles is how Google's consent is had. show is the user.
func googles(s *signintest.Server, show func(address string) error) *provider.Browser {
	return &provider.Browser{Show: show, Code: provider.Code{
		Issuer: provider.Issuer{
			Dialect: provider.Google, TokenURL: s.GoogleTokenURL(), Cleaner: secret.NewCleaner(signintest.ClientSecret),
			Clock: newClock(),
		},
		AuthURL: s.GoogleAuthURL(), ClientID: signintest.ClientID, ClientSecret: signintest.ClientSecret, Scopes: []string{driveScope},
		Ask: map[string]string{"access_type": "offline", "prompt": "consent"}, Partial: true,
	}}
}

// page is what a browser shows.
type page struct {
	address *url.URL
	status  int
	header  http.Header
	text    string
}

// visit is a browser.
func visit(address string) (page, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	resp, err := client.Get(address)
	if err != nil {
		return page{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	return page{resp.Request.URL, resp.StatusCode, resp.Header, string(content)}, err
}

func requireNoSecret(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{signintest.ClientSecret, signintest.RefreshToken, signintest.AccessToken, "nobody-shows"} {
		require.NotContains(t, text, secret)
	}
}

func TestAConsentInABrowserLeavesARefreshToken(t *testing.T) {
	t.Parallel()
	s := signIn(t, nil)
	var opened, callback *url.URL
	token, err := googles(s, func(address string) error {
		var err error
		if opened, err = url.Parse(address); err != nil {
			return err
		}
		shown, err := visit(address)
		if err != nil {
			return err
		}
		callback = shown.address
		require.Equal(t, http.StatusOK, shown.status)
		require.Contains(t, shown.text, "Done.")
		require.NotContains(t, shown.text, "code-1", "nothing of the address is repeated")
		require.Equal(t, "no-referrer", shown.header.Get("Referrer-Policy"))
		require.Equal(t, "no-store", shown.header.Get("Cache-Control"))
		again, err := visit(callback.String())
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, again.status, "it is taken once")
		return nil
	}).Refresh(t.Context())
	require.NoError(t, err)
	require.Equal(t, signintest.RefreshToken, token)
	asked := opened.Query()
	require.Equal(t, "offline", asked.Get("access_type"))
	require.Equal(t, "S256", asked.Get("code_challenge_method"))
	require.Regexp(t, `^http://127\.0\.0\.1:\d+$`, asked.Get("redirect_uri"))
	requireNoSecret(t, opened.String())
	_, err = visit(callback.String())
	require.Error(t, err, "nothing listens any more")
}

func TestOnlyTheRedirectWithTheStateIsTaken(t *testing.T) {
	t.Parallel()
	s := signIn(t, nil)
	_, err := googles(s, func(address string) error {
		opened, err := url.Parse(address)
		require.NoError(t, err)
		state, back := opened.Query().Get("state"), opened.Query().Get("redirect_uri")
		for name, strange := range map[string]string{
			"another state":  "/?code=evil&state=" + state[:42] + "x",
			"no state":       "/?code=evil",
			"no code":        "/?state=" + state,
			"another path":   "/callback?code=evil&state=" + state,
			"nothing":        "/",
			"a favicon":      "/favicon.ico",
			"text to repeat": "/?code=<script>&error=<script>",
		} {
			shown, err := visit(back + strange)
			require.NoError(t, err, name)
			require.Equal(t, http.StatusBadRequest, shown.status, name)
			require.NotContains(t, shown.text, "script", name)
		}
		other, err := http.NewRequestWithContext(t.Context(), http.MethodGet, back+"/?code=evil&state="+state, nil)
		require.NoError(t, err)
		other.Host = "evil.example"
		posted, err := http.NewRequestWithContext(t.Context(), http.MethodPost, back+"/?code=evil&state="+state, strings.NewReader("x"))
		require.NoError(t, err)
		long, err := http.NewRequestWithContext(t.Context(), http.MethodGet, back+"/?code=evil&state="+state, nil)
		require.NoError(t, err)
		long.Header.Set("X", strings.Repeat("x", 64<<10))
		for request, status := range map[*http.Request]int{
			other: http.StatusBadRequest, posted: http.StatusBadRequest, long: http.StatusRequestHeaderFieldsTooLarge,
		} {
			resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, status, resp.StatusCode)
		}
		_, err = visit(address)
		return err
	}).Refresh(t.Context())
	require.NoError(t, err, "the right one counts all the same")
	require.Equal(t, []string{"GET /google/auth", "POST /google/token"}, s.Requests(), "no code of somebody else's is redeemed")
}

func TestAConsentInABrowserThatIsNoneSaysWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*signintest.Server)
		says   string
	}{
		"refused":          {func(s *signintest.Server) { s.Denies = true }, "Google sign-in: access_denied: the consent was refused"},
		"no refresh token": {func(s *signintest.Server) { s.Forgets = true }, "Google sign-in: the consent left no refresh token; it gives one where access_type=offline"},
		"in part":          {func(s *signintest.Server) { s.Partial = true }, "the consent does not hold " + driveScope},
		"broken":           {func(s *signintest.Server) { s.Broken = 500 }, "Google sign-in answered 500: no access token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := signIn(t, c.change)
			_, err := googles(s, func(address string) error {
				_, err := visit(address)
				return err
			}).Refresh(t.Context())
			require.ErrorContains(t, err, c.says)
			requireNoSecret(t, err.Error())
			require.LessOrEqual(t, len(s.Requests()), 2, "a code is redeemed once")
		})
	}
	s := signIn(t, nil)
	wrong := googles(s, func(address string) error {
		_, err := visit(address)
		return err
	})
	wrong.ClientSecret = "GOCSPX-of-another-application"
	_, err := wrong.Refresh(t.Context())
	require.ErrorContains(t, err, "Google sign-in answered 401 invalid_client: the application that asks is refused")
	require.NotContains(t, err.Error(), "of-another")
}

func TestNobodyWhoConsentsIsWaitedForUntilTheEndAndNothingListensThen(t *testing.T) {
	t.Parallel()
	s := signIn(t, nil)
	var back string
	ctx, stop := context.WithCancel(t.Context())
	shown := func(address string) error {
		opened, err := url.Parse(address)
		back = opened.Query().Get("redirect_uri")
		return err
	}
	_, err := googles(s, func(address string) error { defer stop(); return shown(address) }).Refresh(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, err = visit(back)
	require.Error(t, err)

	err = deadline.Do(t.Context(), "connect.consent", time.Millisecond, func(ctx context.Context) error {
		_, err := googles(s, shown).Refresh(ctx)
		return err
	})
	require.EqualError(t, err, "connect.consent: no answer within "+deadline.Of(time.Millisecond).String())
	_, err = visit(back)
	require.Error(t, err)
	cannot := errors.New("no terminal")
	_, err = googles(s, func(string) error { return cannot }).Refresh(t.Context())
	require.ErrorIs(t, err, cannot)
}

func TestAConsentForMicrosoftComesBackToLocalhostWithoutASecret(t *testing.T) {
	t.Parallel()
	s := signIn(t, nil)
	token, err := (&provider.Browser{
		Code: provider.Code{
			Issuer: provider.Issuer{
				Dialect: provider.Microsoft, TokenURL: s.URL + "/contoso/oauth2/v2.0/token", Cleaner: secret.NewCleaner(), Clock: newClock(),
			},
			AuthURL: s.URL + "/contoso/oauth2/v2.0/authorize", ClientID: signintest.ClientID, Scopes: []string{"offline_access", "https://graph.microsoft.com/Files.Read.All"},
		},
		Host: "localhost",
		Show: func(address string) error {
			_, err := visit(address)
			return err
		},
	}).Refresh(t.Context())
	require.NoError(t, err)
	require.Equal(t, signintest.RefreshToken, token)
}
