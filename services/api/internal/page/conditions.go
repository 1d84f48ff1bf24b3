package page

import (
	"net/http"
	"net/url"
	"time"
)

// condition is a question that is asked before a job runs.
type condition struct {
	Name       string    `json:"name"`
	Query      *string   `json:"query"`
	UserIDs    []int32   `json:"user_ids"`
	TimeoutMS  int32     `json:"timeout_ms"`
	Connectors int64     `json:"connectors"`
	UpdatedAt  time.Time `json:"updated_at"`
	UpdatedBy  *string   `json:"updated_by"`

	Changed *moment `json:"-"`
}

// Timeout is how long it may take for one job.
func (c condition) Timeout() string { return (time.Duration(c.TimeoutMS) * time.Millisecond).String() }

type conditionsView struct {
	common
	Conditions  []condition
	Next, First string
	One         *condition
}

// conditions are those that jobs may name, for admins.
func (p *pages) conditions(q *request) error {
	var found struct {
		Conditions []condition `json:"conditions"`
		Next       *string     `json:"next_page_token"`
	}
	asked := q.listed()
	if err := q.get("/conditions", asked, &found); err != nil {
		return err
	}
	view := conditionsView{common: q.common("Conditions", "administration"), Conditions: found.Conditions}
	view.Next, view.First = q.around(asked, found.Next)
	q.showConditions(view)
	return nil
}

// condition is one of them, with what it asks for superadmins.
func (p *pages) condition(q *request) error {
	view := conditionsView{Conditions: make([]condition, 1)}
	view.One = &view.Conditions[0]
	if err := q.get("/conditions/"+url.PathEscape(q.PathValue("name")), nil, view.One); err != nil {
		return err
	}
	view.common = q.common("Condition "+view.One.Name, "administration")
	q.showConditions(view)
	return nil
}

func (q *request) showConditions(view conditionsView) {
	now := time.Now()
	for i := range view.Conditions {
		c := &view.Conditions[i]
		c.Changed = q.zone.in(&c.UpdatedAt, "UTC", now)
	}
	q.render(http.StatusOK, "conditions.html", view)
}
