package console

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/sdk/lifecycle"
)

// listPage is how many connectors one query reads.
const listPage = 1000

func list(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List connectors",
		Long:    "List connectors: all of them, or those of a type, status or user. Secrets in their configuration are masked.",
		Example: "  echomind connectors list --status ERROR\n  echomind connectors list --type web --user 1 -o json",
		Args:    cobra.NoArgs,
	}
	connectorType := c.Flags().String("type", "", "only those of this type")
	status := c.Flags().String("status", "", "only those in this status: "+strings.Join(statuses(), ", "))
	user := c.Flags().Int32("user", 0, "only those of this user")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		p := dbgen.ListConnectorsParams{Page: listPage}
		if c.Flags().Changed("type") {
			p.Type = connectorType
		}
		if c.Flags().Changed("status") {
			upper := strings.ToUpper(*status)
			if !slices.Contains(statuses(), upper) {
				return usagef("--status %q: must be one of %s", *status, strings.Join(statuses(), ", "))
			}
			p.Status = &upper
		}
		if c.Flags().Changed("user") {
			p.UserID = user
		}
		return f.withPool(c.Context(), func(pool *pgxpool.Pool) error {
			found, err := allConnectors(c.Context(), pool, p)
			if err != nil {
				return err
			}
			counted, err := countDocuments(c.Context(), pool, found)
			if err != nil {
				return err
			}
			now, err := ask(c.Context(), pool, "now", now)
			if err != nil {
				return fmt.Errorf("read the time: %w", err)
			}
			views := make([]connector, len(found))
			for i, one := range found {
				views[i] = counted.of(view(one)).at(one, now)
			}
			return out.show(c.OutOrStdout(), views, func(w io.Writer) error {
				if len(found) == 0 && c.Flags().NFlag() > 0 {
					_, err := fmt.Fprintln(w, "no connectors match")
					return err
				}
				return listed(c.Context(), w, pool, *out, found, counted, now)
			})
		})
	}
	return c
}

func statuses() []string {
	all := make([]string, len(lifecycle.Statuses))
	for i, s := range lifecycle.Statuses {
		all[i] = string(s)
	}
	return all
}

func allConnectors(ctx context.Context, pool *pgxpool.Pool, p dbgen.ListConnectorsParams) ([]dbgen.Connector, error) {
	var all []dbgen.Connector
	for {
		page, err := ask(ctx, pool, "list", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.Connector, error) {
			return q.ListConnectors(ctx, p)
		})
		if err != nil {
			return nil, fmt.Errorf("list connectors: %w", err)
		}
		all = append(all, page...)
		if len(page) < int(p.Page) {
			return all, nil
		}
		p.After = page[len(page)-1].ID
	}
}

func listed(
	ctx context.Context, w io.Writer, pool *pgxpool.Pool, out output, found []dbgen.Connector, counted documentCounts, now time.Time,
) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "no connectors; `echomind connectors add --help` says how to add one")
		return err
	}
	waiting, err := runsThatWait(ctx, pool, found)
	if err != nil {
		return err
	}
	rows, notes := make([][]string, len(found)), make([]string, len(found))
	for i, c := range found {
		id, documents, failed := strconv.Itoa(int(c.ID)), count(counted.found[c.ID]), counted.failedOf(c.ID)
		if message := waiting.message(c, now); message != nil {
			notes[i] = *message
		}
		if out == allColumns {
			rows[i] = []string{
				id, c.Name, c.Type, c.Status, owner(c.UserID), scope(c), refresh(c), string(freshnessOf(c, now).State), clock.Optional(c.LastSyncAt, now),
				nextSync(c, now), documents, failed, notes[i],
			}
			continue
		}
		rows[i] = []string{id, c.Name, c.Type, c.Status, nextSync(c, now), documents, failed}
	}
	if out == allColumns {
		return table(w, []string{
			"ID", "NAME", "TYPE", "STATUS", "USER", "SCOPE", "REFRESH", "FRESHNESS", "LAST SYNC", "NEXT SYNC", "DOCUMENTS", "FAILED", "MESSAGE",
		}, rows)
	}
	if err := fitted(w, []string{"ID", "NAME", "TYPE", "STATUS", "NEXT SYNC", "DOCUMENTS", "FAILED"}, rows, notes); err != nil {
		return err
	}
	return counted.hint(w)
}
