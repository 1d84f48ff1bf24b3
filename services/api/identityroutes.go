package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/masks"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

func (a *API) identityRoutes() {
	register(a, identity.Me, http.MethodGet, "/me", "Show who you are", http.StatusOK, a.me)
	register(a, identity.ListTokens, http.MethodGet, "/tokens", "List your tokens", http.StatusOK, a.listTokens)
	register(a, identity.CreateToken, http.MethodPost, "/tokens", "Make a token; it is shown this once", http.StatusCreated, a.createToken)
	register(a, identity.RevokeToken, http.MethodPost, "/tokens/{id}/revoke", "End a token", http.StatusOK, a.revokeToken)
	register(a, identity.ListAudit, http.MethodGet, "/audit", "List what people have changed, the latest first", http.StatusOK, a.listAudit)
}

// Who is who makes the request.
type Who struct {
	Body struct {
		UserID  int32    `json:"user_id"`
		TokenID *int32   `json:"token_id" doc:"Null where no token of this system has said who you are, but issuer has."`
		Issuer  *string  `json:"issuer" doc:"Who calls you subject: an OpenID Connect issuer, or a proxy by a header."`
		Subject *string  `json:"subject"`
		Role    string   `json:"role" enum:"user,admin,superadmin"`
		Scopes  []string `json:"scopes"`
		Groups  []string `json:"groups"`
		Leads   []string `json:"leads" doc:"Those of the groups that you lead."`
	}
}

func (a *API) me(ctx context.Context, _ *Nothing) (*Who, error) {
	who, out := requestOf(ctx), &Who{}
	out.Body.UserID, out.Body.TokenID, out.Body.Role = who.UserID, given(who.TokenID), string(who.Role)
	out.Body.Issuer, out.Body.Subject = given(who.Issuer), given(who.Subject)
	out.Body.Scopes = []string{}
	for _, scope := range who.Scopes {
		out.Body.Scopes = append(out.Body.Scopes, string(scope))
	}
	out.Body.Groups, out.Body.Leads = append([]string{}, who.Groups...), append([]string{}, who.Leads...)
	return out, nil
}

// Token is what is shown of a token.
type Token struct {
	ID         int32      `json:"id"`
	Token      string     `json:"token,omitempty" doc:"The token itself, where it was just made. It is shown this once, and not to a request that is repeated."`
	UserID     int32      `json:"user_id"`
	Name       string     `json:"name"`
	Role       string     `json:"role" enum:"user,admin,superadmin"`
	RoleNow    *string    `json:"role_now" doc:"What it counts as now. Null: it does not, as it is over, or somebody made it for another who may not do that any more."`
	Scopes     []string   `json:"scopes"`
	CreatedAt  time.Time  `json:"created_at"`
	CreatedBy  string     `json:"created_by"`
	ExpiresAt  *time.Time `json:"expires_at"`
	RevokedAt  *time.Time `json:"revoked_at"`
	LastUsedAt *time.Time `json:"last_used_at" doc:"True to the hour."`
}

func viewToken(t dbgen.ApiToken) Token {
	return Token{
		ID: t.ID, UserID: t.UserID, Name: t.Name, Role: t.Role, RoleNow: given(t.RoleNow), Scopes: t.Scopes, CreatedAt: t.CreatedAt.UTC(), CreatedBy: t.CreatedBy,
		ExpiresAt: utc(t.ExpiresAt), RevokedAt: utc(t.RevokedAt), LastUsedAt: utc(t.LastUsedAt),
	}
}

// TokenFilter is what may be asked of a list of tokens.
type TokenFilter struct {
	UserID int64 `query:"user_id" minimum:"1" maximum:"2147483647" format:"int32" doc:"Whose; a superadmin sees everybody's."`
}

// TokenList is how tokens are asked for.
type TokenList struct {
	TokenFilter
	Paging
}

// TokenPage is one page of tokens.
type TokenPage struct {
	Body struct {
		Tokens        []Token `json:"tokens"`
		NextPageToken *string `json:"next_page_token"`
	}
}

