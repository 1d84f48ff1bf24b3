package extract_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/services/internal/extract"
)

// maxFuzzBytes keeps what is read in this process from taking it down.
const maxFuzzBytes = 8 << 10

// fuzz reads every input in this process and in a child, which must agree unless it costs the child its life.
func fuzz(f *testing.F, hint extract.Hint, seeds ...string) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	reader := confined(f)
	f.Fuzz(func(t *testing.T, content []byte) {
		content = content[:min(len(content), maxFuzzBytes)]
		here, hereErr := extract.Extract(t.Context(), content, hint)
		there, thereErr := reader.Extract(t.Context(), content, hint)
		var failure *confine.Failure
		if errors.As(thereErr, &failure) {
			require.NotEqual(t, confine.Broken, failure.Cause, "%s", failure)
			return
		}
		if hereErr != nil {
			require.NotErrorIs(t, hereErr, extract.ErrBroken, "a parser panicked")
			require.EqualError(t, thereErr, hereErr.Error())
			return
		}
		require.NoError(t, thereErr)
		checkText(t, here)
		require.Equal(t, here.Title, there.Title)
		require.Equal(t, here.MediaType, there.MediaType)
		require.Len(t, there.Sections, len(here.Sections))
		for i := range here.Sections {
			require.Equal(t, here.Sections[i].Text, there.Sections[i].Text)
			require.Equal(t, here.Sections[i].Start, there.Sections[i].Start)
			require.ElementsMatch(t, here.Sections[i].HeadingPath, there.Sections[i].HeadingPath)
		}
	})
}

func FuzzHTML(f *testing.F) {
	fuzz(f, extract.Hint{Name: "a.html", MediaType: "text/html"}, "", "<html><body><h1>A</h1><p>b<h2>c</h2><ul><li>d<ol><li>e</ul>", cloned(50, 50),
		strings.Repeat("<br>", 500), strings.Repeat("<div>", 600), "<table><tr><td>a<td>b<table><p>c</table>", "<pre>\n a\n</pre><title>t</title><nav>n",
		"<svg><math><p>x</svg>", "<a><b><i><a><b><i>x</a></b></i>", "<html><head><meta charset=shift_jis>\x83e", "<!doctype html><p>"+strings.Repeat("A sentence of some words. ", 40))
}

func FuzzMarkdown(f *testing.F) {
	fuzz(f, extract.Hint{Name: "a.md"}, "", "# A\n\nb\n\n## C\n\n- d\n  1. e\n\n> f\n", "---\ntitle: T\n---\n# A\n", "| a | b |\n|---|---|\n| c | d |\n",
		strings.Repeat("[", 200), strings.Repeat("> ", 120)+"x", "```go\ncode\n```\n", "a `b` **c** ~~d~~ <br> &amp; [e](f \"g\") ![h](i)\n", "- [ ] a\n- [x] b\n", strings.Repeat("*a_", 100))
}

func FuzzCSV(f *testing.F) {
	fuzz(f, extract.Hint{Name: "a.csv"}, "", "a,b\n1,2\n", "a;b;c\n\"x;\ny\";2;3\n", strings.Repeat("a,", 500), "a\tb\n1\t2\n3\n", "\"a,b\n", "a|b\n\n|\n", "\xff\xfea\x00,\x00b\x00")
}

func FuzzJSON(f *testing.F) {
	fuzz(f, extract.Hint{Name: "a.json"}, "", `{"a":[1,"b",null,{"c":true}],"d":1e9}`, strings.Repeat("[", 300), "{\"a\":1}\n{\"a\":2}\n", `"\ud800"`, `{"a":"`+strings.Repeat(`\u0000`, 20)+`"}`, "[1,2", "// c\n{}")
}

// FuzzAnything leaves it to the content what it is.
func FuzzAnything(f *testing.F) {
	fuzz(f, extract.Hint{}, "", "plain words", "\x00\x01\x02", "%PDF-1.7", "\xef\xbb\xbf# A", "\xfe\xff\x00a\x00b", "caf\xe9", "\x1b$B$\"\x1b(B", "a,b,c\n1,2,3\n", "PK\x03\x04")
}
