//go:build !race

package api_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/services/connector/consent"
	"github.com/echomind/sync/testonly/signintest"
)

// consenting is a world whose page may ask at the fakes of both providers.
type consenting struct {
	*world
	provider *signintest.Server
	key      string
	config   consent.Config
}

func newConsenting(t *testing.T, change ...func(*api.Config)) *consenting {
	t.Helper()
	s := signintest.New()
	t.Cleanup(s.Close)
	c := &consenting{provider: s}
	c.world = newWorld(t, append(change, func(cfg *api.Config) {
		c.key = cfg.SecretsKey
		cfg.Consent = consent.Config{
			GoogleAuthURL: s.GoogleAuthURL(), GoogleTokenURL: s.GoogleTokenURL(), GoogleClientID: signintest.ClientID, GoogleClientSecret: signintest.ClientSecret,
			MicrosoftGraphURL: "https://graph.microsoft.com/v1.0", MicrosoftLoginURL: s.URL, MicrosoftClientID: signintest.ClientID, MicrosoftClientSecret: signintest.ClientSecret,
		}
		c.config = cfg.Consent
	})...)
	s.Web = c.server.URL + "/connect/back"
	return c
}

// source is a connector of user 7.
func (c *consenting) source(connectorType, config string) int32 {
	c.Helper()
	return one[int32](c.world, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, config) VALUES ('plans', $1, 7, 60, $2) RETURNING id`, connectorType, config)
}

var onwards = regexp.MustCompile(`<a class="button" href="([^"]+)" rel="noreferrer">`)

// asked is the address at the provider that somebody is sent to.
func (c *consenting) asked(b *browser, id int32) string {
	c.Helper()
	page := b.do("POST", fmt.Sprintf("/sources/%d/connect", id), url.Values{})
	require.Equal(c, http.StatusOK, page.status, page.text)
	found := onwards.FindStringSubmatch(page.text)
	require.Len(c, found, 2, page.text)
	return html.UnescapeString(found[1])
}

// consents has a user consent at the provider, which sends their browser to the address that it returns.
func (c *consenting) consents(address string) string {
	c.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Timeout: time.Minute}
	answer, err := client.Get(address)
	require.NoError(c, err)
	defer func() { require.NoError(c, answer.Body.Close()) }()
	require.Equal(c, http.StatusFound, answer.StatusCode)
	back, err := url.Parse(answer.Header.Get("Location"))
	require.NoError(c, err)
	require.Equal(c, c.server.URL, back.Scheme+"://"+back.Host)
	return back.RequestURI()
}

// credentials are those that a connector has, opened.
func (c *consenting) credentials(id int32, connectorType string) map[string]string {
	c.Helper()
	ring, err := secret.Load("", c.key)
	require.NoError(c, err)
	opened, err := ring.OpenConfig(id, secret.FieldsOfType(connectorType), []byte(one[string](c.world, `SELECT config::text FROM connectors WHERE id = $1`, id)))
	require.NoError(c, err)
	return opened
}

func TestAnAccountIsConnectedInABrowser(t *testing.T) {
	t.Parallel()
	for connectorType, config := range map[string]string{
		consent.GoogleDrive: `{"folder_id": "1a2b", "client_id": "another", "client_secret": "of another"}`,
		consent.OneDrive:    `{"tenant_id": "contoso.example", "site": "contoso.sharepoint.com:/sites/Marketing"}`,
		consent.Teams:       `{"team_id": "t", "channel_id": "c", "refresh_token": "an old one"}`,
	} {
		t.Run(connectorType, func(t *testing.T) {
			t.Parallel()
			c := newConsenting(t)
			id := c.source(connectorType, config)
			version := one[int64](c.world, `SELECT config_version FROM connectors`)
			b := c.as(7, identity.User).signedIn()
			require.Contains(t, b.get(fmt.Sprintf("/sources/%d", id)).text, "Connect with "+map[bool]string{true: "Google", false: "Microsoft"}[connectorType == consent.GoogleDrive])
			address := c.asked(b, id)
			at, err := url.Parse(address)
			require.NoError(t, err)
			require.Equal(t, connectorType == consent.OneDrive, strings.Contains(at.Query().Get("scope"), "Sites.Read.All"))
			require.Equal(t, connectorType == consent.OneDrive, strings.HasPrefix(at.Path, "/contoso.example/"))
			back := c.consents(address)
			page := b.get(back)
			require.Equal(t, http.StatusOK, page.status, page.text)
			require.Equal(t, fmt.Sprintf("/sources/%d", id), page.at.Path)
			require.Contains(t, page.text, "It is connected, and everything is fetched again.")
			require.Equal(t, map[string]string{"refresh_token": signintest.RefreshToken}, c.credentials(id, connectorType))
			require.NotContains(t, one[string](c.world, `SELECT config::text FROM connectors`), signintest.RefreshToken)
			var kept, was map[string]any
			require.NoError(t, json.Unmarshal([]byte(one[string](c.world, `SELECT (config - 'refresh_token')::text FROM connectors`)), &kept))
			require.NoError(t, json.Unmarshal([]byte(config), &was))
			for _, name := range []string{"client_id", "client_secret", "refresh_token"} {
				delete(was, name)
			}
			require.Equal(t, was, kept)
			require.Equal(t, "user 7", one[string](c.world, `SELECT updated_by FROM connectors`))
			require.Greater(t, one[int64](c.world, `SELECT config_version FROM connectors`), version, "everything is fetched again")
			require.Equal(t, 1, one[int](c.world, `SELECT count(*) FROM audit WHERE action = 'connectors.update' AND note = 'consent in a browser' AND user_id = 7`))

			again := b.get(back)
			require.Equal(t, http.StatusConflict, again.status, "a consent comes back once")
			require.NotContains(t, again.text, signintest.RefreshToken)
		})
	}
}