func (a *API) listTokens(ctx context.Context, in *TokenList) (*TokenPage, error) {
	p := dbgen.ListTokensParams{UserID: given(int32(in.UserID)), Page: in.most() + 1}
	if who := requestOf(ctx); p.UserID == nil && !who.Role.AtLeast(identity.Superadmin) {
		p.UserID = &who.UserID // so that nobody else's are read
	}
	next, err := a.place(ctx, in.PageToken, in.TokenFilter, &p.After)
	if err != nil {
		return nil, err
	}
	out := &TokenPage{}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		found, err := q.ListTokens(ctx, p)
		if err != nil {
			return err
		}
		found, more := cut(found, in.most())
		out.Body.Tokens = make([]Token, len(found))
		for i, t := range found {
			out.Body.Tokens[i] = viewToken(t)
		}
		if more {
			out.Body.NextPageToken = next(found[len(found)-1].ID)
		}
		return nil
	})
	return out, err
}

// NewToken is a token that is to be made.
type NewToken struct {
	Once
	Body struct {
		UserID    int32      `json:"user_id,omitempty" minimum:"1" doc:"Whose; yours, where you do not say. Only a superadmin names another."`
		Name      string     `json:"name,omitempty" maxLength:"200" doc:"What it is for."`
		Role      string     `json:"role,omitempty" enum:"user,admin,superadmin" default:"user"`
		Scopes    []string   `json:"scopes" minItems:"1" maxItems:"4" doc:"read, operate, write, admin: of those that this token has."`
		ExpiresAt *time.Time `json:"expires_at,omitempty"`
	}
}

// OneToken is one token.
type OneToken struct {
	Body Token
}

func (a *API) createToken(ctx context.Context, in *NewToken) (*OneToken, error) {
	scopes, err := identity.ParseScopes(in.Body.Scopes)
	if err != nil {
		return nil, problem.Invalid("body.scopes", err.Error())
	}
	if in.Body.Name == sessionName {
		return nil, problem.Invalid("body.name", `"`+sessionName+`" is what sessions of browsers are called; take another name`)
	}
	secret, out := identity.NewSecret(), &OneToken{}
	p := dbgen.CreateTokenParams{UserID: in.Body.UserID, Name: in.Body.Name, Role: in.Body.Role, Sha256: secret.Hash(), ExpiresAt: in.Body.ExpiresAt}
	if p.UserID == 0 {
		p.UserID = requestOf(ctx).UserID
	}
	for _, scope := range scopes {
		p.Scopes = append(p.Scopes, string(scope))
	}
	var made int32
	err = a.once(ctx, func(ctx context.Context, q *dbgen.Queries) (string, error) {
		made, err = q.CreateToken(ctx, p)
		return strconv.Itoa(int(made)), err
	}, func(ctx context.Context, q *dbgen.Queries, done string) error {
		id, err := number(done)
		if err != nil {
			return err
		}
		found, err := q.GetToken(ctx, id)
		if out.Body = viewToken(found); id == made { // else it was shown before
			out.Body.Token = identity.Token(id, secret)
		}
		return err
	})
	return out, err
}

func (a *API) revokeToken(ctx context.Context, in *OnceByID) (*OneToken, error) {
	out := &OneToken{}
	err := a.once(ctx, func(ctx context.Context, q *dbgen.Queries) (string, error) {
		_, err := q.RevokeToken(ctx, in.number())
		if errors.Is(err, pgx.ErrNoRows) {
			err = problem.NotFound(fmt.Sprintf("token %d", in.number()))
		}
		return "", err
	}, func(ctx context.Context, q *dbgen.Queries, _ string) error {
		revoked, err := q.GetToken(ctx, in.number())
		out.Body = viewToken(revoked)
		return err
	})
	return out, err
}

