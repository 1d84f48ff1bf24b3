//go:build !race

// What Postgres decides is the same under the race detector.

package semantic

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
)

// ofManyChunks makes a document one of n one-letter chunks.
func ofManyChunks(n int) func(*internalpb.DocumentPart) {
	return func(p *internalpb.DocumentPart) {
		p.Chunks, p.ChunkCount = nil, int32(n)
		for i := range n {
			p.Chunks = append(p.Chunks, &internalpb.Chunk{Text: "a", Start: int64(i), End: int64(i + 1)})
		}
	}
}

func TestManySmallChunksAreEmbeddedAndStoredInPortions(t *testing.T) {
	f := newFlow(t)
	var texts, pieces, stores atomic.Int32
	f.embedding = func(all []string) error { atMost(&texts, len(all)); return nil }
	f.writing = func(all []Piece) error { atMost(&pieces, len(all)); stores.Add(1); return nil }
	c := f.syncing()
	for no := range int64(7) {
		f.publishes(c.doc(no+1, fmt.Sprint("doc ", no), "x", ofManyChunks(topology.MaxMessageChunks-1)))
	}
	f.publishes(c.completed(7))
	f.runs()
	f.becomes(c, "completed")
	require.LessOrEqual(t, texts.Load(), int32(embedTexts))
	require.LessOrEqual(t, pieces.Load(), int32(portionRows))
	require.GreaterOrEqual(t, stores.Load(), int32(4))
	require.Equal(t, int64(7*(topology.MaxMessageChunks-1)), f.count("chunks"))
}

func atMost(most *atomic.Int32, n int) {
	for old := most.Load(); int32(n) > old && !most.CompareAndSwap(old, int32(n)); old = most.Load() {
		continue
	}
}

func TestPortionsAreInTheOrderOfTheNumbersWithSyncCompletedLastAndBounded(t *testing.T) {
	c := trip{}
	var group []delivery
	ids := strings.Split(strings.Repeat("x ", topology.MaxMessageSeen-1), " ")
	for no := range int64(60) {
		m := c.doc(no+1, "a", "x", ofManyChunks(rand.IntN(topology.MaxMessageChunks)))
		switch no % 4 {
		case 1:
			m = c.seen(no+1, 1, ids...)
		case 2:
			m = c.doc(no+1, "a", strings.Repeat("x", 500<<10))
		}
		group = append(group, delivery{request: m})
	}
	group = append(group, delivery{request: c.completed(60)})
	rand.Shuffle(len(group), func(i, j int) { group[i], group[j] = group[j], group[i] })
	var numbers []int64
	for _, together := range portions(group) {
		rows, size := 0, 0
		for _, d := range together {
			numbers = append(numbers, d.request.Number)
			rows += rowsOf(d.request)
			size += proto.Size(d.request)
		}
		require.LessOrEqual(t, rows, portionRows)
		require.LessOrEqual(t, size, portionBytes)
	}
	require.Len(t, numbers, 61)
	for i, no := range numbers[:60] {
		require.Equal(t, int64(i+1), no)
	}
	require.Zero(t, numbers[60])
}

func TestMessagesThatReplaceOrDeleteTooMuchTogetherAreStoredApart(t *testing.T) {
	f := newFixture(t)
	texts := map[string]string{}
	for i := range 8 {
		texts[fmt.Sprint(i)] = "old"
	}
	c := f.synced(texts).again()
	f.exec(`UPDATE documents SET chunk_count = $1`, replacedChunks/2)
	var all []*internalpb.DocumentProcessRequest
	for i := range int64(8) {
		m := c.deletion(i+1, fmt.Sprint(i))
		if i%2 == 0 {
			m = c.doc(i+1, fmt.Sprint(i), "new")
		}
		all = append(all, m)
	}
	c.stores(append(all, c.completed(8))...)
	require.Equal(t, "completed", c.verdict())
	require.Equal(t, int64(4), one[int64](f, `SELECT count(DISTINCT xmin::text) FROM run_messages WHERE try_id = $1`, c.try))
	require.Equal(t, int64(4), f.count("chunks WHERE text = 'new'"))
	require.Zero(t, f.count("chunks WHERE text = 'old'"))
}

func TestAPartOrANoteThatExceedsItsLimitsIsRefused(t *testing.T) {
	c := trip{}
	part := func(change func(*internalpb.DocumentPart)) *internalpb.DocumentProcessRequest {
		return c.doc(1, "a", "x", change)
	}
	for says, m := range map[string]*internalpb.DocumentProcessRequest{
		"parts 10001":         part(func(p *internalpb.DocumentPart) { p.Parts = topology.MaxDocumentParts + 1 }),
		"2001 chunks":         part(ofManyChunks(topology.MaxMessageChunks + 1)),
		"chunk_count 100001":  part(func(p *internalpb.DocumentPart) { p.ChunkCount = topology.MaxDocumentChunks + 1 }),
		"chunk_count -1":      part(func(p *internalpb.DocumentPart) { p.ChunkCount = -1 }),
		"chunks -1 to 0":      part(func(p *internalpb.DocumentPart) { p.FirstChunk = -1 }),
		"chunks 100000":       part(func(p *internalpb.DocumentPart) { p.FirstChunk = topology.MaxDocumentChunks }),
		"1001 documents seen": c.seen(1, 1, make([]string, topology.MaxMessageSeen+1)...),
	} {
		require.ErrorContains(t, check(m), says)
	}
	require.NoError(t, check(part(func(p *internalpb.DocumentPart) {
		ofManyChunks(topology.MaxMessageChunks)(p)
		p.Parts, p.ChunkCount, p.FirstChunk = topology.MaxDocumentParts, topology.MaxDocumentChunks, topology.MaxDocumentChunks-topology.MaxMessageChunks
	})))
}
