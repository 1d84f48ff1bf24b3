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
	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/evidence"
	"github.com/echomind/sync/services/scheduler"
)

func why(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "why ID",
		Short: "Tell why a connector is, or is not, running now, and what happens next",
		Long: `Tell why a connector is, or is not, running now, and what happens next, with the evidence from Postgres and from
the streams. It changes nothing. Where the scheduler's settings matter (its cap, its intervals) they are taken from
this environment, or are the defaults; through a server (echomind login) they are what the server has.`,
		Example: "  echomind why 3\n  echomind why 3 -o json",
		Args:    oneConnector,
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		settings, err := settings()
		if err != nil {
			return err
		}
		answer, err := either(c.Context(), f, func(pool *pgxpool.Pool) (evidence.Answer, error) {
			return whyOf(c.Context(), f, pool, args[0], settings)
		}, func(r *remote) (evidence.Answer, error) { return r.why(c.Context(), args[0]) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), answer, func(w io.Writer) error { return explain(w, answer) })
	}
	return c
}

func whyOf(ctx context.Context, f *finder, pool *pgxpool.Pool, named string, settings evidence.Settings) (none evidence.Answer, _ error) {
	where, notRunning, err := f.find()
	if err != nil {
		return none, err
	}
	id, err := connectorID(ctx, pool, named)
	if err != nil {
		return none, err
	}
	asked, away := where.broker(notRunning)
	if asked != nil {
		defer asked.Close()
	}
	gathered, err := evidence.Gather(ctx, pool, asked, away, id, settings)
	if errors.Is(err, evidence.ErrNoConnector) {
		return none, gone(ctx, pool, id)
	}
	if err != nil {
		return none, err
	}
	return evidence.Explain(gathered), nil
}

// why is the answer of a server, which goes by its own settings. Tries are not shown by it.
func (r *remote) why(ctx context.Context, named string) (none evidence.Answer, _ error) {
	id, err := r.connectorID(ctx, named)
	if err != nil {
		return none, err
	}
	answer, err := r.api.ConnectorsWhyWithResponse(ctx, id)
	if err != nil {
		return none, connectorError(id, fmt.Sprintf("ask about connector %d", id), err)
	}
	told, err := readAs[evidence.Answer](answer.Body)
	if err == nil {
		err = r.is(told.ConnectorID == id)
	}
	return told, err
}

func settings() (evidence.Settings, error) {
	var cfg scheduler.Config
	err := config.Load(&cfg)
	return evidence.Settings{
		MaxConcurrent:  cfg.MaxConcurrentSyncs,
		OwnerShare:     cfg.OwnerSharePercent,
		CheckInterval:  time.Duration(cfg.CheckIntervalSeconds) * time.Second,
		WatchInterval:  time.Duration(cfg.WatchIntervalSeconds) * time.Second,
		LostGrace:      time.Duration(cfg.LostGraceSeconds) * time.Second,
		ForeignTimeout: cfg.ForeignTimeout,
	}, err
}

func explain(w io.Writer, a evidence.Answer) error {
	running := "not running"
	if a.Running {
		running = "running"
	}
	_, err := fmt.Fprintf(w, "connector %d %q (%s) is %s, %s: %s\n",
		a.ConnectorID, printable(a.Name), printable(a.Type), printable(a.Status), running, printable(a.Why))
	for _, fact := range a.Evidence {
		if err == nil {
			_, err = fmt.Fprintf(w, "  - %s\n", printable(fact))
		}
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "next: %s\n", printable(a.Next))
	}
	return err
}

// gone tells a connector that was deleted from one that never was, and says whether it has a ledger.
func gone(ctx context.Context, pool *pgxpool.Pool, id int32) error {
	deleted, err := ask(ctx, pool, "deleted_at", func(ctx context.Context, q *dbgen.Queries) (time.Time, error) {
		return q.DeletedAt(ctx, id)
	})
	known := err == nil
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("ask for deleted connectors: %w", err)
	}
	ran, err := ask(ctx, pool, "has_runs", func(ctx context.Context, q *dbgen.Queries) (bool, error) {
		return q.HasRuns(ctx, id)
	})
	if err != nil {
		return fmt.Errorf("read the ledger of connector %d: %w", id, err)
	}
	switch {
	case known && ran:
		return fmt.Errorf("connector %d was deleted %s; its ledger: echomind runs %d", id, clock.At(deleted, time.Now()), id)
	case known:
		return fmt.Errorf("connector %d was deleted %s; it was never due, and has no ledger", id, clock.At(deleted, time.Now()))
	case ran:
		return fmt.Errorf("connector %d was deleted; its ledger: echomind runs %d", id, id)
	}
	return noConnector(id)
}
