// Package lifecycle moves connectors through their states. Each move is one call of a function of the database's schema
// moves, which names the state it comes from and the try, and does what follows from the move (the run's verdict, the
// failure policy, the next due time), so that it is the same for every caller, in any language.
//
//	ACTIVE ──due──▶ PENDING ──PickUp──▶ SYNCING ──Complete──▶ ACTIVE
//	                                     │  └──Fail──▶ ERROR ──backoff over──▶ PENDING
//	                                     └──lease runs out──▶ PENDING, under a new run
//	PENDING, SYNCING ──Release──▶ ACTIVE, due now
//	SYNCING ──Postpone──▶ ACTIVE, due when the wait is over that the source asked for
//	PENDING, SYNCING ──Cancel──▶ ACTIVE, due by its plan
//	any ──Disable──▶ DISABLED ──Enable──▶ ACTIVE
//
// Every method returns ErrFenced where the run is no longer the try's: the caller is a stale writer, and nothing was
// changed.
package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/lifecycle/internal/dbgen"
)

// ErrFenced says that the run is not the try's any more, or that its status has moved on.
var ErrFenced = errors.New("the run is no longer this try's")

// ErrHeld says that somebody holds the connector's row: nothing was changed, and it may be asked again later.
var ErrHeld = errors.New("somebody holds the connector")

// ErrUnchanged says that a connector does not exist or already stands where it was asked to go.
var ErrUnchanged = errors.New("nothing to change")

// callTimeout bounds every call to Postgres. It is longer than twice the lock_timeout of the moves (3 s): a call that
// waits for a row behind another call waits for its turn first, and then for the row.
const callTimeout = 7 * time.Second

// maxMessageBytes bounds what is kept of an error message.
const maxMessageBytes = 2000

// Try is one pick-up of a run: the fence of everything that is written for it.
type Try struct {
	// Run is the run; on the wire, chunking_session.
	Run uuid.UUID
	// ID is minted for each pick-up.
	ID uuid.UUID
}

// Lifecycle moves connectors. It is safe for concurrent use. What several ask of it at the same time, a pick-up, a drain, a skip, a
// completion, is one transaction.
type Lifecycle struct {
	q           *dbgen.Queries
	many        *dbgen.Queries // moves of many
	pickUps     *gather[pickUp, bool]
	drains      *gather[drain, bool]
	skips       *gather[skip, bool]
	completions *gather[uuid.UUID, Ended]
}

// New makes a Lifecycle on a pool.
func New(pool *pgxpool.Pool) *Lifecycle {
	l := &Lifecycle{q: dbgen.New(pool), many: dbgen.New(timed{Pool: pool, after: togetherTime})}
	l.pickUps = &gather[pickUp, bool]{most: mostTogether, alike: pickUp.alike, together: l.pickUpAll, alone: l.pickUp}
	l.drains = &gather[drain, bool]{most: mostTogether, together: l.drainAll, alone: l.drain}
	l.skips = &gather[skip, bool]{most: mostTogether, together: l.skipAll, alone: l.skip}
	l.completions = &gather[uuid.UUID, Ended]{most: mostTogether, together: l.completeAll, alone: l.complete}
	return l
}

// PickUp moves a connector from PENDING to SYNCING for a try, under the lease of a worker process. It also succeeds where
// this very try has it already, so that a commit whose answer was lost can be repeated.
func (l *Lifecycle) PickUp(
	ctx context.Context, connectorID int32, try Try, worker uuid.UUID, lease time.Duration,
) error {
	return moved(l.pickUps.ask(ctx, pickUp{Connector: connectorID, Run: try.Run, Try: try.ID, worker: worker, lease: lease}))
}

// Heartbeat prolongs the lease of a worker process, and with it that of all its runs, and returns those of tries whose runs
// are not this worker's: not picked up yet, or not any more. Of two tries of one run it may be the one and not the other. It
// may revive a lease that has run out, for the runs that nobody claimed.
func (l *Lifecycle) Heartbeat(
	ctx context.Context, worker uuid.UUID, lease time.Duration, tries []Try,
) (lost []Try, err error) {
	p := dbgen.HeartbeatParams{WorkerID: worker, Lease: lease, RunIds: []uuid.UUID{}, TryIds: []uuid.UUID{}}
	for _, t := range tries {
		p.RunIds, p.TryIds = append(p.RunIds, t.Run), append(p.TryIds, t.ID)
	}
	ids, err := deadline.Get(ctx, "lifecycle.heartbeat", callTimeout, func(ctx context.Context) ([]uuid.UUID, error) {
		return l.q.Heartbeat(ctx, p)
	})
	for _, t := range tries {
		if slices.Contains(ids, t.ID) {
			lost = append(lost, t)
		}
	}
	return lost, translated("lifecycle.heartbeat", err)
}

