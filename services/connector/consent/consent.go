// Package consent is how a user lets an application read what they have at Google or Microsoft, and what that leaves in a connector's configuration.
package consent

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/echomind/sync/internal/masks"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/connector/provider"
)

// The types for which an account is connected.
const (
	GoogleDrive = "google_drive"
	OneDrive    = "onedrive"
	Teams       = "teams"
)

// GoogleScope is to read files.
const GoogleScope = "https://www.googleapis.com/auth/drive.readonly"

// What the sources ask Microsoft Graph for ("driveItem: delta", "Get a SharePoint site", "chatMessage: delta", "Get
// filesFolder": Permissions, delegated). Personal accounts have no sites, so that permission is asked for where there is one.
var microsoftScopes = map[string][]string{
	OneDrive: {"Files.Read.All"},
	Teams:    {"ChannelMessage.Read.All", "Files.Read.All"},
}

const siteScope = "Sites.Read.All"

// MicrosoftTypes are the types for which a Microsoft account is connected.
func MicrosoftTypes() []string { return []string{OneDrive, Teams} }

// Config is where the providers are, and whom connectors ask as that name no application. Providers' addresses are set here and never in a
// connector's configuration: its author could otherwise have its secrets sent anywhere.
type Config struct {
	// GoogleAuthURL is where users consent; only echomind connect and the page send them there.
	GoogleAuthURL string `env:"CONNECTOR_GOOGLE_AUTH_URL" envDefault:"https://accounts.google.com/o/oauth2/v2/auth"`
	// GoogleTokenURL gives access tokens for it.
	GoogleTokenURL string `env:"CONNECTOR_GOOGLE_TOKEN_URL" envDefault:"https://oauth2.googleapis.com/token"`
	// GoogleClientID is the application that asks for connectors that name none.
	GoogleClientID string `env:"CONNECTOR_GOOGLE_CLIENT_ID"`
	// GoogleClientSecret is that application's secret.
	GoogleClientSecret string `env:"CONNECTOR_GOOGLE_CLIENT_SECRET"`

	// MicrosoftGraphURL is Microsoft Graph, with its version; sovereign clouds have others.
	MicrosoftGraphURL string `env:"CONNECTOR_MICROSOFT_GRAPH_URL" envDefault:"https://graph.microsoft.com/v1.0"`
	// MicrosoftLoginURL gives access tokens for it, below the tenant.
	MicrosoftLoginURL string `env:"CONNECTOR_MICROSOFT_LOGIN_URL" envDefault:"https://login.microsoftonline.com"`
	// MicrosoftClientID is the application that asks for connectors that name none.
	MicrosoftClientID string `env:"CONNECTOR_MICROSOFT_CLIENT_ID"`
	// MicrosoftClientSecret is that application's secret.
	MicrosoftClientSecret string `env:"CONNECTOR_MICROSOFT_CLIENT_SECRET"`
}

// Validate returns every problem at once.
func (c Config) Validate() error {
	var problems []error
	for _, endpoint := range []struct{ name, value string }{
		{"CONNECTOR_GOOGLE_TOKEN_URL", c.GoogleTokenURL}, {"CONNECTOR_GOOGLE_AUTH_URL", c.GoogleAuthURL},
		{"CONNECTOR_MICROSOFT_GRAPH_URL", c.MicrosoftGraphURL}, {"CONNECTOR_MICROSOFT_LOGIN_URL", c.MicrosoftLoginURL},
	} {
		problems = append(problems, CheckURL(endpoint.name, endpoint.value))
	}
	return errors.Join(problems...)
}

// CheckURL checks the address of a provider's that a setting names.
func CheckURL(name, value string) error {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		return fmt.Errorf("%s: must be a URL that starts with https://", name)
	}
	return nil
}

// Application is the application that asks for a user's consent.
type Application struct {
	ID, Secret string
	// Tenant is the Microsoft directory; empty for the directory of the user.
	Tenant string
	// Sites says that a SharePoint site is to be read.
	Sites bool
}

// Google lets a user consent that an application reads their Google Drive.
func (c Config) Google(app Application) provider.Code {
	return provider.Code{
		Issuer:  provider.Issuer{Dialect: provider.Google, TokenURL: c.GoogleTokenURL, Cleaner: secret.NewCleaner(app.Secret)},
		AuthURL: c.GoogleAuthURL, ClientID: app.ID, ClientSecret: app.Secret, Scopes: []string{GoogleScope},
		// Without these parameters a repeated consent gives no refresh token.
		Ask:     map[string]string{"access_type": "offline", "prompt": "consent"},
		Partial: true,
	}
}

// MicrosoftDevice lets a user consent that an application reads their drives, or their channels, by a code that can be entered on
// any machine.
func (c Config) MicrosoftDevice(connectorType string, app Application, show func(page, code string) error) (*provider.Device, error) {
	issuer, scopes, err := c.microsoftIssuer(connectorType, app)
	if err != nil {
		return nil, err
	}
	codes, err := c.MicrosoftLogin(app.Tenant, "devicecode")
	if err != nil {
		return nil, err
	}
	return &provider.Device{Issuer: issuer, DeviceURL: codes, ClientID: app.ID, Scopes: scopes, Show: show}, nil
}

// Microsoft does the same in a browser.
func (c Config) Microsoft(connectorType string, app Application) (code provider.Code, err error) {
	issuer, scopes, err := c.microsoftIssuer(connectorType, app)
	if err != nil {
		return code, err
	}
	address, err := c.MicrosoftLogin(app.Tenant, "authorize")
	return provider.Code{
		Issuer: issuer, AuthURL: address, ClientID: app.ID, ClientSecret: app.Secret, Scopes: scopes, Ask: map[string]string{"prompt": "select_account"},
	}, err
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
	issuer = provider.Issuer{Dialect: provider.Microsoft, Cleaner: secret.NewCleaner(app.Secret)}
	issuer.TokenURL, err = c.MicrosoftLogin(app.Tenant, "token")
	return issuer, scopes, err
}

// MicrosoftLogin returns an endpoint of a directory's sign-in; an empty directory means common, which serves all directories.
func (c Config) MicrosoftLogin(directory, endpoint string) (string, error) {
	if directory == "" {
		directory = "common"
	}
	if err := CheckTenant(directory); err != nil {
		return "", err
	}
	return strings.TrimRight(c.MicrosoftLoginURL, "/") + "/" + directory + "/oauth2/v2.0/" + endpoint, nil
}

var tenant = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,127}$`)

// IsTenant says whether a text is a directory's id or domain.
func IsTenant(directory string) bool { return tenant.MatchString(directory) }

// CheckTenant refuses what is none.
func CheckTenant(directory string) error {
	if !IsTenant(directory) {
		return fmt.Errorf("tenant_id: %q is not a directory's id or domain", secret.Typed(directory, 120))
	}
	return nil
}

// credentials are the fields of any provider's: what a new consent leaves takes the place of all of them.
var credentials = []string{"client_id", "client_secret", "refresh_token", "service_account", "subject"}

// Put is a configuration with what a consent has left in place of the credentials that it has: the refresh token, and fields that are given.
func Put(config []byte, given map[string]string, token string) ([]byte, error) {
	value, err := masks.Decode(config)
	object, is := value.(map[string]any)
	if err != nil || !is {
		return nil, errors.New("must be a JSON object")
	}
	for _, name := range credentials {
		delete(object, name)
	}
	for name, text := range given {
		if text != "" {
			object[name] = text
		}
	}
	object["refresh_token"] = token
	return masks.Encode(object)
}
