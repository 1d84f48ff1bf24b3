package console

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
)

func add(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "add --name NAME --type TYPE {--user N | --scope system} [--config JSON]",
		Short: "Add a connector and print its id",
		Long: `Add a connector and print its id. With --refresh it is synced at once, and then again as it says; with --cron at the
first of its times, or with --now at once, too. With --refresh manual it waits for echomind connectors trigger. What becomes of times that come while a sync is under way, or while
nobody is there to begin one, say --overlap, --deadline, --once-per and --catch-up; echomind schedule preview shows it.

Without either the type's default applies: of the type itself, where it has one, else what the scheduler's settings say,
which are 7 days for web, onedrive and google_drive, 1 day for teams, and once for file. With --run-after it runs when those have ended, and at no time of its own.

--scope system is for administrators: a job without a user, one of its type. If it is there already, what is given of it is changed.

A Google or Microsoft account is connected with echomind connect, which adds the connector too.`,
		Example: `  echomind connectors add --name docs --type file --user 1 --config '{"url":"file:///srv/docs"}' --refresh 60m
  echomind connectors add --name site --type web --user 1 --config '{"url":"https://example.org","max_pages":500}' \
    --cron "0 3 * * *" --time-zone Europe/Berlin
  echomind connectors add --name mail --type file --user 1 --config '{"url":"file:///srv/mail"}' \
    --cron "*/30 6-22 * * *" --once-per day --deadline 1h`,
		Args: cobra.NoArgs,
	}
	flags, out := addConnectorFlags(c), withOutput(c)
	flags.chain.add(c)
	for _, required := range []string{"name", "type"} {
		_ = c.MarkFlagRequired(required)
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := errors.Join(flags.check(c), flags.checkNew(c)); err != nil {
			return err
		}
		switch s, is, err := f.server(); {
		case err != nil:
			return err
		case is:
			return f.addThrough(s, c, flags, *out)
		case flags.scope != systemScope && !c.Flags().Changed("user"):
			return usagef("--user: is needed, whose source it is; only --scope system, and a server that you have logged in to, go without")
		}
		return f.withPool(c.Context(), func(pool *pgxpool.Pool) error {
			p, err := flags.newConnector(c, f, pool)
			if err != nil {
				return err
			}
			if p.Scope == systemScope {
				return f.addSystemJob(c, flags, pool, p, out)
			}
			added, err := f.insert(c.Context(), pool, p, flags.chain.within().after)
			if err != nil {
				return err
			}
			return out.show(c.OutOrStdout(), view(added), func(w io.Writer) error {
				_, err := fmt.Fprintln(w, added.ID)
				return err
			})
		})
	}
	return c
}

func (f *finder) addThrough(s server, c *cobra.Command, flags *connectorFlags, out output) error {
	r, err := f.remote(s)
	if err != nil {
		return err
	}
	if flags.scope == systemScope {
		job, said, err := r.addSystemJob(c, flags)
		if err != nil {
			return r.said(err)
		}
		return showSystemJob(c, job, said, out)
	}
	added, err := r.add(c, flags)
	if err != nil {
		return r.said(err)
	}
	return out.show(c.OutOrStdout(), added, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, added.ID)
		return err
	})
}

// checkNew refuses what can never be right of a connector that is not there yet.
func (f *connectorFlags) checkNew(c *cobra.Command) error {
	for _, of := range []string{"now", "time-zone", "dst-gap", "dst-overlap"} {
		if c.Flags().Changed(of) && !c.Flags().Changed("cron") {
			return usagef("--%s: needs --cron, which it is about", of)
		}
	}
	if err := errors.Join(f.policies.checkNew(c), f.chain.checkNew()); err != nil {
		return err
	}
	return f.checkSchedule(c, 0)
}

// newConnector is the connector that the flags describe, checked, with its secrets in the open.
func (f *connectorFlags) newConnector(c *cobra.Command, find *finder, pool *pgxpool.Pool) (dbgen.AddConnectorParams, error) {
	p := dbgen.AddConnectorParams{Config: []byte("{}"), Scope: "user", TimeZone: "UTC", MaxRetries: f.maxRetries,
		SpreadPercent: int32(f.policies.spread), Overlap: f.policies.overlap, CatchUp: f.policies.catchUp, CatchUpMost: f.policies.catchUpMost,
		CalendarUse: f.policies.calendarUse}
	f.apply(c, &p)
	if err := f.checkScope(c, &p); err != nil {
		return p, err
	}
	if !c.Flags().Changed("refresh") && !c.Flags().Changed("cron") && f.chain.runAfter == none {
		minutes, err := defaultRefresh(c.Context(), pool, p)
		if err != nil {
			return p, err
		}
		p.RefreshFreqMinutes = &minutes
	}
	if err := f.checkSource(p); err != nil {
		return p, err
	}
	return p, f.checkReach(c.Context(), find, p.Type, p.Config)
}

// insert stores a connector, its secrets sealed, and what else is to be done in the same transaction.
func (f *finder) insert(
	ctx context.Context, pool *pgxpool.Pool, p dbgen.AddConnectorParams, also ...func(context.Context, *dbgen.Queries, int32) error,
) (added dbgen.Connector, err error) {
	if err := f.sealNew(ctx, pool, &p); err != nil {
		return dbgen.Connector{}, err
	}
	err = deadline.Do(ctx, "console.add", queryTimeout, func(ctx context.Context) error {
		return postgres.Tx(ctx, pool, func(tx pgx.Tx) error {
			q := dbgen.New(tx)
			added, err = q.AddConnector(ctx, p)
			for _, do := range also {
				if err == nil {
					err = do(ctx, q, added.ID)
				}
			}
			return err
		})
	})
	return added, refused(ctx, pool, "add the connector", p, err)
}

// defaultRefresh is the interval of a connector for which nobody chose.
func defaultRefresh(ctx context.Context, pool *pgxpool.Pool, p dbgen.AddConnectorParams) (int32, error) {
	minutes, err := ask(ctx, pool, "default_refresh", func(ctx context.Context, q *dbgen.Queries) (int32, error) {
		return q.DefaultRefresh(ctx, p.Type)
	})
	return minutes, refused(ctx, pool, "find its interval", p, err)
}
