package memsink

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
)

func TestAMemoComesBackAsSemanticKeepsIt(t *testing.T) {
	ctx, full := context.Background(), false
	s := New()
	s.Refuses = func(worker.Document) bool { return full }
	s.GivesUp = func(string) bool { return true }
	knows := func(want string) {
		t.Helper()
		known, err := s.Known(ctx)
		require.NoError(t, err)
		require.Equal(t, want, string(known["a"].Memo))
	}
	doc := func(memo string) worker.Document {
		return worker.Document{SourceID: "a", VersionToken: "v", ContentHash: "h", Memo: json.RawMessage(memo)}
	}
	knows("")
	require.NoError(t, s.Put(ctx, doc(` { "n": 1 } `)))
	knows(`{"n":1}`)
	require.NoError(t, s.Touch(ctx, doc("2")))
	knows("2")
	failed := doc("3")
	failed.Err = "unreadable"
	require.NoError(t, s.Put(ctx, failed))
	knows("3")
	full = true
	require.NoError(t, s.Put(ctx, doc("4")))
	knows("4")
	require.NoError(t, s.Delete(ctx, "a"))
	knows("4")
	for _, bad := range []string{"{", `"\u0000"`} {
		require.ErrorContains(t, s.Put(ctx, doc(bad)), "memo")
	}
	s.Reconfigure()
	knows("")
	require.NoError(t, s.Put(ctx, doc("")))
	knows("")
}
