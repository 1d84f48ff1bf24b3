//go:build !race

package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

// listed are the members of all pages of a list.
func (c caller) listed(path, of string) (all []map[string]any) {
	c.Helper()
	for token := ""; ; {
		page := c.get(path + token)
		for _, row := range page[of].([]any) {
			all = append(all, row.(map[string]any))
		}
		next, more := page["next_page_token"].(string)
		if !more {
			return all
		}
		token = "&page_token=" + next
	}
}

// each is one member of all of them.
func each(rows []map[string]any, of string) (values []any) {
	for _, row := range rows {
		values = append(values, row[of])
	}
	return values
}

func TestBlackoutWindowsAreShownToThoseWhomTheyMayHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('always', 'UTC', '[{"name": "x", "start": "2020-01-01", "rule": "FREQ=DAILY"}]'),
		('spoiled', 'UTC', '[{"name": "x", "start": "some day"}]'), ('past', 'UTC', '[{"name": "x", "start": "2020-01-01"}]')`)
	mine := one[int32](w, `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'web', 7) RETURNING id`)
	theirs := one[int32](w, `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'web', 8) RETURNING id`)
	w.exec(`INSERT INTO blackouts (name, calendar, user_id, type, except_connectors, mode) VALUES ('all', 'always', NULL, NULL, ARRAY[$1, $2]::integer[], 'skip'), ('eight', 'past', 8, NULL, NULL, 'defer'),
		('seven', 'past', 7, NULL, NULL, 'defer'), ('web', 'spoiled', NULL, 'web', NULL, 'defer')`, mine, theirs)
	me := w.as(7, identity.User)
	found := me.listed("/blackouts?page_size=1", "blackouts")
	require.Equal(t, []any{"all", "seven", "web"}, each(found, "name"))
	require.Equal(t, []any{[]any{float64(mine)}, []any{}, []any{}}, each(found, "except_connectors"), "those that they see")
	require.Equal(t, []any{true, false, false}, each(found, "stands"))
	require.Equal(t, []any{nil, nil, nil}, each(found, "until"), "it does not end for long")
	require.Equal(t, []any{"always", "skip", nil, 10.0}, []any{found[0]["calendar"], found[0]["mode"], found[0]["user_id"], found[0]["spread_minutes"]})
	require.Nil(t, found[0]["problem"])
	require.NotEmpty(t, found[2]["problem"])
	require.Equal(t, []any{"all", "seven", "web"}, each(w.as(7, identity.Admin).listed("/blackouts?page_size=500", "blackouts"), "name"))
	require.Equal(t, []any{"all", "eight", "seven", "web"}, each(w.as(1, identity.Superadmin).listed("/blackouts?page_size=3", "blackouts"), "name"))
	me.refused(403, "forbidden", w.as(7, identity.User, identity.Write).do("GET", "/blackouts", nil))
}

func TestConditionsAreShownToAdministratorsAndTheirQueriesToSuperadmins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO conditions (name, query, user_ids) VALUES ('always', 'SELECT true', NULL), ('some', 'SELECT 1 < 2', '{7,8}')`)
	me := w.as(7, identity.User)
	me.refused(403, "forbidden", me.do("GET", "/conditions", nil))
	seen := w.as(9, identity.Admin).listed("/conditions?page_size=1", "conditions")
	require.Equal(t, []any{"always", "some"}, each(seen, "name"))
	require.Equal(t, []any{nil, nil}, each(seen, "query"))
	require.Equal(t, []any{nil, []any{7.0, 8.0}}, each(seen, "user_ids"))
	require.Equal(t, []any{2000.0, 2000.0}, each(seen, "timeout_ms"))
	require.Equal(t, []any{"SELECT true", "SELECT 1 < 2"}, each(w.as(1, identity.Superadmin).listed("/conditions?page_size=500", "conditions"), "query"))
}
