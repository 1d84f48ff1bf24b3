//go:build !race

package embed_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/search/embed"
)

// One allocation per vector, and one for the slice of them, whatever the text.
func TestEmbeddingAllocatesItsVectorsAlone(t *testing.T) {
	h, ctx := &embed.Hash{}, context.Background()
	batch := []string{texts[0], texts[1], texts[7]}
	allocations := testing.AllocsPerRun(20, func() { _, _ = h.Embed(ctx, batch) })
	require.LessOrEqual(t, allocations, float64(len(batch)+2)) // the pool may be emptied once in between
}
