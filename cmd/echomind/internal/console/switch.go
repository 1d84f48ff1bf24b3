package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/sdk/client"
	"github.com/echomind/sync/sdk/lifecycle"
)

func enable(f *finder) *cobra.Command {
	return switched(f, &cobra.Command{
		Use:   "enable ID...",
		Short: "Switch disabled connectors on",
		Long: "Switch a disabled connector on. Its failures are forgotten and it is planned from now; one with an interval that " +
			"never synced runs at once.",
		Example: "  echomind connectors enable 3",
	}, "enabled", (*lifecycle.Lifecycle).Enable, (*remote).enable)
}

func disable(f *finder) *cobra.Command {
	return switched(f, &cobra.Command{
		Use:   "disable ID...",
		Short: "Switch connectors off",
		Long: "Switch a connector off: a sync in flight is ended, and none begins until it is enabled. Its documents stay " +
			"and can be found.",
		Example: "  echomind connectors disable 3",
	}, "disabled", (*lifecycle.Lifecycle).Disable, (*remote).disable)
}

// switchedSome are the connectors of a command that stand as they should, a line for each, and why others do not.
type switchedSome struct {
	list    []connector
	lines   []string
	problem error
}

func (s *switchedSome) add(c connector, done string, before bool) {
	line := fmt.Sprintf("connector %d is %s", c.ID, done)
	if before {
		line = fmt.Sprintf("connector %d was %s already; it is %s", c.ID, done, printable(c.Status))
	}
	s.lines = append(s.lines, line)
}

func switched(
	f *finder, c *cobra.Command, done string, move func(*lifecycle.Lifecycle, context.Context, int32) error,
	through func(*remote, context.Context, int32) (connector, bool, error),
) *cobra.Command {
	c.Args = someConnectors
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		some, err := either(c.Context(), f, func(pool *pgxpool.Pool) (some switchedSome, _ error) {
			some.list, some.problem = eachConnector(c.Context(), pool, args, func(ctx context.Context, id int32) (connector, error) {
				moved := move(lifecycle.New(pool), ctx, id)
				if moved != nil && !errors.Is(moved, lifecycle.ErrUnchanged) {
					return connector{}, told(fmt.Sprintf("switch connector %d", id), moved)
				}
				found, err := connectorByID(ctx, pool, id)
				if err != nil {
					return connector{}, err
				}
				some.add(view(found), done, moved != nil)
				return view(found), nil
			})
			some.problem = barred(some.problem)
			return some, nil
		}, func(r *remote) (some switchedSome, _ error) {
			some.list, some.problem = eachOf(c.Context(), args, r.connectorID, func(ctx context.Context, id int32) (connector, error) {
				found, before, err := through(r, ctx, id)
				if err != nil {
					return connector{}, r.said(err)
				}
				some.add(found, done, before)
				return found, nil
			})
			return some, nil
		})
		if err != nil || len(some.list) == 0 {
			return errors.Join(err, some.problem)
		}
		return errors.Join(out.show(c.OutOrStdout(), shownAs(some.list, args), func(w io.Writer) error {
			_, err := fmt.Fprintln(w, strings.Join(some.lines, "\n"))
			return err
		}), some.problem)
	}
	return c
}

// enable switches a connector on; before: it was on.
func (r *remote) enable(ctx context.Context, id int32) (c connector, before bool, err error) {
	old, _, err := r.connector(ctx, id)
	if err != nil && !forbidden(err) { // a token may change what it may not read
		return c, false, err
	}
	answer, err := r.api.ConnectorsEnableWithResponse(ctx, id, &client.ConnectorsEnableParams{})
	if err != nil {
		return c, false, connectorError(id, fmt.Sprintf("switch connector %d", id), err)
	}
	if c, err = readAs[connector](answer.Body); err == nil {
		err = r.is(c.ID == id)
	}
	return c.bare(), old.Status != string(lifecycle.Disabled), err
}

// disable switches a connector off; before: it was off.
func (r *remote) disable(ctx context.Context, id int32) (c connector, before bool, err error) {
	old, _, err := r.connector(ctx, id)
	if err != nil && !forbidden(err) { // a token may change what it may not read
		return c, false, err
	}
	answer, err := r.api.ConnectorsDisableWithResponse(ctx, id, &client.ConnectorsDisableParams{})
	if err != nil {
		return c, false, connectorError(id, fmt.Sprintf("switch connector %d", id), err)
	}
	if c, err = readAs[connector](answer.Body); err == nil {
		err = r.is(c.ID == id)
	}
	return c.bare(), old.Status == string(lifecycle.Disabled), err
}

// bare is what commands show of a connector that they have changed: neither how fresh it is, nor what it runs after.
func (v connector) bare() connector {
	v.Freshness, v.RunAfter = nil, nil
	return v
}
