package api

import (
	"context"
	"net/http"
	"time"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
)

func (a *API) userRoutes() {
	register(a, identity.ListUsers, http.MethodGet, "/users", "List the users whose role or groups somebody has said", http.StatusOK, a.listUsers)
	register(a, identity.ListLinks, http.MethodGet, "/users/links", "List whom issuers sign in, and as which users", http.StatusOK, a.listLinks)
	a.userWriteRoutes()
}

// User is what is said of a user.
type User struct {
	UserID int32    `json:"user_id"`
	Role   *string  `json:"role" enum:"user,admin,superadmin" doc:"Null where nobody has said what it is."`
	Groups []string `json:"groups" nullable:"false" doc:"Those that the user is in, up to 1,000."`
	Leads  []string `json:"leads" nullable:"false" doc:"Those of the groups that the user leads, up to 1,000."`
}

func viewUser(u dbgen.ListUsersRow) User {
	return User{u.UserID, given(u.Role), append([]string{}, u.Groups...), append([]string{}, u.Leads...)}
}

// UserPage is one page of users.
type UserPage struct {
	Body struct {
		Users         []User  `json:"users"`
		NextPageToken *string `json:"next_page_token" doc:"Null where there are no more. A page may have fewer users than asked for, and a next one."`
	}
}

func (a *API) listUsers(ctx context.Context, in *Paging) (*UserPage, error) {
	var at int32
	out := &UserPage{}
	next, err := a.place(ctx, in.PageToken, "users", &at)
	if err != nil {
		return nil, err
	}
	size := func(u dbgen.ListUsersRow) (n int) {
		for _, groups := range [][]string{u.Groups, u.Leads} {
			for _, group := range groups {
				n += len(group)
			}
		}
		return n
	}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		found, more, err := filled(in.most(), mostBytes, size, func(rows int32, behind *dbgen.ListUsersRow) ([]dbgen.ListUsersRow, error) {
			if behind != nil {
				at = behind.UserID
			}
			return q.ListUsers(ctx, dbgen.ListUsersParams{After: at, Page: rows})
		})
		if err != nil {
			return err
		}
		out.Body.Users = make([]User, len(found))
		for i, u := range found {
			out.Body.Users[i] = viewUser(u)
		}
		if more {
			out.Body.NextPageToken = next(found[len(found)-1].UserID)
		}
		return nil
	})
	return out, err
}

// Link is which user somebody is whom an issuer signs in.
type Link struct {
	Issuer  string     `json:"issuer" doc:"The address of the issuer, or header: and the name of a proxy's header."`
	Subject string     `json:"subject" doc:"What the issuer calls the person."`
	UserID  *int32     `json:"user_id" doc:"Null: nobody any more, until somebody links them anew."`
	MadeAt  *time.Time `json:"made_at" doc:"When the user was made at first sight; null: somebody has linked them."`
}

// linkPlace is behind which link a page begins.
type linkPlace struct {
	Issuer  string `json:"i"`
	Subject string `json:"s"`
}

// LinkFilter is what may be asked of a list of links.
type LinkFilter struct {
	UserID int64 `query:"user_id" minimum:"1" maximum:"2147483647" format:"int32" doc:"Of this user alone."`
}

// LinkList is how links are asked for.
type LinkList struct {
	LinkFilter
	LongPaging
}

// LinkPage is one page of links.
type LinkPage struct {
	Body struct {
		Links         []Link  `json:"links"`
		NextPageToken *string `json:"next_page_token"`
	}
}

func (a *API) listLinks(ctx context.Context, in *LinkList) (*LinkPage, error) {
	var at linkPlace
	out := &LinkPage{}
	next, err := a.place(ctx, in.PageToken, []any{"links", in.LinkFilter}, &at)
	if err != nil {
		return nil, err
	}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		found, err := q.ListIdentities(ctx, dbgen.ListIdentitiesParams{AfterIssuer: at.Issuer, AfterSubject: at.Subject, UserID: given(int32(in.UserID)), Page: in.most() + 1})
		if err != nil {
			return err
		}
		found, more := cut(found, in.most())
		out.Body.Links = make([]Link, len(found))
		for i, l := range found {
			out.Body.Links[i] = Link{l.Issuer, l.Subject, l.UserID, utc(l.MadeAt)}
		}
		if more {
			last := found[len(found)-1]
			out.Body.NextPageToken = next(linkPlace{last.Issuer, last.Subject})
		}
		return nil
	})
	return out, err
}
