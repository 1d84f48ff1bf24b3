package onedrive

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/graph"
)

func TestMemosAreReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var folders []step
		for range rapid.IntRange(0, maxDepth).Draw(t, "depth") {
			folders = append(folders, step{
				id: rapid.StringN(1, 60, 100).Draw(t, "id"), name: rapid.StringMatching(`([A-Za-z0-9_-]{8})?`).Draw(t, "name"),
			})
		}
		item := graph.Item{ID: "id", CTag: rapid.String().Draw(t, "ctag"), ETag: rapid.String().Draw(t, "etag")}
		now := newMemo(folders, rapid.Bool().Draw(t, "cut")).withContent(item, memo{})
		text, err := json.Marshal(now)
		require.NoError(t, err)
		require.LessOrEqual(t, len(text), worker.MaxMemoBytes)
		read := memoOf(source.Stored{Memo: text})
		require.Equal(t, now, read)
		require.Equal(t, read, read.withContent(item, read), "the same item has the same memo")
		steps := read.steps()
		require.Equal(t, append([]step(nil), folders[:len(steps)]...), append([]step(nil), steps...))
		require.True(t, len(steps) == len(folders) || read.Cut)
	})
}

func TestAContentKeepsItsVersionWhicheverOfItsNamesIsListed(t *testing.T) {
	hashed := graph.Item{ETag: "e"}
	require.NoError(t, json.Unmarshal([]byte(`{"file":{"hashes":{"quickXorHash":"h"}}}`), &hashed))
	both := hashed
	both.CTag = "c"
	tagged := graph.Item{ETag: "e", CTag: "c"}
	for _, order := range [][]graph.Item{{hashed, both, tagged}, {tagged, both, hashed}, {both, hashed, tagged}} {
		m := memo{}.withContent(order[0], memo{})
		first := m.Version
		for _, item := range order {
			m = memo{}.withContent(item, m)
			require.Equal(t, first, m.Version)
		}
		other := tagged
		other.CTag = "another"
		require.NotEqual(t, first, memo{}.withContent(other, m).Version)
	}
}

func TestWhatIsNoMemoHoldsNothing(t *testing.T) {
	for _, text := range []string{"", "null", "12", `"v1"`, `{"in":12}`} {
		require.Empty(t, memoOf(source.Stored{Memo: json.RawMessage(text)}).In, text)
	}
	require.Len(t, memoOf(source.Stored{Memo: json.RawMessage(`{"in":["", "x"]}`)}).steps(), 2)
}

func TestTheTreeIsBuiltFromWhatIsRemembered(t *testing.T) {
	of := func(cut bool, steps ...step) source.Stored {
		text, err := json.Marshal(newMemo(steps, cut))
		require.NoError(t, err)
		return source.Stored{Memo: text}
	}
	b, c := step{"b", "name-b"}, step{"c", "name-c"}
	tr := newTree("root", maps.All(map[string]source.Stored{"1": of(false, b, c), "2": of(false, c), "3": of(false)}))
	require.Equal(t, map[string]folder{"b": {parent: "c", name: "name-b"}, "c": {parent: "root", name: "name-c"}}, tr.folders)
	require.False(t, tr.cut)
	tr = newTree("root", maps.All(map[string]source.Stored{"1": of(false, b, c), "2": of(false, step{"b", "renamed"}, c)}))
	require.Empty(t, tr.folders["b"].name, "a sync died while it renamed")
	require.NotEmpty(t, tr.folders["c"].name)
	tr = newTree("root", maps.All(map[string]source.Stored{"1": of(true, b, c), "2": of(true)}))
	require.Equal(t, map[string]folder{"b": {parent: "c", name: "name-b"}}, tr.folders, "what is above the last is not known")
	require.True(t, tr.cut)
}

func TestACursorWithTheLongestLinkFits(t *testing.T) {
	const rest = 4 << 10 // ids, field names, and what the engine and the kit add
	require.Less(t, graph.MaxLinkBytes+maxLost*(maxLostBytes+3)+rest, worker.MaxStateBytes)
}
