//go:build !race

// One thing after another for minutes: there is no race to find.

package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
)

// The one table of who may do what, on real connectors: every operation, role, standing and ownership.
func TestEveryOperationIsForWhomTheTableSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.eachOperation([]identity.Ownership{
		{UserID: 7, Scope: "user"}, {UserID: 8, Scope: "user"}, {UserID: 8, Scope: "group", GroupID: "g"}, {UserID: 7, Scope: "group", GroupID: "h"},
		{UserID: 8, Scope: "org"}, {UserID: 7, Scope: "user", System: true}, {UserID: 8, Scope: "org", System: true},
		{Scope: "system", System: true},
	}, func(s standing) caller {
		w.exec(`DELETE FROM group_members`)
		if s.member {
			w.exec(`INSERT INTO group_members VALUES (7, 'g', $1)`, s.leader)
		}
		return w.as(7, s.role)
	})
}

// The same of users whom an issuer has signed in: it says their role and what they lead; group_members says where they are members. What else a connector may be has no
// more to do with where role and groups come from.
func TestEveryOperationIsForWhomTheTableSaysOfThoseWhomAnIssuerHasSignedIn(t *testing.T) {
	t.Parallel()
	w, p := believing(t, func(c *api.Config) {
		c.SignIn.RolesClaim, c.SignIn.GroupsClaim = "roles", "groups"
		c.SignIn.Admins, c.SignIn.Superadmins, c.SignIn.Leads = []string{"admin"}, []string{"superadmin"}, []string{"leaders=g"}
	})
	w.link(7, p.server.URL, "alice")
	w.eachOperation([]identity.Ownership{
		{UserID: 8, Scope: "user"}, {UserID: 8, Scope: "group", GroupID: "g"}, {UserID: 8, Scope: "org", System: true},
	}, func(s standing) caller {
		w.exec(`DELETE FROM group_members`)
		if s.member {
			w.exec(`INSERT INTO group_members VALUES (7, 'g', false)`)
		}
		return caller{w, p.gives("alice", map[string]any{"roles": []string{string(s.role)}, "groups": map[bool][]string{true: {"leaders"}}[s.leader]})}
	})
}

// eachOperation does every operation on what is owned so, as each standing of user 7.
func (w *world) eachOperation(owned []identity.Ownership, as func(standing) caller) {
	w.Helper()
	t := w.T
	w.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	w.exec(`INSERT INTO connector_types (name, kind, system, max_concurrent_syncs) VALUES ('tidy', 'job', true, 0)`)
	tried := map[identity.Operation]int{}
	listed := map[int32]bool{}
	for _, role := range identity.Roles {
		for _, s := range []standing{{role, false, false}, {role, true, false}, {role, true, true}} {
			me := as(s)
			who := identity.Who{UserID: 7, Role: role}
			if s.member {
				who.Groups = []string{"g"}
			}
			if s.leader {
				who.Leads = []string{"g"}
			}
			for _, of := range owned {
				if s.member && !s.leader && of.GroupID == "" { // a leader is a member, too
					continue
				}
				w.eachOperationOf(of, func(operation identity.Operation, c something) (changed bool) {
					got := me.try(operation, c)
					if got == 0 {
						return false
					}
					tried[operation]++
					require.Equal(t, expected(who, operation, of), got, "%s by %+v of %+v", operation, s, of)
					if operation == identity.CreateConnector || operation == identity.DeleteConnector {
						return true
					}
					changed = got < 300 && identity.RuleOf(operation).Right == identity.ToChange
					if listed[c.id] && !changed { // the lists are as they were
						return false
					}
					listed[c.id] = true
					shown := fmt.Sprint(me.get("/connectors?page_size=20")["connectors"], me.get("/runs?page_size=20")["runs"])
					require.Equal(t, who.Sees(of), strings.Contains(shown, fmt.Sprintf(" id:%d ", c.id)) || strings.Contains(shown, fmt.Sprintf("connector_id:%d ", c.id)),
						"%+v lists %+v after %s", s, of, operation)
					return changed
				})
			}
		}
	}
	for _, operation := range identity.Operations() {
		if identity.RuleOf(operation).Right != identity.Nothing {
			require.NotZero(t, tried[operation], operation)
		}
	}
}

// eachOperationOf does what is done about one connector. The next operation finds the same one, unless it was changed.
func (w *world) eachOperationOf(of identity.Ownership, do func(identity.Operation, something) (changed bool)) {
	w.Helper()
	c := w.something(of)
	for _, operation := range identity.Operations() {
		if identity.RuleOf(operation).Right != identity.Nothing && do(operation, c) {
			w.exec(`DELETE FROM connectors`)
			c = w.something(of)
		}
	}
	w.exec(`DELETE FROM connectors`)
}

// What each page answers about a connector to each standing: what one may not see is not there, and what one may not change is not changed.
func TestEveryPageIsForWhomTheTableSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	w.exec(`INSERT INTO connector_types (name, kind, system, max_concurrent_syncs) VALUES ('tidy', 'job', true, 0)`)
	for _, role := range identity.Roles {
		for _, s := range []standing{{role, false, false}, {role, true, false}, {role, true, true}} {
			w.exec(`DELETE FROM group_members`)
			who := identity.Who{UserID: 7, Role: role}
			if s.member {
				w.exec(`INSERT INTO group_members VALUES (7, 'g', $1)`, s.leader)
				who.Groups = []string{"g"}
			}
			if s.leader {
				who.Leads = []string{"g"}
			}
			b := w.as(7, s.role).signedIn()
			b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // where a change leads to is not what is looked at
			for _, of := range []identity.Ownership{
				{UserID: 7, Scope: "user"}, {UserID: 8, Scope: "user"}, {UserID: 8, Scope: "group", GroupID: "g"}, {UserID: 7, Scope: "group", GroupID: "h"},
				{UserID: 8, Scope: "org"}, {UserID: 8, Scope: "org", System: true},
				{Scope: "system", System: true},
			} {
				c := w.something(of)
				for operation, asked := range map[identity.Operation][]string{
					identity.GetConnector: {"GET", "/sources/%d"}, identity.PreviewSchedule: {"GET", "/sources/%d/schedule"},
					identity.UpdateConnector: {"POST", "/sources/%d/schedule"}, identity.SyncConnector: {"POST", "/sources/%d/sync"}, identity.DisableConnector: {"POST", "/sources/%d/disable"},
					identity.EnableConnector: {"POST", "/sources/%d/enable"}, identity.MakeBadge: {"POST", "/sources/%d/badge"}, identity.RevokeBadge: {"POST", "/sources/%d/badge/revoke"},
				} {
					want := expected(who, operation, of)
					page := b.do(asked[0], fmt.Sprintf(asked[1], c.id), url.Values{"refresh_freq_minutes": {"77"}})
					if page.status == http.StatusSeeOther {
						page.status = http.StatusOK
					}
					if want < 300 {
						want = http.StatusOK
					}
					require.Equal(t, want, page.status, "%s by %+v of %+v: %s", operation, s, of, page.text)
				}
				require.Equal(t, who.Sees(of), strings.Contains(b.get("/").text, fmt.Sprintf(`"/sources/%d"`, c.id)), "%+v lists %+v", s, of)
				w.exec(`DELETE FROM connectors`)
			}
		}
	}
}
