package extract_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/services/internal/extract"
)

func TestMarkdownKeepsHeadingsCodeListsAndTables(t *testing.T) {
	got := read(t, "---\ntitle: \"The Guide\"\ntags: [a]\n---\nIntro with [a link](http://x) &amp; `code` \\*.\n\n"+
		"# Top\n\n## Install\n\n1. one\n2. two\n   - nested\n\n```sh\nmake  all\n\n  make run\n```\n\nSetext\n------\n\n"+
		"| a | b |\n|---|---|\n| 1 | 2 |\n\n> quoted\n> text\n\n<div>html <b>text</b></div>\n\n### Deep\n\n- [x] done\n", extract.Hint{})
	require.Equal(t, "text/markdown", got.MediaType)
	require.Equal(t, "The Guide", got.Title)
	require.Equal(t, [][]string{nil, {"Top"}, {"Top", "Install"}, {"Top", "Setext"}, {"Top", "Setext", "Deep"}}, paths(got))
	require.Equal(t, "Intro with a link & code *.\n\nTop\n\nInstall\n\n1. one\n2. two\n  - nested\n\nmake  all\n\n  make run\n\n"+
		"Setext\n\na | b\n1 | 2\n\nquoted text\n\nhtml text\n\nDeep\n\n- [x] done\n\n", textOf(got))
}

func TestFirstTopHeadingIsTheTitle(t *testing.T) {
	require.Equal(t, "One", read(t, "## Zero\n\n# One\n\n# Two\n", extract.Hint{Name: "a.md"}).Title)
	require.Equal(t, "Hugo", read(t, "+++\ntitle = 'Hugo'\n+++\n# One\n", extract.Hint{Name: "a.md"}).Title)
}

func TestAHeadingOfMegabytesIsNotRepeatedInThePathsBelowIt(t *testing.T) {
	for name, content := range map[string]string{
		"a.md":   "# " + strings.Repeat("long ", 1000) + "\n\n" + strings.Repeat("## short\n\ntext\n\n", 100),
		"b.md":   "# " + strings.Repeat("long ", 1<<18) + "\n\n" + strings.Repeat("## short\n\ntext\n\n", 100),
		"a.html": "<main><h1>" + strings.Repeat("long ", 1<<18) + "</h1>" + strings.Repeat("<h2>short</h2><p>text</p>", 100) + "</main>",
	} {
		got := read(t, content, extract.Hint{Name: name})
		require.NotEmpty(t, got.Sections, name)
		for _, s := range got.Sections {
			for _, heading := range s.HeadingPath {
				require.LessOrEqual(t, len(heading), 300, name)
			}
		}
	}
}

const page = `<!DOCTYPE html><html><head><title>The &amp; Page</title><style>p{}</style></head><body>
<header><a href="/">Home</a></header><nav><ul><li>Menu one</li><li>Menu two</li></ul></nav>
<main><h1>The Page</h1><p>%s</p>
<h2>Steps</h2><ol><li><p>First</p></li><li>Second<ul><li>inner</li></ul></li></ol>
<pre>line  one
  line two</pre>
<table><tr><th>Name</th><th>Age</th></tr><tr><td>Ada</td><td><p>36</p></td></tr></table>
<p hidden>secret one</p><p style="display: none">secret two</p><div aria-hidden="true">secret three</div>
<script>secret()</script><template>secret four</template></main>
<aside>Sidebar</aside><footer>Imprint</footer></body></html>`

func TestPagesAreReadWithoutMenusAndHiddenParts(t *testing.T) {
	for name, words := range map[string]string{
		"short": "Words.",
		"long":  strings.Repeat("A sentence with some words in it, and a comma. ", 60),
	} {
		t.Run(name, func(t *testing.T) {
			got := read(t, fmt.Sprintf(page, words), extract.Hint{URL: "http://example.com/a"})
			require.Equal(t, "The & Page", got.Title)
			require.Equal(t, [][]string{{"The Page"}, {"The Page", "Steps"}}, paths(got))
			require.Equal(t, "The Page\n\n"+strings.TrimSpace(words)+"\n\nSteps\n\n1. First\n2. Second\n  - inner\n\n"+
				"line  one\n  line two\n\nName | Age\nAda | 36\n\n", textOf(got))
		})
	}
}

