package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

func (a *API) operationRoutes() {
	register(a, identity.PreviewOperation, http.MethodPost, "/operations/preview", "Count the connectors that an operation would be done to; nothing is changed", http.StatusOK, a.previewOperation)
	register(a, identity.CreateOperation, http.MethodPost, "/operations", "Sync, enable, disable or delete all connectors that match a filter", http.StatusAccepted, a.createOperation)
	register(a, identity.ListOperations, http.MethodGet, "/operations", "List your operations, the latest first", http.StatusOK, a.listOperations)
	register(a, identity.GetOperation, http.MethodGet, "/operations/{id}", "Show how far an operation has come", http.StatusOK, a.getOperation, mayBeMissing)
	register(a, identity.OperationResults, http.MethodGet, "/operations/{id}/results", "List the connectors that an operation has not changed, with the reason, by number", http.StatusOK, a.operationResults, mayBeMissing)
	register(a, identity.CancelOperation, http.MethodPost, "/operations/{id}/cancel", "End an operation; what it has done stays done", http.StatusOK, a.cancelOperation, mayBeMissing)
}

// OperationFilter is which connectors an operation is for: what the list of connectors takes.
type OperationFilter struct {
	Name    string `json:"name,omitempty" maxLength:"200" doc:"Whose name has this in it, in capitals or not."`
	Type    string `json:"type,omitempty" maxLength:"63"`
	Status  string `json:"status,omitempty" enum:"PENDING,SYNCING,ACTIVE,ERROR,DISABLED"`
	UserID  int32  `json:"user_id,omitempty" minimum:"1" doc:"Whose."`
	Scope   string `json:"scope,omitempty" enum:"user,group,org,system"`
	ScopeID string `json:"scope_id,omitempty" maxLength:"128"`
	Late    bool   `json:"late,omitempty" doc:"Only those that are older than fresh_within_minutes says."`
}

// OperationRequest is what to do, and to which.
type OperationRequest struct {
	Action string          `json:"action" enum:"sync,enable,disable,delete"`
	Filter OperationFilter `json:"filter" doc:"All that match and that you may change. Empty: all that you may change."`
}

// single is the operation on one connector that is done to each.
var single = map[string]identity.Operation{
	"sync": identity.SyncConnector, "enable": identity.EnableConnector, "disable": identity.DisableConnector, "delete": identity.DeleteConnector,
}

// check refuses what the token is not for, and what matches nothing for its form.
func (r OperationRequest) check(ctx context.Context) error {
	if scope := identity.RuleOf(single[r.Action]).Scope; !requestOf(ctx).Has(scope) {
		return problem.InsufficientScope(string(scope))
	}
	for field, value := range map[string]string{"name": r.Filter.Name, "type": r.Filter.Type, "scope_id": r.Filter.ScopeID} {
		if strings.ContainsRune(value, 0) {
			return problem.Invalid("body.filter."+field, "must be text without NUL characters")
		}
	}
	return nil
}

// ConnectorName is a connector by number and name.
type ConnectorName struct {
	ID   int32  `json:"id"`
	Name string `json:"name"`
}

// OperationPreview is what an operation would be done to.
type OperationPreview struct {
	Body struct {
		OperationRequest
		Matched      int32           `json:"matched" doc:"How many match that you may change."`
		LeftOut      int32           `json:"left_out" doc:"How many match that you see and may not change: they are left out. Counted up to what one operation takes, and as far as there is time."`
		AtLeast      bool            `json:"at_least" doc:"There are more than one operation takes, or than could be counted in time: narrow the filter."`
		Examples     []ConnectorName `json:"examples" doc:"The first of those that match."`
		Confirm      *string         `json:"confirm" doc:"What POST /operations takes, of the same action and filter; null where nothing matches, or too much."`
		ConfirmUntil *time.Time      `json:"confirm_until"`
	}
}

// PreviewOperation asks what an operation would be done to.
type PreviewOperation struct {
	Body OperationRequest
}

// mostExamples is how many of what matches a preview names.
const mostExamples = 5

func (a *API) previewOperation(ctx context.Context, in *PreviewOperation) (*OperationPreview, error) {
	if err := in.Body.check(ctx); err != nil {
		return nil, err
	}
	leave, err := a.turnToMatch(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	out := &OperationPreview{}
	out.Body.OperationRequest = in.Body
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		found, err := a.bulk.matching(ctx, q, in.Body.Filter)
		if err != nil {
			return err
		}
		names, err := q.ConnectorNames(ctx, found.ids[:min(len(found.ids), mostExamples)])
		if err != nil {
			return err
		}
		slices.SortFunc(names, func(a, b dbgen.ConnectorNamesRow) int { return cmp.Compare(a.ID, b.ID) })
		out.Body.Examples = make([]ConnectorName, len(names))
		for i, n := range names {
			out.Body.Examples[i] = ConnectorName(n)
		}
		out.Body.Matched, out.Body.LeftOut, out.Body.AtLeast = int32(len(found.ids)), found.leftOut, found.more
		if found.more || len(found.ids) == 0 {
			out.Body.Confirm, out.Body.ConfirmUntil = nil, nil
			return nil
		}
		now, err := q.Now(ctx)
		if err != nil {
			return err
		}
		until := now.Add(confirmTime).UTC()
		out.Body.ConfirmUntil = &until
		out.Body.Confirm, err = a.confirming(ctx, in.Body, confirmed{len(found.ids), until, which(in.Body, found)})
		return err
	})
	return out, err
}

