//go:build !race

package api_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

func TestWhoSeesAConnectorSeesWhomItRunsAfterAsFarAsTheySeeThat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me, other := w.as(7, identity.User), w.as(8, identity.User)
	add := func(by caller) int {
		return int(by.do("POST", "/connectors", map[string]any{"name": "docs", "type": "web", "config": map[string]any{"url": "https://example.org"},
			"refresh_freq_minutes": nil}).body["id"].(float64))
	}
	first, second, theirs := add(me), add(me), add(other)
	w.exec(`UPDATE connectors SET scope = 'org' WHERE id = $1`, second)
	w.exec(`INSERT INTO run_after (connector_id, upstream_id, timeout_minutes) VALUES ($1, $2, 60)`, second, first)
	path := fmt.Sprintf("/connectors/%d", second)
	require.Equal(t, []any{map[string]any{"connector_id": float64(first), "accepts": "completed", "max_age_minutes": nil, "timeout_minutes": 60.0}}, me.get(path)["run_after"])
	require.Equal(t, []any{}, other.get(path)["run_after"])
	require.Equal(t, "waits_for_upstream", me.get(path + "/why")["cause"])
	require.Contains(t, fmt.Sprint(me.get(path+"/why")), fmt.Sprintf("it runs after connector %d", first))
	require.NotContains(t, fmt.Sprint(other.get(path+"/why")), fmt.Sprintf("connector %d", first))
	require.Contains(t, fmt.Sprint(me.get(path+"/schedule/preview")), fmt.Sprintf("it runs after %d", first))
	require.Equal(t, []any{}, other.get(fmt.Sprintf("/connectors/%d", theirs))["run_after"])
}
