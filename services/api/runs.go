package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

// lookback is how many open runs, how many ended ones, of all or of a connector, and how many entries of a connector's audit, one page is looked for in. Who sees few connectors may get pages that are not full.
const lookback = 5000

func (a *API) runRoutes() {
	register(a, identity.ConnectorRuns, http.MethodGet, "/connectors/{id}/runs", "List the runs of a connector, the latest first", http.StatusOK, a.connectorRuns)
	register(a, identity.ListRuns, http.MethodGet, "/runs", "List the runs of all connectors that you see: open ones, then ended ones, the latest first", http.StatusOK, a.listRuns)
	register(a, identity.GetRun, http.MethodGet, "/runs/{run}", "Show a run", http.StatusOK, a.getRun)
	register(a, identity.CancelRun, http.MethodPost, "/runs/{run}/cancel", "End an open run", http.StatusOK, a.cancelRun)
}

// RunPage is one page of runs.
type RunPage struct {
	Body struct {
		Runs          []SyncRun `json:"runs"`
		NextPageToken *string   `json:"next_page_token" doc:"Null where there are no more. A page may have fewer runs than asked for, and a next one."`
	}
}

// RunFilter is what may be asked of a list of runs.
type RunFilter struct {
	Status string `query:"status" enum:"running,completed,skipped,failed,superseded,missed"`
	Type   string `query:"type" maxLength:"63"`
	UserID int64  `query:"user_id" minimum:"1" maximum:"2147483647" format:"int32" doc:"Of connectors that are this owner's now."`
	Span
}

// Span is of when runs ended.
type Span struct {
	Since time.Time `query:"since" doc:"Only those that ended then or later, and open ones."`
	Until time.Time `query:"until" doc:"Only those that ended before; no open ones."`
}

func (s Span) check() error {
	if !s.Since.IsZero() && !s.Until.IsZero() && !s.Since.Before(s.Until) {
		return problem.Invalid("query.since", "must be before until")
	}
	return nil
}

// runPlace is behind which run a page begins: open ones come first, by number.
type runPlace struct {
	Ended bool      `json:"e"`
	At    time.Time `json:"t"`
	ID    uuid.UUID `json:"i"`
}

// beginning is later than every run.
var beginning = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// ConnectorRuns is how the runs of a connector are asked for.
type ConnectorRuns struct {
	ByID
	Status string `query:"status" enum:"running,completed,skipped,failed,superseded,missed"`
	Span
	Paging
}

func (a *API) connectorRuns(ctx context.Context, in *ConnectorRuns) (*RunPage, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	filter := []any{in.number(), in.Status} // without since and until, as in runs
	at := runPlace{At: beginning}
	next, err := a.place(ctx, in.PageToken, filter, &at)
	if err != nil {
		return nil, err
	}
	var found []dbgen.ApiRun
	var called map[int32]string
	out := &RunPage{}
	err = a.byKey(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		if sees, err := q.SeesConnector(ctx, in.number()); err != nil || !sees {
			return errors.Join(err, problem.NotFound(fmt.Sprintf("connector %d", in.number())))
		}
		var since time.Time
		var further bool
		if !in.Until.IsZero() && in.Until.Before(at.At) { // what has ended has begun
			at = runPlace{At: in.Until}
		}
		if in.Status != "" && in.Status != "running" || !in.Since.IsZero() || !in.Until.IsZero() { // there may be none among millions
			var err error
			since, further, err = lookedBack(q.RunsBackOf(ctx, dbgen.RunsBackOfParams{ConnectorID: in.number(), Before: at.At, Back: lookback}))
			if err != nil {
				return err
			}
			if since.Before(in.Since) { // a connector's runs end in the order in which they begin
				further = false
			}
		}
		var more bool
		var err error
		found, more, err = filled(in.most(), mostBytes, runBytes, func(rows int32, behind *dbgen.ApiRun) ([]dbgen.ApiRun, error) {
			if behind != nil {
				at = runPlace{At: behind.StartedAt, ID: behind.ID}
			}
			return q.RunsOf(ctx, dbgen.RunsOfParams{ConnectorID: in.number(), Since: since, Before: at.At, BeforeID: at.ID, Status: given(in.Status),
				EndedSince: given(in.Since), EndedBefore: given(in.Until), Page: rows})
		})
		switch {
		case err != nil:
			return err
		case more:
			last := found[len(found)-1]
			out.Body.NextPageToken = next(runPlace{At: last.StartedAt, ID: last.ID})
		case further: // everything down to the floor was looked at
			out.Body.NextPageToken = next(runPlace{At: since})
		}
		called, err = names(ctx, q, found...)
		return err
	})
	out.add(found, called)
	return out, err
}