// Operation is one action on many connectors.
type Operation struct {
	ID        int32           `json:"id"`
	Action    string          `json:"action" enum:"sync,enable,disable,delete,replay,drop"`
	Filter    OperationFilter `json:"filter"`
	Letters   *LettersFilter  `json:"letters,omitempty" doc:"Of replay and drop: which dead letters. Its numbers are of letters then."`
	UserID    int32           `json:"user_id" doc:"Who asked for it."`
	State     string          `json:"state" enum:"waiting,running,completed,cancelled,failed" doc:"completed: it has come to each; results says what came of those that it did not change."`
	Matched   int32           `json:"matched" doc:"How many connectors it is for. Of letters: how many there were, of any filter, when it was asked for."`
	LeftOut   int32           `json:"left_out" doc:"How many matched that its user might not change."`
	Done      int32           `json:"done" doc:"To how many it has come."`
	Changed   int32           `json:"changed"`
	Unchanged int32           `json:"unchanged" doc:"Those that stood so already."`
	Skipped   int32           `json:"skipped" doc:"Those that were gone, matched no more, or that its user might not change any more. Of letters: about how many the filter leaves out."`
	Failed    int32           `json:"failed" doc:"Of letters: those that stay."`
	Unbegun   int32           `json:"unbegun" doc:"Of sync and enable: connectors that are due by it and that no worker had begun when it last looked. It goes on while these are fewer than 100."`
	CreatedAt time.Time       `json:"created_at"`
	BeganAt   *time.Time      `json:"began_at"`
	EndedAt   *time.Time      `json:"ended_at"`
	Error     *string         `json:"error" doc:"Why it failed."`
}

func viewOperation(o dbgen.GetOperationRow) (Operation, error) {
	out := Operation{
		ID: o.ID, Action: o.Action, UserID: o.UserID, State: o.State, Matched: o.Matched, LeftOut: o.LeftOut, Done: o.Changed + o.Unchanged + o.Skipped + o.Failed,
		Changed: o.Changed, Unchanged: o.Unchanged, Skipped: o.Skipped, Failed: o.Failed, Unbegun: o.Unbegun,
		CreatedAt: o.CreatedAt.UTC(), BeganAt: utc(o.BeganAt), EndedAt: utc(o.EndedAt), Error: o.Error,
	}
	var of storedFilter
	err := json.Unmarshal(o.Filter, &of)
	out.Filter, out.Letters = of.OperationFilter, of.Letters
	return out, err
}

// OneOperation is one of them.
type OneOperation struct {
	Location string `header:"Location" doc:"Where it is shown."`
	Body     Operation
}

func seenOperation(ctx context.Context, q *dbgen.Queries, id int32) (*OneOperation, error) {
	found, err := q.GetOperation(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, problem.NotFound(fmt.Sprintf("operation %d", id))
	}
	if err != nil {
		return nil, err
	}
	out := &OneOperation{Location: fmt.Sprintf("%s/operations/%d", base, id)}
	out.Body, err = viewOperation(found)
	return out, err
}

// CreateOperation is what to do, as it was previewed.
type CreateOperation struct {
	Once
	Body struct {
		OperationRequest
		Confirm string `json:"confirm" minLength:"1" maxLength:"1000" doc:"That of a preview of the same action and filter, of the last 15 minutes."`
	}
}

