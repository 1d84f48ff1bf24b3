package page

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/echomind/sync/services/api/internal/problem"
)

// blackout is a time in which no run of some sources begins.
type blackout struct {
	Name             string     `json:"name"`
	Calendar         string     `json:"calendar"`
	UserID           *int32     `json:"user_id"`
	Type             *string    `json:"type"`
	Provider         *string    `json:"provider"`
	ExceptConnectors []int32    `json:"except_connectors"`
	Mode             string     `json:"mode"`
	SpreadMinutes    int32      `json:"spread_minutes"`
	Stands           bool       `json:"stands"`
	Until            *time.Time `json:"until"`
	Problem          *string    `json:"problem"`
	Held             *int64     `json:"held"`
	UpdatedAt        time.Time  `json:"updated_at"`
	UpdatedBy        *string    `json:"updated_by"`

	Ends, Changed *moment `json:"-"`
}

// State says whether it holds now.
func (b blackout) State() state {
	switch {
	case b.Problem != nil:
		return state{"error", "Cannot be read"}
	case b.Stands:
		return state{"pending", "Holds now"}
	}
	return state{"disabled", "Does not hold now"}
}

// Whom says which sources it holds.
func (b blackout) Whom() string {
	words := "all sources"
	if b.Type != nil {
		words = "sources of type " + *b.Type
	}
	if b.Provider != nil {
		words += " at " + *b.Provider
	}
	if b.UserID != nil {
		words += " of user " + strconv.Itoa(int(*b.UserID))
	}
	return words
}

// Slots says what becomes of slots within it.
func (b blackout) Slots() string {
	if b.Mode == "skip" {
		return "are skipped"
	}
	if b.SpreadMinutes == 0 {
		return "wait for its end, and begin then"
	}
	return "wait for its end, and begin within " + spanOf(b.SpreadMinutes)
}

// Excepted are the numbers of the sources that it does not hold, as a form has them.
func (b blackout) Excepted() string {
	var all []string
	for _, id := range b.ExceptConnectors {
		all = append(all, strconv.Itoa(int(id)))
	}
	return strings.Join(all, ", ")
}

// Text is a value that may not be there.
func (b blackout) Text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

type blackoutsView struct {
	common
	Blackouts   []blackout
	Next, First string
	MayPlan     bool
	// One is the window that the page is of; nil: it is the list, and its form adds one.
	One   *blackout
	Tag   string
	Types []connectorType
}

// blackouts are the windows that may hold sources of whom the page serves.
func (p *pages) blackouts(q *request) error {
	var found struct {
		Blackouts []blackout `json:"blackouts"`
		Next      *string    `json:"next_page_token"`
	}
	asked := q.listed()
	if err := q.get("/blackouts", asked, &found); err != nil {
		return err
	}
	view := blackoutsView{common: q.common("Blackout windows", "administration"), Blackouts: found.Blackouts}
	view.Next, view.First = q.around(asked, found.Next)
	return q.showBlackouts(view)
}

// blackout is one of them.
func (p *pages) blackout(q *request) (err error) {
	view := blackoutsView{Blackouts: make([]blackout, 1)}
	if view.Tag, err = q.versioned(blackoutPath(q), &view.Blackouts[0]); err != nil {
		return err
	}
	view.One = &view.Blackouts[0]
	view.common = q.common("Blackout window "+view.One.Name, "administration")
	return q.showBlackouts(view)
}

func (q *request) showBlackouts(view blackoutsView) (err error) {
	now := time.Now()
	for i := range view.Blackouts {
		b := &view.Blackouts[i]
		b.Ends, b.Changed = q.zone.in(b.Until, "UTC", now), q.zone.in(&b.UpdatedAt, "UTC", now)
	}
	if view.MayPlan = q.who.mayPlan(); view.MayPlan {
		if view.Types, err = q.types(); err != nil {
			return err
		}
		if one := view.One; one != nil && one.Type != nil && !slices.ContainsFunc(view.Types, func(t connectorType) bool { return t.Name == *one.Type }) {
			view.Types = append(view.Types, connectorType{Name: *one.Type}) // the list is bounded, and the form says again what the window has
		}
	}
	q.render(http.StatusOK, "blackouts.html", view)
	return nil
}

func blackoutPath(q *request) string { return "/blackouts/" + url.PathEscape(q.PathValue("name")) }

// addBlackout adds a window, and changeBlackout replaces what the one says that the form has shown.
func (p *pages) addBlackout(q *request) error {
	return q.putBlackout(Operation{Path: "/blackouts/" + url.PathEscape(strings.TrimSpace(q.PostFormValue("name"))), IfNoneMatch: "*"})
}

func (p *pages) changeBlackout(q *request) error {
	return q.putBlackout(Operation{Path: blackoutPath(q), IfMatch: q.PostFormValue("version")})
}

func (q *request) putBlackout(asked Operation) error {
	value := func(name string) string { return strings.TrimSpace(q.PostFormValue(name)) }
	body := map[string]any{"calendar": value("calendar"), "mode": value("mode")}
	for _, name := range []string{"type", "provider"} {
		if text := value(name); text != "" {
			body[name] = text
		}
	}
	for _, name := range []string{"user_id", "spread_minutes"} {
		if text := value(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				return problem.Invalid(name, "must be a number, or empty")
			}
			body[name] = n
		}
	}
	var except []int32
	for text := range strings.FieldsFuncSeq(value("except_connectors"), func(r rune) bool { return r == ',' || r == ' ' }) {
		id, err := numberOf(text)
		if err != nil {
			return problem.Invalid("except_connectors", "must be numbers of sources, with commas between them")
		}
		except = append(except, id)
	}
	if except != nil {
		body["except_connectors"] = except
	}
	asked.Method, asked.Body, asked.Note = http.MethodPut, body, q.PostFormValue("note")
	if _, err := q.service.Ask(q.Context(), asked, nil); err != nil {
		return err
	}
	q.back(asked.Path, "blackout")
	return nil
}

// deleteBlackout deletes the version of a window that the form has shown.
func (p *pages) deleteBlackout(q *request) error {
	if _, err := q.service.Ask(q.Context(), Operation{Method: http.MethodDelete, Path: blackoutPath(q), IfMatch: q.PostFormValue("version"), Note: q.PostFormValue("note")}, nil); err != nil {
		return err
	}
	q.back("/blackouts", "unblackout")
	return nil
}
