package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/echomind/sync/sdk/client"
)

// server is an API that somebody has logged in to.
type server struct {
	URL   string `json:"url"`
	Token string `json:"token"`
	// from says where it is named.
	from string
}

const (
	variableURL   = "ECHOMIND_URL"
	variableToken = "ECHOMIND_TOKEN"
)

var errNotLoggedIn = errors.New("not logged in to a server: `echomind login URL`, or set " + variableURL + " and " + variableToken)

func loginFile() (string, error) {
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the folder for settings: %w", err)
	}
	return filepath.Join(folder, "echomind", "login.json"), nil
}

// theServer is what the environment names, else what login has kept.
func theServer() (s server, err error) {
	if url, token := os.Getenv(variableURL), os.Getenv(variableToken); url != "" || token != "" {
		if url == "" || token == "" {
			return s, fmt.Errorf("%s and %s: set both, or neither", variableURL, variableToken)
		}
		return server{url, token, variableURL}, nil
	}
	file, err := loginFile()
	if err != nil {
		return s, err
	}
	return readLogin(file)
}

func readLogin(file string) (s server, err error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, errNotLoggedIn
	}
	if err != nil {
		return s, fmt.Errorf("read the login: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return s, fmt.Errorf("read the login: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return s, fmt.Errorf("%s holds a token and others may read it (%s): chmod 600 it, or log in again; where others may have read it, revoke the token", file, info.Mode().Perm())
	}
	if err := json.NewDecoder(io.LimitReader(f, 64<<10)).Decode(&s); err != nil || s.URL == "" || s.Token == "" {
		return s, fmt.Errorf("%s is no login: log in again", file)
	}
	s.from = file
	return s, nil
}

// keep writes a login whole: who reads it meanwhile finds the one before.
func (s server) keep(file string) (err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("keep the login: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".login-*") // 0600
	if err != nil {
		return fmt.Errorf("keep the login: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("keep the login: %w", err), os.Remove(f.Name()))
		}
	}()
	err = json.NewEncoder(f).Encode(s)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}

func login() *cobra.Command {
	return &cobra.Command{
		Use: "login URL", Short: "Keep the address of an API, and a token for it",
		Long: `Keep the address of an API, and a token for it. The token is asked for at a terminal, and read from standard input elsewhere; it is tried, and
kept in a file of yours that nobody else may read.

Every command works through that server wherever DATABASE_URL is not set and the folder has no stack of its own (./data), but for
` + "`migrate`, `secrets`, `streams`, `connect`, `import`, and what writes conditions and users" + `: these say there why not and
what to set, and work on nothing else. ECHOMIND_URL with ECHOMIND_TOKEN goes before a stack of the folder, too.
` + "`webhooks`, `operations` and `files`" + ` always go through it.`,
		Example: "  echomind login https://sync.example\n  echomind login https://sync.example < token",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			token, err := readToken(c)
			if err != nil {
				return err
			}
			s := server{URL: args[0], Token: token}
			who, err := s.who(c.Context())
			if err != nil {
				return err
			}
			file, err := loginFile()
			if err == nil {
				err = s.keep(file)
			}
			if err != nil {
				return err
			}
			if os.Getenv(variableURL) != "" {
				_, err = fmt.Fprintf(c.ErrOrStderr(), "%s is set, and goes before this login\n", variableURL)
			}
			return errors.Join(err, identified(c.OutOrStdout(), s, who))
		},
	}
}

// readToken asks for a token, which is not shown, or reads it.
func readToken(c *cobra.Command) (string, error) {
	in := c.InOrStdin()
	var text []byte
	var err error
	if isTerminal(in) {
		_, _ = fmt.Fprint(c.ErrOrStderr(), "Token: ")
		text, err = readHidden(c.Context(), int(in.(*os.File).Fd()))
		_, _ = fmt.Fprintln(c.ErrOrStderr())
	} else {
		text, err = io.ReadAll(io.LimitReader(in, 64<<10))
	}
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", errors.New("no token: paste one that `echomind tokens create`, or the page, has made")
	}
	return token, nil
}

// readHidden reads a line that a terminal does not show. Where ctx ends first the terminal is as it was; what reads goes on until the program ends.
func readHidden(ctx context.Context, terminal int) ([]byte, error) {
	before, err := term.GetState(terminal)
	if err != nil {
		return nil, err
	}
	type line struct {
		text []byte
		err  error
	}
	read := make(chan line, 1)
	go func() {
		text, err := term.ReadPassword(terminal)
		read <- line{text, err}
	}()
	select {
	case l := <-read:
		return l.text, l.err
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), term.Restore(terminal, before))
	}
}

func (s server) who(ctx context.Context) (*client.WhoBody, error) {
	c, err := client.New(s.URL, s.Token)
	if err != nil {
		return nil, err
	}
	answer, err := c.MeWithResponse(ctx)
	if err != nil {
		return nil, err
	}
	who, err := readAs[client.WhoBody](answer.Body) // and not JSON200, which is nil where another status than 200 is a success
	if err == nil && who.UserID < 1 {
		err = strange(s)
	}
	return &who, err
}

func identified(w io.Writer, s server, who *client.WhoBody) error {
	scopes := "none"
	if who.Scopes != nil && len(*who.Scopes) > 0 {
		scopes = strings.Join(*who.Scopes, ", ")
	}
	_, err := fmt.Fprintf(w, "user %d, %s, at %s; scopes: %s\n", who.UserID, printable(string(who.Role)), printable(s.URL), printable(scopes))
	return err
}

func logout() *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "Forget the address of an API, and the token for it",
		Long: "Forget the address of an API, and the token for it. The token itself goes on to count: revoke it on the page, or with `echomind tokens revoke`.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			file, err := loginFile()
			if err != nil {
				return err
			}
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("forget the login: %w", err)
			}
			return nil
		},
	}
}

func whoami() *cobra.Command {
	c := &cobra.Command{
		Use: "whoami", Short: "Say who the API takes you for", Long: "Say which API `echomind login` has kept, and who it takes you for.", Args: cobra.NoArgs,
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := theServer()
		if err != nil {
			return err
		}
		who, err := s.who(c.Context())
		if err != nil {
			return fmt.Errorf("%w (the token of %s)", err, printable(s.from))
		}
		return out.show(c.OutOrStdout(), who, func(w io.Writer) error { return identified(w, s, who) })
	}
	return c
}
