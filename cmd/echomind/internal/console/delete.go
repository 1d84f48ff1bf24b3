package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/client"
)

// deletion is what was done.
type deletion struct {
	ID       int32      `json:"id"`
	Name     string     `json:"name"`
	Deleted  bool       `json:"deleted"`
	EndedRun *uuid.UUID `json:"ended_run"`

	// hasLedger says that `echomind runs` goes on to show its runs: a server does not, of a connector that is gone.
	hasLedger bool
}

func remove(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "delete ID...",
		Short: "Delete connectors and their documents",
		Long: `Delete connectors, by number or name. It asks first on a terminal, and elsewhere wants --yes. A sync in flight is ended, the
documents are not found any more and are swept. The ledger stays: see echomind runs ID.`,
		Example: "  echomind connectors delete 3\n  echomind connectors delete 3 papers --yes",
		Args:    someConnectors,
	}
	yes := c.Flags().Bool("yes", false, "delete without asking")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := wantsYes(c, *yes, "the documents are lost for good"); err != nil {
			return err
		}
		some, err := either(c.Context(), f, func(pool *pgxpool.Pool) (some deletedSome, err error) {
			those := args
			if !*yes {
				if those, err = confirmDeletion(c, pool, args); err != nil {
					return some, err
				}
			}
			some.done, some.problem = eachConnector(c.Context(), pool, those, func(ctx context.Context, id int32) (deletion, error) {
				return deleteConnector(ctx, pool, id)
			})
			some.problem = barred(some.problem)
			return some, nil
		}, func(r *remote) (some deletedSome, err error) {
			those := args
			if !*yes {
				if those, err = r.confirmDeletion(c, args); err != nil {
					return some, err
				}
			}
			some.done, some.problem = eachOf(c.Context(), those, r.connectorID, r.delete)
			return some, nil
		})
		if err != nil || len(some.done) == 0 {
			return errors.Join(err, some.problem)
		}
		return errors.Join(out.show(c.OutOrStdout(), shownAs(some.done, args), func(w io.Writer) error { return printDeletions(w, some.done) }), some.problem)
	}
	return c
}

// deletedSome are the connectors of a command that were deleted, and why others were not.
type deletedSome struct {
	done    []deletion
	problem error
}

func printDeletions(w io.Writer, done []deletion) (err error) {
	for _, d := range done {
		line := fmt.Sprintf("deleted connector %d (%s)", d.ID, printable(d.Name))
		if d.EndedRun != nil {
			line += "; the sync in flight was ended"
		}
		line += "; its documents are not found any more and are swept"
		if d.hasLedger {
			line += fmt.Sprintf("; its ledger stays: echomind runs %d", d.ID)
		}
		_, problem := fmt.Fprintln(w, line)
		err = errors.Join(err, problem)
	}
	return err
}

// confirmDeletion shows what would be deleted, asks, and returns the numbers of what was shown: another may have the name by then.
func confirmDeletion(c *cobra.Command, pool *pgxpool.Pool, args []string) (numbers []string, err error) {
	named, err := eachConnector(c.Context(), pool, args, func(ctx context.Context, id int32) (dbgen.Connector, error) {
		return connectorByID(ctx, pool, id)
	})
	if err != nil {
		return nil, err
	}
	counted, err := countDocuments(c.Context(), pool, named)
	if err != nil {
		return nil, err
	}
	var question strings.Builder
	for _, one := range named {
		fmt.Fprintf(&question, "%s with %d documents\n", saidDeleted(view(one)), counted.found[one.ID])
		numbers = append(numbers, strconv.Itoa(int(one.ID)))
	}
	return numbers, confirm(c.InOrStdin(), c.ErrOrStderr(), question.String()+"Delete? [y/N] ")
}

// saidDeleted is a connector that is to be deleted.
func saidDeleted(c connector) string {
	return fmt.Sprintf("connector %d %q (%s, user %s)", c.ID, printable(c.Name), printable(c.Type), owner(c.UserID))
}

// confirmDeletion is that of the database.
func (r *remote) confirmDeletion(c *cobra.Command, args []string) (numbers []string, err error) {
	named, err := eachOf(c.Context(), args, r.connectorID, func(ctx context.Context, id int32) (connector, error) {
		found, _, err := r.connectorWith(ctx, id, &client.ConnectorsGetParams{Counts: new(true)})
		return found, err
	})
	if err != nil {
		return nil, err
	}
	var question strings.Builder
	for _, one := range named {
		fmt.Fprintf(&question, "%s with %s documents\n", saidDeleted(one), numberOf(one.Documents))
		numbers = append(numbers, strconv.Itoa(int(one.ID)))
	}
	return numbers, confirm(c.InOrStdin(), c.ErrOrStderr(), question.String()+"Delete? [y/N] ")
}

// delete deletes the connector that it has read, and no other version of it.
func (r *remote) delete(ctx context.Context, id int32) (deletion, error) {
	what := fmt.Sprintf("delete connector %d", id)
	old, version, err := r.connector(ctx, id)
	if forbidden(err) { // a token may delete what it may not read
		version, err = "*", nil
	}
	if err != nil {
		return deletion{}, r.said(err)
	}
	answer, err := r.api.ConnectorsDeleteWithResponse(ctx, id, &client.ConnectorsDeleteParams{IfMatch: &version})
	if err != nil {
		return deletion{}, r.said(connectorError(id, what, err))
	}
	if err := r.is(answer.StatusCode() == http.StatusNoContent); err != nil {
		return deletion{}, err
	}
	return deletion{ID: id, Name: old.Name, Deleted: true, EndedRun: old.RunID}, nil
}

func deleteConnector(ctx context.Context, pool *pgxpool.Pool, id int32) (deletion, error) {
	var old dbgen.Connector
	ran := false
	err := deadline.Do(ctx, "console.delete", queryTimeout, func(ctx context.Context) error {
		return postgres.Tx(ctx, pool, func(tx pgx.Tx) (err error) {
			q := dbgen.New(tx)
			if old, err = q.LockConnector(ctx, id); err != nil {
				return err
			}
			if _, err = q.DeleteConnector(ctx, id); err != nil {
				return err
			}
			ran, err = q.HasRuns(ctx, id)
			return err
		})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return deletion{}, noConnector(id)
	}
	if err != nil {
		return deletion{}, told(fmt.Sprintf("delete connector %d", id), err)
	}
	return deletion{ID: id, Name: old.Name, Deleted: true, EndedRun: old.RunID, hasLedger: ran}, nil
}
