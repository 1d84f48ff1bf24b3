package console

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/internal/broker"
	"github.com/echomind/sync/internal/deadletter"
	"github.com/echomind/sync/sdk/client"
)

// dropped is what was removed.
type dropped struct {
	Dropped int `json:"dropped"`
}

func dlqDrop(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "drop [ID]",
		Short: "Remove a dead letter for good",
		Long: `Remove a dead letter for good. What it was about is fetched again only when it changes, or where it failed and is
tried again by itself.`,
		Example: "  echomind dlq drop 7\n  echomind dlq drop --all --subject connector.sync.* --yes",
	}
	chosen := selectLetters(c)
	yes := c.Flags().Bool("yes", false, "with --all: I mean it")
	out := withOutput(c)
	selected := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if err := selected(c, args); err != nil {
			return err
		}
		if chosen.all && !*yes {
			return usagef("%s --all removes them for good; add --yes if you mean it (`echomind dlq list` shows them)", c.CommandPath())
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if chosen.background {
			return chosen.begin(c, f, out, client.CreateLettersOperationBodyActionDrop)
		}
		n, err := eitherLetters(c.Context(), f, func(pool *pgxpool.Pool, stream *broker.Letters) (n int, _ error) {
			for letter, err := range chosen.pick(c.Context(), pool, stream, args) {
				if err == nil {
					err = noteDrop(c.Context(), pool, letter)
				}
				if err == nil {
					err = stream.Remove(c.Context(), letter.ID)
				}
				if err != nil {
					return n, err
				}
				n++
			}
			return n, nil
		}, func(r *remote) (int, error) { return r.dropLetters(c.Context(), chosen, args) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), dropped{n}, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "removed %d %s\n", n, map[bool]string{true: "dead letter", false: "dead letters"}[n == 1])
			return err
		})
	}
	return c
}

// selection is what a command that changes dead letters is told: one of them, or all of a filter.
type selection struct {
	*letters
	all bool
	// background: an operation of a server does it.
	background bool
}

// selectLetters gives a command an ID, or --all with its filter.
func selectLetters(c *cobra.Command) *selection {
	s := &selection{letters: letterFilter(c, "with --all: only those")}
	c.Flags().BoolVar(&s.all, "all", false, "all that there are when it begins")
	c.Flags().BoolVar(&s.background, "background", false, "with --all: an operation of the server that you have logged in to does it, which goes on by itself")
	c.Args = func(c *cobra.Command, args []string) error {
		filtered := c.Flags().Changed("subject") || c.Flags().Changed("connector")
		switch {
		case s.background && !s.all:
			return usagef("%s: --background goes with --all", c.CommandPath())
		case s.all && len(args) > 0:
			return usagef("%s: give an ID or --all, not both", c.CommandPath())
		case s.all:
			return s.check(c)
		case filtered:
			return usagef("%s: --subject and --connector go with --all", c.CommandPath())
		case len(args) == 0:
			return usagef("%s needs an ID, the dead letter's number as `echomind dlq list` shows it, or --all", c.CommandPath())
		}
		return letterArgument(c, args)
	}
	return s
}

// pick yields the chosen letters, with their connectors where those can be told.
func (s *selection) pick(
	ctx context.Context, pool *pgxpool.Pool, stream *broker.Letters, args []string,
) iter.Seq2[deadletter.Letter, error] {
	if s.all {
		return deadletter.Walk(ctx, stream, letterRuns(pool), s.Filter)
	}
	return func(yield func(deadletter.Letter, error) bool) {
		id, err := letterID(args[0])
		if err != nil {
			yield(deadletter.Letter{}, err)
			return
		}
		letter, _, _, err := letterByID(ctx, pool, stream, id)
		yield(letter, err)
	}
}
