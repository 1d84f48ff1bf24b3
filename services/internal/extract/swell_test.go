package extract_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/internal/extract"
)

const longKey = 300

// swelling are contents whose text, written out in full, would be many times as large.
func swelling(size int) map[string]string {
	fill := func(begin, unit, end string) string { return begin + strings.Repeat(unit, size/len(unit)+1) + end }
	key := strings.Repeat("k", longKey)
	return map[string]string{
		"numbers.json":  fill(`{"`+key+`":[`, "1,", "1]}"),
		"objects.json":  fill(`{"`+key+`":[`, `{"":1},`, "1]}"),
		"arrays.json":   fill(`{"`+key+`":[[`, `[1],`, "1]]}"),
		"lines.json":    fill("", `{"`+key+`":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}`+"\n", ""),
		"escapes.json":  fill("[", `"\ud800",`, "1]"),
		"sparse.csv":    fill(strings.Repeat("h", 400)+",b\n", strings.Repeat(",", 200)+"1\n", ""),
		"rows.csv":      fill(strings.Repeat("h", 400)+",b\n", strings.Repeat("words of a row ", 40)+",1\n", ""),
		"cells.html":    fill("<table><tr>", "<td>1", ""),
		"items.html":    fill(strings.Repeat("<ul>", 30), "<li>1", ""),
		"breaks.html":   fill("", "x<hr>", ""),
		"entities.html": fill("", "&nGt;", ""),
		"items.md":      fill("", "- 1\n", ""),
	}
}

func TestTheTextOfADocumentIsBoundedByItsContent(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, 60 << 10, 390 << 10, 2 << 20} {
		for name, content := range swelling(size) {
			text, err := extract.Extract(t.Context(), []byte(content), extract.Hint{Name: name})
			require.NoError(t, err, name)
			written := 0
			for _, s := range text.Sections {
				written += len(s.Text)
			}
			require.LessOrEqual(t, written, extract.TextPerByte*len(content)+extract.TextBeside, "%s, %d bytes", name, size)
			require.NotZero(t, written, name)
		}
	}
}

func TestPathsThatAreRepeatedWithoutEndAreLeftOutAndEveryValueStays(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"` + strings.Repeat("k", longKey) + `":[`)
	for i := range 1000 {
		fmt.Fprintf(&b, `{"name":"v%d"},`, i)
	}
	b.WriteString(`{"name":"last"}]}`)
	text, err := extract.Extract(t.Context(), []byte(b.String()), extract.Hint{})
	require.NoError(t, err)
	content := textOf(text)
	require.True(t, strings.HasPrefix(content, strings.Repeat("k", longKey)))
	for i := range 1000 {
		require.Contains(t, content, fmt.Sprintf("v%d\n", i))
	}
	require.True(t, strings.HasSuffix(content, "\nname: last\n\n"), "a value's own key is no repetition")
}

func TestTheAnswerOfAChildIsBoundedByItsContent(t *testing.T) {
	t.Parallel()
	reader := confined(t)
	for name, content := range swelling(390 << 10) {
		text, err := reader.Extract(t.Context(), []byte(content), extract.Hint{Name: name})
		require.NoError(t, err, name)
		require.LessOrEqual(t, len(textOf(text)), extract.TextPerByte*len(content)+extract.TextBeside, name)
	}
}
