package teams

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestMessagesReadAsPeopleSeeThem(t *testing.T) {
	known := names{map[string]string{"0": "Jane Smith", "1": "Sales team"}, map[string]string{"g": "plan.docx"}, map[string]struct{}{}}
	for html, want := range map[string]string{
		`Hello World <at id="0">Jane</at>!`:                   "Hello World @Jane Smith!",
		`<at id="0">Jane Smith</at>&nbsp;<at id="7">Bob</at>`: "@Jane Smith @Bob",
		`<p>one</p><p>two</p>`:                                "one\ntwo",
		"a<br>b<br/>c":                                        "a\nb\nc",
		"<div>a   b\n c</div>":                                "a b c",
		`<b>bold</b><i>er</i>`:                                "bolder",
		`<a href="https://x.example/">https://x.example/</a>`: "https://x.example/",
		`<a href="javascript:alert(1)">x</a>`:                 "x",
		`see <attachment id="g"></attachment>`:                "see\n[file: plan.docx]",
		`<attachment id="unknown"></attachment>`:              "",
		`<emoji id="smile" alt="🙂"></emoji> <img alt="a cat" src="https://h/hostedContents/1/$value">`: "🙂 a cat",
		"<pre>if a {\n\tb()\n}</pre>end":                                  "if a {\n\tb()\n}\nend",
		`<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>`: "a b\nc",
		`<script>alert("x")</script><style>p{}</style>text`:               "text",
		`5 &lt; 6 &amp; 7`:                        "5 < 6 & 7",
		`<p>unclosed <b>tags`:                     "unclosed tags",
		strings.Repeat("<div>", 100_000) + "deep": "deep",
	} {
		w := &textWriter{most: 1000}
		htmlText(w, html, known)
		require.Equal(t, want, strings.TrimSpace(w.String()), "%.60s", html)
	}
}

func isReadInBoundedSize(t require.TestingT, source string, most int) {
	w, all := &textWriter{most: most}, &textWriter{most: 1 << 20}
	for _, w := range []*textWriter{w, all} {
		htmlText(w, source, names{mentions: map[string]string{"0": "Jäne"}})
	}
	require.LessOrEqual(t, len(all.String()), 5*len(source)+4)
	require.LessOrEqual(t, len(w.String()), w.most)
	require.True(t, strings.HasPrefix(all.String(), w.String()))
	require.True(t, w.full || w.String() == all.String())
}

func TestAnyMessageIsReadInBoundedSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := rapid.StringOf(rapid.SampledFrom([]rune("<>/atbrpdivli =\"'0&;\n x"))).Draw(t, "html")
		isReadInBoundedSize(t, source, rapid.IntRange(0, 4*len(source)+4).Draw(t, "most"))
	})
}

func FuzzMessageOfAThread(f *testing.F) {
	for i, seed := range []string{
		"", `a <at id="0">Jane</at> b`, "<pre> a\n\tb</pre><p>c<br>d", `<a href="https://x.example/">y</a></a>`, `<attachment id="g"></attachment><emoji alt="🙂">`,
		"<style><script></style>x</script>", "<ul><li>a<li>b<table><tr><td>c<td>d", "&nbsp;&#0;&lt;\xff<", "<plaintext><b>x", "<textarea></textare",
	} {
		f.Add(seed, uint16(4*i))
	}
	f.Fuzz(func(t *testing.T, source string, most uint16) { isReadInBoundedSize(t, source, int(most)) })
}
