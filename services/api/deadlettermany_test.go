package api_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

// asked is when a sync of a connector was asked for, in microseconds; 0: it was not.
func (b broadcast) asked(connector int32) int64 {
	b.Helper()
	return one[int64](b.world, `SELECT coalesce(extract(epoch FROM trigger_requested_at) * 1000000, 0)::bigint FROM connectors WHERE id = $1`, connector)
}

func alike(int) string { return "r" }

// many does something with the letters of a reason, in as many requests as a slow machine needs.
func (c caller) many(what, reason string) (left []any, done, requests int) {
	c.Helper()
	for token := any(""); token != nil; requests++ {
		r := c.do("POST", "/deadletters/"+what, map[string]any{"reason": reason, "page_token": token})
		require.Equal(c, 200, r.status, r.text)
		left = append(left, r.body["left"].([]any)...)
		done += int(r.body["done"].(float64))
		token = r.body["next_page_token"]
	}
	return left, done, requests
}

func TestTwoThatDropAtOnceCountEachLetterOnce(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	b.manyLetters(90, id, alike)
	var both sync.WaitGroup
	var answers [2]reply
	for i := range answers {
		both.Go(func() { answers[i] = me.do("POST", "/deadletters/drop", map[string]any{"reason": "r"}) })
	}
	both.Wait()
	_, done, _ := me.many("drop", "r") // what is left on a slow machine
	for _, r := range answers {
		if r.status == 409 {
			me.refused(409, "conflict", r)
			continue
		}
		require.Equal(t, 200, r.status, r.text)
		done += int(r.body["done"].(float64))
	}
	require.Equal(t, 90, done)
	require.Equal(t, int64(90), one[int64](b.world, `SELECT count(*) FROM audit WHERE action = 'deadletters.drop'`))
}

func TestLettersThatAreDroppedSinglyAndTogetherAreInTheAuditOnce(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	const letters = 60
	b.manyLetters(letters, id, alike)
	var all sync.WaitGroup
	for n := range 6 {
		all.Go(func() {
			for l := n + 1; l <= letters; l += 6 {
				if r := me.do("DELETE", fmt.Sprintf("/deadletters/%d", l), nil, "If-Match", "*"); r.status != 204 && r.status != 404 && r.status != 409 {
					t.Error(r.text)
				}
			}
		})
	}
	all.Go(func() { me.do("POST", "/deadletters/drop", map[string]any{"reason": "r"}) })
	all.Wait()
	me.many("drop", "r")
	require.Equal(t, int64(letters), one[int64](b.world, `SELECT count(*) FROM audit WHERE action = 'deadletters.drop'`))
}
