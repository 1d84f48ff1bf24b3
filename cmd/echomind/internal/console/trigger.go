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

	"github.com/echomind/sync/cmd/echomind/internal/await"
	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/evidence/failures"
	"github.com/echomind/sync/internal/postgres"
)

// triggered is what was asked for.
type triggered struct {
	ConnectorID        int32     `json:"connector_id"`
	TriggerRequestedAt time.Time `json:"trigger_requested_at"`
	DeletionsAllowed   bool      `json:"deletions_allowed"`
	// Parameters are what the run has over the configuration; null where the trigger gave none.
	Parameters json.RawMessage `json:"parameters"`
}

func trigger(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "trigger ID...",
		Short: "Sync connectors now, without waiting for their time",
		Long: `Sync a connector now, without waiting for its time. While a sync is in flight that began to read before, another
one follows it. Within a blackout window (echomind blackouts) it waits for the end, and you are told which.

A sync that finds most of its documents gone from the source fails and deletes nothing, for the source may be away and not
empty. --allow-deletions is for when they are really gone: the sync may delete them. It counts until a sync has completed
with it, also over failures that are tried again; disabling the connector, or changing its type, config, scope or user, takes
it back.

--with gives one run of a job parameters over its configuration, as a JSON merge patch (RFC 7396): the keys of the object replace those of
the configuration, objects are merged, and null takes a key away. The configuration itself stays. Secrets are refused. It is a run of its own:
what the connector is due for runs as well, and where the run fails, the schedule and the failures in a row stay as they are; it is not tried
again. --with '{}' takes back parameters that no run has yet, and asks for a run without any.

With --wait, progress is shown until there is a verdict; the exit code is 1 if the sync failed. Ending the wait does
not end the sync.`,
		Example: "  echomind connectors trigger 3\n  echomind connectors trigger 3 --wait --timeout 10m\n" +
			"  echomind connectors trigger 3 --allow-deletions\n  echomind connectors trigger 3 --with '{\"provider\":\"gemini\"}'",
		Args: someConnectors,
	}
	wait := c.Flags().Bool("wait", false, "show progress until the verdict")
	allow := c.Flags().Bool("allow-deletions", false, "the sync may delete many documents at once")
	var with runParameters
	c.Flags().StringVar(&with.text, "with", "", "parameters of this one run of a job, a JSON `object` over its configuration; @FILE reads it from a file, @- from standard input")
	c.MarkFlagsMutuallyExclusive("with", "allow-deletions")
	timeout := c.Flags().Duration("timeout", 0, "with --wait, how long to wait; 0 = as long as it takes")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if *timeout < 0 || (*timeout > 0 && !*wait) {
			return usagef("--timeout %s: must be positive, and goes with --wait", *timeout)
		}
		if *wait && len(args) > 1 {
			return usagef("--wait: goes with one connector, and %d are named", len(args))
		}
		if err := with.read(c); err != nil {
			return err
		}
		if *wait {
			return f.triggerAndWait(c, args[0], *allow, &with, *timeout, *out)
		}
		done, err := either(c.Context(), f, func(pool *pgxpool.Pool) (asked triggeredSome, _ error) {
			asked.done, asked.problem = eachConnector(c.Context(), pool, args, func(ctx context.Context, id int32) (triggered, error) {
				at, err := f.requestSync(ctx, pool, id, *allow, &with)
				return triggered{id, at.UTC(), *allow, with.json()}, err
			})
			for _, t := range asked.done {
				asked.problem = errors.Join(asked.problem, tellHeld(c.Context(), c.ErrOrStderr(), pool, t.ConnectorID))
			}
			asked.problem = barred(asked.problem)
			return asked, nil
		}, func(r *remote) (asked triggeredSome, _ error) {
			asked.done, asked.problem = eachOf(c.Context(), args, r.connectorID, func(ctx context.Context, id int32) (triggered, error) {
				at, err := r.sync(ctx, id, *allow, &with)
				return triggered{id, at.UTC(), *allow, with.json()}, r.said(err)
			})
			for _, t := range asked.done {
				asked.problem = errors.Join(asked.problem, r.tellHeld(c.Context(), c.ErrOrStderr(), t.ConnectorID))
			}
			return asked, nil
		})
		if err != nil || len(done.done) == 0 {
			return errors.Join(err, done.problem)
		}
		return errors.Join(out.show(c.OutOrStdout(), shownAs(done.done, args), done.print), done.problem)
	}
	return c
}

// triggeredSome are the connectors of a command that were triggered, and why others were not.
type triggeredSome struct {
	done    []triggered
	problem error
}