// runBytes is how large what others say of a run is.
func runBytes(r dbgen.ApiRun) int {
	n := len(r.Parameters) + len(r.Result)
	for _, text := range r.Warnings {
		n += len(text)
	}
	for _, text := range []*string{r.ErrorMessage, r.WaitMessage, r.ProgressText} {
		if text != nil {
			n += len(*text)
		}
	}
	return n
}

// add masks them: outside the transaction, once the connection is given back.
func (p *RunPage) add(found []dbgen.ApiRun, called map[int32]string) {
	p.Body.Runs = make([]SyncRun, len(found))
	for i, r := range found {
		p.Body.Runs[i] = viewRun(r).named(called)
	}
}

// names are what the connectors of some runs are called, as far as the viewer sees them.
func names(ctx context.Context, q *dbgen.Queries, of ...dbgen.ApiRun) (map[int32]string, error) {
	ids := make([]int32, len(of))
	for i, r := range of {
		ids[i] = r.ConnectorID
	}
	return connectorNames(ctx, q, ids)
}

// connectorNames are what some connectors are called, as far as the viewer sees them.
func connectorNames(ctx context.Context, q *dbgen.Queries, ids []int32) (map[int32]string, error) {
	rows, err := q.ConnectorNames(ctx, slices.Compact(slices.Sorted(slices.Values(ids))))
	called := make(map[int32]string, len(rows))
	for _, r := range rows {
		called[r.ID] = r.Name
	}
	return called, err
}

func (r SyncRun) named(called map[int32]string) SyncRun {
	if name, is := called[r.ConnectorID]; is {
		r.ConnectorName = &name
	}
	return r
}

// RunList is how runs are asked for.
type RunList struct {
	RunFilter
	Paging
}

func (a *API) listRuns(ctx context.Context, in *RunList) (*RunPage, error) {
	return a.runs(ctx, in, false)
}

// runs are those of all types, or of jobs alone.
func (a *API) runs(ctx context.Context, in *RunList, jobs bool) (*RunPage, error) {
	if err := isText("type", in.Type); err != nil {
		return nil, err
	}
	at, filter := runPlace{}, []any{in.Status, in.Type, in.UserID, jobs} // since and until may be said from now, and so differ from page to page
	next, err := a.place(ctx, in.PageToken, filter, &at)
	if err != nil {
		return nil, err
	}
	var found []dbgen.ApiRun
	var behind *runPlace
	var called map[int32]string
	out := &RunPage{}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
		if found, behind, err = pageOfRuns(ctx, q, in, jobs, at); err != nil {
			return err
		}
		called, err = names(ctx, q, found...)
		return err
	})
	if behind != nil {
		out.Body.NextPageToken = next(*behind)
	}
	out.add(found, called)
	return out, err
}

// pageOfOpenRuns finds open runs behind a place, and where to go on, if there are more: by number, as they are found by nothing else without
// looking at all of them; those of the page the latest claimed first.
func pageOfOpenRuns(ctx context.Context, q *dbgen.Queries, in *RunList, jobs bool, at runPlace) (found []dbgen.ApiRun, next *runPlace, err error) {
	through, err := q.OpenRunsThrough(ctx, dbgen.OpenRunsThroughParams{After: at.ID, Look: lookback})
	further := err == nil
	if errors.Is(err, pgx.ErrNoRows) {
		through, err = uuid.Max, nil
	}
	if err != nil {
		return nil, nil, err
	}
	found, more, err := filled(in.most(), mostBytes, runBytes, func(rows int32, behind *dbgen.ApiRun) ([]dbgen.ApiRun, error) {
		if behind != nil {
			at.ID = behind.ID
		}
		return q.OpenRuns(ctx, dbgen.OpenRunsParams{After: at.ID, Through: through, Type: given(in.Type), Jobs: jobs, Owner: given(int32(in.UserID)), Page: rows})
	})
	if err != nil {
		return nil, nil, err
	}
	switch {
	case more:
		next = &runPlace{ID: found[len(found)-1].ID}
	case further:
		next = &runPlace{ID: through}
	}
	slices.SortStableFunc(found, func(a, b dbgen.ApiRun) int { return b.StartedAt.Compare(a.StartedAt) })
	return found, next, nil
}

