//go:build !race

package crawl_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"

	"github.com/echomind/sync/services/chunker/crawl"
)

func TestAnyCharsetIsReadAsUTF8(t *testing.T) {
	latin1, err := charmap.ISO8859_1.NewEncoder().Bytes([]byte("<main>Grüße</main>"))
	require.NoError(t, err)
	declared, err := charmap.ISO8859_1.NewEncoder().Bytes([]byte("<meta charset=iso-8859-1><main>Grüße</main>"))
	require.NoError(t, err)
	sjis, err := japanese.ShiftJIS.NewEncoder().Bytes([]byte("<main>日本語</main>"))
	require.NoError(t, err)
	utf16, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().Bytes([]byte("<main>Grüße</main>"))
	require.NoError(t, err)
	late := []byte("<!-- " + strings.Repeat("x", 4000) + " --><main>Grüße</main>")
	for name, c := range map[string]struct {
		contentType string
		body        []byte
		want        string
	}{
		"header":                  {"text/html; charset=iso-8859-1", latin1, "Grüße"},
		"meta":                    {"text/html", declared, "Grüße"},
		"shift_jis":               {"text/html; charset=Shift_JIS", sjis, "日本語"},
		"byte order mark":         {"text/html; charset=iso-8859-1", utf16, "Grüße"},
		"nothing said":            {"text/html", []byte("<main>Grüße</main>"), "Grüße"},
		"nothing said till late":  {"text/html", late, "Grüße"},
		"nothing said, not UTF-8": {"text/html", latin1, "Grüße"},
		"header is wrong":         {"text/html; charset=utf-8", latin1, "Grüße"},
		"header is wrong, meta":   {"text/html; charset=utf-8", declared, "Grüße"},
		"unknown charset":         {"text/html; charset=klingon", []byte("<main>Grüße</main>"), "Grüße"},
		"broken charset":          {`text/html; charset="utf-8`, []byte("<main>Grüße</main>"), "Grüße"},
		"no content type":         {"", []byte("<html><main>Grüße</main>"), "Grüße"},
		"octet stream":            {"application/octet-stream", []byte("<html><main>Grüße</main>"), "Grüße"},
		"plain text":              {"text/plain; charset=windows-1252", []byte("Gr\xfc\xdfe \x80"), "Grüße €"},
		"text without type":       {"", []byte("Grüße"), "Grüße"},
		"markdown":                {"text/markdown", []byte("# Grüße"), "# Grüße"},
		"csv":                     {"text/csv", []byte("a,b"), "a,b"},
		"json with a mark":        {"application/json", []byte("\ufeff{}"), "{}"},
		"not text in any charset": {"text/html; charset=utf-8", []byte("<meta charset=utf-8><main>a\xff\xfeb</main>"), "a\uFFFDb"},
		"replacement":             {"text/html; charset=iso-2022-kr", []byte("<main>ok</main>"), "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t).on("/", raw(c.contentType, c.body))
			st := newStore()
			crawlOK(t, s, st)
			text := st.text(s.URL + "/")
			require.True(t, utf8.ValidString(text))
			require.Equal(t, c.want, text)
		})
	}
}

func TestAMediaTypeIsHandedOnAsItIs(t *testing.T) {
	s := newSite(t).page("/", "home", "/pdf", "/png").on("/pdf", raw("text/html", []byte("%PDF-1.7 \xe2\xe3"))).
		on("/png", raw("image/png", []byte("not a picture at all")))
	st := newStore()
	got := map[string]string{}
	crawlOK(t, s, st, func(_ *crawl.Config, o *crawl.Options) {
		o.Concurrency = 1
		o.Extract = recordTypes(got)
	})
	require.Equal(t, "text/html %PDF-1.7 \xe2\xe3", got[s.URL+"/pdf"])
	require.Equal(t, "image/png not a picture at all", got[s.URL+"/png"])
}

