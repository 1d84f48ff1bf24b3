//go:build !race

package api_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

func TestAGlanceIsOfWhatSomebodySeesAndSaysWhatWhySays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, others := w.something(identity.Ownership{UserID: 7, Scope: "user"}), w.something(identity.Ownership{UserID: 8, Scope: "user"})
	w.exec(`SELECT moves.cancel($1, 'x')`, mine.run)
	me := w.as(7, identity.User)
	seen := me.get(fmt.Sprintf("/connectors/glance?ids=%d,%d,2147483648,4294967296,%d", mine.id, others.id, mine.id))["glances"].([]any)
	require.Len(t, seen, 1)
	one := seen[0].(map[string]any)
	require.EqualValues(t, mine.id, one["connector_id"])
	require.Equal(t, me.get(fmt.Sprintf("/connectors/%d/why", mine.id))["why"], one["why"])
	runs := one["runs"].([]any)
	require.Len(t, runs, 1)
	require.Equal(t, mine.run.String(), runs[0].(map[string]any)["id"])
	require.Equal(t, "superseded", runs[0].(map[string]any)["status"])
	require.Len(t, w.as(1, identity.Superadmin).get(fmt.Sprintf("/connectors/glance?ids=%d,%d", mine.id, others.id))["glances"], 2)
}

func TestAGlanceOfAConnectorInFlightTellsNoQueueThatNobodyHasAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine := w.something(identity.Ownership{UserID: 7, Scope: "user"})
	me := w.as(7, identity.User)
	one := me.get(fmt.Sprintf("/connectors/glance?ids=%d", mine.id))["glances"].([]any)[0].(map[string]any)
	require.Contains(t, one["why"], "no worker has taken it yet")
	require.Equal(t, "in_transit", one["cause"])
	me.refused(422, "invalid", me.do("GET", "/connectors/glance", nil))
}