func (s triggeredSome) print(w io.Writer) (err error) {
	for _, t := range s.done {
		may := ""
		if t.DeletionsAllowed {
			may = ", and may delete many documents"
		}
		if t.Parameters != nil {
			may = " with " + string(t.Parameters)
		}
		_, problem := fmt.Fprintf(w, "connector %d is triggered%s; `echomind why %d` tells what happens\n", t.ConnectorID, may, t.ConnectorID)
		err = errors.Join(err, problem)
	}
	return err
}

// triggerAndWait asks for a sync of one connector, and shows its progress until the verdict.
func (f *finder) triggerAndWait(c *cobra.Command, named string, allow bool, with *runParameters, timeout time.Duration, out output) error {
	switch s, is, err := f.server(); {
	case err != nil:
		return err
	case is:
		r, err := f.remote(s)
		if err != nil {
			return err
		}
		return r.said(r.triggerAndWait(c, named, allow, with, timeout, out))
	}
	where, notRunning, err := f.find()
	if err != nil {
		return err
	}
	if where.databaseURL == "" {
		return notRunning
	}
	return where.withPool(c.Context(), func(pool *pgxpool.Pool) error {
		id, err := connectorID(c.Context(), pool, named)
		if err != nil {
			return err
		}
		at, err := f.requestSync(c.Context(), pool, id, allow, with)
		if err != nil {
			return err
		}
		if err := tellHeld(c.Context(), c.ErrOrStderr(), pool, id); err != nil {
			return err
		}
		running, done := where.whileRunning(c.Context(), id)
		defer done()
		follow := await.Verdict
		if with.asks() {
			follow = await.Asked
		}
		return waiting{id, timeout, out}.wait(running, c, func(ctx context.Context, show func(await.Progress)) (*dbgen.SchedulerRun, error) {
			return follow(ctx, pool, id, at, show)
		}, func(ctx context.Context) (failures.Summary, error) { return failures.Of(ctx, pool, id) })
	})
}

// requestSync asks for a sync, which may delete many documents where that is allowed, or has parameters, and returns when, by Postgres's clock.
func (f *finder) requestSync(ctx context.Context, pool *pgxpool.Pool, id int32, allowDeletions bool, with *runParameters) (time.Time, error) {
	if err := with.check(ctx, pool, id); err != nil {
		return time.Time{}, err
	}
	at, err := ask(ctx, pool, "trigger", func(ctx context.Context, q *dbgen.Queries) (time.Time, error) {
		return q.TriggerConnector(ctx, dbgen.TriggerConnectorParams{ID: id, AllowDeletions: allowDeletions, Parameters: with.json()})
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return time.Time{}, noConnector(id)
	case postgres.Constraint(err) == "connectors_trigger_disabled":
		return time.Time{}, fmt.Errorf("connector %d is disabled; enable it first: echomind connectors enable %d", id, id)
	case err != nil:
		return time.Time{}, told(fmt.Sprintf("trigger connector %d", id), err)
	}
	return at, nil
}

// waiting is for which connector somebody waits, how long at most (0 = as long as it takes), and how its run is shown.
type waiting struct {
	id      int32
	timeout time.Duration
	out     output
}

// wait shows the progress that follow tells until the run has its verdict, and then what is failed.
func (w waiting) wait(
	ctx context.Context, c *cobra.Command, follow func(context.Context, func(await.Progress)) (*dbgen.SchedulerRun, error),
	failed func(context.Context) (failures.Summary, error),
) error {
	if w.timeout > 0 {
		late := fmt.Errorf("no verdict within %s; the sync goes on, `echomind why %d` tells where it stands", w.timeout, w.id)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, w.timeout, late)
		defer cancel()
	}
	lines := c.OutOrStdout()
	if w.out == forPrograms {
		lines = c.ErrOrStderr()
	}
	show, end := Progress(lines)
	run, err := follow(ctx, show)
	end()
	if run == nil || run.CompletedAt == nil {
		return err
	}
	summary, uncounted := failed(c.Context())
	if w.out != forPrograms {
		return errors.Join(err, c.Context().Err(), printWarned(lines, *run), printFailures(lines, w.id, summary, uncounted))
	}
	waited := waitedFor{run: runView(*run, *run.CompletedAt)}
	if uncounted == nil {
		waited.StillFailed = &summary
	}
	return errors.Join(err, w.out.show(c.OutOrStdout(), waited, nil))
}

// waitedFor is what programs are shown of a run that was waited for.
type waitedFor struct {
	run
	// StillFailed is what is failed of the connector now, also by earlier runs; null where it could not be counted.
	StillFailed *failures.Summary `json:"still_failed"`
}
