package extract_test

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/services/internal/extract"
)

func read(t *testing.T, content string, hint extract.Hint) source.Content {
	t.Helper()
	got, err := extract.Extract(t.Context(), []byte(content), hint)
	require.NoError(t, err)
	checkText(t, got)
	return got
}

// checkText holds what is promised of every result.
func checkText(t testing.TB, got source.Content) {
	t.Helper()
	var at int64
	for _, s := range got.Sections {
		require.Equal(t, at, s.Start)
		require.True(t, utf8.ValidString(s.Text))
		require.NotContains(t, s.Text, "\x00")
		require.NotEmpty(t, strings.TrimSpace(s.Text))
		at += int64(len(s.Text))
	}
	require.Len(t, textOf(got), int(at))
	require.LessOrEqual(t, len(got.Title), extract.MaxTitleBytes)
}

func paths(got source.Content) [][]string {
	var out [][]string
	for _, s := range got.Sections {
		out = append(out, s.HeadingPath)
	}
	return out
}

func TestKindIsToldByContent(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		hint    extract.Hint
		want    string
	}{
		"doctype in a .txt":               {"<!DOCTYPE html><p>Hi", extract.Hint{Name: "a.txt"}, "text/html"},
		"comment before html":             {"<!-- x --><html><body>Hi", extract.Hint{}, "text/html"},
		"xhtml":                           {`<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body>Hi</body></html>`, extract.Hint{}, "text/html"},
		"fragment":                        {"<p>Hello</p>", extract.Hint{}, "text/html"},
		"markdown that begins with a tag": {"<p align=center>\nlogo\n</p>\n\n# Title\n\n- a\n- b\n", extract.Hint{Name: "README.md"}, "text/markdown"},
		"headings and lists":              {"# Title\n\nText\n\n- a\n- b\n", extract.Hint{}, "text/markdown"},
		"named markdown":                  {"just words", extract.Hint{Name: "a.md"}, "text/markdown"},
		"html named markdown":             {"<html><body>x</body></html>", extract.Hint{Name: "a.md"}, "text/html"},
		"json named markdown":             {`{"a": 1}`, extract.Hint{Name: "a.md"}, "application/json"},
		"script with comments":            {"# comment\n\nimport os\n\n# more\nx = 1\n", extract.Hint{Name: "a.py"}, "text/plain"},
		"prose":                           {"One, two.\nThree, four.\nFive, six.\n", extract.Hint{}, "text/plain"},
		"array":                           {"[1, 2]", extract.Hint{}, "application/json"},
		"broken json":                     {"{\"a\": 1,}", extract.Hint{Name: "a.json"}, "text/plain"},
		"a number":                        {"42", extract.Hint{}, "text/plain"},
		"json lines":                      {"{\"a\":1}\n\n{\"a\":2}\n", extract.Hint{}, "application/jsonl"},
		"csv":                             {"id,name,age\n1,Ada,36\n2,Bob,40\n", extract.Hint{}, "text/csv"},
		"semicolons":                      {"id;name;age\n1;Ada;36,5\n2;Bob;40,1\n", extract.Hint{}, "text/csv"},
		"two columns named csv":           {"a,b\n1,2\n", extract.Hint{Name: "x.csv"}, "text/csv"},
		"prose named csv":                 {"no table here\n", extract.Hint{Name: "x.csv"}, "text/plain"},
		"nothing":                         {"", extract.Hint{}, "text/plain"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, read(t, c.content, c.hint).MediaType) })
	}
}

func TestOtherKindsAreRefusedByName(t *testing.T) {
	for name, c := range map[string]struct{ content, mediaType, words string }{
		"pdf":   {"%PDF-1.7\nplain ascii so far", "application/pdf", "PDF (application/pdf)"},
		"png":   {"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "image/png", "PNG image"},
		"zip":   {"PK\x03\x04\x14\x00\x00\x00\x08\x00", "application/zip", "Archive"},
		"elf":   {"\x7fELF\x02\x01\x01\x00" + strings.Repeat("\x00", 8) + "\x02\x00>\x00" + strings.Repeat("\x00", 40), "", "Executable"},
		"rtf":   {`{\rtf1\ansi hello}`, "text/rtf", "Rich text"},
		"xml":   {`<?xml version="1.0"?><feed/>`, "text/xml", "XML"},
		"svg":   {`<svg xmlns="http://www.w3.org/2000/svg"/>`, "image/svg+xml", "SVG image"},
		"noise": {strings.Repeat("\x01\x02\x03\x00\x90\xfe", 100), "application/octet-stream", "Binary data"},
		"docx": {"PK\x03\x04\x14\x00\x08\x00\x08\x00\x00\x00!\x00" + strings.Repeat("\x00", 12) + "\x13\x00\x00\x00[Content_Types].xml" +
			strings.Repeat("\x00", 20) + "PK\x03\x04" + strings.Repeat("\x00", 22) + "\x11\x00\x00\x00word/document.xml", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := extract.Extract(t.Context(), []byte(c.content), extract.Hint{Name: "a.txt"})
			require.ErrorIs(t, err, extract.ErrUnsupported)
			var unsupported *extract.Unsupported
			require.ErrorAs(t, err, &unsupported)
			if c.mediaType != "" {
				require.Equal(t, c.mediaType, unsupported.MediaType)
			}
			require.ErrorContains(t, err, c.words)
		})
	}
}

