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
		found, err := either(c.Context(), f, func(pool *pgxpool.Pool) (connectorsFound, error) {
			return shownConnector(c.Context(), pool, args[0])
		}, func(r *remote) (connectorsFound, error) { return r.oneConnector(c.Context(), args[0]) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), found.list[0], func(w io.Writer) error { return details(w, found.list[0], found.waiting, found.now) })
	}
	return c
}

func shownConnector(ctx context.Context, pool *pgxpool.Pool, named string) (none connectorsFound, _ error) {
	id, err := connectorID(ctx, pool, named)
	if err != nil {
		return none, err
	}
	one, err := connectorByID(ctx, pool, id)
	if err != nil {
		return none, err
	}
	found, err := shownConnectors(ctx, pool, []dbgen.Connector{one})
	if err != nil {
		return none, err
	}
	found.list[0].RunAfter, err = upstreamsOf(ctx, pool, id)
	return found, err
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
