package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

func (a *API) userWriteRoutes() {
	const user = "/users/{user_id}"
	register(a, identity.GetUser, http.MethodGet, user, "Show a user's role and groups", http.StatusOK, a.getUser)
	register(a, identity.UpdateUser, http.MethodPatch, user, "Set a user's role and groups; what is not given stays", http.StatusOK, a.updateUser)
	register(a, identity.RemoveUser, http.MethodDelete, user, "Revoke a user's tokens, forget their role and groups, and have no issuer sign them in; their connectors stay", http.StatusOK, a.removeUser)
	register(a, identity.LinkUser, http.MethodPost, "/users/links", "Say which user somebody is whom an issuer signs in", http.StatusOK, a.linkUser)
	register(a, identity.UnlinkUser, http.MethodPost, "/users/links/remove", "Say that somebody whom an issuer signs in is no user any more", http.StatusOK, a.unlinkUser, mayBeMissing)
}

// ByUser names a user. A user need not be made: each number is one.
type ByUser struct {
	UserID int64 `path:"user_id" minimum:"1" maximum:"2147483647" format:"int32"`
}

func (b ByUser) number() int32 { return int32(b.UserID) }

// OneUser is what is said of a user, with its version.
type OneUser struct {
	ETag string `header:"ETag" doc:"Its version: If-Match of a change."`
	Body User
}

// etag is of what is said of a user: nothing else is written of one.
func (u User) etag() string {
	text, err := json.Marshal(u)
	if err != nil {
		panic(err) // texts
	}
	digest := sha256.Sum256(text)
	return `"` + hex.EncodeToString(digest[:16]) + `"`
}

func shownUser(ctx context.Context, q *dbgen.Queries, user int32) (*OneUser, error) {
	found, err := q.ListUsers(ctx, dbgen.ListUsersParams{After: user - 1, Page: 1})
	if err != nil {
		return nil, err
	}
	u := User{UserID: user, Groups: []string{}, Leads: []string{}}
	if len(found) > 0 && found[0].UserID == user {
		u = viewUser(found[0])
	}
	return &OneUser{u.etag(), u}, nil
}

func (a *API) getUser(ctx context.Context, in *ByUser) (out *OneUser, err error) {
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		out, err = shownUser(ctx, q, in.number())
		return err
	})
	return out, err
}

var groupForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// UpdateUser is what to set of a user.
type UpdateUser struct {
	ByUser
	Matching
	Body struct {
		Role   string   `json:"role,omitempty" enum:"user,admin,superadmin"`
		Member []string `json:"member,omitempty" maxItems:"1000" doc:"Groups that the user is in, and does not lead."`
		Lead   []string `json:"lead,omitempty" maxItems:"1000" doc:"Groups that the user is in and leads."`
		Leave  []string `json:"leave,omitempty" maxItems:"1000" doc:"Groups that the user is not in any more."`
	}
}

func (a *API) updateUser(ctx context.Context, in *UpdateUser) (out *OneUser, err error) {
	b := in.Body
	for field, groups := range map[string][]string{"member": b.Member, "lead": b.Lead, "leave": b.Leave} {
		for i, group := range groups {
			if !groupForm.MatchString(group) {
				return nil, problem.Invalid(fmt.Sprintf("body.%s[%d]", field, i), "must have 1 to 128 letters, digits, _ or -")
			}
		}
	}
	if b.Role == "" && len(b.Member)+len(b.Lead)+len(b.Leave) == 0 {
		return nil, problem.Invalid("body", "changes nothing; give role, member, lead or leave")
	}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		if err := in.stands(ctx, q, in.number()); err != nil {
			return err
		}
		p := dbgen.SetUserParams{UserID: in.number(), Role: given(b.Role), Member: append([]string{}, b.Member...), Lead: append([]string{}, b.Lead...), Leave: append([]string{}, b.Leave...)}
		if err := q.SetUser(ctx, p); err != nil {
			return err
		}
		if b.Role != "" && b.Role != string(identity.Superadmin) {
			if err := a.leavesSuperadmin(ctx, q, in.number()); err != nil {
				return err
			}
		}
		out, err = shownUser(ctx, q, in.number())
		return err
	})
	return out, err
}

// stands refuses a change of another version than what stands of a user, until whose end nobody else changes it through the API.
func (m Matching) stands(ctx context.Context, q *dbgen.Queries, user int32) error {
	if err := q.LockUser(ctx, user); err != nil {
		return err
	}
	found, err := shownUser(ctx, q, user)
	if err != nil {
		return err
	}
	return m.matches(found.ETag)
}

// RemoveUser is whom to remove.
type RemoveUser struct {
	ByUser
	Matching
}

