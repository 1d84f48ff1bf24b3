package semantic

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
)

// onEveryIndex runs a test with the search in Postgres, and with the search in Qdrant.
func onEveryIndex(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Run("postgres", func(t *testing.T) { test(t, newFixture(t)) })
	t.Run("qdrant", func(t *testing.T) { test(t, newIndexed(t).fixture) })
}

// brought brings what is stored to the index, as the service does in the background.
func (f *fixture) brought() {
	f.t.Helper()
	if f.index != nil {
		require.NoError(f.t, f.index.Look(ctx))
	}
}

// finds are the source ids of the hits, best first.
func (f *fixture) finds(reader Reader, text string) []string {
	f.t.Helper()
	hits, err := NewSearcher(f.pool, f.qdrant).Search(ctx, reader, text, 10)
	require.NoError(f.t, err)
	ids := []string{}
	for _, h := range hits {
		ids = append(ids, h.SourceID)
	}
	return ids
}

func TestTheDocumentWithTheRareWordComesFirstAmongLongChunks(t *testing.T) {
	t.Run("5000 in postgres", func(t *testing.T) { newFixture(t).findsTheRareWord(100) })
	t.Run("1000 in qdrant", func(t *testing.T) { newIndexed(t).findsTheRareWord(20) })
}

// findsTheRareWord searches for a word that one of many long chunks holds: 50 chunks in each of so many documents.
func (f *fixture) findsTheRareWord(documents int64) {
	random := rand.New(rand.NewPCG(1, 2))
	sentence := func() string {
		words := make([]string, 250)
		for i := range words {
			words[i] = fmt.Sprintf("word%d", random.IntN(3000))
		}
		return strings.Join(words, " ")
	}
	c := f.syncing()
	for no := range documents {
		c.stores(c.doc(no+1, fmt.Sprint("doc ", no), "", func(p *internalpb.DocumentPart) {
			p.Chunks, p.ChunkCount = nil, 50
			for range 50 {
				text := sentence()
				if no == documents/2 && len(p.Chunks) == 20 {
					text += " quetzalcoatlus " + sentence()
				}
				p.Chunks = append(p.Chunks, &internalpb.Chunk{Text: text})
			}
		}))
	}
	require.Equal(f.t, 50*documents, f.count("chunks"))
	f.brought()
	for _, text := range []string{"quetzalcoatlus", "Quetzalcoatlus word7", "where is the QUETZALCOATLUS?"} {
		hits := f.finds(Reader{UserID: 1}, text)
		require.NotEmpty(f.t, hits, text)
		require.Equal(f.t, fmt.Sprint("doc ", documents/2), hits[0], text)
	}
}
