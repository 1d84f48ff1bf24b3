package console

import (
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"context"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
)

func update(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "update ID [flags]",
		Short: "Change what is given of a connector",
		Long: `Change what is given of a connector; the rest stays. --config replaces the whole configuration.

A change of type, config, scope or user ends a sync in flight and makes everything be fetched again.`,
		Example: `  echomind connectors update 3 --refresh 24h
  echomind connectors update 3 --config '{"url":"https://example.org/docs","max_depth":2}'`,
		Args: oneConnector,
	}
	flags, out := addConnectorFlags(c), withOutput(c)
	flags.chain.add(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := errors.Join(somethingGiven(c), flags.check(c)); err != nil {
			return err
		}
		updated, err := either(c.Context(), f, func(pool *pgxpool.Pool) (none connector, _ error) {
			id, err := connectorID(c.Context(), pool, args[0])
			if err != nil {
				return none, err
			}
			if err := flags.checkChange(c, f, pool, id); err != nil {
				return none, err
			}
			updated, err := change(c.Context(), pool, id, func(p *dbgen.AddConnectorParams) error {
				flags.apply(c, p)
				if err := flags.checkSchedule(c, id); err != nil {
					return err
				}
				if err := flags.checkScope(c, p); err != nil {
					return err
				}
				if c.Flags().Changed("config") || c.Flags().Changed("type") { // what stands may be renamed
					if err := flags.checkSource(*p); err != nil {
						return err
					}
				}
				return f.seal(id, p)
			}, flags.chain.within())
			return view(updated), err
		}, func(r *remote) (connector, error) { return r.update(c, args[0], flags) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), updated, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "connector %d is changed; it is %s\n", updated.ID, printable(updated.Status))
			return err
		})
	}
	return c
}

func somethingGiven(c *cobra.Command) error {
	given := 0
	c.Flags().Visit(func(flag *pflag.Flag) {
		if flag.Name != "output" {
			given++
		}
	})
	if given == 0 {
		return usagef("%s: nothing to change; give at least one of --name, --config, --refresh, …", c.CommandPath())
	}
	return nil
}

// within is what else a change does in its transaction, before it locks the connector, and after it has written it.
type within struct {
	before func(context.Context, *dbgen.Queries) error
	after  func(context.Context, *dbgen.Queries, int32) error
}

// change reads a connector and writes it back in one transaction, with what else is to be done.
func change(
	ctx context.Context, pool *pgxpool.Pool, id int32, apply func(*dbgen.AddConnectorParams) error, also ...within,
) (updated dbgen.Connector, err error) {
	var p dbgen.AddConnectorParams
	err = deadline.Do(ctx, "console.update", queryTimeout, func(ctx context.Context) error {
		return postgres.Tx(ctx, pool, func(tx pgx.Tx) error {
			q := dbgen.New(tx)
			for _, do := range also {
				if err := do.before(ctx, q); err != nil {
					return err
				}
			}
			old, err := q.LockConnector(ctx, id)
			if err != nil {
				return err
			}
			p = existingParams(old)
			if err := apply(&p); err != nil {
				return err
			}
			updated, err = q.UpdateConnector(ctx, changeTo(id, p))
			for _, do := range also {
				if err == nil {
					err = do.after(ctx, q, id)
				}
			}
			return err
		})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return updated, noConnector(id)
	}
	return updated, refused(ctx, pool, "update the connector", p, err)
}

// changeTo writes all of p to a connector.
func changeTo(id int32, p dbgen.AddConnectorParams) dbgen.UpdateConnectorParams {
	return dbgen.UpdateConnectorParams{
		ID: id, Name: p.Name, Type: p.Type, UserID: p.UserID, Scope: p.Scope, ScopeID: p.ScopeID, Config: p.Config,
		RefreshFreqMinutes: p.RefreshFreqMinutes, ScheduleCron: p.ScheduleCron, RunAtOnce: p.RunAtOnce, TimeZone: p.TimeZone,
		DstGap: p.DstGap, DstOverlap: p.DstOverlap, SpreadPercent: p.SpreadPercent, DeadlineMinutes: p.DeadlineMinutes,
		Overlap: p.Overlap, OncePer: p.OncePer, CatchUp: p.CatchUp, CatchUpMost: p.CatchUpMost, CatchUpMinutes: p.CatchUpMinutes,
		FreshWithinMinutes: p.FreshWithinMinutes, Calendar: p.Calendar, CalendarUse: p.CalendarUse, Condition: p.Condition, ConcurrencyKeys: p.ConcurrencyKeys, MaxRetries: p.MaxRetries, DeletionGuard: p.DeletionGuard, By: p.By,
	}
}

// existingParams are those that a connector has.
func existingParams(old dbgen.Connector) dbgen.AddConnectorParams {
	return dbgen.AddConnectorParams{
		Name: old.Name, Type: old.Type, UserID: old.UserID, Scope: old.Scope, ScopeID: old.ScopeID, Config: old.Config,
		RefreshFreqMinutes: old.RefreshFreqMinutes, ScheduleCron: old.ScheduleCron, RunAtOnce: old.RunAtOnce, TimeZone: old.TimeZone,
		DstGap: old.DstGap, DstOverlap: old.DstOverlap, SpreadPercent: old.SpreadPercent, DeadlineMinutes: old.DeadlineMinutes,
		Overlap: old.Overlap, OncePer: old.OncePer, CatchUp: old.CatchUp, CatchUpMost: old.CatchUpMost, CatchUpMinutes: old.CatchUpMinutes,
		FreshWithinMinutes: old.FreshWithinMinutes, Calendar: old.Calendar, CalendarUse: old.CalendarUse, Condition: old.Condition, ConcurrencyKeys: old.ConcurrencyKeys, MaxRetries: old.MaxRetries,
	}
}
