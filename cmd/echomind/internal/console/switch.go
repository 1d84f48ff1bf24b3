package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/sdk/lifecycle"
)

func enable(f *finder) *cobra.Command {
	return switched(f, &cobra.Command{
		Use:   "enable ID...",
		Short: "Switch disabled connectors on",
		Long: "Switch a disabled connector on. Its failures are forgotten and it is planned from now; one that never synced " +
			"runs at once.",
		Example: "  echomind connectors enable 3",
	}, "enabled", (*lifecycle.Lifecycle).Enable)
}

func disable(f *finder) *cobra.Command {
	return switched(f, &cobra.Command{
		Use:   "disable ID...",
		Short: "Switch connectors off",
		Long: "Switch a connector off: a sync in flight is ended, and none begins until it is enabled. Its documents stay " +
			"and can be found.",
		Example: "  echomind connectors disable 3",
	}, "disabled", (*lifecycle.Lifecycle).Disable)
}

func switched(
	f *finder, c *cobra.Command, done string, move func(*lifecycle.Lifecycle, context.Context, int32) error,
) *cobra.Command {
	c.Args = someConnectors
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return f.withPool(c.Context(), func(pool *pgxpool.Pool) error {
			var lines []string
			switched, err := eachConnector(c.Context(), pool, args, func(ctx context.Context, id int32) (connector, error) {
				moved := move(lifecycle.New(pool), ctx, id)
				if moved != nil && !errors.Is(moved, lifecycle.ErrUnchanged) {
					return connector{}, told(fmt.Sprintf("switch connector %d", id), moved)
				}
				found, err := connectorByID(ctx, pool, id)
				if err != nil {
					return connector{}, err
				}
				line := fmt.Sprintf("connector %d is %s", id, done)
				if moved != nil {
					line = fmt.Sprintf("connector %d was %s already; it is %s", id, done, found.Status)
				}
				lines = append(lines, line)
				return view(found), nil
			})
			if len(switched) == 0 {
				return err
			}
			return errors.Join(out.show(c.OutOrStdout(), shownAs(switched, args), func(w io.Writer) error {
				_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
				return err
			}), err)
		})
	}
	return c
}
