package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/deadline"
	consents "github.com/echomind/sync/services/connector/consent"
)

// Bounds of how long a user has to consent.
const (
	consentTime    = 10 * time.Minute
	minConsentTime = time.Second
	maxConsentTime = time.Hour
)

func connect(f *finder) *cobra.Command {
	return group("connect", "Connect a Google or Microsoft account",
		`Have a user's consent, and give a connector what it leaves: with --name and --user a new connector, with --connector one that
is there, with --file a file that echomind connectors add takes.

docs/connecting.md tells how an application is registered, and which permissions it needs.`,
		connectGoogle(f), connectMicrosoft(f))
}

// consent is what both commands are told.
type consent struct {
	find            *finder
	flags           *connectorFlags
	out             *output
	connector, file string
	port            int
	timeout         time.Duration
	settings        consents.Config
}

// credentials are those that a consent leaves, by their fields' names.
type credentials map[string]string

func (f *finder) consentFlags(c *cobra.Command) *consent {
	s := &consent{find: f, flags: addConnectorFlags(c), out: withOutput(c)}
	flags := c.Flags()
	flags.StringVar(&s.connector, "connector", "", "connect the connector with this `ID`, its number or name, again; the rest of its configuration stays")
	flags.StringVar(&s.file, "file", "", "write a new `file` that only you can read, for echomind connectors add --config @FILE")
	flags.IntVar(&s.port, "port", 0, "the port of 127.0.0.1 that the browser comes back to; 0 = any. With a browser elsewhere: ssh -L PORT:127.0.0.1:PORT")
	flags.DurationVar(&s.timeout, "timeout", consentTime, "how long to wait for the consent")
	c.MarkFlagsMutuallyExclusive("connector", "file", "name")
	c.MarkFlagsOneRequired("connector", "file", "name")
	c.MarkFlagsRequiredTogether("name", "user")
	return s
}

// check refuses what can never be right, before anybody is asked for a consent.
func (s *consent) check(c *cobra.Command) error {
	if s.timeout < minConsentTime || s.timeout > maxConsentTime {
		return usagef("--timeout %s: must be %s to %s", s.timeout, minConsentTime, maxConsentTime)
	}
	if s.port < 0 || s.port > 65535 {
		return usagef("--port %d: must be 1 to 65535, or 0 for any", s.port)
	}
	if err := errors.Join(s.flags.check(c), s.flags.checkNew(c)); err != nil {
		return err
	}
	if c.Flags().Changed("name") {
		return nil
	}
	var problem error
	ours := []string{"connector", "file", "port", "timeout", "output", "type", "no-config-check", "tenant", "client-id",
		"client-secret-file", "client-file", "browser"}
	if s.file != "" {
		ours = append(ours, "config")
	}
	c.Flags().Visit(func(flag *pflag.Flag) {
		if !slices.Contains(ours, flag.Name) && problem == nil {
			problem = usagef("--%s: goes with --name, for a new connector; echomind connectors add and update take it too", flag.Name)
		}
	})
	return problem
}

// load reads where the providers are, and whom the services ask as.
func (s *consent) load() error { return config.Load(&s.settings) }

// refresher has a consent, and returns the refresh token that it leaves.
type refresher interface {
	Refresh(ctx context.Context) (string, error)
}

// wait waits for a consent.
func (s *consent) wait(ctx context.Context, from refresher) (string, error) {
	token, err := deadline.Get(ctx, "connect.consent", s.timeout, from.Refresh)
	var late *deadline.Error
	if errors.As(err, &late) && late.Name == "connect.consent" {
		return "", fmt.Errorf("%w; nobody has consented, and nothing is connected", err)
	}
	return token, err
}

// openHere asks a user to open an address in a browser on this machine.
func (s *consent) openHere(c *cobra.Command) func(address string) error {
	return func(address string) error {
		return s.say(c.ErrOrStderr(), "Open this address in a browser on this machine, and consent:\n\n  %s\n", printable(address))
	}
}

// enter asks a user to enter a code anywhere.
func (s *consent) enter(c *cobra.Command) func(page, code string) error {
	return func(page, code string) error {
		return s.say(c.ErrOrStderr(), "Open %s in any browser, and enter the code %s\n", printable(page), printable(code))
	}
}

func (s *consent) say(w io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintf(w, format+"\nThe command waits for %s; Ctrl-C ends it.\n", append(args, s.timeout)...)
	return err
}