func TestEmptyContentHasNoSections(t *testing.T) {
	for _, content := range []string{"", " \n\t\r\n", "\xef\xbb\xbf", "\xff\xfe", "\x00"} {
		require.Empty(t, read(t, content, extract.Hint{}).Sections, "%q", content)
	}
}

func TestCharsetsAreRead(t *testing.T) {
	const want = "Füße – naïve café, “quoted”"
	encoded := func(s string, err error) string {
		require.NoError(t, err)
		return s
	}
	for name, content := range map[string]string{
		"utf-8":        want,
		"utf-8 bom":    "\ufeff" + want,
		"utf-16le":     encoded(unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(want)),
		"utf-16be":     encoded(unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewEncoder().String(want)),
		"utf-32le":     encoded(utf32.UTF32(utf32.LittleEndian, utf32.UseBOM).NewEncoder().String(want)),
		"utf-32be":     encoded(utf32.UTF32(utf32.BigEndian, utf32.UseBOM).NewEncoder().String(want)),
		"windows-1252": encoded(charmap.Windows1252.NewEncoder().String(want)),
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, want+"\n\n", textOf(read(t, content, extract.Hint{})))
		})
	}
	t.Run("declared by the source", func(t *testing.T) {
		content := encoded(charmap.KOI8R.NewEncoder().String("Привет мир"))
		require.Equal(t, "Привет мир\n\n", textOf(read(t, content, extract.Hint{MediaType: "text/plain; charset=koi8-r"})))
	})
	t.Run("declared by the page", func(t *testing.T) {
		content := encoded(japanese.ShiftJIS.NewEncoder().String(`<html><head><meta charset="shift_jis"></head><body>日本語</body></html>`))
		require.Equal(t, "日本語\n\n", textOf(read(t, content, extract.Hint{})))
	})
	t.Run("escapes that are valid UTF-8", func(t *testing.T) {
		content := encoded(japanese.ISO2022JP.NewEncoder().String("日本語です"))
		require.Equal(t, "日本語です\n\n", textOf(read(t, content, extract.Hint{MediaType: "text/plain; charset=iso-2022-jp"})))
	})
}

func TestControlCharactersAreCleaned(t *testing.T) {
	got := read(t, "a\x00b\x07c\r\nd\re\tf\u0085g\u200bh"+strings.Repeat(" text", 100), extract.Hint{})
	require.True(t, strings.HasPrefix(textOf(got), "abc\nd\ne\tf\ng\u200bh text"), "%q", textOf(got))
}

func TestInvalidUTF8IsReplaced(t *testing.T) {
	got := read(t, "{\"a\": \"x\xffy\"}", extract.Hint{MediaType: "application/json; charset=utf-8"})
	require.Equal(t, "a: x\ufffdy\n\n", textOf(got))
}

func TestTooMuchContentIsRefused(t *testing.T) {
	_, err := extract.Extract(t.Context(), make([]byte, extract.MaxContentBytes+1), extract.Hint{})
	require.ErrorIs(t, err, extract.ErrTooLarge)
}

func TestAnEndedContextEndsExtraction(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := extract.Extract(ctx, []byte("x"), extract.Hint{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestContentHashTellsTextTitleAndHeadingsApart(t *testing.T) {
	hash := func(content string) string { return read(t, content, extract.Hint{Name: "a.md"}).Hash }
	base := hash("# A\n\ntext\n")
	require.Equal(t, base, hash("# A\r\n\r\n\r\ntext"), "markup alone does not count")
	for _, other := range []string{"# B\n\ntext\n", "# A\n\ntexts\n", "## A\n\ntext\n\n### C\n", "---\ntitle: T\n---\n# A\n\ntext\n"} {
		require.NotEqual(t, base, hash(other), "%q", other)
	}
	require.Len(t, base, 64)
}

func FuzzExtract(f *testing.F) {
	for _, seed := range []string{"# A\n\n- b\n  1. c\n", "<p>a<table><tr><td>b", "a,b\n1,2\n", `{"a":[1,{"b":null}]}`, "\xff\xfea\x00"} {
		f.Add([]byte(seed), "a.md", "")
		f.Add([]byte(seed), "", "text/html")
	}
	f.Fuzz(func(t *testing.T, content []byte, name, mediaType string) {
		got, err := extract.Extract(t.Context(), content, extract.Hint{Name: name, MediaType: mediaType})
		if err == nil {
			checkText(t, got)
		}
	})
}

// textOf joins the texts of the sections.
func textOf(c source.Content) string {
	var b strings.Builder
	for _, s := range c.Sections {
		b.WriteString(s.Text)
	}
	return b.String()
}
