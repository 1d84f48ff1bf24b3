//go:build !race

package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

func TestAChainIsWrittenChangedAndRemovedByWhoChangesItsConnector(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	first, second := w.connector(7, "user"), w.connector(8, "org")
	added := me.do("POST", "/connectors", map[string]any{"name": "c", "type": "web", "run_after": []any{
		map[string]any{"connector_id": first, "accepts": "skipped", "max_age_minutes": 60, "timeout_minutes": nil}, map[string]any{"connector_id": second}}})
	require.Equal(t, 201, added.status, added.text)
	require.Nil(t, added.body["refresh_freq_minutes"], "it runs when those have ended, and at no time of its own")
	row := func(id int32, accepts string, age, timeout any) map[string]any {
		return map[string]any{"connector_id": float64(id), "accepts": accepts, "max_age_minutes": age, "timeout_minutes": timeout}
	}
	require.Equal(t, []any{row(first, "skipped", 60.0, nil), row(second, "completed", nil, nil)}, added.body["run_after"])
	path := fmt.Sprintf("/connectors/%v", added.body["id"])

	same := me.do("PATCH", path, map[string]any{"run_after": added.body["run_after"]}, "If-Match", added.header.Get("ETag"))
	require.Equal(t, []any{200, added.header.Get("ETag")}, []any{same.status, same.header.Get("ETag")}, same.text)
	changed := me.do("PATCH", path, map[string]any{"run_after": []any{row(second, "completed", nil, 30.0)}}, "If-Match", added.header.Get("ETag"))
	require.Equal(t, 200, changed.status, changed.text)
	require.Equal(t, []any{row(second, "completed", nil, 30.0)}, changed.body["run_after"])
	require.NotEqual(t, added.header.Get("ETag"), changed.header.Get("ETag"))
	me.refused(412, "precondition-failed", me.do("PATCH", path, after(), "If-Match", added.header.Get("ETag")))
	renamed := me.do("PATCH", path, map[string]any{"name": "d"}, "If-Match", "*")
	require.Equal(t, changed.body["run_after"], renamed.body["run_after"], "what is left out stays")
	for _, none := range []string{`{"run_after":null,"name":"e"}`, `{"run_after":[]}`} {
		require.Equal(t, []any{}, me.do("PATCH", path, none, "If-Match", "*").body["run_after"])
	}
	require.Equal(t, "run_after.create,run_after.create,run_after.delete,run_after.update,run_after.delete",
		one[string](w, `SELECT string_agg(action, ',' ORDER BY id) FROM audit WHERE action LIKE 'run_after.%' AND person = 'user 7'`))
}

func TestWhoMayChangeAConnectorAloneSaysWhomItRunsAfter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, org := w.connector(7, "user"), w.connector(8, "org")
	first := w.connector(8, "org")
	write := func(c caller, id int32) reply {
		return c.do("PATCH", fmt.Sprintf("/connectors/%d", id), after(first), "If-Match", "*")
	}
	owner, other, admin, super := w.as(7, identity.User), w.as(8, identity.User), w.as(9, identity.Admin), w.as(1, identity.Superadmin)
	for _, c := range []caller{other, admin} {
		c.refused(404, "not-found", write(c, mine))
		c.refused(403, "forbidden", write(c, org))
	}
	require.Equal(t, 0, one[int](w, `SELECT count(*) FROM run_after`))
	require.Equal(t, 200, write(owner, mine).status)
	require.Equal(t, 200, write(super, org).status)
	owner.refused(403, "forbidden", w.as(7, identity.User, identity.Operate).do("PATCH", fmt.Sprintf("/connectors/%d", mine), after(), "If-Match", "*"))
}

func TestWhatIsWrongWithAChainIsSaidByItsField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	first, second, theirs := w.connector(7, "user"), w.connector(7, "user"), w.connector(8, "user")
	path := fmt.Sprintf("/connectors/%d", first)
	says := func(body any, field, words string) {
		t.Helper()
		r := me.do("PATCH", path, body, "If-Match", "*")
		me.refused(422, "invalid", r)
		require.Contains(t, r.text, `"field":"`+field)
		require.Contains(t, r.text, words)
	}
	says(after(first), "body.run_after[0].connector_id", fmt.Sprintf("%d is the connector itself; name another", first))
	says(after(second, second), "body.run_after[1].connector_id", fmt.Sprintf("%d is named twice", second))
	// One that is not seen is as one that is not there.
	says(after(second, theirs), "body.run_after[1].connector_id", fmt.Sprintf("%d is no connector that you may see; name one that /api/v1/connectors lists", theirs))
	says(after(99_999), "body.run_after[0].connector_id", "99999 is no connector that you may see; name one that /api/v1/connectors lists")
	says(`{"run_after":[{"connector_id":1,"accepts":"all"}]}`, "body.run_after[0].accepts", "")
	says(`{"run_after":[{"connector_id":1,"timeout_minutes":0}]}`, "body.run_after[0].timeout_minutes", "")
	says(`{"run_after":[`+strings.Repeat(`{"connector_id":1},`, 1000)+`{"connector_id":1}]}`, "body.run_after", "1000")
	require.Equal(t, 200, me.do("PATCH", fmt.Sprintf("/connectors/%d", second), after(first), "If-Match", "*").status)
	says(after(second), "body.run_after", fmt.Sprintf("a connector would run after itself: %d after %d after %d; take one of these away", first, second, first))
	// Somebody who sees an upstream names it for an owner who does not.
	me = w.as(1, identity.Superadmin)
	says(after(theirs), "body.run_after", fmt.Sprintf("upstream_id is %d, which does not exist, or which the owner of connector", theirs))
	require.Equal(t, 1, one[int](w, `SELECT count(*) FROM run_after`))
}

func TestACycleThroughConnectorsOfOthersDoesNotNameThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO group_members VALUES (7, 'g', true)`)
	mine, public, hidden := w.connector(7, "group"), w.connector(8, "org"), w.connector(8, "user")
	w.exec(`INSERT INTO group_members VALUES (8, 'g', false)`)
	w.exec(`INSERT INTO run_after (connector_id, upstream_id) VALUES ($1, $2), ($2, $3)`, public, hidden, mine)
	r := w.as(7, identity.User).do("PATCH", fmt.Sprintf("/connectors/%d", mine), after(public), "If-Match", "*")
	require.Equal(t, 422, r.status, r.text)
	require.Contains(t, r.text, fmt.Sprintf("a connector would run after itself: %d after %d after another after %d", mine, public, mine))
}

// Who leads a group does not see what its members keep to themselves, and takes it from nobody's chain.
func TestAnUpstreamThatTheWriterDoesNotSeeStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO group_members VALUES (7, 'g', true), (8, 'g', false)`)
	theirs, hidden, first := w.connector(8, "group"), w.connector(8, "user"), w.connector(7, "org")
	w.exec(`INSERT INTO run_after (connector_id, upstream_id) VALUES ($1, $2)`, theirs, hidden)
	r := w.as(7, identity.User).do("PATCH", fmt.Sprintf("/connectors/%d", theirs), after(first), "If-Match", "*")
	require.Equal(t, 200, r.status, r.text)
	require.Len(t, r.body["run_after"], 1)
	require.Equal(t, []int32{hidden, first}, one[[]int32](w, `SELECT array_agg(upstream_id ORDER BY upstream_id) FROM run_after`))
	require.Equal(t, 200, w.as(7, identity.User).do("PATCH", fmt.Sprintf("/connectors/%d", theirs), after(), "If-Match", "*").status)
	require.Equal(t, hidden, one[int32](w, `SELECT upstream_id FROM run_after`))
}
