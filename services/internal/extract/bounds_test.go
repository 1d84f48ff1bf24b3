package extract_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/internal/extract"
)

func TestALongHeaderOfCSVDoesNotMakeAChunkOfEachRow(t *testing.T) {
	header := strings.Repeat("字", 180) + "," + strings.Repeat("!", 500)
	rows := strings.Repeat("a row of fifty bytes,and its other field more or less\n", 5_600_000/54)
	text, err := extract.Extract(t.Context(), []byte(header+"\n"+rows), extract.Hint{Name: "x.csv"})
	require.NoError(t, err)
	chunks := chunk.Split(text.Sections, chunk.Options{MaxTokens: 400, OverlapPercent: 15})
	require.Less(t, len(chunks), 12_000)
	require.NoError(t, worker.Oversize(chunks))
	require.Contains(t, text.Sections[1].Text, "字字字", "the header is repeated, as far as it is short")
}

func TestATextOfMoreSectionsThanAreStoredIsRefusedByItsContent(t *testing.T) {
	require.Equal(t, worker.MaxChunks, extract.MaxSections)
	for name, one := range map[string]string{"a.md": "# a\n", "a.html": "<h2>a</h2>"} {
		content := func(sections int) []byte { return []byte(strings.Repeat(one, sections)) }
		text, err := extract.Extract(t.Context(), content(extract.MaxSections), extract.Hint{Name: name})
		require.NoError(t, err, name)
		require.Len(t, text.Sections, extract.MaxSections)
		_, err = extract.Extract(t.Context(), content(extract.MaxSections+1), extract.Hint{Name: name})
		require.ErrorIs(t, err, extract.ErrTooLarge, name)
		require.True(t, extract.OfContent(err))
		require.ErrorContains(t, err, "more than 100000 sections")
	}
}
