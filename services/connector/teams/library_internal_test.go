package teams

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/graph"
)

func TestOfTheLibrarysChangesThoseOfAttachedFilesAreHeld(t *testing.T) {
	found := changes{
		byItem: map[string][]string{"stored": {"a"}, "gone": {"b"}}, byName: map[string][]string{"plan.txt": {"c"}},
		due: map[string]struct{}{}, told: map[string]struct{}{},
	}
	page := []graph.Item{{ID: "stored"}, {ID: "gone"}, {ID: "other"}, {ID: "another", Name: "Plan.txt"}}
	require.NoError(t, json.Unmarshal([]byte(`{"id":"gone","deleted":{},"file":{}}`), &page[1]))
	require.NoError(t, json.Unmarshal([]byte(`{"id":"other","deleted":{},"file":{}}`), &page[2]))
	found.take(page, "folder")
	require.Equal(t, map[string]struct{}{"a": {}, "b": {}, "c": {}}, found.due)
	require.Equal(t, map[string]struct{}{"gone": {}}, found.told)
	require.False(t, found.all)
	folder := graph.Item{ID: "below"}
	require.NoError(t, json.Unmarshal([]byte(`{"id":"below","folder":{},"deleted":{}}`), &folder))
	found.take([]graph.Item{folder}, "folder")
	require.True(t, found.all)
	require.False(t, found.came, "what goes brings nothing back")
	folder.Deleted = nil
	found.take([]graph.Item{folder}, "folder")
	require.True(t, found.came)
	require.Len(t, found.due, 3)
}
