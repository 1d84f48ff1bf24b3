package page

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/echomind/sync/services/api/internal/problem"
)

type token struct {
	ID         int32      `json:"id"`
	Token      string     `json:"token"`
	UserID     int32      `json:"user_id"`
	Name       string     `json:"name"`
	Role       string     `json:"role"`
	RoleNow    *string    `json:"role_now"`
	Scopes     []string   `json:"scopes"`
	CreatedAt  time.Time  `json:"created_at"`
	CreatedBy  string     `json:"created_by"`
	ExpiresAt  *time.Time `json:"expires_at"`
	RevokedAt  *time.Time `json:"revoked_at"`
	LastUsedAt *time.Time `json:"last_used_at"`

	Made, Ends, Used *moment `json:"-"`
	State            state   `json:"-"`
	// IsOwn says that the page is shown by it.
	IsOwn bool `json:"-"`
}

type administrationView struct {
	common
	Tokens      []token
	Next, First string
	Made        *token
	Again       bool
	Roles       []string
	Scopes      []string
	Once        string
	Types       []connectorType
	Back        string
	limits
}

var roles = []string{"user", "admin", "superadmin"}

// administration are tokens, types and limits.
func (p *pages) administration(q *request) error { return q.showAdministration(nil, false) }

func (q *request) showAdministration(made *token, again bool) error {
	var tokens struct {
		Tokens []token `json:"tokens"`
		Next   *string `json:"next_page_token"`
	}
	asked := q.listed()
	if err := q.get("/tokens", asked, &tokens); err != nil {
		return err
	}
	limits, err := q.limits()
	if err != nil {
		return err
	}
	types, err := q.types()
	if err != nil {
		return err
	}
	now := time.Now()
	for i := range tokens.Tokens {
		t := &tokens.Tokens[i]
		t.Made, t.Ends, t.Used, t.IsOwn = q.zone.in(&t.CreatedAt, "UTC", now), q.zone.in(t.ExpiresAt, "UTC", now), q.zone.in(t.LastUsedAt, "UTC", now), t.ID == q.who.TokenID
		switch {
		case t.RevokedAt != nil:
			t.State = state{"disabled", "Revoked"}
		case t.ExpiresAt != nil && !t.ExpiresAt.After(now):
			t.State = state{"missed", "Ended"}
		case t.RoleNow == nil:
			t.State = state{"error", "Does not count"}
		default:
			t.State = state{"active", "Counts"}
		}
	}
	view := administrationView{common: q.common("Administration", "administration"), Tokens: tokens.Tokens, Made: made, Again: again, Once: rand.Text(), Types: types, limits: limits,
		Back: q.with("", "")}
	view.Next, view.First = q.around(asked, tokens.Next)
	view.Roles = roles[:max(1, slices.Index(roles, q.who.Role)+1)]
	for scope, has := range map[string]bool{"read": true, "operate": q.who.Operates, "write": q.who.Writes, "admin": q.who.Administers} {
		if has {
			view.Scopes = append(view.Scopes, scope)
		}
	}
	slices.SortFunc(view.Scopes, func(a, b string) int { return slices.Index(scopes, a) - slices.Index(scopes, b) })
	q.render(http.StatusOK, "administration.html", view)
	return nil
}

var scopes = []string{"read", "operate", "write", "admin"}

// createToken makes a token, and shows it this once: a form that is sent again makes no second one.
func (p *pages) createToken(q *request) error {
	if err := q.ParseForm(); err != nil {
		return problem.Invalid("form", "cannot be read")
	}
	body := map[string]any{"name": q.PostForm.Get("name"), "role": q.PostForm.Get("role"), "scopes": append([]string{}, q.PostForm["scopes"]...)}
	if user := q.PostForm.Get("user_id"); user != "" {
		number, err := numberOf(user)
		if err != nil {
			return problem.Invalid("user_id", "must be the number of a user")
		}
		body["user_id"] = number
	}
	made := &token{}
	if _, err := q.service.Ask(q.Context(), Operation{Method: http.MethodPost, Path: "/tokens", Body: body, Key: q.PostForm.Get("once")}, made); err != nil {
		return err
	}
	return q.showAdministration(made, made.Token == "")
}

// revokeToken ends a token.
func (p *pages) revokeToken(q *request) error {
	id, err := numberOf(q.PathValue("id"))
	if err != nil {
		return err
	}
	if err := q.ask(http.MethodPost, fmt.Sprintf("/tokens/%d/revoke", id), nil, nil, nil); err != nil {
		return err
	}
	q.back("/administration", "revoke")
	return nil
}

type auditView struct {
	common
	Entries     []entry
	ConnectorID string
	Next, First string
}

// audit is what people did, everywhere or to one source.
func (p *pages) audit(q *request) error {
	asked := q.listed("connector_id")
	var found struct {
		Entries []entry `json:"entries"`
		Next    *string `json:"next_page_token"`
	}
	if err := q.get("/audit", asked, &found); err != nil {
		return err
	}
	view := auditView{common: q.common("Audit", "administration"), Entries: found.Entries, ConnectorID: asked.Get("connector_id")}
	now := time.Now()
	for i := range view.Entries {
		view.Entries[i].Moment = q.zone.in(&view.Entries[i].At, "UTC", now)
	}
	view.Next, view.First = q.around(asked, found.Next)
	q.render(http.StatusOK, "audit.html", view)
	return nil
}
