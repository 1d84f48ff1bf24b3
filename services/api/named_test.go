//go:build !race

package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

func TestSuperadminsAloneNameConcurrencyKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO group_members VALUES (9, 'g', true)`)
	mine, group := w.connector(7, "user"), w.connector(9, "group")
	keys := func(c caller, id int32, all any) reply {
		return c.do("PATCH", fmt.Sprintf("/connectors/%d", id), map[string]any{"concurrency_keys": all}, "If-Match", "*")
	}
	owner, other, admin, super := w.as(7, identity.User), w.as(8, identity.User), w.as(9, identity.Admin), w.as(1, identity.Superadmin)
	gpu := []string{"gpu:1", "tenant"}
	owner.refused(403, "forbidden", keys(owner, mine, gpu))
	other.refused(404, "not-found", keys(other, mine, gpu))
	admin.refused(403, "forbidden", keys(admin, group, gpu))
	admin.refused(403, "forbidden", admin.do("POST", "/connectors", map[string]any{"name": "x", "type": "web", "concurrency_keys": gpu}))
	r := keys(super, mine, gpu)
	require.Equal(t, []any{200, []any{"gpu:1", "tenant"}}, []any{r.status, r.body["concurrency_keys"]}, r.text)
	for _, none := range []any{nil, []string{}, []string{"gpu:1"}} {
		owner.refused(403, "forbidden", keys(owner, mine, none))
	}
	require.Equal(t, 200, owner.do("PATCH", fmt.Sprintf("/connectors/%d", mine), map[string]any{"name": "y", "concurrency_keys": gpu}, "If-Match", "*").status, "they stay")
	for _, wrong := range [][]string{{"a b"}, {"-a"}, {"https://u:pw@h/"}, {strings.Repeat("k", 129)}, {"a", "b", "c", "d", "e"}, {"k\x00"}} {
		r := keys(super, mine, wrong)
		super.refused(422, "invalid", r)
		require.Contains(t, r.text, `"field":"body`)
		require.NotContains(t, r.text, "pw@")
	}
	require.Nil(t, keys(super, mine, []string{}).body["concurrency_keys"])
}

func TestAConditionIsNamedForJobsOfThoseWhomItIsFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	w.exec(`INSERT INTO conditions (name, query, user_ids) VALUES ('always', 'SELECT true', NULL), ('some', 'SELECT true', '{8}')`)
	owner, admin, super := w.as(7, identity.User), w.as(7, identity.Admin), w.as(1, identity.Superadmin)
	added := super.do("POST", "/connectors", map[string]any{"name": "j", "type": "word_count", "user_id": 7, "schedule_cron": "0 3 * * *", "condition": "always"})
	require.Equal(t, []any{201, "always"}, []any{added.status, added.body["condition"]}, added.text)
	path := fmt.Sprintf("/connectors/%v", added.body["id"])
	write := func(c caller, path string, name any) reply {
		return c.do("PATCH", path, map[string]any{"condition": name}, "If-Match", "*")
	}
	owner.refused(404, "not-found", write(owner, path, nil))
	admin.refused(403, "forbidden", write(admin, path, nil))
	for name, words := range map[string]string{"nothing": `"nothing\" is no condition; name one that /api/v1/conditions lists, or null`, "some": "condition some is not for user 7; name one that /api/v1/conditions lists for its owner"} {
		r := write(super, path, name)
		super.refused(422, "invalid", r)
		require.Contains(t, r.text, `"field":"body.condition"`)
		require.Contains(t, r.text, words)
	}
	source := fmt.Sprintf("/connectors/%d", w.connector(7, "user"))
	for _, name := range []string{"always", "some", "nothing"} { // there is nothing to learn of conditions
		r := write(owner, source, name)
		owner.refused(422, "invalid", r)
		require.Contains(t, r.text, "type web is a source, and conditions are for jobs")
	}
	require.Nil(t, write(super, path, nil).body["condition"])
}

func TestACalendarIsNamedByWhoChangesTheSchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('holidays', 'UTC', '[]')`)
	me := w.as(7, identity.User)
	path := fmt.Sprintf("/connectors/%d", w.connector(7, "user"))
	named := me.do("PATCH", path, map[string]any{"schedule_cron": "0 3 * * *", "calendar": "holidays", "calendar_use": "only"}, "If-Match", "*")
	require.Equal(t, []any{200, "holidays", "only"}, []any{named.status, named.body["calendar"], named.body["calendar_use"]}, named.text)
	r := me.do("PATCH", path, map[string]any{"calendar": "feasts"}, "If-Match", "*")
	me.refused(422, "invalid", r)
	require.Contains(t, r.text, `"feasts\" is no calendar; name one that /api/v1/calendars lists, or null`)
	me.refused(422, "invalid", me.do("PATCH", path, map[string]any{"calendar": "a\x00"}, "If-Match", "*"))
	gone := me.do("PATCH", path, map[string]any{"calendar": nil, "calendar_use": nil}, "If-Match", "*")
	require.Equal(t, []any{nil, "exclude"}, []any{gone.body["calendar"], gone.body["calendar_use"]})
}
