package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	consents "github.com/echomind/sync/services/connector/consent"
	"github.com/echomind/sync/services/connector/provider"
)

const howToRegister = "docs/connecting.md tells how an application is registered"

func connectGoogle(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "google --client-file FILE (--name NAME --user N | --connector ID | --file FILE)",
		Short: "Connect a Google Drive",
		Long: `Connect a Google Drive: prints an address to open in a browser on this machine, where the user consents to read-only access, and
waits until the browser comes back.

The application that asks is --client-file, the JSON that Google's console gives for an OAuth client of type "Desktop app"; or
--client-id with --client-secret-file; or the services' own, CONNECTOR_GOOGLE_CLIENT_ID with CONNECTOR_GOOGLE_CLIENT_SECRET, which
the connector then does not name. docs/connecting.md tells how to register one.

Through a server (echomind login) the server's own application asks where none is named: open the address in any browser that is
signed in there, as the user of the token.`,
		Example: `  echomind connect google --client-file client_secret.json --name drive --user 1
  echomind connect google --client-file client_secret.json --name plans --user 1 --config '{"folder_id":"1a2b"}' --refresh 24h
  echomind connect google --client-file client_secret.json --connector drive`,
		Args: cobra.NoArgs,
	}
	s := f.consentFlags(c)
	_ = c.Flags().MarkHidden("type")
	var id, secretFile, clientFile string
	c.Flags().StringVar(&id, "client-id", "", "the application that asks")
	c.Flags().StringVar(&secretFile, "client-secret-file", "", "a `file` with its secret; - is standard input")
	c.Flags().StringVar(&clientFile, "client-file", "", "the application's JSON `file` from Google's console, instead of both")
	c.MarkFlagsMutuallyExclusive("client-file", "client-id")
	c.MarkFlagsRequiredTogether("client-id", "client-secret-file")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if s.flags.connectorType != "" && s.flags.connectorType != consents.GoogleDrive {
			return usagef("--type %s: Google accounts are connected for type %s", clip(s.flags.connectorType, 40), consents.GoogleDrive)
		}
		if err := c.Flags().Set("type", consents.GoogleDrive); err != nil {
			return err
		}
		return s.run(c, []string{consents.GoogleDrive}, func(string, []byte) (credentials, func(context.Context) (string, error), error) {
			app := consents.Application{ID: id}
			var err error
			switch {
			case clientFile != "":
				app, err = readClient(clientFile)
			case id != "":
				app.Secret, err = readSecret("--client-secret-file", secretFile, c.InOrStdin())
			case s.settings.GoogleClientID != "":
				app = consents.Application{ID: s.settings.GoogleClientID, Secret: s.settings.GoogleClientSecret}
			default:
				err = usagef("--client-file: it is missing, and CONNECTOR_GOOGLE_CLIENT_ID names no application either; %s", howToRegister)
			}
			if err != nil {
				return nil, nil, err
			}
			given := credentials{}
			if clientFile != "" || id != "" {
				given = credentials{"client_id": app.ID, "client_secret": app.Secret}
			}
			return given, func(ctx context.Context) (string, error) {
				return s.wait(ctx, &provider.Browser{Code: s.settings.Google(app), Port: s.port, Show: s.openHere(c)})
			}, nil
		})
	}
	return c
}