func TestMainContentLeavesOutListsOfLinks(t *testing.T) {
	links := strings.Repeat(`<li><a href="/x">A linked page of the site</a></li>`, 30)
	body := strings.Repeat("<p>A long paragraph, with commas, that is the content of the page and worth reading twice.</p>", 40)
	got := read(t, `<html><body><div class="sidebar menu"><ul>`+links+`</ul></div><div class="content"><h2>Head</h2>`+body+`</div></body></html>`, extract.Hint{})
	require.NotContains(t, textOf(got), "A linked page")
	require.Contains(t, textOf(got), "worth reading twice")
}

func TestAPageOfNothingButHeaderIsStillRead(t *testing.T) {
	require.Equal(t, "Only this\n\n", textOf(read(t, "<html><body><header>Only this</header></body></html>", extract.Hint{})))
}

func TestCSVRepeatsItsHeaderWithEachGroupOfRows(t *testing.T) {
	var b strings.Builder
	b.WriteString("id,name,note\n")
	for i := range 500 {
		fmt.Fprintf(&b, "%d,\"Doe, \"\"J\"\" %d\",\"two\nlines\"\n", i, i)
	}
	got := read(t, b.String(), extract.Hint{})
	require.Equal(t, "text/csv", got.MediaType)
	require.Greater(t, len(got.Sections), 5)
	for _, c := range chunk.Split(got.Sections, chunk.Options{}) {
		require.True(t, strings.HasPrefix(c.Text, "id | name | note\n"), "%q", c.Text)
	}
	require.Contains(t, textOf(got), "\n499 | Doe, \"J\" 499 | two lines")
}

func TestCSVDelimiterIsSniffed(t *testing.T) {
	for _, d := range []string{",", ";", "\t", "|"} {
		content := strings.ReplaceAll("a#b#c\n1#2#3\n4#5#6\n", "#", d)
		require.Equal(t, "a | b | c\n1 | 2 | 3\n4 | 5 | 6\n\n", textOf(read(t, content, extract.Hint{Name: "x.csv"})), "%q", d)
	}
}

func TestTooManyCSVRowsAreRefused(t *testing.T) {
	_, err := extract.Extract(t.Context(), []byte("a,b,c\n"+strings.Repeat("1,2,3\n", extract.MaxCSVRows+1)), extract.Hint{})
	require.ErrorIs(t, err, extract.ErrTooLarge)
}

func TestJSONIsFlattened(t *testing.T) {
	got := read(t, `{"title":"Doc","server":{"ports":[80,443],"tls":true,"n":12345678901234567890},"none":null,"empty":{}}`, extract.Hint{})
	require.Equal(t, "Doc", got.Title)
	require.Equal(t, "title: Doc\nserver.ports[0]: 80\nserver.ports[1]: 443\nserver.tls: true\nserver.n: 12345678901234567890\n\nnone: null\n\n", textOf(got))
	got = read(t, "{\"a\":1,\"b\":{\"c\":\"x\"}}\n{\"a\":2}\n", extract.Hint{})
	require.Equal(t, "a: 1\nb.c: x\n\na: 2\n\n", textOf(got))
	require.Equal(t, "[0].a: 1\n\n[1].a: 2\n\n", textOf(read(t, `[{"a":1},{"a":2}]`, extract.Hint{})))
}

func TestDeepJSONIsRefused(t *testing.T) {
	for _, depth := range []int{extract.MaxJSONDepth + 1, 9_000, 1_000_000} {
		_, err := extract.Extract(t.Context(), []byte(strings.Repeat("[", depth)+strings.Repeat("]", depth)), extract.Hint{})
		require.ErrorIs(t, err, extract.ErrTooLarge)
	}
	require.Len(t, read(t, strings.Repeat("[", 200)+"1"+strings.Repeat("]", 200), extract.Hint{}).Sections, 1)
}

