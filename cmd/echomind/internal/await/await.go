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
	"github.com/echomind/sync/internal/masks"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/secret"
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
	// ErrWithdrawn says that a run with parameters is not asked for any more.
	ErrWithdrawn = errors.New("the parameters were taken back: by --with '{}', or by a change of the connector")
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
	// Asked says that it is a run with parameters that is waited for.
	Asked bool
	// Unreachable says why the source could not be asked; it is waited for. Everything else is as of before.
	Unreachable error
	source      string
}

// Source is where a connector is looked at again and again.
type Source struct {
	// Name is what it is called where it is waited for.
	Name string
	// Every is the time between two looks.
	Every time.Duration
	// Look finds where the connector stands.
	Look func(context.Context) (Seen, error)
	// Away says whether an error of Look passes by itself.
	Away func(error) bool
	// Loose: what it has seen is not of one moment.
	Loose bool
}

// Seen is a connector and its runs at one moment; or the connector at one, and its runs at a later one.
type Seen struct {
	Now time.Time
	// Connector is nil where it is gone.
	Connector *dbgen.Connector
	// Runs are those that Answers says, the oldest first.
	Runs []dbgen.SchedulerRun
}

// Answers says whether a run reads the source at or after a moment, or was asked to: claimed since then, or picked up with a trigger that was
// asked for since then; where one with parameters is waited for, whether it was asked for since then. RunsAnswering of the queries says the same.
func Answers(r dbgen.SchedulerRun, since time.Time, asked bool) bool {
	switch {
	case r.MissedCount != nil || asked != (r.Parameters != nil):
		return false
	case asked:
		return !r.DueAt.Before(since)
	}
	return !r.StartedAt.Before(since) || r.TriggerRequestedAt != nil && !r.TriggerRequestedAt.Before(since)
}