// Drain gives up a run's lease because every document is published; seq is the place of sync completed in the document
// stream. ErrFenced means that the run is already complete (or over), which is no error.
func (l *Lifecycle) Drain(ctx context.Context, try Try, seq uint64) error {
	return moved(l.drains.ask(ctx, drain{Run: try.Run, Try: try.ID, Seq: int64(seq)}))
}

// Skip ends a run that has sent nothing, because nothing had changed: the connector to ACTIVE with the new state; nil leaves the
// one that it has. reason is for the ledger; unchanged is how many documents stand as they are stored. ErrFenced also means that
// it was written before, and the answer was lost.
func (l *Lifecycle) Skip(ctx context.Context, try Try, newState json.RawMessage, reason string, unchanged int64) error {
	asked := skip{Run: try.Run, Try: try.ID, NewState: newState, Reason: clean(reason), Unchanged: unchanged}
	if len(newState) > largeState {
		return moved(l.skip(ctx, asked))
	}
	return moved(l.skips.ask(ctx, asked))
}

// Cut gives up a run that took too long, or is to fail as Transient: its worker has sent the messages 1..sent, the last of them at place seq of
// the document stream, and sends no more. Semantic stores them, and passes the checkpoints among them, before the run fails. It also succeeds
// where the run is cut already. ErrFenced means that the run is over, or that it completes.
func (l *Lifecycle) Cut(ctx context.Context, try Try, sent int64, seq uint64, kind Failure, message string) error {
	message = clean(message)
	return guarded(ctx, "lifecycle.cut", func(ctx context.Context) (bool, error) {
		return l.q.Cut(ctx, dbgen.CutParams{RunID: try.Run, TryID: try.ID, Sent: sent, Seq: int64(seq), Message: message, Kind: string(kind)})
	})
}

// PostponeWhenStored is Postpone for a run that has sent something: semantic stores it first, as of Cut, whose sent and seq it has. The wait
// counts from now.
func (l *Lifecycle) PostponeWhenStored(
	ctx context.Context, try Try, sent int64, seq uint64, wait time.Duration, message string,
) error {
	message = clean(secret.Text(message))
	return guarded(ctx, "lifecycle.cut", func(ctx context.Context) (bool, error) {
		return l.q.CutToWait(ctx, dbgen.CutToWaitParams{
			RunID: try.Run, TryID: try.ID, Sent: sent, Seq: int64(seq), Message: message, Wait: wait,
		})
	})
}

// Release hands a connector back: ACTIVE, due now, its run superseded, no failure counted. One that waits to be picked up
// may be handed back by any try.
func (l *Lifecycle) Release(ctx context.Context, try Try) error {
	return l.release(ctx, dbgen.ReleaseParams{RunID: try.Run, TryID: try.ID})
}

// ReleaseAtWork is Release for a run whose work does not end: its locks are free when their ttl is over.
func (l *Lifecycle) ReleaseAtWork(ctx context.Context, try Try) error {
	return l.release(ctx, dbgen.ReleaseParams{RunID: try.Run, TryID: try.ID, KeepLocks: true})
}

func (l *Lifecycle) release(ctx context.Context, p dbgen.ReleaseParams) error {
	return guarded(ctx, "lifecycle.release", func(ctx context.Context) (bool, error) { return l.q.Release(ctx, p) })
}

// Postpone ends a run whose source has asked to wait: the connector to ACTIVE, due after that time, the run superseded, no failure
// counted. wait is taken as a second at least and a day at most. message says who asked, without the time. What the run has sent and is
// not stored is refused: see PostponeWhenStored.
func (l *Lifecycle) Postpone(ctx context.Context, try Try, wait time.Duration, message string) error {
	message = clean(secret.Text(message))
	return guarded(ctx, "lifecycle.postpone", func(ctx context.Context) (bool, error) {
		return l.q.Postpone(ctx, dbgen.PostponeParams{RunID: try.Run, TryID: try.ID, Wait: wait, Message: message})
	})
}

// Waits writes down that a run waits because its source has asked for it; `why` and lists show it. wait and message are those of
// Postpone. A wait of 0 says that the wait is over before its time.
func (l *Lifecycle) Waits(ctx context.Context, try Try, wait time.Duration, message string) error {
	message = clean(secret.Text(message))
	return guarded(ctx, "lifecycle.waits", func(ctx context.Context) (bool, error) {
		return l.q.Waits(ctx, dbgen.WaitsParams{RunID: try.Run, TryID: try.ID, Wait: wait, Message: message})
	})
}