// Each of these would overflow a recursive reader or take a careless one minutes.
func TestHostileContentIsReadInBoundedTime(t *testing.T) {
	const n = 100_000
	rows := func(s string) string { return strings.Repeat(s, n) }
	var attrs strings.Builder
	for i := range n {
		fmt.Fprintf(&attrs, " a%d=x", i)
	}
	for name, c := range map[string]struct{ content, name string }{
		"nested divs":            {"<html>" + rows("<div>") + "text" + rows("</div>"), ""},
		"nested divs below":      {"<html>" + strings.Repeat("<div>", 490) + rows("<p>text</p>"), ""},
		"unclosed formatting":    {"<html>" + rows("<p><b><i><font>x"), ""},
		"links in links":         {"<html>" + rows("<a href=x>y"), ""},
		"tables in tables":       {"<html>" + rows("<table><tr><td>x"), ""},
		"many attributes":        {"<html><p" + attrs.String() + ">text</p>", ""},
		"many paragraphs":        {"<html>" + rows("<p>some words, here</p>"), ""},
		"many flat divs":         {"<html>" + strings.Repeat("<div class=x>some words, here and there</div>", 19_000), ""},
		"deep and wide":          {"<html>" + strings.Repeat("<div>some words, here", 95) + strings.Repeat("<p>word, word</p>", 19_000), ""},
		"unclosed comment":       {"<html>" + rows("<!-- "), ""},
		"open brackets":          {"<html>" + rows("<"), ""},
		"nested quotes":          {rows(">") + "text", "a.md"},
		"nested quotes spaced":   {rows("> ") + "text", "a.md"},
		"nested lists":           {rows("- ") + "text", "a.md"},
		"stairs":                 {stairs(2000), "a.md"},
		"open links":             {rows("[") + "text", "a.md"},
		"links":                  {rows("[a](") + "text", "a.md"},
		"images":                 {rows("![") + rows("]("), "a.md"},
		"emphasis":               {rows("*a _b ") + "text", "a.md"},
		"closers":                {rows("a**b") + rows("c* "), "a.md"},
		"backticks":              {ticks(1500), "a.md"},
		"autolinks":              {rows("<a") + "text", "a.md"},
		"entities":               {rows("&a") + "text", "a.md"},
		"reference definitions":  {rows("[a]: /u\n") + "[a]", "a.md"},
		"table columns":          {strings.Repeat("|a", 5000) + "|\n" + strings.Repeat("|-", 5000) + "|\n" + strings.Repeat("|\n", 5000), "a.md"},
		"setext":                 {rows("a\n=\n"), "a.md"},
		"numbered nesting":       {rows("1. ") + "text", "a.md"},
		"emphasis within bounds": {paragraphs("*a _b ", 990), "a.md"},
		"mixed within bounds":    {paragraphs("a**b*", 660), "a.md"},
		"brackets within bounds": {paragraphs("[", 1950), "a.md"},
		"pairs within bounds":    {paragraphs("[a](b", 990), "a.md"},
		"images within bounds":   {paragraphs("![[]()", 390), "a.md"},
		"ticks within bounds":    {paragraphs(ticks(60), 1), "a.md"},
		"tags within bounds":     {paragraphs("<a ", 1950), "a.md"},
		"comments within bounds": {paragraphs("a <!--", 1950), "a.md"},
		"quotes in csv":          {"a,b,c\n" + rows("\"1,2"), "a.csv"},
		"json keys":              {"{" + strings.Repeat(`"k":{`, 250) + `"x":1` + strings.Repeat("}", 250) + "}", ""},
		"one line":               {rows("word "), ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := processorTime(t)
			got, err := extract.Extract(t.Context(), []byte(c.content), extract.Hint{Name: c.name})
			require.NoError(t, err)
			checkText(t, got)
			took := processorTime(t) - before
			t.Log(took)
			require.Less(t, took, 30*time.Second, "bounded, with room for the race detector")
		})
	}
}

// processorTime is what this process has had: what else runs on the machine counts for nothing.
func processorTime(t *testing.T) time.Duration {
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func stairs(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat("  ", i) + "- x\n")
	}
	return b.String()
}

// paragraphs repeats paragraphs of n times s as often as the Markdown parser is given them, about.
func paragraphs(s string, n int) string {
	p := strings.Repeat(s, n) + "\n\n"
	marks := n * strings.Count(strings.NewReplacer("]", "*", "[", "*", "<", "*", "`", "*", "!", "*", "_", "*").Replace(s), "*")
	return strings.Repeat(p, min(1<<20, 149_000_000/marks)/len(p))
}

func ticks(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("e" + strings.Repeat("`", i))
	}
	return b.String()
}

func BenchmarkExtract(b *testing.B) {
	for name, c := range map[string]struct{ content, file string }{
		"markdown": {strings.Repeat("## Heading\n\nSome words with `code` and a [link](http://x), and more words.\n\n- one\n- two\n\n", 20), "a.md"},
		"html":     {fmt.Sprintf(page, strings.Repeat("A sentence with some words in it, and a comma. ", 60)), "a.html"},
		"plain":    {strings.Repeat("Some words in a plain file.\n", 100), "a.txt"},
	} {
		b.Run("kind="+name, func(b *testing.B) {
			b.SetBytes(int64(len(c.content)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := extract.Extract(b.Context(), []byte(c.content), extract.Hint{Name: c.file}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
