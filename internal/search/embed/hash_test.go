package embed_test

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/search/embed"
)

func vector(t testing.TB, text string) []float32 {
	t.Helper()
	vectors, err := (&embed.Hash{}).Embed(context.Background(), []string{text})
	require.NoError(t, err)
	require.Len(t, vectors, 1)
	require.Len(t, vectors[0], embed.Dimensions)
	return vectors[0]
}

func cosine(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

var texts = []string{
	"the zebra runs over the hill", "Größe und Maß", "Ελληνικά κείμενα", "漢字かな交じり文", "हिन्दी पाठ", "a\xffb \x00 broken",
	strings.Repeat("x", 10_000), strings.Repeat("word ", 100_000),
}

func TestVectorsAreDeterministicAndOfUnitLength(t *testing.T) {
	shared := &embed.Hash{}
	first, err := shared.Embed(context.Background(), texts)
	require.NoError(t, err)
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			again, err := shared.Embed(context.Background(), texts)
			if err != nil || len(again) != len(texts) {
				t.Errorf("%d vectors, %v", len(again), err)
				return
			}
			for i := range again {
				if cosine(first[i], again[i]) < 0.99999 {
					t.Errorf("%.20q has another vector now", texts[i])
				}
			}
		})
	}
	callers.Wait()
	for i, text := range texts {
		require.InDelta(t, 1, math.Sqrt(cosine(first[i], first[i])), 1e-5, "%.20q", text)
		require.Equal(t, first[i], vector(t, text), "%.20q: what was embedded before must not matter", text)
	}
}

func TestATextWithoutWordsIsTheZeroVector(t *testing.T) {
	for _, text := range []string{"", " \n\t", "?! …"} {
		require.Equal(t, make([]float32, embed.Dimensions), vector(t, text), "%q", text)
	}
}

func TestCaseAndPunctuationDoNotMatter(t *testing.T) {
	require.Equal(t, vector(t, "größe, zebra"), vector(t, "GRÖßE — Zebra!"))
	require.Equal(t, []string{"größe", "ελληνικά", "42"}, embed.Words("Größe (Ελληνικά) größe: 42"))
}

func TestTextsThatShareWordsAreNearer(t *testing.T) {
	query := vector(t, "zebra hill")
	require.Greater(t, cosine(query, vector(t, "the zebra runs over the hill")), cosine(query, vector(t, "an invoice for March"))+0.2)
	require.Greater(t, cosine(vector(t, "synchronise"), vector(t, "synchronisation")), 0.3, "parts of words count")
}

func TestACancelledCallEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := (&embed.Hash{}).Embed(ctx, texts)
	require.ErrorIs(t, err, context.Canceled)
}

func BenchmarkEmbed(b *testing.B) {
	h, ctx := &embed.Hash{}, context.Background()
	text := []string{strings.Repeat("the quick brown fox jumps over lazy dogs 42 ", 40)}
	b.SetBytes(int64(len(text[0])))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Embed(ctx, text); err != nil {
			b.Fatal(err)
		}
	}
}
