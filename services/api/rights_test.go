//go:build !race

package api_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/testonly/movestest"
)

func TestATokenIsForItsScopesAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.something(identity.Ownership{UserID: 7, Scope: "user"})
	for _, scope := range identity.Scopes {
		me := w.as(7, identity.User, scope)
		for _, operation := range []identity.Operation{identity.GetConnector, identity.ConnectorRuns, identity.GetRun, identity.UpdateConnector, identity.SyncConnector} {
			got := me.try(operation, c)
			if identity.RuleOf(operation).Scope == scope {
				require.Less(t, got, 300, "%s with %s", operation, scope)
			} else {
				require.Equal(t, http.StatusForbidden, got, "%s with %s", operation, scope)
			}
		}
	}
}

func TestNobodySignsInWithoutATokenThatCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	require.EqualValues(t, 7, me.get("/me")["user_id"])
	for _, token := range []string{"", "x", me.token[:len(me.token)-1] + map[bool]string{true: "1", false: "0"}[strings.HasSuffix(me.token, "0")], identity.Token(1, identity.NewSecret()), identity.Token(99, identity.NewSecret())} {
		r := caller{w, token}.do("GET", "/me", nil)
		me.refused(401, "unauthenticated", r)
		require.Contains(t, r.header.Get("WWW-Authenticate"), "Bearer")
	}
	me.refused(401, "unauthenticated", caller{w, ""}.do("GET", "/me", nil, "Authorization", "Basic "+me.token))
	w.exec(`UPDATE access_tokens SET revoked_at = clock_timestamp()`)
	me.refused(401, "unauthenticated", me.do("GET", "/me", nil))
	me.refused(404, "not-found", me.do("GET", "/nothing", nil))
}

func TestATokenMakesNoneThatMayMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.Admin, identity.Read, identity.Write)
	made := me.do("POST", "/tokens", map[string]any{"scopes": []string{"read"}, "role": "user", "name": "mine"})
	require.Equal(t, 201, made.status, made.text)
	mine := caller{w, made.body["token"].(string)}
	require.Equal(t, "user", mine.get("/me")["role"])
	over := me.do("POST", "/tokens", map[string]any{"scopes": []string{"read"}, "expires_at": "2001-01-01T00:00:00Z"})
	me.refused(422, "invalid", over)
	require.Contains(t, over.text, "body.expires_at")
	for _, body := range []map[string]any{
		{"scopes": []string{"operate"}}, {"scopes": []string{"read"}, "role": "superadmin"}, {"scopes": []string{"read"}, "user_id": 8},
	} {
		me.refused(403, "forbidden", me.do("POST", "/tokens", body))
	}
	w.exec(`INSERT INTO users VALUES (7, 'user')`) // demoted since
	require.Equal(t, "user", me.get("/me")["role"])
	require.NotContains(t, fmt.Sprint(me.get("/tokens")), "ems_")
	other := w.as(8, identity.User)
	path := fmt.Sprintf("/tokens/%v/revoke", made.body["id"])
	me.refused(404, "not-found", other.do("POST", path, nil))
	require.NotNil(t, me.do("POST", path, nil).body["revoked_at"])
	me.refused(401, "unauthenticated", mine.do("GET", "/me", nil))
	me.refused(403, "forbidden", me.do("GET", "/audit", nil))
	require.NotEmpty(t, w.as(1, identity.Superadmin).get("/audit")["entries"])
}