// pageOfRuns finds runs behind a place, and where to go on: it looks at a bounded part of the ledger.
func pageOfRuns(ctx context.Context, q *dbgen.Queries, in *RunList, jobs bool, at runPlace) (found []dbgen.ApiRun, next *runPlace, err error) {
	if err := in.check(); err != nil {
		return nil, nil, err
	}
	if !at.Ended && in.Until.IsZero() && (in.Status == "" || in.Status == "running") {
		found, next, err = pageOfOpenRuns(ctx, q, in, jobs, at)
		if err != nil || next != nil {
			return found, next, err
		}
	}
	if in.Status == "running" {
		return found, nil, nil
	}
	if !at.Ended {
		at = runPlace{Ended: true, At: beginning}
	}
	if !in.Until.IsZero() && in.Until.Before(at.At) {
		at = runPlace{Ended: true, At: in.Until}
	}
	room, bytes := in.most()-int32(len(found)), mostBytes
	for _, r := range found {
		bytes -= runBytes(r)
	}
	if room == 0 || bytes < 0 { // the page is full of open ones
		return found, &at, nil
	}
	since, further, err := lookedBack(q.RunsBack(ctx, dbgen.RunsBackParams{Before: at.At, Back: lookback}))
	if err != nil {
		return nil, nil, err
	}
	if in.Since.After(since) {
		since, further = in.Since, false
	}
	ended, more, err := filled(room, bytes, runBytes, func(rows int32, behind *dbgen.ApiRun) ([]dbgen.ApiRun, error) {
		if behind != nil {
			at.At, at.ID = *behind.CompletedAt, behind.ID
		}
		return q.EndedRuns(ctx, dbgen.EndedRunsParams{
			Since: since, Before: at.At, BeforeID: at.ID, Status: given(in.Status), Type: given(in.Type), Jobs: jobs, Owner: given(int32(in.UserID)), Page: rows,
		})
	})
	if err != nil {
		return nil, nil, err
	}
	all := slices.Concat(found, ended)
	switch {
	case more:
		last := ended[len(ended)-1]
		return all, &runPlace{Ended: true, At: *last.CompletedAt, ID: last.ID}, nil
	case further: // everything down to the floor was looked at
		return all, &runPlace{Ended: true, At: since}, nil
	}
	return all, nil, nil
}

// lookedBack is since when a page is looked for, and whether there is more behind that.
func lookedBack(floor time.Time, err error) (since time.Time, further bool, _ error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, false, nil
	}
	return floor, err == nil, err
}

// ByRun names one run.
type ByRun struct {
	Run uuid.UUID `path:"run"`
}

// OneRun is one run.
type OneRun struct {
	Body SyncRun
}

func runOf(ctx context.Context, q *dbgen.Queries, id uuid.UUID) (dbgen.ApiRun, error) {
	found, err := q.GetOpenRun(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		found, err = q.GetRun(ctx, id)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return found, problem.NotFound("run " + id.String())
	}
	return found, err
}

// OnceByRun is a change of a run that is done once.
type OnceByRun struct {
	ByRun
	Once
}

func (a *API) getRun(ctx context.Context, in *ByRun) (*OneRun, error) {
	out := &OneRun{}
	err := a.byKey(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		found, err := runOf(ctx, q, in.Run)
		if err != nil {
			return err
		}
		called, err := names(ctx, q, found)
		out.Body = viewRun(found).named(called)
		return err
	})
	return out, err
}

func (a *API) cancelRun(ctx context.Context, in *OnceByRun) (*OneRun, error) {
	out := &OneRun{}
	err := a.once(ctx, func(ctx context.Context, q *dbgen.Queries) (string, error) {
		found, err := runOf(ctx, q, in.Run)
		if err != nil {
			return "", err
		}
		if _, err := locked(ctx, q, found.ConnectorID); err != nil {
			return "", err
		}
		_, err = q.Cancel(ctx, dbgen.CancelParams{ID: in.Run, Message: fmt.Sprintf("cancelled by user %d", requestOf(ctx).UserID)})
		return "", err
	}, func(ctx context.Context, q *dbgen.Queries, _ string) error {
		found, err := runOf(ctx, q, in.Run)
		if err != nil {
			return err
		}
		if found.Reason == nil || *found.Reason != "cancelled" {
			return problem.Conflict("The run has ended before: "+found.Status+".", "Cancel an open run.")
		}
		called, err := names(ctx, q, found)
		if err != nil {
			return err
		}
		out.Body = viewRun(found).named(called)
		if !requestOf(ctx).Has(identity.Read) {
			out.Body.Parameters, out.Body.Result, out.Body.Warnings, out.Body.ProgressText = nil, nil, []string{}, nil
		}
		return nil
	})
	return out, err
}
