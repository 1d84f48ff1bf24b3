package connector

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/connector/provider"
)

// What the sources ask Microsoft Graph for ("driveItem: delta", "Get a SharePoint site", "chatMessage: delta", "Get
// filesFolder": Permissions, delegated). Personal accounts have no sites, so that permission is asked for where there is one.
var microsoftScopes = map[string][]string{
	typeOneDrive: {"Files.Read.All"},
	typeTeams:    {"ChannelMessage.Read.All", "Files.Read.All"},
}

const siteScope = "Sites.Read.All"

// MicrosoftTypes are the types for which a Microsoft account is connected.
func MicrosoftTypes() []string { return []string{typeOneDrive, typeTeams} }

// GoogleType is the type for which a Google account is connected.
const GoogleType = typeGoogleDrive

// Application is the application that asks for a user's consent.
type Application struct {
	ID, Secret string
	// Tenant is the Microsoft directory; empty for the directory of the user.
	Tenant string
	// Sites says that a SharePoint site is to be read.
	Sites bool
}

// GoogleConsent lets a user consent that an application reads their Google Drive.
func (c Config) GoogleConsent(app Application, port int, show func(address string) error) *provider.Browser {
	return &provider.Browser{
		Issuer:  provider.Issuer{Dialect: provider.Google, TokenURL: c.GoogleTokenURL, Cleaner: secret.NewCleaner(app.Secret)},
		AuthURL: c.GoogleAuthURL, ClientID: app.ID, ClientSecret: app.Secret, Scopes: []string{googleScope},
		// Without these parameters a repeated consent gives no refresh token.
		Ask:  map[string]string{"access_type": "offline", "prompt": "consent"},
		Port: port, Partial: true, Show: show,
	}
}

// MicrosoftConsent lets a user consent that an application reads their drives, or their channels, by a code that can be entered on
// any machine.
func (c Config) MicrosoftConsent(connectorType string, app Application, show func(page, code string) error) (*provider.Device, error) {
	issuer, scopes, err := c.microsoftIssuer(connectorType, app)
	if err != nil {
		return nil, err
	}
	codes, err := c.microsoftLogin(app.Tenant, "devicecode")
	if err != nil {
		return nil, err
	}
	return &provider.Device{Issuer: issuer, DeviceURL: codes, ClientID: app.ID, Scopes: scopes, Show: show}, nil
}

// MicrosoftBrowserConsent does the same in a browser on this machine, for directories that do not allow codes. The redirect goes to
// http://localhost, the only address of this machine whose port Microsoft does not compare ("Redirect URI (reply URL) restrictions
// and limitations").
func (c Config) MicrosoftBrowserConsent(
	connectorType string, app Application, port int, show func(address string) error,
) (*provider.Browser, error) {
	issuer, scopes, err := c.microsoftIssuer(connectorType, app)
	if err != nil {
		return nil, err
	}
	address, err := c.microsoftLogin(app.Tenant, "authorize")
	if err != nil {
		return nil, err
	}
	return &provider.Browser{
		Issuer: issuer, AuthURL: address, ClientID: app.ID, Scopes: scopes, Host: "localhost", Port: port, Show: show,
		Ask: map[string]string{"prompt": "select_account"},
	}, nil
}

func (c Config) microsoftIssuer(connectorType string, app Application) (issuer provider.Issuer, scopes []string, err error) {
	graph, err := url.Parse(c.MicrosoftGraphURL)
	if err != nil {
		return issuer, nil, fmt.Errorf("CONNECTOR_MICROSOFT_GRAPH_URL: %w", err)
	}
	scopes = []string{"offline_access"}
	names := microsoftScopes[connectorType]
	if app.Sites {
		names = append(slices.Clone(names), siteScope)
	}
	for _, name := range names {
		scopes = append(scopes, graph.Scheme+"://"+graph.Host+"/"+name)
	}
	issuer = provider.Issuer{Dialect: provider.Microsoft, Cleaner: secret.NewCleaner()}
	issuer.TokenURL, err = c.microsoftLogin(app.Tenant, "token")
	return issuer, scopes, err
}

// microsoftLogin returns an endpoint of a directory's sign-in; an empty directory means common, which serves all directories.
func (c Config) microsoftLogin(directory, endpoint string) (string, error) {
	if directory == "" {
		directory = "common"
	}
	if err := checkTenant(directory); err != nil {
		return "", err
	}
	return strings.TrimRight(c.MicrosoftLoginURL, "/") + "/" + directory + "/oauth2/v2.0/" + endpoint, nil
}

func checkTenant(directory string) error {
	if !tenant.MatchString(directory) {
		return fmt.Errorf("tenant_id: %q is not a directory's id or domain", secret.Typed(directory, 120))
	}
	return nil
}