func TestAGzipBombIsBoundedByTheBodyLimit(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 9 {
		_, err := z.Write(make([]byte, 1<<20))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	s := newSite(t).page("/", "home", "/bomb").on("/bomb", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write(bomb.Bytes())
	})
	st := newStore()
	crawlOK(t, s, st)
	require.Equal(t, "body is longer than 8388608 bytes", st.docs[s.URL+"/bomb"].Err)
}

func TestAnEndlessTitleIsCut(t *testing.T) {
	s := newSite(t).html("/", "<title>"+strings.Repeat("ü", 3<<20)+"</title><main>home</main>")
	st := newStore()
	crawlOK(t, s, st)
	title := st.docs[s.URL+"/"].Title
	require.Equal(t, 1024, len(title))
	require.True(t, utf8.ValidString(title))
}

func TestLinksAreReadFromBrokenPages(t *testing.T) {
	s := newSite(t).html("/", `<html><body><table><a href="/1">one<div><a href='/2'><p></body></html><a href=/3 <b>x
		<area href=/4><iframe src="/5"></iframe><link rel="next" href="/6"><link rel=stylesheet href=/style.css>
		<meta http-equiv="Refresh" content="5; URL='/7'"><a href="/8" rel="ugc NoFollow">no</a><a>none</a><a href>empty</a><!-- <a href=/9>`)
	for i := range 10 {
		s.page(fmt.Sprintf("/%d", i), "page")
	}
	st := newStore()
	crawlOK(t, s, st)
	require.Equal(t, []string{"/", "/1", "/2", "/3", "/4", "/5", "/6", "/7"}, st.ids(s))
	require.ElementsMatch(t, []string{"/2", "/1", "/3", "/4", "/5", "/6", "/7"}, paths(s, st.docs[s.URL+"/"].Links))
}

func TestOddLinksLeadNowhere(t *testing.T) {
	s := newSite(t).page("/", "home", "javascript:alert(1)", "JavaScript:x", "mailto:a@b.c", "tel:1", "data:text/html,x", "about:blank",
		"http://", "http://[", "https://u:p@127.0.0.1/", "%zz", "#", "", "ftp://127.0.0.1/", "http://169.254.169.254/", "/"+strings.Repeat("a", 3000),
		"  /a\n", "//"+"127.0.0.1:1/").page("/a", "A")
	st := newStore()
	crawlOK(t, s, st)
	require.Equal(t, []string{"/", "/a"}, st.ids(s))
	require.Equal(t, []string{"/a"}, paths(s, st.docs[s.URL+"/"].Links))
}

func TestBaseHrefMovesRelativeLinks(t *testing.T) {
	s := newSite(t).html("/", `<base href="/docs/"><base href=/other/><main>x</main><a href=a>`).page("/docs/a", "A").
		html("/docs/b", "")
	st := newStore()
	crawlOK(t, s, st)
	require.Equal(t, []string{"/", "/docs/a"}, st.ids(s))

	s.html("/", `<base href="https://elsewhere.example/"><main>x</main><a href=a><a href="`+s.URL+`/docs/a">`)
	st = newStore()
	crawlOK(t, s, st)
	require.Equal(t, []string{"/", "/docs/a"}, st.ids(s))
}

func TestLinksOfAPageAreBounded(t *testing.T) {
	var many, long strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&many, "<a href=/m/%d>", i)
		fmt.Fprintf(&long, "<a href=/l/%d/%s>", i, strings.Repeat("x", 1000))
	}
	s := newSite(t).html("/", "<main>x</main><a href=/long>"+many.String()).html("/long", "<main>x</main>"+long.String())
	st := newStore()
	crawlOK(t, s, st, func(c *crawl.Config, _ *crawl.Options) { c.MaxDepth, c.MaxPages = ptr(1), ptr(2) })
	require.Len(t, st.docs[s.URL+"/"].Links, 1000)
	size := 0
	for _, l := range st.docs[s.URL+"/long"].Links {
		size += len(l)
	}
	require.LessOrEqual(t, size, 128<<10)
	require.Greater(t, size, 120<<10)
}
