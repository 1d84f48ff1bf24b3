package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/conditions"
	"github.com/echomind/sync/internal/masks"
	"github.com/echomind/sync/internal/postgres"
)

// tried is what a condition has said.
type tried struct {
	Condition string          `json:"condition"`
	Config    json.RawMessage `json:"config"`
	// Met is null where it has failed; Problem says why then.
	Met     *bool   `json:"met"`
	Problem *string `json:"problem"`
	TookMS  int64   `json:"took_ms"`
}

func conditionsTry(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "try NAME [--config JSON | --of ID]", Short: "Ask a condition now, and change nothing",
		Long: `Ask a condition now, as the scheduler does: with the same rights, the same timeout and the same bounds. It changes nothing. A condition that fails exits with 1.`,
		Example: `  echomind conditions try has_changes --config '{"least": 50}'
  echomind conditions try has_changes --of 12`,
		Args: oneCondition,
	}
	config := c.Flags().String("config", "{}", "the config that it is asked about, a JSON `object`; @FILE reads it from a file")
	of := c.Flags().String("of", "", "the connector, by number or name, whose config it is asked about")
	c.MarkFlagsMutuallyExclusive("config", "of")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := readObject("--config", config, c.InOrStdin()); err != nil {
			return err
		}
		if err := checkObject("--config", *config); err != nil {
			return err
		}
		where, _, err := f.find()
		if err != nil {
			return err
		}
		return f.withPool(c.Context(), func(pool *pgxpool.Pool) error {
			found, err := conditionNamed(c.Context(), pool, args[0])
			if err != nil {
				return err
			}
			about := json.RawMessage(*config)
			if *of != "" {
				id, err := connectorID(c.Context(), pool, *of)
				if err != nil {
					return err
				}
				asks, err := connectorByID(c.Context(), pool, id)
				if err != nil {
					return err
				}
				about = asks.Config
			}
			said, failed := tryCondition(c.Context(), where, found, about)
			var wrong *conditions.Error
			if failed != nil && !errors.As(failed, &wrong) {
				return failed
			}
			return errors.Join(out.show(c.OutOrStdout(), said, func(w io.Writer) error { return printTried(w, said) }), failed)
		})
	}
	return c
}

func tryCondition(ctx context.Context, where whereabouts, of dbgen.Condition, config json.RawMessage) (tried, error) {
	session := conditions.New(where.databaseURL, application, postgres.As(where.databaseRole))
	defer session.Close(ctx)
	began := time.Now()
	answers, err := session.Ask(ctx, of.Name, time.Duration(of.TimeoutMs)*time.Millisecond, []json.RawMessage{config})
	said := tried{Condition: of.Name, Config: masks.Object(config), TookMS: time.Since(began).Milliseconds()}
	switch {
	case err == nil && answers[0] == nil:
		err = conditions.NoAnswer(of.Name)
	case err == nil:
		said.Met = answers[0]
	}
	if err != nil {
		said.Problem = new(err.Error())
	}
	return said, err
}

func printTried(w io.Writer, t tried) (err error) {
	if t.Met != nil {
		says := "not met: a job is skipped"
		if *t.Met {
			says = "met: a job runs"
		}
		_, err = fmt.Fprintf(w, "condition %s is %s (%d ms)\n", t.Condition, says, t.TookMS)
	}
	return err
}

// unmetSlots are what a condition has passed over of a connector, and is no line of the ledger yet: something else has to come first. Nil where there is none.
func unmetSlots(ctx context.Context, pool *pgxpool.Pool, id int32) (*dbgen.UnmetSlot, error) {
	u, err := ask(ctx, pool, "unmet", func(ctx context.Context, q *dbgen.Queries) (dbgen.UnmetSlot, error) { return q.UnmetSlots(ctx, id) })
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read what its condition has passed over: %w", err)
	}
	return &u, nil
}
