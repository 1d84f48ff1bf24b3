package console

import (
	"context"
	"errors"
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
			if *connectorType == "" {
				return usagef("--type \"\": must be a type that `echomind types list` shows; without --type they are those of all types")
			}
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
			if *user < 1 {
				return usagef("--user %d: must be a user's number, 1 or more", *user)
			}
			p.UserID = user
		}
		found, err := either(c.Context(), f, func(pool *pgxpool.Pool) (connectorsFound, error) {
			all, err := allConnectors(c.Context(), pool, p)
			if err != nil {
				return connectorsFound{}, err
			}
			return shownConnectors(c.Context(), pool, all)
		}, func(r *remote) (connectorsFound, error) { return r.connectors(c.Context(), p) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), found.list, func(w io.Writer) error {
			if len(found.list) == 0 && c.Flags().NFlag() > 0 {
				_, err := fmt.Fprintln(w, "no connectors match")
				return err
			}
			return found.print(w, *out)
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

// connectorsFound are connectors as they are shown at a moment, and what their open runs wait for.
type connectorsFound struct {
	list    []connector
	waiting waitingRuns
	now     time.Time
	// uncounted says why failed documents of some are not counted.
	uncounted error
}

// shownConnectors counts the documents of connectors, and asks for their open runs.
func shownConnectors(ctx context.Context, pool *pgxpool.Pool, all []dbgen.Connector) (found connectorsFound, err error) {
	documents, err := countDocuments(ctx, pool, all)
	if err != nil {
		return found, err
	}
	if found.now, err = ask(ctx, pool, "now", now); err != nil {
		return found, fmt.Errorf("read the time: %w", err)
	}
	if found.waiting, err = runsThatWait(ctx, pool, all); err != nil {
		return found, err
	}
	found.uncounted, found.list = documents.unknown, make([]connector, len(all))
	for i, c := range all {
		found.list[i] = documents.of(view(c)).at(c, found.now)
	}
	return found, nil
}

func (f connectorsFound) print(w io.Writer, out output) error {
	if len(f.list) == 0 {
		_, err := fmt.Fprintln(w, "no connectors; `echomind connectors add --help` says how to add one")
		return err
	}
	rows, notes := make([][]string, len(f.list)), make([]string, len(f.list))
	for i, c := range f.list {
		id, documents, failed := strconv.Itoa(int(c.ID)), numberOf(c.Documents), numberOf(c.DocumentsFailed)
		if message := f.waiting.message(c, f.now); message != nil {
			notes[i] = *message
		}
		if out == allColumns {
			rows[i] = []string{
				id, c.Name, c.Type, c.Status, owner(c.UserID), scope(c), refresh(c), string(c.Freshness.State), clock.Optional(c.LastSyncAt, f.now),
				nextSync(c, f.now), documents, failed, notes[i],
			}
			continue
		}
		rows[i] = []string{id, c.Name, c.Type, c.Status, nextSync(c, f.now), documents, failed}
	}
	if out == allColumns {
		return table(w, []string{
			"ID", "NAME", "TYPE", "STATUS", "USER", "SCOPE", "REFRESH", "FRESHNESS", "LAST SYNC", "NEXT SYNC", "DOCUMENTS", "FAILED", "MESSAGE",
		}, rows)
	}
	if err := fitted(w, []string{"ID", "NAME", "TYPE", "STATUS", "NEXT SYNC", "DOCUMENTS", "FAILED"}, rows, notes); err != nil {
		return err
	}
	return f.hint(w)
}

// hint names the command that shows what failed, and says why failures are not known.
func (f connectorsFound) hint(w io.Writer) (err error) {
	switch {
	case f.uncounted != nil:
		_, err = fmt.Fprintf(w, "failed documents are not counted: %v\n", f.uncounted)
	case slices.ContainsFunc(f.list, func(c connector) bool { return c.DocumentsFailed != nil && *c.DocumentsFailed > 0 }):
		_, err = fmt.Fprintln(w, "`echomind documents ID --failed` lists the documents that are failed, and why")
	}
	return err
}

var errUncounted = errors.New("a server reads 100,000 documents of a page of connectors at most, and none for long; `echomind connectors get ID` counts those of one")
