package teams

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/graph"
)

func TestOfTheLibrarysChangesThoseOfAttachedFilesAreHeld(t *testing.T) {
	s := &syncer{known: map[string]worker.Known{
		"message/1":   {VersionToken: thread{}.String()},
		"message/1/a": {VersionToken: fileToken{item: "stored"}.String()},
		"message/1/b": {ContentHash: failure{kind: ofReading, item: "failed", hash: "x"}.String()},
	}}
	found := changes{items: map[string]struct{}{}}
	page := []graph.Item{{ID: "stored"}, {ID: "failed"}, {ID: "other"}, {ID: "another"}}
	found.take(page, "folder", s.attachedItems())
	require.Equal(t, changes{items: map[string]struct{}{"stored": {}, "failed": {}}}, found)
	folder := graph.Item{ID: "below"}
	require.NoError(t, json.Unmarshal([]byte(`{"id":"below","folder":{}}`), &folder))
	found.take([]graph.Item{folder}, "folder", nil)
	require.True(t, found.all)
}
