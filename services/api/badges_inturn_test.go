//go:build !race

package api_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/movestest"
)

func TestABadgeSaysToEverybodyWhoHasItsLinkHowFreshAConnectorIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id, fresh_within_minutes) VALUES ('<the board>', 'web', 7, 60) RETURNING id`)
	for _, c := range []struct{ synced, says string }{
		{"NULL", "synced: never"},
		{"clock_timestamp() - interval '5 minutes'", "synced: 5m ago"},
		{"clock_timestamp() - interval '5 hours'", "synced: late: 5h ago"},
	} {
		movestest.Force(t, w.conn, `UPDATE connectors SET last_sync_at = `+c.synced+`, synced_version = config_version`)
		made := me.do("POST", fmt.Sprintf("/connectors/%d/badge", id), nil)
		require.Equal(t, http.StatusCreated, made.status)
		status, text, header := w.badge(made.body["path"].(string))
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
	is := func(path string, want int) { // of a link that nobody has asked for: what was found of one is kept for a while
		t.Helper()
		status, _, header := w.badge(path)
		require.Equal(t, []any{want, "max-age=60"}, []any{status, header.Get("Cache-Control")})
	}
	first, second := link(), link()
	is(first, 404)
	is(second, 200)
	third := link()
	require.Equal(t, 200, me.do("POST", fmt.Sprintf("/connectors/%d/badge/revoke", id), nil).status)
	is(third, 404)
	require.Equal(t, 200, me.do("POST", fmt.Sprintf("/connectors/%d/badge/revoke", id), nil).status, "there is none")

	given := link()
	w.exec(`UPDATE connectors SET user_id = 8`)
	is(given, 404)
	w.exec(`UPDATE connectors SET user_id = 7`)
	back := link()
	w.exec(`UPDATE connectors SET user_id = 8`)
	w.exec(`UPDATE connectors SET user_id = 7`)
	is(back, 404)

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

func TestWhoGuessesLinksOfBadgesIsHeldUpAndNobodyWhoSignsIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.Rate, c.Burst = 0.001, 3 })
	for range 3 {
		status, _, _ := w.badge(madeUp())
		require.Equal(t, http.StatusNotFound, status)
	}
	status, _, header := w.badge(madeUp())
	require.Equal(t, []any{http.StatusTooManyRequests, "no-store"}, []any{status, header.Get("Cache-Control")})
	wait, err := time.ParseDuration(header.Get("Retry-After") + "s")
	require.NoError(t, err)
	require.Positive(t, wait)
	status, _, _ = w.badge("/badge/short.svg")
	require.Equal(t, http.StatusNotFound, status, "which asks Postgres nothing")
	w.as(7, identity.User).get("/me") // who signs in is not held up
}

func TestWhoTriesTokensKeepsNobodyFromBadges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.Rate, c.Burst = 0.001, 3 })
	w.usedUp()
	status, _, _ := w.badge(madeUp())
	require.Equal(t, http.StatusNotFound, status)
}

func TestAPageOfManyReadersWithALiveBadgeAndARevokedOneIsAnsweredFromMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.Rate, c.Burst = 0.1, 20 })
	me := w.as(7, identity.User)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'web', 7) RETURNING id`)
	link := func() string {
		return me.do("POST", fmt.Sprintf("/connectors/%d/badge", id), nil).body["path"].(string)
	}
	ended, live := link(), link()
	for range 30 {
		for path, want := range map[string]int{ended: 404, live: 200} {
			status, _, _ := w.badge(path)
			require.Equal(t, want, status)
		}
	}
	w.as(8, identity.User).get("/me")
}