func TestAConsentIsTakenFromTheBrowserThatWasAskedAndOfTheSameUser(t *testing.T) {
	t.Parallel()
	c := newConsenting(t)
	id := c.source(consent.GoogleDrive, `{"folder_id": "1a2b"}`)
	mine, theirs := c.as(7, identity.User), c.as(8, identity.User)
	b := mine.signedIn()
	for name, answer := range map[string]func() shown{
		"another browser of the user": func() shown { return mine.signedIn().get(c.consents(c.asked(b, id))) },
		"another user's browser":      func() shown { return theirs.signedIn().get(c.consents(c.asked(b, id))) },
		"another user in the same browser": func() shown {
			back := c.consents(c.asked(b, id))
			b.do("POST", "/sign-out", url.Values{})
			b.do("POST", "/sign-in", url.Values{"token": {theirs.token}})
			page := b.get(back)
			b.do("POST", "/sign-in", url.Values{"token": {mine.token}})
			return page
		},
		"the answer to what was asked before": func() shown {
			first := c.consents(c.asked(b, id))
			c.asked(b, id)
			return b.get(first)
		},
		"another state": func() shown { return b.get(strings.Replace(c.consents(c.asked(b, id)), "state=", "state=x", 1)) },
		"a state twice": func() shown { return b.get(c.consents(c.asked(b, id)) + "&state=x") },
		"no code": func() shown {
			return b.get(regexp.MustCompile(`code=[^&]*&?`).ReplaceAllString(c.consents(c.asked(b, id)), ""))
		},
		"nothing at all": func() shown { return b.get("/connect/back") },
	} {
		page := answer()
		require.Equal(t, http.StatusConflict, page.status, "%s: %s", name, page.text)
		require.Contains(t, page.text, "This is no answer to what this browser was asked last", name)
	}
	require.Zero(t, c.tokensAsked(), "no code was redeemed")
	require.Equal(t, http.StatusUnauthorized, c.browser().get("/connect/back?code=x&state=y").status)
	require.Empty(t, c.credentials(id, consent.GoogleDrive))
}

func TestAConsentIsNotTakenWhereOtherPeopleWouldReadWhatItGives(t *testing.T) {
	t.Parallel()
	c := newConsenting(t)
	id := c.source(consent.GoogleDrive, `{"folder_id": "1a2b"}`)
	c.exec(`INSERT INTO group_members VALUES (7, 'g', true)`)
	b := c.as(7, identity.User).signedIn()
	back := c.consents(c.asked(b, id))
	c.exec(`UPDATE connectors SET scope = 'group', scope_id = 'g' WHERE id = $1`, id)
	page := b.get(back)
	require.Equal(t, http.StatusConflict, page.status, page.text)
	require.Contains(t, page.text, "Other people find what is stored of the source")
	require.Zero(t, c.tokensAsked(), "no code was redeemed")
	require.Empty(t, c.credentials(id, consent.GoogleDrive))
}

// tokensAsked is how often a token endpoint was asked.
func (c *consenting) tokensAsked() (n int) {
	for _, request := range c.provider.Requests() {
		if strings.HasSuffix(request, "/token") {
			n++
		}
	}
	return n
}

