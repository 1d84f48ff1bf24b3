package consent

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
)

func TestThePageOnConnectingNamesEveryPermissionThatIsAskedFor(t *testing.T) {
	page, err := os.ReadFile("../../../docs/connecting.md")
	require.NoError(t, err)
	asked := []string{GoogleScope, siteScope, "offline_access"}
	for _, connectorType := range MicrosoftTypes() {
		asked = append(asked, microsoftScopes[connectorType]...)
	}
	for _, scope := range asked {
		require.Contains(t, string(page), "`"+scope+"`")
	}
}

func TestAConsentIsAskedForWhereTheServiceAsksForItsTokens(t *testing.T) {
	var c Config
	require.NoError(t, config.Load(&c))
	c.MicrosoftGraphURL, c.MicrosoftLoginURL = "https://graph.microsoft.us/v1.0", "https://login.microsoftonline.us/"
	app := Application{ID: "app", Tenant: "contoso.example", Sites: true}
	device, err := c.MicrosoftDevice(OneDrive, app, nil)
	require.NoError(t, err)
	require.Equal(t, "https://login.microsoftonline.us/contoso.example/oauth2/v2.0/devicecode", device.DeviceURL)
	token, err := c.MicrosoftLogin(app.Tenant, "token")
	require.NoError(t, err)
	require.Equal(t, token, device.TokenURL)
	require.Equal(t, "offline_access https://graph.microsoft.us/Files.Read.All https://graph.microsoft.us/Sites.Read.All", strings.Join(device.Scopes, " "))
	require.Len(t, microsoftScopes[OneDrive], 1, "what one consent adds is not asked of the next")

	browser := c.Google(app)
	require.Equal(t, c.GoogleTokenURL, browser.TokenURL)
	require.Equal(t, []string{GoogleScope}, browser.Scopes)
	auth, err := url.Parse(browser.AuthURL)
	require.NoError(t, err)
	require.Equal(t, "accounts.google.com", auth.Host)
	require.Equal(t, map[string]string{"access_type": "offline", "prompt": "consent"}, browser.Ask)
}