func connectMicrosoft(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "microsoft --client-id ID [--tenant T] (--name NAME --user N | --connector ID | --file FILE)",
		Short: "Connect a OneDrive, a SharePoint site or a Teams channel",
		Long: `Connect a OneDrive, a SharePoint library (--config with site), or a channel of Teams (--type teams): prints a code to enter in a
browser on any machine, and waits until the user has consented. --browser does it without a code, in a browser on this machine, for
directories that allow no codes.

The application that asks is --client-id, else the services' own, CONNECTOR_MICROSOFT_CLIENT_ID. It needs no secret, but its
registration must allow public client flows. docs/connecting.md tells how to register one, and with which permissions.

Through a server (echomind login) the server's own application asks where none is named: open the address in any browser that is
signed in there, as the user of the token.`,
		Example: `  echomind connect microsoft --client-id 6731de76-14a6-49ae-97bc-6eba6914391e --tenant contoso.example --name drive --user 1
  echomind connect microsoft --client-id 6731de76-14a6-49ae-97bc-6eba6914391e --tenant contoso.example --name plans --user 1 \
    --type teams --config '{"team_id":"fbe2bf47-…","channel_id":"19:…@thread.tacv2"}'
  echomind connect microsoft --client-id 6731de76-14a6-49ae-97bc-6eba6914391e --connector drive`,
		Args: cobra.NoArgs,
	}
	s := f.consentFlags(c)
	var app consents.Application
	var browser bool
	c.Flags().Lookup("type").Usage = "`type` of the connector: onedrive or teams; onedrive if left out, and with --connector its own"
	c.Flags().StringVar(&app.ID, "client-id", "", "the application that asks")
	c.Flags().StringVar(&app.Tenant, "tenant", "", "the directory's id or domain; consumers for personal accounts. Without it and a connector that has one: any directory")
	c.Flags().BoolVar(&browser, "browser", false, "in a browser on this machine, without a code")
	c.RunE = func(c *cobra.Command, _ []string) error {
		types := consents.MicrosoftTypes()
		if s.flags.connectorType == "" && s.connector == "" {
			if err := c.Flags().Set("type", types[0]); err != nil {
				return err
			}
		}
		if s.flags.connectorType != "" && !slices.Contains(types, s.flags.connectorType) {
			return usagef("--type %s: Microsoft accounts are connected for types %s", clip(s.flags.connectorType, 40), strings.Join(types, " and "))
		}
		return s.run(c, types, func(connectorType string, config []byte) (credentials, func(context.Context) (string, error), error) {
			var existing struct {
				Tenant string `json:"tenant_id"`
				Site   string `json:"site"`
			}
			_ = json.Unmarshal(config, &existing) // what is wrong with it is said when it is checked
			if app.ID == "" {
				app.ID = s.settings.MicrosoftClientID
			}
			if app.ID == "" {
				return nil, nil, usagef("--client-id: it is missing, and CONNECTOR_MICROSOFT_CLIENT_ID names no application either; %s", howToRegister)
			}
			if app.Tenant == "" {
				app.Tenant = existing.Tenant
			}
			app.Sites = existing.Site != ""
			code, err := s.settings.MicrosoftDevice(connectorType, app, s.enter(c))
			if err != nil {
				return nil, nil, usagef("--tenant: %v", err)
			}
			var from refresher = code
			if browser {
				asked, err := s.settings.Microsoft(connectorType, app)
				if err != nil {
					return nil, nil, err
				}
				// localhost is the only name of this machine whose port Microsoft does not compare ("Redirect URI (reply URL) restrictions and limitations").
				from = &provider.Browser{Code: asked, Host: "localhost", Port: s.port, Show: s.openHere(c)}
			}
			return credentials{"client_id": app.ID, "tenant_id": app.Tenant},
				func(ctx context.Context) (string, error) { return s.wait(ctx, from) }, nil
		})
	}
	return c
}

// maxClientFile bounds what is read of a file that should have an application's secret.
const maxClientFile = 64 << 10

// readSecret reads an application's secret. Errors say nothing of what is in the file.
func readSecret(flag, name string, stdin io.Reader) (string, error) {
	text, err := readClientFile(flag, name, stdin)
	if err != nil {
		return "", err
	}
	text = strings.TrimSpace(text)
	if text == "" || strings.ContainsAny(text, " \t\r\n") {
		return "", usagef("%s %s: must have the secret and nothing else", flag, name)
	}
	return text, nil
}

func readClientFile(flag, name string, stdin io.Reader) (string, error) {
	from := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return "", usagef("%s: %v", flag, err)
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, maxClientFile))
	if err != nil {
		return "", usagef("%s: %v", flag, err)
	}
	return string(text), nil
}

// readClient reads an application as Google's console gives it.
func readClient(name string) (app consents.Application, err error) {
	text, err := readClientFile("--client-file", name, nil)
	if err != nil {
		return app, err
	}
	type client struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	var read struct {
		Installed, Web *client
		Type           string `json:"type"`
	}
	says := func(problem string) error {
		return usagef("--client-file %s: %s; give the JSON of an OAuth client of type Desktop app; %s", name, problem, howToRegister)
	}
	err = json.Unmarshal([]byte(text), &read)
	switch {
	case err != nil:
		return app, says("it is not JSON")
	case read.Type == "service_account":
		return app, says("it is a service account's key, which needs no consent: it goes into the field service_account of --config")
	case read.Web != nil:
		return app, says("it is of a client of type Web application, which takes no browser back to this machine")
	case read.Installed == nil || read.Installed.ID == "" || read.Installed.Secret == "":
		return app, says(fmt.Sprintf("it has no %q with client_id and client_secret", "installed"))
	}
	return consents.Application{ID: read.Installed.ID, Secret: read.Installed.Secret}, nil
}
