// Package identity says who somebody is and what they may do: tokens, roles, scopes, and one table of operations. The database has the
// same rules, as the views of schema api; a test of services/api holds the two together.
package identity

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Role is how much of the system somebody looks after.
type Role string

// The roles, the least first.
const (
	User       Role = "user"
	Admin      Role = "admin"
	Superadmin Role = "superadmin"
)

// Roles are all of them, the least first.
var Roles = []Role{User, Admin, Superadmin}

// AtLeast says whether a role is another one or more.
func (r Role) AtLeast(least Role) bool { return slices.Index(Roles, r) >= slices.Index(Roles, least) }

// Scope is what a token may be used for, whatever its owner may do.
type Scope string

// The scopes. None contains another.
const (
	Read    Scope = "read"
	Operate Scope = "operate"
	Write   Scope = "write"
	// Administer is what the system itself is changed with.
	Administer Scope = "admin"
)

// Scopes are all of them.
var Scopes = []Scope{Read, Operate, Write, Administer}

// ParseRole reads a role.
func ParseRole(text string) (Role, error) {
	if !slices.Contains(Roles, Role(text)) {
		return "", fmt.Errorf("role %.40q: must be user, admin or superadmin", text)
	}
	return Role(text), nil
}

// ParseScopes reads scopes, and puts them in order.
func ParseScopes(texts []string) ([]Scope, error) {
	var given []Scope
	for _, scope := range Scopes {
		if slices.Contains(texts, string(scope)) {
			given = append(given, scope)
		}
	}
	for _, text := range texts {
		if !slices.Contains(Scopes, Scope(text)) {
			return nil, fmt.Errorf("scope %.40q: must be one of read, operate, write and admin", text)
		}
	}
	if len(given) == 0 {
		return nil, fmt.Errorf("no scope: give at least one of %s", strings.Join([]string{"read", "operate", "write", "admin"}, ", "))
	}
	return given, nil
}

// Who is who makes a request.
type Who struct {
	UserID int32
	// TokenID is 0 where no token of ours has said who it is, but Issuer, which calls them Subject.
	TokenID int32
	// IsSession says that the token is a browser's session, which was begun with another.
	IsSession       bool
	Issuer, Subject string
	Role            Role
	Scopes          []Scope
	// Groups are those that the user is in; Leads those of them that the user leads.
	Groups, Leads []string
	// SaidGroups and SaidLeads are those of them that an issuer has said; the others are written down.
	SaidGroups, SaidLeads []string
	// SaidRole is the role that an issuer has said; nil: none.
	SaidRole *string
}

// Has says whether what the request was signed in with may be used for something.
func (w Who) Has(scope Scope) bool { return slices.Contains(w.Scopes, scope) }

// HasOne says whether it may be used for one of several things.
func (w Who) HasOne(scopes []Scope) bool { return slices.ContainsFunc(scopes, w.Has) }

// ChangeGroups are the groups whose connectors the user may change.
func (w Who) ChangeGroups() []string {
	if w.Role.AtLeast(Admin) {
		return w.Groups
	}
	return w.Leads
}

// CreateGroups are the groups to which the user may add connectors.
func (w Who) CreateGroups() []string {
	if w.Role.AtLeast(Admin) {
		return w.Groups
	}
	return nil
}

// Request is what the database is told of a request: the user whom it serves, and what the audit says of it.
type Request struct {
	Who
	RequestID, Note string
}

// Setting is the value of echomind.request for a transaction.
func (r Request) Setting() string {
	text, err := json.Marshal(struct {
		UserID    int32   `json:"user_id"`
		TokenID   int32   `json:"token_id,omitempty"`
		Issuer    string  `json:"issuer,omitempty"`
		Subject   string  `json:"subject,omitempty"`
		Role      Role    `json:"role"`
		Scopes    []Scope `json:"scopes"`
		RequestID string  `json:"request_id,omitempty"`
		Note      string  `json:"note,omitempty"`
	}{
		r.UserID, r.TokenID, r.Issuer, r.Subject, r.Role, append([]Scope{}, r.Scopes...), r.RequestID, r.Note,
	})
	if err != nil {
		panic(err) // it has nothing that JSON has not
	}
	return string(text)
}

// GroupSettings are the values of echomind.groups, echomind.change_groups and echomind.create_groups. A group's name has no comma.
func (r Request) GroupSettings() (groups, change, create string) {
	return strings.Join(r.Groups, ","), strings.Join(r.ChangeGroups(), ","), strings.Join(r.CreateGroups(), ",")
}
