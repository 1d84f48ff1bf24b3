package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/sdk/lifecycle"
)

func cancelRun(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "cancel RUN_ID",
		Short: "End an open run",
		Long: `End an open run, whether it waits for a worker, fetches, or waits until all is stored. Its verdict is superseded, with the reason
cancelled and who asked. No failure is counted. The connector is due next by its plan, not at once; a trigger that has asked for the run is
spent. One that came after the run had begun to read asks for another run, which follows.

A worker that has the run learns of it with its next heartbeat, within 5 seconds, and stops; what it still sends changes nothing. What was
stored before stays.

The id is that of the table, 8 characters or more of it. Cancelling a run twice is no error; one that has ended otherwise is.`,
		Example: "  echomind runs cancel 0b6f1c2e",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("%s needs one RUN_ID, as `echomind runs` shows it", c.CommandPath())
			}
			_, _, err := runIDs(args[0])
			return err
		},
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		ended, err := either(c.Context(), f, func(pool *pgxpool.Pool) (cancelledRun, error) {
			r, again, err := cancelled(c.Context(), pool, args[0])
			return cancelledRun{r, again}, err
		}, func(r *remote) (cancelledRun, error) {
			one, again, err := r.cancelled(c.Context(), args[0])
			return cancelledRun{one, again}, err
		})
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), runView(ended.run, time.Now()), ended.print)
	}
	return c
}

// cancelledRun is a run that was cancelled; again: it was cancelled before.
type cancelledRun struct {
	run   dbgen.SchedulerRun
	again bool
}

func (c cancelledRun) print(w io.Writer) error {
	already := ""
	if c.again {
		already = " already"
	}
	_, err := fmt.Fprintf(w, "run %s of connector %d is cancelled%s; `echomind why %d` tells what happens next\n", shortID(c.run.ID), c.run.ConnectorID, already, c.run.ConnectorID)
	return err
}

// cancelled ends the run whose id begins so; again: it was cancelled before.
func cancelled(ctx context.Context, pool *pgxpool.Pool, text string) (r dbgen.SchedulerRun, again bool, err error) {
	if r, err = runByID(ctx, pool, text); err != nil {
		return r, false, err
	}
	id := r.ID
	if r.Status == string(lifecycle.Running) {
		err = lifecycle.New(pool).Cancel(ctx, id, "cancelled by "+*person())
		if again = errors.Is(err, lifecycle.ErrUnchanged); err != nil && !again {
			return r, false, told("cancel run "+shortID(id), err)
		}
		if r, err = runByID(ctx, pool, id.String()); err != nil {
			return r, false, err
		}
	} else {
		again = true
	}
	if r.Reason == nil || r.Status != string(lifecycle.Superseded) || lifecycle.Reason(*r.Reason) != lifecycle.Cancelled {
		return r, false, fmt.Errorf("run %s of connector %d has ended before: %s", shortID(id), r.ConnectorID, verdictOf(r))
	}
	return r, again, nil
}
