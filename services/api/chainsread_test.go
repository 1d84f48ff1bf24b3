package api_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

func TestRESTDoesNotWriteChains(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	add := func(by caller, more map[string]any) reply {
		body := map[string]any{"name": "docs", "type": "web", "config": map[string]any{"url": "https://example.org"}, "refresh_freq_minutes": nil}
		for k, v := range more {
			body[k] = v
		}
		return by.do("POST", "/connectors", body)
	}
	first := int(add(me, nil).body["id"].(float64))
	refused := add(me, map[string]any{"run_after": []any{map[string]any{"connector_id": first, "accepts": "completed"}}})
	t.Log(refused.status, refused.body)
	second := int(add(me, nil).body["id"].(float64))
	changed := me.do("PATCH", fmt.Sprintf("/connectors/%d", second), map[string]any{"run_after": []any{map[string]any{"connector_id": first}}})
	t.Log(changed.status, changed.body)
	require.Equal(t, []any{}, me.get(fmt.Sprintf("/connectors/%d", second))["run_after"])
	require.NotEqual(t, 201, refused.status)
	require.Nil(t, me.get("/connectors")["connectors"].([]any)[0].(map[string]any)["run_after"])
}
