package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
)

func get(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:     "get ID",
		Short:   "Show one connector",
		Long:    "Show one connector. Secrets in its configuration are masked.",
		Example: "  echomind connectors get 3\n  echomind connectors get 3 -o json",
		Args:    oneConnector,
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return f.withPool(c.Context(), func(pool *pgxpool.Pool) error {
			id, err := connectorID(c.Context(), pool, args[0])
			if err != nil {
				return err
			}
			found, err := connectorByID(c.Context(), pool, id)
			if err != nil {
				return err
			}
			now, err := ask(c.Context(), pool, "now", now)
			if err != nil {
				return fmt.Errorf("read the time: %w", err)
			}
			counted, err := countDocuments(c.Context(), pool, []dbgen.Connector{found})
			if err != nil {
				return err
			}
			waiting, err := runsThatWait(c.Context(), pool, []dbgen.Connector{found})
			if err != nil {
				return err
			}
			after, err := upstreamsOf(c.Context(), pool, id)
			if err != nil {
				return err
			}
			shown := counted.of(view(found)).at(found, now)
			shown.RunAfter = after
			return out.show(c.OutOrStdout(), shown, func(w io.Writer) error {
				return details(w, found, after, counted, waiting, now)
			})
		})
	}
	return c
}

func connectorByID(ctx context.Context, pool *pgxpool.Pool, id int32) (dbgen.Connector, error) {
	found, err := ask(ctx, pool, "get", func(ctx context.Context, q *dbgen.Queries) (dbgen.Connector, error) {
		return q.GetConnector(ctx, id)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return found, noConnector(id)
	}
	if err != nil {
		return found, fmt.Errorf("read connector %d: %w", id, err)
	}
	return found, nil
}

// now is Postgres's time.
func now(ctx context.Context, q *dbgen.Queries) (time.Time, error) { return q.Now(ctx) }