func (a *API) createOperation(ctx context.Context, in *CreateOperation) (out *OneOperation, err error) {
	if err := in.Body.check(ctx); err != nil {
		return nil, err
	}
	leave, err := a.turnToMatch(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	err = a.once(ctx, func(ctx context.Context, q *dbgen.Queries) (string, error) {
		found, err := a.confirmed(ctx, q, in.Body.OperationRequest, in.Body.Confirm)
		if err != nil {
			return "", err
		}
		id, err := begun(ctx, q, in.Body.OperationRequest, found)
		return strconv.Itoa(int(id)), err
	}, func(ctx context.Context, q *dbgen.Queries, done string) error {
		id, err := number(done)
		if err == nil {
			out, err = seenOperation(ctx, q, id)
		}
		return err
	})
	a.bulk.wake()
	return out, err
}

// begun writes an operation down.
func begun(ctx context.Context, q *dbgen.Queries, r OperationRequest, found matched) (int32, error) {
	filter, err := json.Marshal(r.Filter)
	if err != nil {
		return 0, err
	}
	p := dbgen.CreateOperationParams{Action: r.Action, Filter: filter, Ids: found.ids, LeftOut: found.leftOut, Groups: []string{}, Leads: []string{}, Size: batchRows}
	who := requestOf(ctx).Who // the groups that are written down are looked up with each batch
	p.Groups, p.Leads = append(p.Groups, who.SaidGroups...), append(p.Leads, who.SaidLeads...)
	return q.CreateOperation(ctx, p)
}

// OperationPage is one page of operations.
type OperationPage struct {
	Body struct {
		Operations    []Operation `json:"operations"`
		NextPageToken *string     `json:"next_page_token"`
	}
}

func (a *API) listOperations(ctx context.Context, in *Paging) (*OperationPage, error) {
	p, out := dbgen.ListOperationsParams{Before: math.MaxInt32, Page: in.most() + 1}, &OperationPage{}
	next, err := a.place(ctx, in.PageToken, "operations", &p.Before)
	if err != nil {
		return nil, err
	}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		found, err := q.ListOperations(ctx, p)
		if err != nil {
			return err
		}
		found, more := cut(found, in.most())
		out.Body.Operations = make([]Operation, len(found))
		for i, o := range found {
			if out.Body.Operations[i], err = viewOperation(dbgen.GetOperationRow(o)); err != nil {
				return err
			}
		}
		if more {
			out.Body.NextPageToken = next(found[len(found)-1].ID)
		}
		return nil
	})
	return out, err
}

func (a *API) getOperation(ctx context.Context, in *ByID) (out *OneOperation, err error) {
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		out, err = seenOperation(ctx, q, in.number())
		return err
	})
	return out, err
}

// OperationResult is what came of one connector that was not changed.
type OperationResult struct {
	ConnectorID int32     `json:"connector_id" doc:"Of dead letters: whose letters stay; 0 are those that name none."`
	Name        *string   `json:"name" doc:"Null where it is gone, or you do not see it."`
	Result      string    `json:"result" enum:"skipped,failed"`
	Reason      string    `json:"reason"`
	At          time.Time `json:"at"`
}

// ListResults is which results are asked for.
type ListResults struct {
	ByID
	Paging
	Result string `query:"result" enum:"skipped,failed"`
}

// ResultPage is one page of results.
type ResultPage struct {
	Body struct {
		Results       []OperationResult `json:"results" doc:"Of the first 10,000 that were not changed. Those that stood so already are not among them; those that were changed are in the audit, with the request id operation/ and its number."`
		NextPageToken *string           `json:"next_page_token"`
	}
}

func (a *API) operationResults(ctx context.Context, in *ListResults) (*ResultPage, error) {
	p, out := dbgen.ListResultsParams{OperationID: in.number(), Result: given(in.Result), After: -1, Page: in.most() + 1}, &ResultPage{}
	next, err := a.place(ctx, in.PageToken, []any{"results", in.ID, in.Result}, &p.After)
	if err != nil {
		return nil, err
	}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		if _, err := seenOperation(ctx, q, in.number()); err != nil {
			return err
		}
		found, err := q.ListResults(ctx, p)
		if err != nil {
			return err
		}
		found, more := cut(found, in.most())
		if more {
			out.Body.NextPageToken = next(found[len(found)-1].ConnectorID)
		}
		out.Body.Results, err = named(ctx, q, found)
		return err
	})
	return out, err
}

// named adds the names of the connectors that the viewer sees.
func named(ctx context.Context, q *dbgen.Queries, found []dbgen.ListResultsRow) ([]OperationResult, error) {
	ids := make([]int32, len(found))
	for i, r := range found {
		ids[i] = r.ConnectorID
	}
	seen, err := q.ConnectorNames(ctx, ids)
	if err != nil {
		return nil, err
	}
	names := make(map[int32]*string, len(seen))
	for _, n := range seen {
		names[n.ID] = &n.Name
	}
	out := make([]OperationResult, len(found))
	for i, r := range found {
		out[i] = OperationResult{ConnectorID: r.ConnectorID, Name: names[r.ConnectorID], Result: r.Result, Reason: r.Reason, At: r.At.UTC()}
	}
	return out, nil
}

func (a *API) cancelOperation(ctx context.Context, in *OnceByID) (out *OneOperation, err error) {
	err = a.once(ctx, func(ctx context.Context, q *dbgen.Queries) (string, error) {
		_, err := q.CancelOperation(ctx, in.number())
		if errors.Is(err, pgx.ErrNoRows) {
			err = problem.NotFound(fmt.Sprintf("operation %d", in.number()))
		}
		return "", err
	}, func(ctx context.Context, q *dbgen.Queries, _ string) error {
		out, err = seenOperation(ctx, q, in.number())
		return err
	})
	return out, err
}
