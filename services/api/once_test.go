package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

func TestARequestWithAKeyIsDoneOnceAndAnsweredEachTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	body := map[string]any{"name": "docs", "type": "web"}
	first := me.do("POST", "/connectors", body, "Idempotency-Key", "a")
	require.Equal(t, http.StatusCreated, first.status, first.text)
	for range 2 {
		again := me.do("POST", "/connectors", body, "Idempotency-Key", "a")
		require.Equal(t, []any{http.StatusCreated, first.body["id"], first.header.Get("ETag")}, []any{again.status, again.body["id"], again.header.Get("ETag")})
	}
	require.EqualValues(t, 1, one[int](w, `SELECT count(*) FROM connectors`))
	for _, other := range []reply{
		me.do("POST", "/connectors", map[string]any{"name": "other", "type": "web"}, "Idempotency-Key", "a"),
		me.do("POST", fmt.Sprintf("/connectors/%v/sync", first.body["id"]), nil, "Idempotency-Key", "a"),
	} {
		me.refused(422, "invalid", other)
		require.Contains(t, other.text, "header.Idempotency-Key")
	}
	require.Equal(t, http.StatusCreated, w.as(8, identity.User).do("POST", "/connectors", body, "Idempotency-Key", "a").status, "a key is a user's")
	me.refused(422, "invalid", me.do("POST", "/connectors", body, "Idempotency-Key", strings.Repeat("x", 201)))

	path := fmt.Sprintf("/connectors/%v", first.body["id"])
	asked := me.do("POST", path+"/sync", `{"allow_deletions":true}`, "Idempotency-Key", "b")
	require.Equal(t, http.StatusAccepted, asked.status, asked.text)
	require.Equal(t, asked.body["trigger_requested_at"], me.do("POST", path+"/sync", `{"allow_deletions":true}`, "Idempotency-Key", "b").body["trigger_requested_at"])
	require.NotEqual(t, asked.body["trigger_requested_at"], me.do("POST", path+"/sync", nil).body["trigger_requested_at"])
	me.refused(422, "invalid", me.do("POST", path+"/sync", `{"allow_deletions":false}`, "Idempotency-Key", "b"))
	me.do("POST", path+"/disable", nil, "Idempotency-Key", "c")
	require.Equal(t, "ACTIVE", me.do("POST", path+"/enable", nil).body["status"])
	require.Equal(t, "ACTIVE", me.do("POST", path+"/disable", nil, "Idempotency-Key", "c").body["status"], "it is not done again, and answered as it stands")

	made := me.do("POST", "/tokens", map[string]any{"scopes": []string{"read"}}, "Idempotency-Key", "d")
	again := me.do("POST", "/tokens", map[string]any{"scopes": []string{"read"}}, "Idempotency-Key", "d")
	require.Equal(t, []any{201, 201, made.body["id"], nil}, []any{made.status, again.status, again.body["id"], again.body["token"]}, again.text)
	require.NotContains(t, one[string](w, `SELECT string_agg(k::text, '') FROM request_keys k`), made.body["token"])
}

// What was refused was not done: the key is free.
func TestAKeyOfWhatWasRefusedMayBeUsedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	me.refused(422, "invalid", me.do("POST", "/connectors", `{"name":"x","type":"nothing"}`, "Idempotency-Key", "a"))
	require.Equal(t, http.StatusCreated, me.do("POST", "/connectors", `{"name":"x","type":"web"}`, "Idempotency-Key", "a").status)
	require.Equal(t, []int{1, 1}, []int{one[int](w, `SELECT count(*) FROM connectors`), one[int](w, `SELECT max(id) FROM connectors`)}, "no number is lost")
}

func TestOneOfManyThatAskTheSameAtOnceDoesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	var group sync.WaitGroup
	statuses := make([]int, 8)
	for n := range statuses {
		group.Go(func() {
			statuses[n] = me.do("POST", "/connectors", map[string]any{"name": "docs", "type": "web"}, "Idempotency-Key", "a").status
		})
	}
	group.Wait()
	require.EqualValues(t, 1, one[int](w, `SELECT count(*) FROM connectors`))
	for _, status := range statuses {
		require.Contains(t, []int{http.StatusCreated, http.StatusConflict}, status)
	}
}
