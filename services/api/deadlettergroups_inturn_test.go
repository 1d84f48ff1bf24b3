//go:build !race

package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/identity"
)

func TestDeadLettersAreReplayedByTheirReason(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, mine, disabled, other := b.as(1, identity.Superadmin), b.connector(7, "user"), b.connector(8, "user"), b.connector(7, "user")
	b.exec(`INSERT INTO documents (connector_id, source_id, status, version_token, config_version) VALUES ($1, 'a', 'stored', 'v1', 1), ($1, 'kept', 'stored', 'v1', 1)`, mine)
	b.exec(`SELECT moves.disable($1, 'x')`, disabled)
	for n := range 3 {
		b.letter(topology.DocumentSubject, partOf(mine, string(rune('a'+n))), topology.HeaderReason, fmt.Sprintf("https://a.example/%d answered 503, password=hunter%d", n, n))
	}
	b.letter(topology.DocumentSubject, partOf(disabled, "d"), topology.HeaderReason, "https://a.example/9 answered 503, password=hunter9")
	b.letter("connector.sync.web", &internalpb.ConnectorSyncRequest{ConnectorId: 4000}, topology.HeaderReason, "https://a.example/9 answered 503, password=hunter9")
	b.letter(topology.DocumentSubject, partOf(other, "e"), topology.HeaderReason, "another")

	found := me.groups("")
	require.Len(t, found, 2)
	require.Equal(t, 1, found["another"])
	delete(found, "another")
	var reason string
	for reason = range found {
		require.Equal(t, 5, found[reason])
		require.NotContains(t, reason, "hunter")
		require.Contains(t, reason, "… answered 503")
	}
	require.Len(t, me.groups(fmt.Sprintf("&connector_id=%d", mine)), 1)
	require.Equal(t, map[string]int{reason: 1}, me.groups("&subject=connector.>"))

	r := me.do("POST", "/deadletters/replay", map[string]any{"reason": reason}, "Audit-Note", "they have mended it")
	require.Equal(t, 200, r.status, r.text)
	require.InDelta(t, 3, r.body["done"], 0)
	require.Nil(t, r.body["next_page_token"])
	require.Len(t, r.body["left"], 2)
	for _, says := range []string{"is disabled", "Enable the connector first", "Connector 4000 of the dead letter was deleted"} {
		require.Contains(t, r.text, says)
	}
	require.NotZero(t, b.asked(mine))
	require.Zero(t, b.asked(other))
	require.Equal(t, "a=,kept=v1", one[string](b.world, `SELECT string_agg(source_id || '=' || version_token, ',' ORDER BY source_id) FROM documents`))
	ids, _ := me.letterIDs("")
	require.Equal(t, []int{4, 5, 6}, ids)
	require.Equal(t, "1 a,2 b,3 c", one[string](b.world, `SELECT string_agg(concat_ws(' ', object_id, before -> 'source_ids' ->> 0), ',' ORDER BY id) FROM audit
		WHERE action = 'deadletters.replay' AND user_id = 1 AND note = 'they have mended it' AND connector_id = $1`, mine))
	require.Equal(t, int64(1), one[int64](b.world, `SELECT count(*) FROM audit WHERE action = 'connectors.sync'`), "one sync is for all letters of a connector")

	r = me.do("POST", "/deadletters/drop", map[string]any{"reason": reason})
	require.Equal(t, 200, r.status, r.text)
	require.InDelta(t, 2, r.body["done"], 0)
	ids, _ = me.letterIDs("")
	require.Equal(t, []int{6}, ids)
	require.Equal(t, int64(2), one[int64](b.world, `SELECT count(*) FROM audit WHERE action = 'deadletters.drop'`))
	require.Zero(t, b.asked(disabled))
}

func TestManyDeadLettersAreReplayedInBoundedRequestsThatChaseNoNewOnes(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	const letters = 4_100 // two requests, and a bit
	b.manyLetters(letters, id, func(n int) string { return fmt.Sprint("of ", n%2) })
	require.Len(t, me.groups(""), 2)
	done, requests, token := 0, 0, ""
	for {
		r := me.do("POST", "/deadletters/replay", map[string]any{"reason": "of 1", "page_token": token})
		require.Equal(t, 200, r.status, r.text)
		require.LessOrEqual(t, r.body["looked"], float64(2_200))
		requests++
		done += int(r.body["done"].(float64))
		next, more := r.body["next_page_token"].(string)
		if !more {
			break
		}
		token = next
		if requests == 1 {
			b.letter(topology.DocumentSubject, partOf(id, "came meanwhile"), topology.HeaderReason, "of 1")
			me.refused(422, "invalid", me.do("POST", "/deadletters/drop", map[string]any{"reason": "of 1", "page_token": token}))
		}
	}
	require.Equal(t, letters/2, done)
	require.GreaterOrEqual(t, requests, 3)
	require.Equal(t, map[string]int{"of 0": letters / 2, "of 1": 1}, me.groups(""))
	ids, _ := me.letterIDs("reason=of+1")
	require.Equal(t, []int{letters + 1}, ids)
}

func TestManyDeadLettersAreForSuperadminsAndNamed(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	id := b.connector(7, "user")
	b.letter(topology.DocumentSubject, partOf(id, "a"))
	for _, role := range []identity.Role{identity.User, identity.Admin} {
		me := b.as(7, role)
		me.refused(403, "forbidden", me.do("GET", "/deadletters/groups", nil))
		for _, path := range []string{"/deadletters/replay", "/deadletters/drop"} {
			me.refused(403, "forbidden", me.do("POST", path, map[string]any{"subject": ">"}))
		}
	}
	looks := b.as(1, identity.Superadmin, identity.Read)
	looks.refused(403, "forbidden", looks.do("POST", "/deadletters/replay", map[string]any{"subject": ">"}))
	me := b.as(1, identity.Superadmin)
	for _, path := range []string{"/deadletters", "/deadletters/groups"} {
		r := me.do("GET", path+"?subject=%00", nil)
		me.refused(422, "invalid", r)
		require.Contains(t, r.text, `"query.subject"`)
	}
	for _, path := range []string{"/deadletters/replay", "/deadletters/drop"} {
		me.refused(422, "invalid", me.do("POST", path, map[string]any{}))
		me.refused(422, "invalid", me.do("POST", path, map[string]any{"subject": "a b"}))
		me.refused(422, "invalid", me.do("POST", path, map[string]any{"reason": strings.Repeat("x", 401)}))
		r := me.do("POST", path, map[string]any{"reason": "none has it"})
		require.Equal(t, 200, r.status, r.text)
		require.InDelta(t, 0, r.body["done"], 0)
	}
	ids, _ := me.letterIDs("")
	require.Equal(t, []int{1}, ids)
	require.Zero(t, b.asked(id))
	r := me.do("POST", "/deadletters/drop", map[string]any{"connector_id": id})
	require.InDelta(t, 1, r.body["done"], 0, r.text)
}