func TestOnlyWhoMayChangeASourceConnectsIt(t *testing.T) {
	t.Parallel()
	c := newConsenting(t)
	id := c.source(consent.GoogleDrive, `{}`)
	path := fmt.Sprintf("/sources/%d/connect", id)
	require.Equal(t, http.StatusNotFound, c.as(8, identity.User).signedIn().do("POST", path, url.Values{}).status)
	require.Equal(t, http.StatusForbidden, c.as(7, identity.User, identity.Read, identity.Operate).signedIn().do("POST", path, url.Values{}).status)
	org := one[int32](c.world, `INSERT INTO connectors (name, type, user_id, scope) VALUES ('all', 'google_drive', 1, 'org') RETURNING id`)
	b := c.as(7, identity.User).signedIn()
	require.Equal(t, http.StatusForbidden, b.do("POST", fmt.Sprintf("/sources/%d/connect", org), url.Values{}).status)
	require.NotContains(t, b.get(fmt.Sprintf("/sources/%d", org)).text, "/connect")
	require.Equal(t, http.StatusForbidden, b.do("POST", path, url.Values{}, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site").status)
	web := c.source("web", `{"url": "https://site.example/"}`)
	require.Equal(t, http.StatusConflict, b.do("POST", fmt.Sprintf("/sources/%d/connect", web), url.Values{}).status)

	back := c.consents(c.asked(b, id))
	c.exec(`UPDATE connectors SET user_id = 8 WHERE id = $1`, id)
	require.Equal(t, http.StatusNotFound, b.get(back).status, "what was one's own at first")
	require.Zero(t, c.tokensAsked())
}

func TestAConsentThatFailsAtTheProviderConnectsNothingAndSaysWhy(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		set    func(*signintest.Server)
		status int
		says   string
	}{
		"refused":       {func(s *signintest.Server) { s.Denies = true }, http.StatusConflict, "the consent was refused; nothing is connected"},
		"in part":       {func(s *signintest.Server) { s.Partial = true }, http.StatusConflict, "tick what is asked for"},
		"without token": {func(s *signintest.Server) { s.Forgets = true }, http.StatusConflict, "the consent left no refresh token"},
		"nonsense":      {func(s *signintest.Server) { s.Broken = 200 }, http.StatusServiceUnavailable, "The provider does not answer"},
		"broken":        {func(s *signintest.Server) { s.Broken = 503 }, http.StatusServiceUnavailable, "The provider does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newConsenting(t)
			one.set(c.provider)
			id := c.source(consent.GoogleDrive, `{"folder_id": "1a2b"}`)
			b := c.as(7, identity.User).signedIn()
			page := b.get(c.consents(c.asked(b, id)))
			require.Equal(t, one.status, page.status, page.text)
			require.Contains(t, html.UnescapeString(page.text), one.says)
			require.NotContains(t, page.text, "that-nobody-shows")
			c.harmless(page)
			require.Empty(t, c.credentials(id, consent.GoogleDrive))
		})
	}
}

func TestWithoutAnApplicationThePageSaysHowAccountsAreConnected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'onedrive', 7) RETURNING id`)
	b := w.as(7, identity.User).signedIn()
	page := b.get(fmt.Sprintf("/sources/%d", id))
	require.Contains(t, page.text, "this service has no application that may ask Microsoft")
	w.harmless(page)
	refused := b.do("POST", fmt.Sprintf("/sources/%d/connect", id), url.Values{})
	require.Equal(t, http.StatusConflict, refused.status)
	require.Contains(t, refused.text, "CONNECTOR_MICROSOFT_CLIENT_ID")
}

func TestOfTwoAnswersAtOnceToOneConsentOneIsRedeemed(t *testing.T) {
	t.Parallel()
	for connectorType, config := range map[string]string{consent.GoogleDrive: `{"folder_id": "1a2b"}`, consent.OneDrive: `{"tenant_id": "contoso.example"}`} {
		t.Run(connectorType, func(t *testing.T) {
			t.Parallel()
			c := newConsenting(t)
			id := c.source(connectorType, config)
			b := c.as(7, identity.User).signedIn()
			address := c.server.URL + c.consents(c.asked(b, id))
			root, err := url.Parse(c.server.URL + "/")
			require.NoError(t, err)
			statuses := make(chan int, 2)
			for range 2 { // each has all that the browser keeps
				same := c.browser()
				same.client.Jar.SetCookies(root, b.client.Jar.Cookies(root))
				go func() {
					answered, err := same.client.Get(address)
					if err != nil {
						statuses <- 0
						return
					}
					_ = answered.Body.Close()
					statuses <- answered.StatusCode
				}()
			}
			require.ElementsMatch(t, []int{http.StatusOK, http.StatusConflict}, []int{<-statuses, <-statuses})
			require.Equal(t, 1, c.tokensAsked())
			require.Equal(t, map[string]string{"refresh_token": signintest.RefreshToken}, c.credentials(id, connectorType))
		})
	}
}
