package worker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/wire"
	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/sdk/lifecycle"
)

const (
	// MaxResultBytes is how long the result of a job may be, as JSON.
	MaxResultBytes = 16 << 10
)

// Job is what is done for a connector of a type whose kind is job: its runs store no documents, and have a result. D is what Prepare
// gives to Work; struct{} where there is no Prepare. All three may return Skipped, Permanent or Postponed, as a Handler does. Their
// context ends when a Handler's would.
type Job[D any] struct {
	// Check says whether there is anything to do, and why not: a run that is not due is skipped with that reason, which is no failure. It
	// should be cheap. Without it every run is due.
	Check func(ctx context.Context, run *JobRun) (due bool, why string, err error)
	// Prepare gathers what Work needs; without it Work is given the zero D.
	Prepare func(ctx context.Context, run *JobRun) (D, error)
	// Work does the work. Its result is a value whose JSON is an object of at most MaxResultBytes, or nil; an integer above 2^53 is kept as a
	// string. A result that is not is left out, with a warning: the work is done.
	Work func(ctx context.Context, run *JobRun, data D) (result any, err error)
}

// ServeJob is Serve for a job.
func ServeJob[D any](ctx context.Context, connectorType string, job Job[D]) error {
	return serve(ctx, connectorType, func(cfg Config, on Servers, process Process) (*Worker, error) {
		return NewJob(connectorType, job, cfg, on, process)
	})
}

// NewJob is New for a job.
func NewJob[D any](connectorType string, job Job[D], cfg Config, on Servers, process Process) (*Worker, error) {
	if job.Work == nil {
		return nil, fmt.Errorf("the job %s has no Work", connectorType)
	}
	w, err := New(connectorType, func(ctx context.Context, run *Run) error {
		r := &JobRun{run: run}
		defer run.said.writesDown(ctx, cfg.lease()/3)()
		run.job.Store(r)
		result, err := job.do(ctx, r)
		if err != nil {
			return err
		}
		if r.result, err = resultOf(result); err != nil { // the work is done, and would not be done better
			run.said.warnLast("the result is left out: " + err.Error())
			run.log.Warn("the result of a job is left out", "err", err)
		}
		return nil
	}, cfg, on, process)
	if err == nil {
		w.isJob = true
	}
	return w, err
}

func (j Job[D]) do(ctx context.Context, run *JobRun) (result any, err error) {
	if j.Check != nil {
		switch due, why, err := j.Check(ctx, run); {
		case err != nil:
			return nil, err
		case !due:
			return nil, Skipped(why)
		}
	}
	var data D
	if j.Prepare != nil {
		if data, err = j.Prepare(ctx, run); err != nil {
			return nil, err
		}
	}
	return j.Work(ctx, run, data)
}

// resultOf is a result as the ledger has it.
func resultOf(result any) (_ json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{value: p, stack: debug.Stack()}
		}
	}()
	if encoded, err := json.Marshal(result); err == nil && bytes.Equal(encoded, []byte("null")) {
		return nil, nil
	}
	encoded, err := object("result", result)
	if err != nil {
		return nil, err
	}
	if err := checkObject("result", encoded, MaxResultBytes); err != nil {
		return nil, err
	}
	return wire.JSON(encoded)
}

// JobRun is one run of a job. Its methods are safe for concurrent use.
type JobRun struct {
	run    *Run
	result json.RawMessage
}

// Request is the message that asked for this run, without its Config, as of Run.Request.
func (r *JobRun) Request() *internalpb.ConnectorSyncRequest { return r.run.Request() }

// Config decodes the connector's configuration, with the parameters of the run over it, into v, as Run.Config does.
func (r *JobRun) Config(v any) error { return r.run.Config(v) }

// Try is this pick-up of the run. A job that writes to Postgres itself names both of its parts, so that nothing is changed once the run
// is somebody else's: moves.hold.
func (r *JobRun) Try() lifecycle.Try { return r.run.Try() }

// Log carries the run's identifiers.
func (r *JobRun) Log() *slog.Logger { return r.run.Log() }

// Patiently asks Postgres something, as Run.Patiently does.
func (r *JobRun) Patiently(ctx context.Context, name string, call func(context.Context) error) error {
	return r.run.Patiently(ctx, name, call)
}

// Acquire gives the run a lock, as Run.Acquire does.
func (r *JobRun) Acquire(ctx context.Context, key string, ttl time.Duration, how ...LockOption) (*Lock, error) {
	return r.run.Acquire(ctx, key, ttl, how...)
}

// Waits begins a wait that a provider has asked for, as Run.Waits does.
func (r *JobRun) Waits(ctx context.Context, wait time.Duration, message string) (over func(), err error) {
	return r.run.Waits(ctx, wait, message)
}

func (r *JobRun) holder() *Run { return r.run }

// Progress says how much of the work is done, how much there is, and in a line of at most 200 characters what it does now. `runs show`
// shows it. A total of 0 says that it is not known. It is written down with the next heartbeat, and at the end.
func (r *JobRun) Progress(done, total int64, line string) { r.run.said.progress(done, total, line) }

// Warn is what the user should know of a run that goes on all the same, as Run.Warn.
func (r *JobRun) Warn(text string) { r.run.Warn(text) }

// endJob ends the run of a job whose work is done, or that had nothing to do. There is no other way to end it: while Postgres is away it
// waits.
func (w *Worker) endJob(ctx context.Context, run *Run, end error) (outcome, error) {
	reason, how, verdict, event := "", done, lifecycle.Completed, telemetry.Completed
	if end != nil {
		reason, how, verdict, event = clip(cmp.Or(skipReason(end), "there was nothing to do"), maxReasonBytes), skips, lifecycle.Skipped, telemetry.Skipped
	}
	failpoint.At("worker.ending_job")
	job := run.job.Load()
	err := w.persistAtStop(ctx, run.said.before(func(ctx context.Context) error {
		return w.lifecycle.EndJob(ctx, run.try, job.result, reason)
	}))
	switch {
	case err == nil:
		tracing.Of(ctx).Set(tracing.Verdict(string(verdict)))
		run.log.Info("the job has ended", "event", event)
		return how, nil
	case errors.Is(err, lifecycle.ErrFenced):
		return abandoned, err
	case postgres.Unavailable(err), errors.Is(err, lifecycle.ErrHeld):
		notWritten(err, run.log)
		return how, nil
	}
	return failsForNow, err // Postgres refuses the end: the type is none of jobs
}
