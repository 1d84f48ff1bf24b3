package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/caught"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

const (
	// batchRows is how many connectors are changed in one transaction, which holds them up meanwhile, and batchPause how long the next one of the same operation
	// waits: 200 connectors a second at most.
	batchRows  = 50
	batchPause = 250 * time.Millisecond
	// batchTime is how long a batch goes on; the rest of it is left to the next transaction. batchTimeout bounds all of it.
	batchTime    = time.Second
	batchTimeout = 20 * time.Second
	// heldTries is how often connectors are tried that somebody else holds.
	heldTries = 5
	// operationPause is how often work is looked for, while there is none.
	operationPause = 2 * time.Second
	// keptFor is how long operations are kept that have ended, and forgetEvery how often those are looked for that are older.
	keptFor     = 7 * 24 * time.Hour
	forgetEvery = 10 * time.Minute
)

// acts are what may be done to each connector: what is done to a single one.
var acts = map[string]func(context.Context, *dbgen.Queries, int32) (changed bool, err error){
	"sync": triggered, "enable": enabled, "disable": disabled, "delete": removed,
}

// keepWorking works off operations, of connectors or of dead letters, until ctx ends.
func (a *API) keepWorking(ctx context.Context, work func(context.Context) (worked bool, err error), woken <-chan struct{}) {
	pauses, fails := repeat.Pauses{First: operationPause, Last: time.Minute}, 0
	var did time.Time
	forgotten := time.Now()
	for ctx.Err() == nil {
		var worked bool
		err := caught.Do(func() (err error) {
			worked, err = work(ctx)
			return err
		})
		if err == nil && time.Since(forgotten) > forgetEvery {
			forgotten = time.Now()
			err = a.forgetOperations(ctx)
		}
		var pause time.Duration
		switch {
		case err != nil && ctx.Err() == nil:
			fails++
			pause = pauses.Scattered(fails)
			a.log.Warn("operations are not worked on: a batch was taken back, and is tried again", "tries", fails, "err", err)
		case worked:
			fails, did = 0, time.Now()
		case time.Since(did) < operationPause: // an operation goes on when its pause is over
			fails, pause = 0, batchPause/5
		default:
			fails, pause = 0, operationPause
		}
		rest(ctx, woken, pause)
	}
}

// rest waits until something was asked for here, or for so long: other replicas tell nothing.
func rest(ctx context.Context, woken <-chan struct{}, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-woken:
	case <-timer.C:
	}
}

// forgetOperations removes those that ended long ago, a bounded number of them.
func (a *API) forgetOperations(ctx context.Context) error {
	for range 100 {
		forgotten, err := deadline.Get(ctx, "api.forget_operation", queryTimeout, func(ctx context.Context) (bool, error) {
			return dbgen.New(a.pool).ForgetOperation(ctx, keptFor)
		})
		if err != nil || !forgotten {
			return err
		}
	}
	return nil
}

// outcome is what came of a batch.
type outcome struct {
	dbgen.NoteBatchParams
	action string
}

// workBatch does the next batch of an operation, if there is one, in one transaction: what is not committed was not done, nor written down. It does so for who asked, with what
// they may now.
func (a *API) workBatch(ctx context.Context) (worked bool, err error) {
	if err := deadline.Do(ctx, "api.put_off_operations", queryTimeout, dbgen.New(a.pool).PutOffOperations); err != nil {
		return false, err
	}
	var out *outcome
	var taken dbgen.TakeBatchRow
	each := deadline.Of(statementTimeout)
	err = deadline.Do(ctx, "api.operation", batchTimeout, func(ctx context.Context) error {
		return postgres.TxBounded(ctx, a.pool, postgres.Bounds{Lock: lockTimeout, Statement: each, Idle: each}, func(tx pgx.Tx) (err error) {
			taken = dbgen.TakeBatchRow{}
			out, err = a.batch(ctx, tx, &taken)
			return err
		})
	})
	if err != nil {
		return false, errors.Join(err, a.putOff(ctx, taken))
	}
	if out == nil {
		return false, nil
	}
	failpoint.At("api.batch_noted")
	for result, n := range map[string]int{"changed": int(out.Changed), "unchanged": int(out.Unchanged), "skipped": count(out.Results, "skipped"), "failed": count(out.Results, "failed")} {
		if n > 0 {
			a.metrics.operations.WithLabelValues(out.action, result).Add(float64(n))
		}
	}
	return true, nil
}

// putOff has other operations come before one whose batch was lost.
func (a *API) putOff(ctx context.Context, taken dbgen.TakeBatchRow) error {
	if taken.Operation == 0 || ctx.Err() != nil {
		return nil
	}
	return deadline.Do(ctx, "api.put_off_batch", queryTimeout, func(ctx context.Context) error {
		return dbgen.New(a.pool).PutOffBatch(ctx, dbgen.PutOffBatchParams{Operation: taken.Operation, Batch: taken.Batch, Most: heldTries})
	})
}

func count(of []string, what string) (n int) {
	for _, s := range of {
		if s == what {
			n++
		}
	}
	return n
}

