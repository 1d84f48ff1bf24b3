package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

func (a *API) conditionRoutes() {
	register(a, identity.ListConditions, http.MethodGet, "/conditions", "List the conditions that jobs may name", http.StatusOK, a.listConditions)
	register(a, identity.GetCondition, http.MethodGet, "/conditions/{name}", "Show a condition that jobs may name", http.StatusOK, a.getCondition, mayBeMissing)
}

// Condition is a question that is asked before a job runs.
type Condition struct {
	Name       string    `json:"name"`
	Query      *string   `json:"query" doc:"What it asks the database; null for who is no superadmin."`
	UserIDs    []int32   `json:"user_ids" nullable:"true" doc:"Whose jobs may name it; null = everybody's."`
	TimeoutMS  int32     `json:"timeout_ms" doc:"How long it may take for one job."`
	Connectors int64     `json:"connectors" doc:"How many name it, up to 10,000."`
	CreatedAt  time.Time `json:"created_at"`
	CreatedBy  *string   `json:"created_by"`
	UpdatedAt  time.Time `json:"updated_at"`
	UpdatedBy  *string   `json:"updated_by"`
}

// ConditionPage is one page of conditions.
type ConditionPage struct {
	Body struct {
		Conditions    []Condition `json:"conditions"`
		NextPageToken *string     `json:"next_page_token"`
	}
}

func (a *API) listConditions(ctx context.Context, in *Paging) (*ConditionPage, error) {
	at, out := "", &ConditionPage{}
	next, err := a.place(ctx, in.PageToken, "conditions", &at)
	if err != nil {
		return nil, err
	}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		size := func(c dbgen.ApiCondition) int { return 4*len(c.UserIds) + len(text(c.Query)) }
		found, more, err := filled(in.most(), mostBytes, size, func(rows int32, behind *dbgen.ApiCondition) ([]dbgen.ApiCondition, error) {
			if behind != nil {
				at = behind.Name
			}
			return q.ListConditions(ctx, dbgen.ListConditionsParams{After: at, Page: rows})
		})
		if err != nil {
			return err
		}
		out.Body.Conditions = make([]Condition, len(found))
		for i, c := range found {
			out.Body.Conditions[i] = viewCondition(c)
		}
		if more {
			out.Body.NextPageToken = next(found[len(found)-1].Name)
		}
		return nil
	})
	return out, err
}

func viewCondition(c dbgen.ApiCondition) Condition {
	return Condition{c.Name, c.Query, c.UserIds, c.TimeoutMs, c.Connectors, c.CreatedAt.UTC(), c.CreatedBy, c.UpdatedAt.UTC(), c.UpdatedBy}
}

// OneCondition is one of them.
type OneCondition struct{ Body Condition }

func (a *API) getCondition(ctx context.Context, in *Named) (*OneCondition, error) {
	out := &OneCondition{}
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		found, err := q.GetCondition(ctx, in.Name)
		if errors.Is(err, pgx.ErrNoRows) {
			return problem.NotFound(fmt.Sprintf("condition %q", in.Name))
		}
		out.Body = viewCondition(found)
		return err
	})
	return out, err
}

// text is a text that may be missing.
func text(of *string) string {
	if of == nil {
		return ""
	}
	return *of
}
