package console

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/deadline"
)

// deletion is what was done.
type deletion struct {
	ID       int32      `json:"id"`
	Name     string     `json:"name"`
	Deleted  bool       `json:"deleted"`
	EndedRun *uuid.UUID `json:"ended_run"`
}

func remove(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "delete ID",
		Short: "Delete a connector and its documents",
		Long: `Delete a connector, without asking. A sync in flight is ended, its documents are not found any more and are
swept. Its ledger stays: see echomind runs ID.`,
		Example: "  echomind connectors delete 3",
		Args:    idArgument,
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		id := mustID(args)
		return f.withPool(c.Context(), func(pool *pgxpool.Pool) error {
			old, err := deleteConnector(c.Context(), pool, id)
			if errors.Is(err, pgx.ErrNoRows) {
				return noConnector(id)
			}
			if err != nil {
				return told(fmt.Sprintf("delete connector %d", id), err)
			}
			done := deletion{ID: id, Name: old.Name, Deleted: true, EndedRun: old.RunID}
			return out.show(c.OutOrStdout(), done, func(w io.Writer) error {
				ended := ""
				if old.RunID != nil {
					ended = "; the sync in flight was ended"
				}
				_, err := fmt.Fprintf(w, "deleted connector %d (%s)%s; its documents are not found any more and are swept; "+
					"its ledger stays: echomind runs %d\n", id, printable(old.Name), ended, id)
				return err
			})
		})
	}
	return c
}

func deleteConnector(ctx context.Context, pool *pgxpool.Pool, id int32) (old dbgen.Connector, err error) {
	err = deadline.Do(ctx, "console.delete", queryTimeout, func(ctx context.Context) error {
		return postgres.Tx(ctx, pool, func(tx pgx.Tx) (err error) {
			q := dbgen.New(tx)
			if old, err = q.LockConnector(ctx, id); err != nil {
				return err
			}
			_, err = q.DeleteConnector(ctx, id)
			return err
		})
	})
	return old, err
}