// batch takes the next batch and does it; nil: there is none.
func (a *API) batch(ctx context.Context, tx pgx.Tx, of *dbgen.TakeBatchRow) (*outcome, error) {
	q, began := dbgen.New(tx), time.Now()
	taken, err := q.TakeBatch(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	*of = taken
	request := identity.Request{
		Who: identity.Who{
			UserID: taken.UserID, TokenID: taken.TokenID, Issuer: taken.Issuer, Subject: taken.Subject, Role: identity.Role(taken.Role), Groups: taken.Groups, Leads: taken.Leads,
			Scopes: []identity.Scope{identity.RuleOf(single[taken.Action]).Scope},
		},
		RequestID: fmt.Sprintf("operation/%d", taken.Operation), Note: taken.Note,
	}
	ctx = context.WithValue(ctx, requestKey, request) // its id is one that nobody can send
	if err := postgres.Set(ctx, tx, served(request, eachTime)); err != nil {
		return nil, err
	}
	out := &outcome{action: taken.Action, NoteBatchParams: dbgen.NoteBatchParams{
		Operation: taken.Operation, Batch: taken.Batch, Ids: []int32{}, Results: []string{}, Reasons: []string{}, Rest: []int32{}, Again: []int32{}, Triggered: []int32{}, Pause: batchPause,
	}}
	locked, err := out.lock(ctx, q, taken)
	if err != nil {
		return nil, err
	}
	for i, id := range locked {
		if i > 0 && time.Since(began) > a.bulk.time {
			out.Rest = locked[i:]
			break
		}
		if err := a.actOn(ctx, tx, id, taken.Tries, out); err != nil {
			return nil, err
		}
	}
	failpoint.At("api.batch")
	return out, q.NoteBatch(ctx, out.NoteBatchParams)
}

// lock locks those of a batch that are still to be changed, and says what becomes of the others.
func (o *outcome) lock(ctx context.Context, q *dbgen.Queries, taken dbgen.TakeBatchRow) ([]int32, error) {
	var f OperationFilter
	if err := json.Unmarshal(taken.Filter, &f); err != nil {
		return nil, err
	}
	p := dbgen.LockMatchingParams{
		Ids: taken.Connectors, Name: given(f.Name), Type: given(f.Type), Status: given(f.Status), UserID: given(f.UserID), Scope: given(f.Scope), ScopeID: given(f.ScopeID), Late: f.Late,
	}
	locked, err := q.LockMatching(ctx, p)
	if err != nil || len(locked) == len(taken.Connectors) {
		return locked, err
	}
	found, err := q.StandingOf(ctx, dbgen.StandingOfParams{
		Ids: p.Ids, Name: p.Name, Type: p.Type, Status: p.Status, UserID: p.UserID, Scope: p.Scope, ScopeID: p.ScopeID, Late: p.Late,
	})
	if err != nil {
		return nil, err
	}
	standing := make(map[int32]dbgen.StandingOfRow, len(found))
	for _, s := range found {
		standing[s.ID] = s
	}
	for _, id := range taken.Connectors {
		s, seen := standing[id]
		switch {
		case slices.Contains(locked, id):
		case !seen:
			o.note(id, "skipped", "It is gone, or you do not see it any more.")
		case !s.MayChange:
			o.note(id, "skipped", "You may not change it any more.")
		case !s.Matches:
			o.note(id, "skipped", "It does not match the filter any more.")
		default:
			o.held(id, taken.Tries)
		}
	}
	return locked, nil
}

func (o *outcome) note(id int32, result, reason string) {
	o.Ids, o.Results, o.Reasons = append(o.Ids, id), append(o.Results, result), append(o.Reasons, reason)
}

// held is of a connector that somebody else holds: it is tried again, a bounded number of times.
func (o *outcome) held(id, tries int32) {
	if tries+1 < heldTries {
		o.Again = append(o.Again, id)
		return
	}
	o.note(id, "failed", fmt.Sprintf("Somebody else held it, at each of %d tries.", heldTries))
}

// actOn does to one connector what is done to each. What is refused of it is taken back, and nothing of the others.
func (a *API) actOn(ctx context.Context, tx pgx.Tx, id, tries int32, out *outcome) error {
	var changed bool
	err := pgx.BeginFunc(ctx, tx, func(part pgx.Tx) (err error) {
		changed, err = acts[out.action](ctx, dbgen.New(part), id)
		return err
	})
	switch {
	case err == nil && !changed:
		out.Unchanged++
	case err == nil:
		out.Changed++
		if out.action == "sync" || out.action == "enable" { // either is due at once
			out.Triggered = append(out.Triggered, id)
		}
	case ctx.Err() != nil || postgres.Lost(err):
		return err
	case postgres.Locked(err) || postgres.Unavailable(err): // too slow, or in a deadlock: nothing is wrong with it
		out.held(id, tries)
	default:
		p := problem.Of(err)
		if p.Status == http.StatusInternalServerError {
			a.log.Error("an operation could not change a connector, by a defect", "operation", out.Operation, "connector", id, "err", err)
		}
		out.note(id, "failed", reasonOf(p))
	}
	return nil
}

// reasonOf says in a sentence or two what is wrong.
func reasonOf(p *problem.Problem) string {
	reason := p.Detail
	for _, field := range p.Errors {
		reason += " " + field.Field + " " + field.Detail + "."
	}
	return reason
}
