// Package await follows a connector until the run that answers a request has its verdict.
package await

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/evidence"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/lifecycle"
)

const (
	queryTimeout = 5 * time.Second
	// askEvery is the time between two looks.
	askEvery = 100 * time.Millisecond
)

var (
	// ErrFailed says that the verdict is failed.
	ErrFailed = errors.New("the sync failed")
	// ErrDisabled says that the connector was disabled before there was a verdict.
	ErrDisabled = errors.New("the connector is disabled")
	// ErrCancelled says that the run was cancelled.
	ErrCancelled = errors.New("the sync was cancelled")
	// ErrDeleted says that the connector was deleted before there was a verdict.
	ErrDeleted = errors.New("the connector is deleted")
)

// Progress is one look at a connector that somebody waits for.
type Progress struct {
	Connector dbgen.Connector
	// Now is Postgres's.
	Now time.Time
	// Run is the run that answers the request, or the latest of those that took its place; nil before there is one.
	Run *dbgen.SchedulerRun
	// Unreachable says why Postgres could not be asked; it is waited for. Everything else is as of before.
	Unreachable error
}

// String says in one line where the sync stands.
func (p Progress) String() string {
	switch {
	case p.Unreachable != nil:
		return "waiting for Postgres"
	case p.Connector.ID == 0:
		return "the connector is gone"
	case p.Connector.NextSyncAt != nil && p.Connector.DueReason != nil && *p.Connector.DueReason == "wait":
		return "put off: " + clock.Wait(message(p.Connector.StatusMessage), *p.Connector.NextSyncAt, p.Now)
	case p.Run == nil && p.Connector.Status == string(lifecycle.Pending):
		return "PENDING: waiting for a worker"
	case p.Run == nil && p.Connector.Status == string(lifecycle.Syncing):
		return "SYNCING: a sync that began before; another one follows it"
	case p.Run == nil:
		return "due: waiting to be claimed"
	case p.Run.Status != string(lifecycle.Running):
		return settled(*p.Run)
	case p.Run.PickedUpAt == nil:
		return "PENDING: waiting for a worker" + again(*p.Run)
	case p.Run.ProgressDone != nil || p.Run.ProgressText != nil:
		return "SYNCING: " + clock.Progress(p.Run.ProgressDone, p.Run.ProgressTotal, p.Run.ProgressText) + again(*p.Run) + p.waits()
	case p.Run.Total == nil:
		return fmt.Sprintf("SYNCING: %d stored, still fetching", p.Run.Stored) + again(*p.Run) + p.waits()
	}
	return fmt.Sprintf("SYNCING: %d of %d stored", p.Run.Stored, *p.Run.Total) + again(*p.Run)
}

// waits says that a run waits for its source, and until when.
func (p Progress) waits() string {
	if p.Run.WaitsUntil == nil || !p.Run.WaitsUntil.After(p.Now) {
		return ""
	}
	return "; " + clock.Wait(message(p.Run.WaitMessage), *p.Run.WaitsUntil, p.Now)
}

func message(text *string) string {
	if text == nil {
		return "the source asked us to wait"
	}
	return *text
}

// again says that a run takes the place of another, and why.
func again(r dbgen.SchedulerRun) string {
	switch r.Trigger {
	case "rescue", "lost", "release", "wait", "changed":
		return ", once more: " + r.Trigger
	}
	return ""
}

func settled(r dbgen.SchedulerRun) string {
	line := fmt.Sprintf("%s: %d documents, %d unchanged, %d deleted, %d failed",
		r.Status, r.DocumentsProcessed, r.DocumentsUnchanged, r.DocumentsDeleted, r.DocumentsFailed)
	if why := Reason(r); why != "" {
		line += " (" + why + ")"
	}
	return line
}

// Reason is why a run has its verdict, with the error where there is one.
func Reason(r dbgen.SchedulerRun) string {
	return evidence.Reason(r.Reason, r.ErrorMessage, r.WaitsUntil, time.Now())
}