// RemovedUser is what was done.
type RemovedUser struct {
	ETag string `header:"ETag" doc:"The version of what is left: If-Match of a request that goes on."`
	Body struct {
		UserID        int32 `json:"user_id"`
		TokensRevoked int64 `json:"tokens_revoked"`
		Unlinked      int64 `json:"unlinked" doc:"How many subjects of issuers are this user no more."`
		GroupsLeft    bool  `json:"groups_left" doc:"The user is removed, but of very many groups some are left: send the request again."`
	}
}

const (
	// groupsAtOnce is how many groups one transaction takes a removed user out of, removeTime after how long a request begins no other.
	groupsAtOnce = 2000
	removeTime   = 4 * time.Second
)

func (a *API) removeUser(ctx context.Context, in *RemoveUser) (*RemovedUser, error) {
	out := &RemovedUser{}
	out.Body.UserID = in.number()
	part := func(ctx context.Context, q *dbgen.Queries, goesOn bool) error {
		done, err := q.RemoveUserPart(ctx, dbgen.RemoveUserPartParams{UserID: in.number(), Most: groupsAtOnce, GoesOn: goesOn})
		if err != nil {
			return err
		}
		if !goesOn {
			out.Body.TokensRevoked, out.Body.Unlinked = done.TokensRevoked, done.Unlinked
		}
		out.Body.GroupsLeft = done.More
		return nil
	}
	until := time.Now().Add(removeTime)
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		if err := in.stands(ctx, q, in.number()); err != nil {
			return err
		}
		if err := part(ctx, q, false); err != nil {
			return err
		}
		return a.leavesSuperadmin(ctx, q, in.number())
	})
	for err == nil && out.Body.GroupsLeft && time.Now().Before(until) {
		if problem := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error { return part(ctx, q, true) }); problem != nil {
			a.log.Warn("a user is removed, and stays in some groups until the removal is asked for again", "user_id", in.number(), "err", problem)
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return out, a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		left, err := shownUser(ctx, q, in.number())
		if err == nil {
			out.ETag = left.ETag
		}
		return err
	})
}

// leavesSuperadmin refuses what was done to a user where it leaves no superadmin who could take it back. Where an issuer or a proxy says who is one, there may be others of whom nothing is known here.
func (a *API) leavesSuperadmin(ctx context.Context, q *dbgen.Queries, user int32) error {
	if a.config.SignIn.SaysSuperadmins() {
		return nil
	}
	has, err := q.HasSuperadmin(ctx, a.config.SignIn.LetsAdminister())
	if err == nil && !has {
		err = problem.Conflict(fmt.Sprintf("User %d is the last superadmin who may write users.", user),
			"Make another one first: PATCH /users/{user_id} with the role superadmin, and POST /tokens for a token of theirs with the scope admin. An operator can do it with `echomind users set` on the database.")
	}
	return err
}

// Called is whom an issuer calls by a subject.
type Called struct {
	Issuer  string `json:"issuer" minLength:"1" maxLength:"500" doc:"The address of the issuer, or header: and the name of a proxy's header in small letters."`
	Subject string `json:"subject" minLength:"1" maxLength:"255" doc:"What the issuer calls the person: the claim sub, or the header's value."`
}

func (c Called) check() error {
	for field, value := range map[string]string{"issuer": c.Issuer, "subject": c.Subject} {
		if strings.ContainsRune(value, 0) {
			return problem.Invalid("body."+field, "must be text without NUL characters")
		}
	}
	return nil
}

// LinkUser is which user somebody is. To send it again does nothing more.
type LinkUser struct {
	Body struct {
		Called
		UserID int64 `json:"user_id" minimum:"1" maximum:"2147483647" format:"int32"`
	}
}

// OneLink is which user somebody is.
type OneLink struct{ Body Link }

func (a *API) linkUser(ctx context.Context, in *LinkUser) (*OneLink, error) {
	if err := in.Body.check(); err != nil {
		return nil, err
	}
	user := int32(in.Body.UserID)
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		_, err := q.LinkIdentity(ctx, dbgen.LinkIdentityParams{Issuer: in.Body.Issuer, Subject: in.Body.Subject, UserID: &user})
		return err
	})
	return &OneLink{Link{Issuer: in.Body.Issuer, Subject: in.Body.Subject, UserID: &user}}, err
}

// UnlinkUser is who is no user any more.
type UnlinkUser struct{ Body Called }

func (a *API) unlinkUser(ctx context.Context, in *UnlinkUser) (*OneLink, error) {
	if err := in.Body.check(); err != nil {
		return nil, err
	}
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		known, err := q.LinkIdentity(ctx, dbgen.LinkIdentityParams{Issuer: in.Body.Issuer, Subject: in.Body.Subject})
		if err == nil && !known {
			err = problem.NotFound("subject of this name that the issuer signs in")
		}
		return err
	})
	return &OneLink{Link{Issuer: in.Body.Issuer, Subject: in.Body.Subject}}, err
}