// What somebody may not see any more they do not see by a token either that they made for whom it belongs to while they might.
func TestATokenForSomebodyElseCountsWhileItsMakerIsASuperadmin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	super, other := w.as(1, identity.Superadmin), w.as(2, identity.Superadmin)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id) VALUES ('private of 8', 'web', 8) RETURNING id`)
	path := fmt.Sprintf("/connectors/%d", id)
	makes := func(by caller, body map[string]any) caller {
		body["scopes"] = []string{"read", "write"}
		made := by.do("POST", "/tokens", body)
		require.Equal(t, 201, made.status, made.text)
		return caller{w, made.body["token"].(string)}
	}
	forOther := makes(super, map[string]any{"user_id": 8})
	child, own, others := makes(forOther, map[string]any{}), makes(super, map[string]any{"name": "own"}), makes(other, map[string]any{"user_id": 8})
	for _, c := range []caller{forOther, child, others} {
		require.Equal(t, 200, c.do("GET", path, nil).status)
	}
	counting := func() (all []any) {
		for _, made := range other.get("/tokens")["tokens"].([]any) {
			all = append(all, made.(map[string]any)["role_now"])
		}
		return all
	}
	require.Equal(t, []any{"superadmin", "superadmin", "user", "user", "user", "user"}, counting())
	w.exec(`INSERT INTO users VALUES (1, 'user')`) // demoted
	super.refused(404, "not-found", super.do("GET", path, nil))
	for _, c := range []caller{forOther, child} {
		c.refused(401, "unauthenticated", c.do("GET", path, nil))
		c.refused(401, "unauthenticated", c.do("DELETE", path, nil, "If-Match", "*"))
	}
	require.Equal(t, "user", own.get("/me")["role"])
	require.Equal(t, 200, others.do("GET", path, nil).status)
	require.Equal(t, []any{"user", "superadmin", nil, nil, "user", "user"}, counting())
	w.exec(`UPDATE users SET role = 'superadmin'`)
	require.Equal(t, 200, child.do("GET", path, nil).status)
}

// A finder of somebody's least token locks them out of nothing.
func TestATokenEndsNoneThatMayMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all, plain, narrow := w.as(1, identity.Superadmin), w.as(1, identity.User), w.as(1, identity.User, identity.Write)
	of := func(c caller) string { return fmt.Sprintf("/tokens/%v/revoke", c.get("/me")["token_id"]) }
	alls, plains, narrows := of(all), of(plain), fmt.Sprintf("/tokens/%d/revoke", one[int](w, `SELECT max(id) FROM access_tokens`))
	narrow.refused(403, "forbidden", narrow.do("POST", alls, nil))
	narrow.refused(403, "forbidden", narrow.do("POST", plains, nil))
	plain.refused(403, "forbidden", plain.do("POST", alls, nil))
	require.EqualValues(t, 1, all.get("/me")["user_id"])
	require.Equal(t, 200, all.do("POST", plains, nil).status)
	require.Equal(t, 200, narrow.do("POST", narrows, nil).status)
	narrow.refused(401, "unauthenticated", narrow.do("POST", narrows, nil))
	w.exec(`INSERT INTO users VALUES (1, 'user')`) // what it may now counts
	require.Equal(t, 200, w.as(1, identity.User).do("POST", alls, nil).status)
}

// A number of 33 bits names nothing, and not what its lower 32 bits name.
func TestANumberThatIsTooLargeNamesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.Superadmin)
	c := w.something(identity.Ownership{UserID: 7, Scope: "user"})
	for _, beyond := range []int64{1 << 32, 1 << 31, math.MaxInt64 - math.MaxUint32} {
		other := beyond + int64(c.id)
		for _, asked := range [][2]string{
			{"GET", "/connectors/%d"}, {"DELETE", "/connectors/%d"}, {"POST", "/connectors/%d/sync"}, {"POST", "/connectors/%d/disable"},
			{"POST", "/connectors/%d/enable"}, {"GET", "/connectors/%d/runs"}, {"POST", "/tokens/%d/revoke"}, {"GET", "/connectors?user_id=%d"},
			{"GET", "/tokens?user_id=%d"}, {"GET", "/audit?connector_id=%d"}, {"GET", "/connectors?page_size=%d"},
		} {
			me.refused(422, "invalid", me.do(asked[0], fmt.Sprintf(asked[1], other), nil, "If-Match", "*"))
		}
	}
	require.Equal(t, "PENDING", me.get(fmt.Sprintf("/connectors/%d", c.id))["status"])
}

// Who leads a group, or looks after it, changes its connectors, and takes none from its owner.
func TestAConnectorIsTakenFromItsOwnerByNobodyButASuperadmin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO group_members VALUES (7, 'g', true), (8, 'g', true), (9, 'g', true), (7, 'h', true)`)
	owner, lead, admin := w.as(9, identity.User), w.as(8, identity.User), w.as(7, identity.Admin)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id, scope, scope_id) VALUES ('x', 'web', 9, 'group', 'g') RETURNING id`)
	path := fmt.Sprintf("/connectors/%d", id)
	for user, other := range map[int]caller{8: lead, 7: admin} {
		for _, body := range []map[string]any{
			{"user_id": user}, {"scope": "user", "scope_id": nil, "user_id": user}, {"scope": "user", "scope_id": nil}, {"type": "file"}, {"scope": "org", "scope_id": nil},
			{"scope_id": "h"}, {"scope_id": "h", "user_id": user},
		} {
			other.refused(403, "forbidden", other.do("PATCH", path, body, "If-Match", "*"))
		}
		require.Equal(t, 200, other.do("PATCH", path, map[string]any{"name": "y", "user_id": 9, "scope": "group"}, "If-Match", "*").status)
	}
	owner.refused(403, "forbidden", owner.do("PATCH", path, map[string]any{"user_id": 8, "scope": "user", "scope_id": nil}, "If-Match", "*"))
	w.exec(`UPDATE group_members SET leads = false WHERE user_id = 9`)
	mine := owner.do("POST", path+"/sync", map[string]any{})
	owner.refused(403, "forbidden", mine)
	require.NotContains(t, mine.body["fix"], "owner", "it is theirs, and they do not lead its group")
	w.exec(`UPDATE group_members SET leads = true WHERE user_id = 9`)
	require.Equal(t, 200, owner.do("PATCH", path, map[string]any{"scope": "user", "scope_id": nil, "type": "file"}, "If-Match", "*").status)
	require.Equal(t, 200, w.as(1, identity.Superadmin).do("PATCH", path, map[string]any{"user_id": 8}, "If-Match", "*").status)
	require.EqualValues(t, 8, lead.get(path)["user_id"])
}

// Who may change somebody else's connector, and changes nothing, leaves no trace that would have to be in the audit.
func TestAChangeOfNothingIsSignedByNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO group_members VALUES (8, 'g', true)`)
	lead := w.as(8, identity.User)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id, scope, scope_id, config) VALUES ('x', 'web', 9, 'group', 'g', '{"url": "https://a.example/", "n": 1}') RETURNING id`)
	path := fmt.Sprintf("/connectors/%d", id)
	before, entries := lead.do("GET", path, nil), one[int](w, `SELECT count(*) FROM audit`)
	for _, body := range []any{map[string]any{}, map[string]any{"name": "x", "scope": "group"}, `{"config":{ "n":1,"url":"https://a.example/"}}`} {
		r := lead.do("PATCH", path, body, "If-Match", before.header.Get("ETag"))
		require.Equal(t, 200, r.status, r.text)
		require.Equal(t, before.header.Get("ETag"), r.header.Get("ETag"))
		require.Equal(t, before.body, r.body)
	}
	require.Equal(t, entries, one[int](w, `SELECT count(*) FROM audit`))
	changed := lead.do("PATCH", path, `{"config":{"n":2,"url":"https://a.example/"}}`, "If-Match", before.header.Get("ETag"))
	require.Equal(t, "user 8", changed.body["updated_by"], changed.text)
	require.NotEqual(t, before.header.Get("ETag"), changed.header.Get("ETag"))
	require.Equal(t, entries+1, one[int](w, `SELECT count(*) FROM audit`))
}

// A token that may change and not read is not shown what was there.
func TestATokenThatDoesNotReadIsShownNoConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id, config) VALUES ('x', 'word_count', 7, '{"url": "https://intranet.example/"}') RETURNING id`)
	path := fmt.Sprintf("/connectors/%d", id)
	operates, writes, reads := w.as(7, identity.Superadmin, identity.Operate), w.as(7, identity.Superadmin, identity.Write), w.as(7, identity.Superadmin, identity.Operate, identity.Read)
	require.Equal(t, 202, operates.do("POST", path+"/sync", `{"parameters":{"x":"intranet"}}`).status)
	for _, r := range []reply{operates.do("POST", path+"/enable", nil), writes.do("PATCH", path, `{}`, "If-Match", "*")} {
		require.Equal(t, 200, r.status, r.text)
		require.NotContains(t, r.text, "intranet")
	}
	require.Contains(t, reads.do("POST", path+"/enable", nil).text, "intranet.example")
	run := movestest.Claim(w, w.conn, id)
	r := operates.do("POST", "/runs/"+run.String()+"/cancel", nil)
	require.Equal(t, 200, r.status, r.text)
	require.NotContains(t, r.text, "intranet")
}

