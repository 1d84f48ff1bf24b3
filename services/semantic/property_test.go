package semantic

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
)

// script is a session's messages, drawn without its connector: numbers and bodies only.
type script []func(trip) *internalpb.DocumentProcessRequest

// drawScript draws what a worker could send: documents of one to three parts, deletions, both several times for one
// document; documents that could not be read; and sync completed as the last.
func drawScript(t *rapid.T) script {
	var s script
	next := func() int64 { return int64(len(s)) + 1 }
	for range rapid.IntRange(0, 6).Draw(t, "documents") {
		id := rapid.SampledFrom([]string{"kept", "a", "b", "c"}).Draw(t, "id")
		if rapid.Bool().Draw(t, "deleted") {
			no := next()
			s = append(s, func(c trip) *internalpb.DocumentProcessRequest { return c.deletion(no, id) })
			continue
		}
		parts := rapid.IntRange(1, 3).Draw(t, "parts")
		text := fmt.Sprintf("text %d", next())
		for i := range parts {
			no := next()
			s = append(s, func(c trip) *internalpb.DocumentProcessRequest { return c.doc(no, id, text, part(i, parts)) })
		}
	}
	if rapid.Bool().Draw(t, "unreadable") {
		no := next()
		s = append(s, func(c trip) *internalpb.DocumentProcessRequest { return c.doc(no, "secret", "s", unreadable) })
	}
	if rapid.Bool().Draw(t, "touched") {
		no := next()
		s = append(s, func(c trip) *internalpb.DocumentProcessRequest {
			return c.doc(no, "steady", "t", touched("hash of stone", "v2"))
		})
	}
	total := int64(len(s))
	return append(s, func(c trip) *internalpb.DocumentProcessRequest { return c.completed(total) })
}

func TestAnyOrderWithAnyRepeatsOnTwoWorkersEndsAsTheSequenceDoes(t *testing.T) {
	f := newFixture(t)
	before := map[string]string{"kept": "old", "a": "old", "secret": "old", "steady": "stone"}
	rapid.Check(t, func(rt *rapid.T) {
		s := drawScript(rt)
		straight := f.synced(before).again()
		for _, m := range s {
			straight.stores(m(straight))
		}

		mixed := f.synced(before).again()
		order := rapid.Permutation(indices(len(s))).Draw(rt, "order")
		order = append(order, rapid.SliceOfN(rapid.IntRange(0, len(s)-1), 0, 6).Draw(rt, "repeats")...)
		size := rapid.IntRange(1, 4).Draw(rt, "batch")
		batches := make(chan []*internalpb.DocumentProcessRequest, len(order))
		for len(order) > 0 {
			n := min(size, len(order))
			var batch []*internalpb.DocumentProcessRequest
			for _, i := range order[:n] {
				batch = append(batch, proto.Clone(s[i](mixed)).(*internalpb.DocumentProcessRequest))
			}
			batches <- batch
			order = order[n:]
		}
		close(batches)
		var workers sync.WaitGroup
		for range 2 {
			workers.Go(func() {
				for batch := range batches {
					if err := mixed.handles(batch...); err != nil {
						t.Errorf("store: %v", err)
					}
				}
			})
		}
		workers.Wait()
		require.NoError(rt, inTime(f.Sweep))
		require.NoError(rt, inTime(f.SweepChunks))

		require.Equal(rt, straight.documents(), mixed.documents())
		require.Equal(rt, straight.verdict(), mixed.verdict())
		require.Equal(rt, straight.stored(), mixed.stored())
		require.Equal(rt, "ACTIVE", mixed.status())
		require.Contains(rt, one[string](f, `SELECT state::text FROM connectors WHERE id = $1`, mixed.connector), mixed.session.String())
		// What is swept leaves exactly the chunks that documents name, and no trace of the session.
		require.Equal(rt, one[int64](f, `SELECT coalesce(sum(chunk_count), 0) FROM documents`), f.count("chunks"))
		require.Empty(rt, f.wronglyCounted())
		require.Zero(rt, f.count("run_messages"))
		require.Zero(rt, f.count("documents WHERE status IN ('deleted', 'partial')"))
	})
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// wronglyCounted are connectors whose document_counts differ from their documents.
func (f *fixture) wronglyCounted() []string {
	f.t.Helper()
	return many[string](f, `SELECT format('connector %s: %s documents, %s bytes too many', connector_id, sum(documents), sum(bytes)) FROM (
		SELECT connector_id, config_version, documents, bytes FROM document_counts UNION ALL
		SELECT connector_id, config_version, -count(*) FILTER (WHERE EXISTS (SELECT FROM chunks c WHERE c.try_id = d.try_id AND c.first_no = d.first_no AND c.document_id = d.id)),
			-sum(text_bytes + octet_length(title) + octet_length(url) + octet_length(array_to_string(links, ''))) FROM documents d GROUP BY 1, 2) n
		GROUP BY connector_id, config_version HAVING sum(documents) <> 0 OR sum(bytes) <> 0`)
}
