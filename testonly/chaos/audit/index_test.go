package audit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/source"
)

const indexed = "the index is what documents show"

// held is an index that a test fills itself.
type held struct {
	*lab
	points []audit.Point
	away   error
	lost   bool
}

func (h *held) look() audit.Finding {
	h.t.Helper()
	f, err := audit.Index(ctx, h.pool, func(_ context.Context, collection string) ([]audit.Point, error) {
		require.Equal(h.t, "tests-00000000-0000-0000-0000-000000000001", collection)
		return h.points, h.away
	}, h.lost)
	require.NoError(h.t, err)
	require.Equal(h.t, indexed, f.Name)
	return f
}

func (h *held) says(parts ...string) {
	h.t.Helper()
	f := h.look()
	require.Equal(h.t, len(parts), f.Violated, f.Violations)
	for _, part := range parts {
		require.Contains(h.t, strings.Join(f.Violations, "\n"), part)
	}
	found.Store(indexed, true)
}

func TestAnIndexThatIsNotWhatDocumentsShowIsFound(t *testing.T) {
	h := &held{lab: newLab(t)}
	h.says("nobody keeps an index")
	h.do(`INSERT INTO search_index (name, generation) VALUES ('tests', '00000000-0000-0000-0000-000000000001')`)
	require.Zero(t, h.look().Checked, "there is nothing to look at")

	cfg := source.Config{Documents: 3, Mode: source.Delta}
	id, try := h.synced(cfg)
	h.do(`INSERT INTO chunks (try_id, first_no, document_id, no, text, start_offset, end_offset, embedder, embedding)
		SELECT gen_random_uuid(), 1, id, 0, 'of a version before', 0, 0, 'test', '{}' FROM documents`)
	var waiting, chunks int
	h.ask(&waiting, `SELECT count(*) FROM search_index_changes`)
	require.Positive(t, waiting, "the documents are noted")
	h.ask(&chunks, `SELECT count(*) FROM chunks WHERE try_id = $1`, try)
	require.Greater(t, chunks, 1)
	waits := fmt.Sprintf("%d changes wait", waiting)
	h.away = errors.New("it is away")
	h.says(waits, "cannot be read: it is away")
	h.away = nil
	require.Equal(t, 1+chunks, h.look().Violated, "nothing is in it")

	rows, err := h.pool.Query(ctx, `SELECT document_id, no FROM chunks WHERE try_id = $1`, try)
	require.NoError(t, err)
	for rows.Next() {
		p := audit.Point{Scope: "user_1", ConnectorID: id, TryID: try.String(), FirstNo: 1}
		require.NoError(t, rows.Scan(&p.DocumentID, &p.No))
		h.points = append(h.points, p)
	}
	require.NoError(t, rows.Err())
	h.says(waits)
	h.do(`DELETE FROM search_index_changes`)
	f := h.look()
	require.Empty(t, f.Violations)
	require.Equal(t, chunks, f.Checked)

	outdated := h.points[0]
	outdated.TryID = "another"
	h.points = append(h.points, outdated, h.points[1])
	h.says("which no document shows", "holds it twice")
	h.lost = true
	require.Empty(t, h.look().Violations, "Postgres has lost what brought it there")
	h.points = h.points[1 : len(h.points)-2]
	h.says("is not in the index")
}
