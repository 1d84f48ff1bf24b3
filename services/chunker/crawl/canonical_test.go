//go:build !race

package crawl

import (
	"net/url"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
)

func TestEachPageHasOneSpelling(t *testing.T) {
	base, err := url.Parse("https://example.com/docs/guide?page=1")
	require.NoError(t, err)
	for ref, want := range map[string]string{
		"":                              "https://example.com/docs/guide?page=1",
		"#top":                          "https://example.com/docs/guide?page=1",
		"a":                             "https://example.com/docs/a",
		"/a#b":                          "https://example.com/a",
		"?x=1":                          "https://example.com/docs/guide?x=1",
		"?":                             "https://example.com/docs/guide",
		"//example.com":                 "https://example.com/",
		"HTTPS://EXAMPLE.COM:443/A":     "https://example.com/A",
		"http://example.com:80":         "http://example.com/",
		"http://example.com:443/":       "http://example.com:443/",
		"https://example.com.:8443/":    "https://example.com:8443/",
		"https://BÜCHER.example/":       "https://xn--bcher-kva.example/",
		"https://a_b.example/":          "https://a_b.example/",
		"https://[2001:DB8::1]:443/":    "https://[2001:db8::1]/",
		"https://[2001:db8::1]:8080/":   "https://[2001:db8::1]:8080/",
		"../../../a/./b/../c":           "https://example.com/a/c",
		"/a/%2e%2E/b":                   "https://example.com/b",
		"/a/..":                         "https://example.com/",
		"/a/.":                          "https://example.com/a/",
		"/a//b/":                        "https://example.com/a//b/",
		"/%7euser/%C3%bc":               "https://example.com/~user/%C3%BC",
		"/ü b":                          "https://example.com/%C3%BC%20b",
		"/a%2fb":                        "https://example.com/a%2Fb",
		"/100%":                         "",
		"/q?a=b c&d=ü&e[]=%7e%2f%":      "https://example.com/q?a=b%20c&d=%C3%BC&e%5B%5D=~%2F%25",
		"/q?b=2&a=1":                    "https://example.com/q?b=2&a=1",
		"/q?utm_source=x&a=1&gclid=y&&": "https://example.com/q?a=1",
		" \n/a\t\nb ":                   "https://example.com/ab",
		"javascript:void(0)":            "",
		"mailto:a@example.com":          "",
		"tel:+49":                       "",
		"data:text/html,x":              "",
		"ftp://example.com/":            "",
		"file:///etc/passwd":            "",
		"http:example.com":              "",
		"http://":                       "",
		"http:///a":                     "",
		"https://user:pw@example.com/":  "",
		"https://user@example.com/":     "",
		"http://[fe80::1%25eth0]/":      "",
		"http://exa mple.com/":          "",
		"http://example.com:port/":      "",
		"http://\x00/":                  "",
		"::":                            "",
	} {
		u, err := canonical(base, ref, false)
		if want == "" {
			require.Error(t, err, ref)
			continue
		}
		require.NoError(t, err, ref)
		require.Equal(t, want, u.String(), ref)
		again, err := canonical(nil, u.String(), false)
		require.NoError(t, err, ref)
		require.Equal(t, want, again.String(), "canonical of canonical")
	}
}

func FuzzCanonicalIsStable(f *testing.F) {
	f.Add("https://example.com/a/../%2e./b?x=%zz#f")
	f.Add("HTTP://[::1]:80/%")
	f.Fuzz(func(t *testing.T, ref string) {
		u, err := canonical(nil, ref, false)
		if err != nil {
			return
		}
		again, err := canonical(nil, u.String(), false)
		require.NoError(t, err)
		require.Equal(t, u.String(), again.String())
		require.True(t, isASCII(u.String()))
		require.NotContains(t, u.RequestURI(), " ")
	})
}

func TestConfigProblemsAreReportedTogether(t *testing.T) {
	n := func(i int) *int { return &i }
	for name, c := range map[string]struct {
		cfg  Config
		want []string
	}{
		"good":              {Config{URL: "https://example.com"}, nil},
		"limits":            {Config{URL: "http://example.com/a/b", MaxDepth: n(0), MaxPages: n(50_000), PathPrefix: "/a/"}, nil},
		"nothing":           {Config{}, []string{`url "": set it to the page to start from, like https://example.com/docs/`}},
		"all at once":       {Config{URL: "ftp://x", MaxDepth: n(21), MaxPages: n(0), PathPrefix: "docs"}, []string{`url "ftp://x": not an http or https URL`, "max_depth 21: set it between 0", "max_pages 0: set it between 1 and 50000", `path_prefix "docs": start it with a slash, like "/docs"`}},
		"negative":          {Config{URL: "https://example.com", MaxDepth: n(-1), MaxPages: n(50_001)}, []string{"max_depth -1", "max_pages 50001"}},
		"no scheme":         {Config{URL: "example.com/docs"}, []string{"not an http or https URL"}},
		"no host":           {Config{URL: "https:///docs"}, []string{"has no host"}},
		"password":          {Config{URL: "https://me:secret@example.com/"}, []string{`url "https://REDACTED@example.com/": has a user name or password in it; remove them`}},
		"prefix elsewhere":  {Config{URL: "https://example.com/blog", PathPrefix: "/docs"}, []string{`path_prefix "/docs": url's path "/blog" is not below it`}},
		"prefix with query": {Config{URL: "https://example.com/", PathPrefix: "/docs?x"}, []string{"leave out the query"}},
		"too long":          {Config{URL: "https://example.com/" + strings.Repeat("a", 3000)}, []string{"longer than 2048 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.cfg.Validate()
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			for _, w := range c.want {
				require.ErrorContains(t, err, w)
			}
			require.Len(t, strings.Split(err.Error(), "\n"), len(c.want))
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestABadConfigIsPermanent(t *testing.T) {
	_, err := Crawl(t.Context(), Config{}, Options{}, nil)
	require.ErrorIs(t, err, worker.ErrPermanent)
}

func TestClipKeepsWholeCharactersOnOneLine(t *testing.T) {
	require.Equal(t, "a b", clip(" a\n\tb ", 10))
	require.Equal(t, "ü", clip("üü", 3))
	require.True(t, utf8.ValidString(clip("a\xff\xfeb", 10)))
}

func TestALongLocationCostsAMessageNoMoreThanAShortOne(t *testing.T) {
	for _, unit := range []string{"/token:", "a://", "//a:", "a:b@", "x"} {
		allocated := func(size int) uint64 {
			location := "ftp:" + strings.Repeat(unit, size/len(unit))
			redact(location)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			require.LessOrEqual(t, len(redact(location)), maxShown)
			runtime.ReadMemStats(&after)
			return after.TotalAlloc - before.TotalAlloc
		}
		short := allocated(4 << 10)
		// Sixty times as long; other tests allocate at the same time.
		require.LessOrEqual(t, allocated(250<<10), 8*short+512<<10, "%q", unit)
	}
}
