package onedrive

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/graph"
)

func TestTokensAreReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := token{Version: graph.Version{
			CTag: rapid.StringMatching(`[A-Za-z0-9_-]{1,16}`).Draw(t, "ctag"), Hash: rapid.StringMatching(`[A-Za-z0-9_-]{0,16}`).Draw(t, "hash"),
			ETag: "etag",
		}}
		for range rapid.IntRange(0, 60).Draw(t, "depth") {
			now.folders = append(now.folders, step{
				id: rapid.StringN(1, 60, 100).Draw(t, "id"), name: rapid.StringMatching(`[A-Za-z0-9_-]{8}`).Draw(t, "name"),
			})
		}
		text := now.String()
		require.LessOrEqual(t, len(text), worker.MaxTokenBytes)
		read, ok := parseToken(text)
		require.True(t, ok)
		require.True(t, now.same(read))
		require.Equal(t, text, read.String())
		known := len(read.folders)
		if known > 0 && read.folders[known-1].id == cut {
			known--
		}
		require.Equal(t, now.folders[:known], append([]step(nil), read.folders[:known]...)[:known:known])

		f := failure{kind: ofReading, hash: "hash", folders: now.folders}
		require.LessOrEqual(t, len(f.String()), maxHash)
		again, ok := parseFailure(f.String())
		require.True(t, ok)
		require.Equal(t, f.String(), again.String())
	})
}

func TestOtherTokensAreNotOurs(t *testing.T) {
	for _, text := range []string{"", "v1", "v2 -a -b -c /", "12-34", "v1 a b c d e"} {
		_, ok := parseToken(text)
		require.False(t, ok, text)
	}
	for _, text := range []string{"", "d41d8cd98f00b204e9800998ecf8427e", "read x"} {
		_, ok := parseFailure(text)
		require.False(t, ok, text)
	}
}

func TestTheTreeIsBuiltFromWhatIsRemembered(t *testing.T) {
	of := func(steps ...step) worker.Known {
		return worker.Known{VersionToken: token{Version: graph.Version{CTag: "c"}, folders: steps}.String()}
	}
	b, c := step{"b", "name-b"}, step{"c", "name-c"}
	tr := newTree("root", map[string]worker.Known{"1": of(b, c), "2": of(c), "3": of()})
	require.Equal(t, map[string]folder{"b": {parent: "c", name: "name-b"}, "c": {parent: "root", name: "name-c"}}, tr.folders)
	tr = newTree("root", map[string]worker.Known{"1": of(b, c), "2": of(step{"b", "renamed"}, c)})
	require.True(t, tr.folders["b"].unsure, "a sync died while it renamed")
	require.False(t, tr.folders["c"].unsure)
}

func TestAStateWithTheLongestLinkFits(t *testing.T) {
	const rest = 4 << 10 // ids, field names, and what the kit adds
	require.Less(t, graph.MaxLinkBytes+rest, worker.MaxStateBytes)
}
