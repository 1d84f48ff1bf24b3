// Package console is the command line: what people type to look at connectors and to change them.
package console

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/devstack"
	"github.com/echomind/sync/internal/program"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/internal/version"
)

// Exit codes.
const (
	exitError       = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// Root is the command line of a user: it finds the running stack by the environment.
func Root() *cobra.Command {
	return root(&finder{registry: devstack.Registry(), say: os.Stderr, mayAskServer: true, fromEnvironment: func() (config.Lookup, error) {
		var lookup config.Lookup
		err := config.Load(&lookup)
		return lookup, err
	}})
}

// RootFor is Root for a stack that is named, whatever the environment says.
func RootFor(lookup config.Lookup) *cobra.Command {
	return root(&finder{fromEnvironment: func() (config.Lookup, error) { return lookup, nil }})
}

func root(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "echomind",
		Short: "Keep knowledge sources in sync and search them",
		Long: `Keep knowledge sources in sync and search them.

A connector is one source of one user: a web site, a folder of files. When it is due it is fetched, split into
chunks, embedded and stored for search.

A connector is named by its number or, where no other has it, by its name.

The commands find the running stack by its data folder ($ECHOMIND_DATA_DIR, else ./data; where there is no such folder
that of the only stack of yours that runs, which they say), or by DATABASE_URL and NATS_URL where they are set. Most work
through a server without either: echomind login --help. Errors exit with 1, usage errors with 2.`,
		Example: `  echomind connectors add --name docs --type file --user 1 --config '{"url":"file:///srv/docs"}' --refresh 60m
  echomind connectors list
  echomind why docs
  echomind search --user 1 "backup policy"`,
		Version:       version.String(),
		SilenceErrors: true, SilenceUsage: true,
		Args: noCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },

		PersistentPreRun: func(c *cobra.Command, _ []string) { f.command = c.CommandPath() },
	}
	c.SetHelpCommand(help())
	c.AddCommand(connectors(f), connect(f), types(f), runs(f), schedule(f), documents(f), why(f), search(f), dlq(f), secrets(f), locks(f), limits(f), conditionsOf(f), calendarsOf(f), blackoutsOf(f), tokens(f), users(f), imported(f), migrate(f), streams(f), status(f), operations(f), webhooks(f), files(f), login(), logout(), whoami(), callAPI())
	completions(f, c)
	c.InitDefaultCompletionCmd()
	for _, sub := range c.Commands() {
		if sub.Name() == "completion" {
			groups(sub)
		}
	}
	return c
}

// Execute runs the command line until it is done or the process is told to stop, and returns the exit code. Every
// error that comes before a command begins its work is a usage error.
func Execute(ctx context.Context, root *cobra.Command) int {
	ctx, stop := program.Signals(ctx, root.ErrOrStderr())
	defer stop()
	began := false
	markBegin(root, &began)
	ran, err := root.ExecuteContextC(ctx)
	var usage usageError
	switch {
	case err == nil:
		return 0
	case !began || errors.As(err, &usage):
		_, _ = fmt.Fprintf(root.ErrOrStderr(), "echomind: %s\nTry `%s --help`.\n", printableLines(secret.Error(err).Error()), ran.CommandPath())
		return exitUsage
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		_, _ = fmt.Fprintln(root.ErrOrStderr(), "echomind: stopped")
		return exitInterrupted
	}
	_, _ = fmt.Fprintf(root.ErrOrStderr(), "echomind: %s\n", printableLines(secret.Error(err).Error()))
	return exitError
}

func markBegin(c *cobra.Command, began *bool) {
	if work := c.RunE; work != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			*began = true
			return work(c, args)
		}
	}
	if work := c.Run; work != nil {
		c.Run = func(c *cobra.Command, args []string) {
			*began = true
			work(c, args)
		}
	}
	for _, sub := range c.Commands() {
		markBegin(sub, began)
	}
}

// usageError is a command line that can never be right, whatever the database holds.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// group is a command that only holds others.
func group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long}
	groups(c)
	c.AddCommand(commands...)
	return c
}

// groups makes a command that only holds other commands.
func groups(c *cobra.Command) {
	c.Args = noCommand
	c.RunE = func(c *cobra.Command, _ []string) error {
		return usagef("%s needs a command: %s", c.CommandPath(), strings.Join(names(c), ", "))
	}
}

func names(c *cobra.Command) []string {
	var all []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			all = append(all, sub.Name())
		}
	}
	return all
}

// help takes the place of cobra's own, to which a command that does not exist is no error.
func help() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Show the help of a command", Long: "Show the help of a command, as its --help does.",
		Example: "  echomind help connectors add",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err != nil {
				return usageError{err}
			}
			if err := noCommand(about, rest); err != nil {
				return err
			}
			about.InitDefaultHelpFlag()
			about.InitDefaultVersionFlag()
			return about.Help()
		},
	}
}

// noCommand refuses the word after a group that none of its commands goes by.
func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	message := fmt.Sprintf("%s has no command %q; there are %s", c.CommandPath(), args[0], strings.Join(names(c), ", "))
	c.SuggestionsMinimumDistance = 2
	if similar := c.SuggestionsFor(args[0]); len(similar) > 0 {
		message += fmt.Sprintf("; did you mean %s?", strings.Join(similar, ", "))
	}
	return usageError{errors.New(message)}
}
