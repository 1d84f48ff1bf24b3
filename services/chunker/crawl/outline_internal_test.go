//go:build !race

// One thing after another for minutes: there is no race to find.

package crawl

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/confine"
)

func place(t testing.TB) (*url.URL, *scope) {
	at, err := url.Parse("http://site.example/docs/page")
	require.NoError(t, err)
	return at, newScope(at, nil, Config{})
}

func TestAPageOfNothingButTagsTakesLittleMemory(t *testing.T) {
	at, sc := place(t)
	for name, page := range map[string]string{
		"br":    strings.Repeat("<br>", 2<<20),
		"p":     "<p><b" + strings.Repeat(" a1 b2 c3", 1000) + "></p>" + strings.Repeat("<p>x", 10_000),
		"links": strings.Repeat("<a href=http://elsewhere.example/>", 1<<20/34),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out := readOutline([]byte(page), at, sc, "bot")
		runtime.ReadMemStats(&after)
		require.Empty(t, out.links)
		// Signed: the garbage collector may have freed some memory meanwhile.
		require.Less(t, int64(after.HeapSys)-int64(before.HeapSys), int64(64<<20), name)
	}
}

func TestTheBaseCountsForWhatStandsBeforeIt(t *testing.T) {
	at, sc := place(t)
	out := readOutline([]byte(`<link rel=canonical href=named><a href=one>1</a><base href="/other/"><base href="/third/">
		<iframe src=two></iframe><meta http-equiv=refresh content="5; url='three'"><a href=four rel="nofollow x">4</a>
		<a href="a&amp;b" HREF=no>5</a><script>"<a href=no>"</script><!-- <a href=no> --><noscript><a href=no></noscript>
		<meta name=Robots content="noindex, nofollow"><link rel=next href=six>`), at, sc, "bot")
	require.Equal(t, outline{
		links: []string{
			"http://site.example/other/one", "http://site.example/other/two", "http://site.example/other/three",
			"http://site.example/other/a&b", "http://site.example/other/six",
		},
		canonical: "http://site.example/other/named", noindex: true, nofollow: true,
	}, out)
}

func TestLinksOutsideOfTheScopeAreNotBelieved(t *testing.T) {
	at, sc := place(t)
	for _, answer := range []string{
		`{"Links":["http://169.254.169.254/"]}`, `{"Canonical":"http://elsewhere.example/"}`, `{"Links":["%zz"]}`, `{"Links":[""]}`, `{`, ``,
		`{"Links":["` + strings.Repeat(`http://site.example/`+strings.Repeat("a", 1900)+`","`, 80) + `http://site.example/"]}`,
		`{"Problem":"` + strings.Repeat("a", 1001) + `"}`,
		`{"Links":["` + strings.Repeat(`http://site.example/","`, maxLinks) + `http://site.example/"]}`,
	} {
		c := crawler{scope: sc, opt: Options{Runner: saying(answer)}}
		_, err := c.outlineOf(t.Context(), nil, at)
		require.ErrorIs(t, err, errAnswer, answer)
	}
}

func TestAProblemThatAChildTellsIsShownWhereItIsShort(t *testing.T) {
	at, sc := place(t)
	c := crawler{scope: sc, opt: Options{Runner: saying(`{"Problem":"` + strings.Repeat("a", 1000) + `"}`)}}
	_, err := c.outlineOf(t.Context(), nil, at)
	require.EqualError(t, err, strings.Repeat("a", 1000))
}

func TestALinkThatIsNotUTF8IsNotCovered(t *testing.T) {
	_, sc := place(t)
	c := crawler{scope: sc}
	require.True(t, c.covers("http://site.example/?q=ä"))
	require.False(t, c.covers("http://site.example/?q=\xff"))
}

// asked is a Runner that keeps the bound of an answer.
type asked struct{ most *int64 }

func (a asked) Do(_ context.Context, _ string, most int64, read func(string) error, _ ...[]byte) error {
	*a.most = most
	return read("{}")
}

func TestAnAnswerHasRoomForTheMostThatAPageMaySayAndNoMore(t *testing.T) {
	at, sc := place(t)
	var most int64
	c := crawler{scope: sc, opt: Options{Runner: asked{&most}}}
	_, err := c.outlineOf(t.Context(), nil, at)
	require.NoError(t, err)
	var page strings.Builder
	for i := range maxLinks {
		_, _ = fmt.Fprintf(&page, "<a href='/%03d%s'>", i, strings.Repeat("&", 95))
	}
	head, err := json.Marshal(question{At: at.String(), Origin: sc.origin.String()})
	require.NoError(t, err)
	head = append(binary.BigEndian.AppendUint32(nil, uint32(len(head))), head...)
	answer := answerOutline(append(head, page.String()...))
	require.Greater(t, len(answer), 5*100*1000, "JSON writes each as six bytes")
	require.LessOrEqual(t, int64(len(answer)), most)
	require.LessOrEqual(t, most, int64(1<<20))
}

type saying string

func (s saying) Do(_ context.Context, _ string, _ int64, read func(string) error, _ ...[]byte) error {
	return read(string(s))
}

// FuzzOutline: the answer of a child equals the answer of this process, and never leads out of the scope.
func FuzzOutline(f *testing.F) {
	for _, seed := range []string{
		"", "<a href=x>", "<base href=//other.example><a href=x>", "<p><b a0 a1 a2></p><p>x<p>x", "<br><br>", "<a href='http://[::1]:80/%zz'>",
		`<meta http-equiv=refresh content="0;url=/x"><link rel="canonical next" href="?q=&#0;">`, "<svg><a xlink:href=x href=y>", "<plaintext><a href=x>",
		strings.Repeat("<div>", 600) + "<a href=deep>",
	} {
		f.Add([]byte(seed))
	}
	pool, err := confine.New(f.Context(), 2, confine.Limits{MemoryMB: 128}, slog.New(slog.DiscardHandler), confine.NewMetrics(prometheus.NewRegistry()))
	require.NoError(f, err)
	f.Cleanup(pool.Close)
	at, sc := place(f)
	here, there := crawler{scope: sc, opt: Options{Runner: InProcess{}}}, crawler{scope: sc, opt: Options{Runner: pool.Share("somebody")}}
	f.Fuzz(func(t *testing.T, page []byte) {
		want, err := here.outlineOf(t.Context(), page, at)
		require.NoError(t, err)
		got, err := there.outlineOf(t.Context(), page, at)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}
