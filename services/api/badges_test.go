package api_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/movestest"
)

// badge asks for a badge as somebody who has its link, and nothing else.
func (w *world) badge(path string) (status int, text string, header http.Header) {
	w.Helper()
	answer, err := http.Get(w.server.URL + path)
	require.NoError(w, err)
	defer func() { require.NoError(w, answer.Body.Close()) }()
	body, err := io.ReadAll(answer.Body)
	require.NoError(w, err)
	return answer.StatusCode, string(body), answer.Header
}

func TestABadgeSaysToEverybodyWhoHasItsLinkHowFreshAConnectorIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id, fresh_within_minutes) VALUES ('<the board>', 'web', 7, 60) RETURNING id`)
	made := me.do("POST", fmt.Sprintf("/connectors/%d/badge", id), nil)
	require.Equal(t, http.StatusCreated, made.status)
	path := made.body["path"].(string)
	for _, c := range []struct{ synced, says string }{
		{"NULL", "synced: never"},
		{"clock_timestamp() - interval '5 minutes'", "synced: 5m ago"},
		{"clock_timestamp() - interval '5 hours'", "synced: late: 5h ago"},
	} {
		movestest.Force(t, w.conn, `UPDATE connectors SET last_sync_at = `+c.synced+`, synced_version = config_version`)
		status, text, header := w.badge(path)
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, text, c.says)
		require.NotContains(t, text, "board")
		require.Equal(t, "image/svg+xml", header.Get("Content-Type"))
		require.Equal(t, "max-age=60", header.Get("Cache-Control"))
	}
}

func TestABadgesLinkEndsWithTheNextOneWhenItIsRevokedAndWhenItsConnectorIsAnothersOrGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'web', 7) RETURNING id`)
	link := func() string {
		return me.do("POST", fmt.Sprintf("/connectors/%d/badge", id), nil).body["path"].(string)
	}
	is := func(path string, want int) {
		t.Helper()
		status, _, _ := w.badge(path)
		require.Equal(t, want, status)
	}
	first := link()
	is(first, 200)
	second := link()
	is(first, 404)
	is(second, 200)
	require.Equal(t, 200, me.do("POST", fmt.Sprintf("/connectors/%d/badge/revoke", id), nil).status)
	is(second, 404)
	require.Equal(t, 200, me.do("POST", fmt.Sprintf("/connectors/%d/badge/revoke", id), nil).status, "there is none")

	given := link()
	w.exec(`UPDATE connectors SET user_id = 8`)
	is(given, 404)
	w.exec(`UPDATE connectors SET user_id = 7`)
	is(given, 404)

	gone := link()
	w.exec(`DELETE FROM connectors`)
	is(gone, 404)
	require.Zero(t, one[int](w, `SELECT count(*) FROM badges`))

	w.exec(`INSERT INTO connectors (id, name, type, user_id) VALUES ($1, 'x', 'web', 7)`, id)
	old := link()
	w.exec(`TRUNCATE connectors`)
	w.exec(`INSERT INTO connectors (id, name, type, user_id) VALUES ($1, 'another', 'web', 7)`, id)
	is(old, 404)
}

func TestABadgeIsAuditedWithoutItsSecretAndARepeatedRequestMakesNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'web', 7) RETURNING id`)
	at := fmt.Sprintf("/connectors/%d/badge", id)
	first := me.do("POST", at, nil, "Idempotency-Key", "one")
	again := me.do("POST", at, nil, "Idempotency-Key", "one")
	require.Equal(t, []int{201, 201}, []int{first.status, again.status})
	require.NotContains(t, again.body, "path")
	status, _, _ := w.badge(first.body["path"].(string))
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, int64(1), one[int64](w, `SELECT count(*) FROM audit WHERE action = 'badges.create' AND user_id = 7 AND object_id = $1`, fmt.Sprint(id)))
	require.Contains(t, fmt.Sprint(me.get(fmt.Sprintf("/audit?connector_id=%d", id))["entries"]), "action:badges.create")
	require.Zero(t, one[int64](w, `SELECT count(*) FROM audit WHERE after::text LIKE '%secret%'`))
}

func TestLinksOfBadgesAreNotGuessedFast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.Rate, c.Burst = 0.001, 3 })
	for range 3 {
		status, _, _ := w.badge("/badge/" + strings.Repeat("A", 26) + ".svg")
		require.Equal(t, http.StatusNotFound, status)
	}
	status, _, header := w.badge("/badge/" + strings.Repeat("A", 26) + ".svg")
	require.Equal(t, http.StatusTooManyRequests, status)
	wait, err := time.ParseDuration(header.Get("Retry-After") + "s")
	require.NoError(t, err)
	require.Positive(t, wait)
}