// Entry is what somebody did.
type Entry struct {
	ID          int64     `json:"id"`
	At          time.Time `json:"at"`
	Source      string    `json:"source" enum:"api,console,sql" doc:"By which way."`
	Login       string    `json:"login" doc:"Who was logged in to Postgres."`
	Person      string    `json:"person"`
	UserID      *int32    `json:"user_id"`
	TokenID     *int32    `json:"token_id"`
	Issuer      *string   `json:"issuer" doc:"Who has said that it is this user, and by which name; null: a token has, or nobody."`
	Subject     *string   `json:"subject"`
	RequestID   *string   `json:"request_id"`
	Note        *string   `json:"note"`
	Action      string    `json:"action"`
	ObjectID    string    `json:"object_id"`
	ConnectorID *int32    `json:"connector_id"`
	Before      Object    `json:"before" nullable:"true" doc:"Of a change what has changed. Secrets are fingerprints."`
	After       Object    `json:"after" nullable:"true"`
}

// AuditFilter is what may be asked of the audit.
type AuditFilter struct {
	ConnectorID int64 `query:"connector_id" minimum:"1" maximum:"2147483647" format:"int32" doc:"About which connector. Only a superadmin leaves it away."`
}

// AuditList is how the audit is asked for.
type AuditList struct {
	AuditFilter
	Paging
}

// AuditPage is one page of the audit.
type AuditPage struct {
	Body struct {
		Entries       []Entry `json:"entries"`
		NextPageToken *string `json:"next_page_token" doc:"Null where there are no more. A page may have fewer entries than asked for, and a next one."`
	}
}

func shownEntry(stored []byte) Object {
	if stored == nil {
		return nil
	}
	return Object(masks.Audited(stored))
}

// boundAudit says how far a page is looked for, and whether there is more before that: of a connector's past its viewer may have seen little.
func boundAudit(ctx context.Context, q *dbgen.Queries, p *dbgen.ListAuditParams) (further bool, err error) {
	if p.ConnectorID == nil || requestOf(ctx).Role.AtLeast(identity.Superadmin) {
		return false, nil
	}
	since, err := q.AuditBack(ctx, dbgen.AuditBackParams{ConnectorID: *p.ConnectorID, Before: p.Before, Back: lookback})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	p.Since = since
	return err == nil, err
}

func (a *API) listAudit(ctx context.Context, in *AuditList) (*AuditPage, error) {
	if in.ConnectorID == 0 && !requestOf(ctx).Role.AtLeast(identity.Superadmin) {
		return nil, problem.Forbidden("The whole audit is for superadmins.", "Ask for that of a connector that you see, with connector_id.")
	}
	p := dbgen.ListAuditParams{Before: 1 << 62, ConnectorID: given(int32(in.ConnectorID))}
	next, err := a.place(ctx, in.PageToken, in.AuditFilter, &p.Before)
	if err != nil {
		return nil, err
	}
	var found []dbgen.ApiAudit
	out := &AuditPage{}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		further, err := boundAudit(ctx, q, &p)
		if err != nil {
			return err
		}
		var more bool
		found, more, err = filled(in.most(), mostBytes, func(e dbgen.ApiAudit) int { return len(e.Before) + len(e.After) }, func(rows int32, behind *dbgen.ApiAudit) ([]dbgen.ApiAudit, error) {
			if p.Page = rows; behind != nil {
				p.Before = behind.ID
			}
			return q.ListAudit(ctx, p)
		})
		if err != nil {
			return err
		}
		switch {
		case more:
			out.Body.NextPageToken = next(found[len(found)-1].ID)
		case further:
			out.Body.NextPageToken = next(p.Since + 1)
		}
		return nil
	})
	out.Body.Entries = make([]Entry, len(found))
	for i, e := range found { // masked once the connection is given back
		out.Body.Entries[i] = Entry{
			ID: e.ID, At: e.At.UTC(), Source: e.Source, Login: e.Login, Person: e.Person, UserID: e.UserID, TokenID: e.TokenID, Issuer: e.Issuer, Subject: e.Subject, RequestID: e.RequestID,
			Note: e.Note, Action: e.Action, ObjectID: e.ObjectID, ConnectorID: e.ConnectorID, Before: shownEntry(e.Before), After: shownEntry(e.After),
		}
	}
	return out, err
}