// Verdict follows connector id until the verdict of the first run that reads its source at or after since, which is
// a moment by Postgres's clock: the answer to a trigger that was asked for then, or to a connector that was added or
// changed then. Where such a run is handed back, put off, rescued or lost in transit, the run that takes its place is
// followed. seen, if not nil, is told of every change.
//
// It returns the run with verdict completed or skipped. Where the verdict is failed it returns the run and
// ErrFailed; where there will be none, ErrDisabled, ErrCancelled or ErrDeleted. Postgres away is waited for, as long as ctx
// allows.
func Verdict(
	ctx context.Context, pool *pgxpool.Pool, id int32, since time.Time, seen func(Progress),
) (*dbgen.SchedulerRun, error) {
	var last Progress
	told := ""
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for {
		now, answer, err := look(ctx, pool, id, since)
		switch {
		case err == nil:
			last = now
		case ctx.Err() != nil:
			return last.Run, context.Cause(ctx)
		case postgres.Unavailable(err):
			last.Unreachable = err
		default:
			return last.Run, err
		}
		if line := last.String(); line != told && seen != nil {
			told = line
			seen(last)
		}
		if err == nil && answer.settled {
			return last.Run, answer.err
		}
		select {
		case <-ctx.Done():
			return last.Run, context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// look reads connector and runs in one snapshot: a run that took another's place is seen with it, or neither is.
func look(ctx context.Context, pool *pgxpool.Pool, id int32, since time.Time) (p Progress, a answer, err error) {
	err = deadline.Do(ctx, "await.look", queryTimeout, func(ctx context.Context) error {
		return postgres.Snapshot(ctx, pool, func(tx pgx.Tx) error {
			q := dbgen.New(tx)
			var err error
			if p.Now, err = q.Now(ctx); err != nil {
				return fmt.Errorf("read the time: %w", err)
			}
			runs, err := q.RunsAnswering(ctx, dbgen.RunsAnsweringParams{ConnectorID: id, Since: since})
			if err != nil {
				return fmt.Errorf("read the runs: %w", err)
			}
			var exists bool
			p.Connector, err = q.GetConnector(ctx, id)
			if exists = !errors.Is(err, pgx.ErrNoRows); exists && err != nil {
				return fmt.Errorf("read the connector: %w", err)
			}
			p.Run, a = follow(runs, p.Connector, exists)
			return nil
		})
	})
	return p, a, err
}

// answer is what a look concludes.
type answer struct {
	settled bool
	err     error
}

// follow walks from the run that answers first along those that took its place.
func follow(runs []dbgen.SchedulerRun, c dbgen.Connector, exists bool) (*dbgen.SchedulerRun, answer) {
	var run *dbgen.SchedulerRun
	for i := range runs {
		run = &runs[i]
		switch lifecycle.Verdict(run.Status) {
		case lifecycle.Running:
			return run, answer{}
		case lifecycle.Completed, lifecycle.Skipped:
			return run, answer{settled: true}
		case lifecycle.Failed:
			if !replaced(runs, i) {
				return run, answer{settled: true, err: fmt.Errorf("%w: %s", ErrFailed, Reason(*run))}
			}
		case lifecycle.Superseded:
			if is(*run, lifecycle.SwitchedOff) {
				return run, answer{settled: true, err: ErrDisabled}
			}
			if is(*run, lifecycle.Cancelled) {
				return run, answer{settled: true, err: fmt.Errorf("%w: %s", ErrCancelled, Reason(*run))}
			}
		}
	}
	switch {
	case !exists:
		return run, answer{settled: true, err: ErrDeleted}
	case c.Status == string(lifecycle.Disabled) && c.StatusMessage != nil:
		return run, answer{settled: true, err: fmt.Errorf("%w: %s", ErrDisabled, *c.StatusMessage)}
	case c.Status == string(lifecycle.Disabled):
		return run, answer{settled: true, err: ErrDisabled}
	}
	return run, answer{}
}

// replaced says whether another run takes the place of a failed one at once, and not after a backoff.
func replaced(runs []dbgen.SchedulerRun, i int) bool {
	switch run := runs[i]; {
	case is(run, lifecycle.LostInTransit):
		return true
	case is(run, lifecycle.TookTooLong): // it goes on from the checkpoint
		return run.CheckpointNo > 0
	case is(run, lifecycle.WorkerLost): // the rescue opens its run in the transaction that ends this one
		return i+1 < len(runs) && runs[i+1].Trigger == "rescue"
	}
	return false
}

func is(r dbgen.SchedulerRun, reason lifecycle.Reason) bool {
	return r.Reason != nil && lifecycle.Reason(*r.Reason) == reason
}