// String says in one line where the sync stands.
func (p Progress) String() string {
	switch {
	case p.Unreachable != nil:
		return "waiting for " + p.source
	case p.Connector.ID == 0:
		return "the connector is gone"
	case p.Asked && p.Connector.ParametersDueAt != nil && p.Connector.ParametersDueAt.After(p.Now) && p.Run != nil:
		return "put off: " + clock.Wait(message(p.Run.ErrorMessage), *p.Connector.ParametersDueAt, p.Now)
	case !p.Asked && p.Connector.NextSyncAt != nil && p.Connector.DueReason != nil && *p.Connector.DueReason == "wait":
		return "put off: " + clock.Wait(message(p.Connector.StatusMessage), *p.Connector.NextSyncAt, p.Now)
	case p.Run == nil && p.Connector.Status == string(lifecycle.Pending):
		return "PENDING: waiting for a worker"
	case p.Run == nil && p.Connector.Status == string(lifecycle.Syncing):
		return "SYNCING: a sync that began before; another one follows it"
	case p.Run == nil:
		return "due: waiting to be claimed"
	case p.Run.Status != string(lifecycle.Running):
		return outcome(*p.Run)
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

// shownResult is how much of a job's result is in a line, in bytes.
const shownResult = 500

func outcome(r dbgen.SchedulerRun) string {
	line := fmt.Sprintf("%s: %d documents, %d unchanged, %d deleted, %d failed",
		r.Status, r.DocumentsProcessed, r.DocumentsUnchanged, r.DocumentsDeleted, r.DocumentsFailed)
	if r.Result != nil { // of a job
		line = r.Status + ": " + secret.Short(string(masks.WithoutSecrets(r.Result, false)), shownResult)
	}
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
	return verdict(ctx, pool, id, since, false, seen)
}

// Asked is Verdict for the run with parameters that was asked for at since, or for the run that took its place.
func Asked(
	ctx context.Context, pool *pgxpool.Pool, id int32, since time.Time, seen func(Progress),
) (*dbgen.SchedulerRun, error) {
	return verdict(ctx, pool, id, since, true, seen)
}

func verdict(
	ctx context.Context, pool *pgxpool.Pool, id int32, since time.Time, asked bool, seen func(Progress),
) (*dbgen.SchedulerRun, error) {
	return Follow(ctx, Source{
		Name: "Postgres", Every: askEvery, Away: func(err error) bool { return postgres.Unavailable(err) || postgres.Locked(err) },
		Look: func(ctx context.Context) (Seen, error) { return look(ctx, pool, id, since, asked) },
	}, asked, seen)
}

// Follow is Verdict, or Asked, by what a source says.
func Follow(ctx context.Context, s Source, asked bool, seen func(Progress)) (*dbgen.SchedulerRun, error) {
	last := Progress{Asked: asked, source: s.Name}
	told, doubted := "", false
	ticker := time.NewTicker(s.Every)
	defer ticker.Stop()
	for {
		now, err := s.Look(ctx)
		var a answer
		switch {
		case err == nil:
			a = last.at(now)
		case ctx.Err() != nil:
			return last.Run, context.Cause(ctx)
		case s.Away(err):
			last.Unreachable = err
		default:
			return last.Run, err
		}
		if line := last.String(); line != told && seen != nil {
			told = line
			seen(last)
		}
		doubts := s.Loose && errors.Is(a.err, ErrWithdrawn) && !doubted // it may have been taken back, or have come back between one thing seen and the other
		if doubted = doubts; a.final && !doubts {
			return last.Run, a.err
		}
		select {
		case <-ctx.Done():
			return last.Run, context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// at brings the progress to what was seen.
func (p *Progress) at(s Seen) (a answer) {
	p.Now, p.Unreachable, p.Connector = s.Now, nil, dbgen.Connector{}
	if s.Connector != nil {
		p.Connector = *s.Connector
	}
	p.Run, a = follow(s.Runs, p.Connector, s.Connector != nil)
	if p.Asked && !a.final && p.Connector.NextParameters == nil && (p.Run == nil || !running(*p.Run)) {
		a = answer{final: true, err: ErrWithdrawn}
	}
	return a
}

// look reads connector and runs in one snapshot: a run that took another's place is seen with it, or neither is.
func look(ctx context.Context, pool *pgxpool.Pool, id int32, since time.Time, asked bool) (s Seen, err error) {
	err = deadline.Do(ctx, "await.look", queryTimeout, func(ctx context.Context) error {
		return postgres.Snapshot(ctx, pool, func(tx pgx.Tx) (err error) {
			q := dbgen.New(tx)
			if s.Now, err = q.Now(ctx); err != nil {
				return fmt.Errorf("read the time: %w", err)
			}
			if s.Runs, err = q.RunsAnswering(ctx, dbgen.RunsAnsweringParams{ConnectorID: id, Since: since, Asked: asked}); err != nil {
				return fmt.Errorf("read the runs: %w", err)
			}
			switch c, err := q.GetConnector(ctx, id); {
			case err == nil:
				s.Connector = &c
			case !errors.Is(err, pgx.ErrNoRows):
				return fmt.Errorf("read the connector: %w", err)
			}
			return nil
		})
	})
	return s, err
}

// answer is what a look concludes.
type answer struct {
	final bool
	err   error
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
			return run, answer{final: true}
		case lifecycle.Failed:
			if !replaced(runs, i) {
				return run, answer{final: true, err: fmt.Errorf("%w: %s", ErrFailed, Reason(*run))}
			}
		case lifecycle.Superseded:
			if is(*run, lifecycle.SwitchedOff) {
				return run, answer{final: true, err: ErrDisabled}
			}
			if is(*run, lifecycle.Cancelled) {
				return run, answer{final: true, err: fmt.Errorf("%w: %s", ErrCancelled, Reason(*run))}
			}
		}
	}
	switch {
	case !exists:
		return run, answer{final: true, err: ErrDeleted}
	case c.Status == string(lifecycle.Disabled) && c.StatusMessage != nil:
		return run, answer{final: true, err: fmt.Errorf("%w: %s", ErrDisabled, *c.StatusMessage)}
	case c.Status == string(lifecycle.Disabled):
		return run, answer{final: true, err: ErrDisabled}
	}
	return run, answer{}
}

// replaced says whether another run takes the place of a failed one at once, and not after a backoff.
func replaced(runs []dbgen.SchedulerRun, i int) bool {
	switch run := runs[i]; {
	case is(run, lifecycle.LostInTransit):
		return run.Parameters == nil
	case is(run, lifecycle.TookTooLong): // it goes on from the checkpoint
		return run.CheckpointNo > 0 && run.Parameters == nil
	case is(run, lifecycle.WorkerLost): // the rescue opens its run in the transaction that ends this one
		return i+1 < len(runs) && runs[i+1].Trigger == "rescue"
	}
	return false
}

func running(r dbgen.SchedulerRun) bool { return lifecycle.Verdict(r.Status) == lifecycle.Running }

func is(r dbgen.SchedulerRun, reason lifecycle.Reason) bool {
	return r.Reason != nil && lifecycle.Reason(*r.Reason) == reason
}