// Fail moves a connector from SYNCING to ERROR, or to DISABLED after max_retries failures in a row.
func (l *Lifecycle) Fail(ctx context.Context, try Try, kind Failure, message string) error {
	message = clean(secret.Text(message))
	return guarded(ctx, "lifecycle.fail", func(ctx context.Context) (bool, error) {
		return l.q.Fail(ctx, dbgen.FailParams{RunID: try.Run, TryID: try.ID, Kind: string(kind), Message: message})
	})
}

// FailRefused is Fail of a Permanent failure that the service's own settings are the reason of. reach is a hash of them, in hexadecimal: a service whose settings have another one tries the
// connector again.
func (l *Lifecycle) FailRefused(ctx context.Context, try Try, message, reach string) error {
	message = clean(secret.Text(message))
	return guarded(ctx, "lifecycle.fail", func(ctx context.Context) (bool, error) {
		return l.q.FailRefused(ctx, dbgen.FailRefusedParams{RunID: try.Run, TryID: try.ID, Message: message, Reach: reach})
	})
}

// Report is what a run says of itself while it works. Done and Total are nil where it does not count.
type Report struct {
	Done, Total *int64
	// Line is its progress in words, of at most 200 characters.
	Line string
	// Warnings are what its user should know: at most 100, of at most 500 characters each; none leaves those that are written.
	Warnings []string
}

// Report writes down how far a job has come; `runs show` shows it. It is called often: the caller masks secrets, once for each text.
func (l *Lifecycle) Report(ctx context.Context, try Try, said Report) error {
	p := dbgen.ReportParams{RunID: try.Run, TryID: try.ID, Done: said.Done, Total: said.Total, Line: clean(said.Line)}
	for _, w := range said.Warnings {
		p.Warnings = append(p.Warnings, clean(w))
	}
	return guarded(ctx, "lifecycle.report", func(ctx context.Context) (bool, error) { return l.q.Report(ctx, p) })
}

// EndJob ends the run of a job: the connector to ACTIVE, planned. Without a reason it is completed, with its result, a JSON object or nil;
// with one it is skipped, because there was nothing to do. ErrFenced also means that it was written before, and the answer was lost.
func (l *Lifecycle) EndJob(ctx context.Context, try Try, result json.RawMessage, reason string) error {
	p := dbgen.EndJobParams{RunID: try.Run, TryID: try.ID, Result: result}
	if reason = clean(secret.Text(reason)); reason != "" {
		p.Reason = &reason
	}
	return guarded(ctx, "lifecycle.end_job", func(ctx context.Context) (bool, error) { return l.q.EndJob(ctx, p) })
}

// Disable switches a connector off and ends its run. ErrUnchanged where it is off already or does not exist.
func (l *Lifecycle) Disable(ctx context.Context, connectorID int32) error {
	return changed(guarded(ctx, "lifecycle.disable", func(ctx context.Context) (bool, error) {
		return l.q.Disable(ctx, connectorID)
	}))
}

// Enable switches a connector on, plans it from now and forgets its failures. ErrUnchanged where it is not
// DISABLED or does not exist.
func (l *Lifecycle) Enable(ctx context.Context, connectorID int32) error {
	return changed(guarded(ctx, "lifecycle.enable", func(ctx context.Context) (bool, error) {
		return l.q.Enable(ctx, connectorID)
	}))
}

// Cancel ends an open run for its user: the connector to ACTIVE, due next by its plan, the run superseded, no failure counted. message
// says who, for the ledger. A worker that has the run learns of it with its next heartbeat. ErrUnchanged where the run is over, or there
// is none.
func (l *Lifecycle) Cancel(ctx context.Context, run uuid.UUID, message string) error {
	message = clean(message)
	return changed(guarded(ctx, "lifecycle.cancel", func(ctx context.Context) (bool, error) {
		return l.q.Cancel(ctx, dbgen.CancelParams{RunID: run, Message: message})
	}))
}

func guarded(ctx context.Context, name string, move func(context.Context) (bool, error)) error {
	done, err := deadline.Get(ctx, name, callTimeout, move)
	return moved(done, translated(name, err))
}

func moved(done bool, err error) error {
	if err == nil && !done {
		return ErrFenced
	}
	return err
}

// translated names the move; the error of a deadline carries the name already.
func translated(name string, err error) error {
	switch {
	case err == nil || errors.Is(err, context.DeadlineExceeded):
		return err
	case postgres.Locked(err):
		return fmt.Errorf("%s: %w: %w", name, ErrHeld, err)
	}
	return fmt.Errorf("%s: %w", name, err)
}

func changed(err error) error {
	if errors.Is(err, ErrFenced) {
		return ErrUnchanged
	}
	return err
}

// clean makes text storable: valid UTF-8 without NUL, bounded.
func clean(text string) string {
	return clipped(strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", ""), maxMessageBytes)
}

func clipped(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
