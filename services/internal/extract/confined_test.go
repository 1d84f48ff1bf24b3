package extract_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/internal/extract"
)

// cloned is a page whose open <b> the parser clones with all its attributes at each <p>.
func cloned(attributes, paragraphs int) string {
	var b strings.Builder
	b.WriteString("<p><b")
	for i := range attributes {
		fmt.Fprintf(&b, " a%d", i)
	}
	b.WriteString("></p>")
	b.WriteString(strings.Repeat("<p>x", paragraphs))
	return b.String()
}

func TestADocumentThatNeedsTooMuchMemoryFailsAlone(t *testing.T) {
	t.Parallel()
	reader := confined(t)
	for name, c := range map[string]struct{ content, file string }{
		"17 KB of HTML":      {cloned(1000, 3000), "a.html"},
		"65 KB of HTML":      {cloned(4000, 10_000), "a.html"},
		"a one-line CSV":     {strings.Repeat("a,", 16<<20), "a.csv"},
		"a CSV in one field": {`a,b,"` + strings.Repeat("c,", 16<<20-100), "a.csv"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := reader.Extract(t.Context(), []byte(c.content), extract.Hint{Name: c.file})
			if name != "a CSV in one field" {
				require.EqualError(t, err, "could not be read: needs more than 256 MB")
				require.True(t, extract.OfContent(err))
			}
			text, err := reader.Extract(t.Context(), []byte("# Title\n\nwords"), extract.Hint{Name: "a.md"})
			require.NoError(t, err)
			require.Equal(t, "Title", text.Title)
		})
	}
}

// The parser adds the attributes of each <body> and <html> after the first to it, and looks at all that it has each time.
func TestAPageOfManyBodiesIsReadLikeAnyOther(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{"body", "HTML", "hTmL"} {
		var page strings.Builder
		page.WriteString("<!doctype html><title>T</title><body>first")
		for i := range 60_000 / scale {
			fmt.Fprintf(&page, "<%s a%d>", tag, i)
		}
		page.WriteString("<p>last")
		text, err := confined(t).Extract(t.Context(), []byte(page.String()), extract.Hint{Name: "a.html"})
		require.NoError(t, err, "%d bytes", page.Len())
		require.Equal(t, "T", text.Title)
		require.Equal(t, []string{"first", "last"}, strings.Fields(textOf(text)))
	}
}

// What is large but ordinary still fits.
func TestAsMuchIsReadInAChildAsBefore(t *testing.T) {
	t.Parallel()
	reader := confined(t)
	fill := func(piece string, size int) string { return strings.Repeat(piece, size/len(piece)/scale) }
	for name, c := range map[string]struct{ content, file string }{
		"plain text, 32 MiB":           {fill("hello world, this is a line of words\n", 32<<20), "a.txt"},
		"unclean text, 32 MiB":         {fill("hello world,\r\nthis is a line of words\r\n", 32<<20), "a.txt"},
		"windows-1252, 16 MiB":         {fill("caf\xe9 au lait, un caf\xe9\n", 16<<20), "a.txt"},
		"Markdown, 32 MiB":             {fill("## h\n\nhello world, this is a *line* of words\n\n", 32<<20), "a.md"},
		"Markdown, 1 MiB":              {fill("## h\n\nhello world, this is a *line* of words\n\n", 1<<20), "a.md"},
		"CSV, 16 MiB":                  {fill("one,two words,three,4\n", 16<<20), "a.csv"},
		"JSON, 8 MiB":                  {"[" + fill(`{"a":"some text","b":[1,2,3]},`, 8<<20) + "1]", "a.json"},
		"HTML, 32 MiB":                 {fill("<p>hello <b>world</b>, <a href=/x>this</a> is a line of words\n", 32<<20), "a.html"},
		"HTML, 1 MiB":                  {fill("<p>hello <b>world</b>, <a href=/x>this</a> is a line of words\n", 1<<20-100), "a.html"},
		"HTML, 1 MiB of <br>":          {fill("<br>", 1<<20-100) + "x", "a.html"},
		"headings, 400,000 bytes of #": {fill("# a\n", 400_000-4), "a.md"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, err := extract.Extract(t.Context(), []byte(c.content), extract.Hint{Name: c.file})
			require.NoError(t, err)
			got, err := reader.Extract(t.Context(), []byte(c.content), extract.Hint{Name: c.file})
			require.NoError(t, err)
			require.Equal(t, want.Hash, got.Hash)
			require.Equal(t, want.MediaType, got.MediaType)
		})
	}
}

func TestErrorsComeThroughAChildAsTheyAre(t *testing.T) {
	t.Parallel()
	reader := confined(t)
	for name, c := range map[string]struct {
		content []byte
		kind    error
	}{
		"not read":  {[]byte("%PDF-1.7"), extract.ErrUnsupported},
		"too large": {make([]byte, extract.MaxContentBytes+1), extract.ErrTooLarge},
		"too deep":  {[]byte(strings.Repeat("[", 300) + strings.Repeat("]", 300)), extract.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			_, here := extract.Extract(t.Context(), c.content, extract.Hint{Name: "a.json"})
			_, there := reader.Extract(t.Context(), c.content, extract.Hint{Name: "a.json"})
			require.ErrorIs(t, here, c.kind)
			require.ErrorIs(t, there, c.kind)
			require.EqualError(t, there, here.Error())
			require.True(t, extract.OfContent(there))
		})
	}
	require.Equal(t, extract.Version+"m256", reader.Version())
}