// What stands for a secret in our answers is no secret.
func TestParametersThatWereCopiedFromAnAnswerAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	job := w.something(identity.Ownership{UserID: 7, Scope: "user", System: true})
	super := w.as(1, identity.Superadmin)
	path := fmt.Sprintf("/connectors/%d/sync", job.id)
	for _, parameters := range []string{`{"password":"REDACTED"}`, `{"deep":[{"url":"https://REDACTED@h"}]}`, `[1]`, `"x"`} {
		super.refused(422, "invalid", super.do("POST", path, `{"parameters":`+parameters+`}`))
	}
	require.Equal(t, 202, super.do("POST", path, `{"parameters":{"password":"new"}}`).status)
}

// A token that ends makes none that outlives it, and takes those along that it has made.
func TestAChildOfATokenIsOverWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	w.exec(`UPDATE access_tokens SET expires_at = clock_timestamp() + interval '1 hour'`)
	made := me.do("POST", "/tokens", map[string]any{"scopes": []string{"read", "write"}})
	require.Equal(t, 201, made.status, made.text)
	child := caller{w, made.body["token"].(string)}
	require.Equal(t, me.get("/tokens")["tokens"].([]any)[0].(map[string]any)["expires_at"], made.body["expires_at"])
	require.Equal(t, 200, me.do("POST", fmt.Sprintf("/tokens/%v/revoke", me.get("/me")["token_id"]), nil).status)
	me.refused(401, "unauthenticated", child.do("GET", "/me", nil))
}

// Too deep or too large is said of the field, and nothing reads it before.
func TestAConfigurationThatIsTooDeepOrTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	for _, depth := range []int{31, 1000, 9000} {
		me.refused(422, "invalid", me.do("POST", "/connectors", `{"name":"x","type":"web","config":{"a":`+strings.Repeat("[", depth)+strings.Repeat("]", depth)+`}}`))
	}
	me.refused(422, "invalid", me.do("POST", "/connectors", `{"name":"x","type":"web","config":{"a":["a"`+strings.Repeat(`,"a"`, 100_000)+`]}}`))
	w.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	job := w.something(identity.Ownership{UserID: 7, Scope: "user", System: true})
	super := w.as(1, identity.Superadmin)
	super.refused(422, "invalid", super.do("POST", fmt.Sprintf("/connectors/%d/sync", job.id), `{"parameters":`+strings.Repeat(`{"a":`, 2500)+"1"+strings.Repeat("}", 2500)+`}`))
}
