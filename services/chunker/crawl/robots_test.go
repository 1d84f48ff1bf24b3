//go:build !race

package crawl

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRobotsRulesAreReadAsTheRFCSays(t *testing.T) {
	for name, c := range map[string]struct {
		file    string
		allowed []string
		denied  []string
	}{
		"empty file":                     {"", []string{"/"}, nil},
		"a page instead of a file":       {"<!doctype html><html><body>Disallow: /</body></html>", []string{"/"}, nil},
		"everyone":                       {"User-agent: *\nDisallow: /a", []string{"/", "/b", "/A"}, []string{"/a", "/a/b", "/ab"}},
		"empty disallow":                 {"User-agent: *\nDisallow:", []string{"/"}, nil},
		"everything":                     {"User-agent: *\nDisallow: /", []string{"/robots.txt"}, []string{"/", "/a"}},
		"rules before any group":         {"Disallow: /a\nUser-agent: *\nDisallow: /b", []string{"/a"}, []string{"/b"}},
		"own group instead of everyone":  {"User-agent: *\nDisallow: /\nUser-agent: echomindSYNC\nDisallow: /a", []string{"/b"}, []string{"/a"}},
		"names in a row are one group":   {"User-agent: EchoMindSync\n\nUser-agent: *\nDisallow: /", nil, []string{"/"}},
		"own group with nothing in it":   {"User-agent: EchoMindSync\nDisallow:\n\nUser-agent: *\nDisallow: /", []string{"/"}, nil},
		"own group with a version":       {"User-agent: EchoMindSync/2.0\nDisallow: /a", nil, []string{"/a"}},
		"own groups are joined":          {"User-agent: EchoMindSync\nDisallow: /a\nUser-agent: x\nDisallow: /\nUser-agent: EchoMindSync\nDisallow: /b", []string{"/c"}, []string{"/a", "/b"}},
		"shared group":                   {"User-agent: x\nUser-agent: EchoMindSync\nDisallow: /a", nil, []string{"/a"}},
		"a shorter name is another bot":  {"User-agent: Echo\nDisallow: /", []string{"/"}, nil},
		"the longest rule decides":       {"User-agent: *\nAllow: /a/b\nDisallow: /a", []string{"/a/b", "/a/bc"}, []string{"/a", "/a/c"}},
		"of equal rules allow decides":   {"User-agent: *\nDisallow: /a\nAllow: /a", []string{"/a"}, nil},
		"wildcard":                       {"User-agent: *\nDisallow: /*.pdf", []string{"/a.html"}, []string{"/a.pdf", "/x/y.pdf?z"}},
		"end":                            {"User-agent: *\nDisallow: /*.pdf$", []string{"/a.pdf?x", "/a.pdfx"}, []string{"/a.pdf", "/.pdf.pdf"}},
		"exact":                          {"User-agent: *\nDisallow: /$", []string{"/a"}, []string{"/"}},
		"wildcard at the end":            {"User-agent: *\nDisallow: /a*", []string{"/b"}, []string{"/a", "/abc"}},
		"wildcard before the end":        {"User-agent: *\nDisallow: /a*$", []string{"/b"}, []string{"/a", "/abc"}},
		"many wildcards":                 {"User-agent: *\nDisallow: /a*b*c", []string{"/acb"}, []string{"/abc", "/axxbxxc"}},
		"overlap is not a match":         {"User-agent: *\nDisallow: /ab*bc$", []string{"/abc"}, []string{"/abbc"}},
		"no slash in front":              {"User-agent: *\nDisallow: a", []string{"/b"}, []string{"/a"}},
		"query":                          {"User-agent: *\nDisallow: /*?sort=", []string{"/a?x=1"}, []string{"/a?sort=1"}},
		"escapes":                        {"User-agent: *\nDisallow: /%7Ea\nDisallow: /ü", nil, []string{"/~a", "/%7ea", "/%C3%BC", "/%c3%bc"}},
		"an escaped slash is not a path": {"User-agent: *\nDisallow: /a%2Fb", []string{"/a/b"}, []string{"/a%2fb"}},
		"comments":                       {"User-agent: * # all\nDisallow: /a # secret\n# Disallow: /b", []string{"/b"}, []string{"/a"}},
		"byte order mark":                {"\ufeffUser-agent: *\nDisallow: /a", nil, []string{"/a"}},
		"old line ends":                  {"User-agent: *\rDisallow: /a\r\nDisallow: /b", nil, []string{"/a", "/b"}},
		"blank lines in a group":         {"User-agent: *\n\n\nDisallow: /a", nil, []string{"/a"}},
		"other lines in a group":         {"User-agent: *\nSitemap: /s.xml\nHost: x\nnonsense\nDisallow: /a", nil, []string{"/a"}},
		"a bad line spoils nothing":      {"User-agent: *\nCrawl-delay: soon\nDisallow: /a", nil, []string{"/a"}},
		"spaces and case":                {"  uSER-aGENT :  * \n\tDISALLOW:\t/a  ", nil, []string{"/a"}},
		"binary":                         {"\x00\xff\xfe\nUser-agent: *\nDisallow: /a", nil, []string{"/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := parseRobots([]byte(c.file), "EchoMindSync")
			for _, p := range c.allowed {
				require.True(t, r.allows(p), p)
			}
			for _, p := range c.denied {
				require.False(t, r.allows(p), p)
			}
		})
	}
}

func TestCrawlDelayIsReadWithinReason(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"2": 2 * time.Second, "0.5": 500 * time.Millisecond, "-1": 0, "NaN": 0, "1e300": time.Hour, "Inf": time.Hour, "x": 0, "": 0,
	} {
		require.Equal(t, want, parseRobots([]byte("User-agent: *\nCrawl-delay: "+value), "E").delay, value)
	}
}

func TestHalfAMegabyteOfRulesCostsALinkNoMoreThanOneRule(t *testing.T) {
	var file strings.Builder
	file.WriteString("User-agent: *\nDisallow: /private\nAllow: /private/open\n")
	for i := 0; file.Len() < 505<<10; i++ {
		file.WriteString("Allow: /" + strconv.Itoa(i) + "\n")
	}
	r := parseRobots([]byte(file.String()), "E")
	require.Empty(t, r.wild, "those are tried one by one")
	require.Greater(t, len(r.begins), 20_000, "these are looked up")
	require.True(t, r.allows("/12345/a/page/of/a/site"))
	require.False(t, r.allows("/private/x"))
	require.True(t, r.allows("/private/open/x"))
}

func TestMoreWildcardsThanCanBeHeededAllowNothing(t *testing.T) {
	rules := func(n int) *robots {
		return parseRobots([]byte("User-agent: *\n"+strings.Repeat("Disallow: /x*y\n", n)+"Disallow: /*z\n"), "E")
	}
	r := rules(maxWildRules - 1)
	require.True(t, r.allows("/a"))
	require.False(t, r.allows("/az"))
	require.False(t, rules(maxWildRules).allows("/a"))
	require.True(t, rules(maxWildRules).allows("/robots.txt"))
}

// 1000 rules of 500 bytes take 6 ms for a link of 2000 bytes, and a page may have 60 of these.
func TestALinkThatIsTooLongForSoManyWildcardsIsNotAllowed(t *testing.T) {
	rules := func(n int, pattern string) *robots {
		return parseRobots([]byte("User-agent: *\n"+strings.Repeat("Disallow: "+pattern+"\n", n)), "E")
	}
	long := "/" + strings.Repeat("a", 2000)
	require.False(t, rules(maxWildRules, "/*aaab").allows(long))
	require.True(t, rules(maxWildRules, "/*aaab").allows(long[:100]), "a short one is compared with all")
	require.True(t, rules(50, "/*aaab").allows(long), "and a long one with some")
	require.True(t, rules(maxWildRules, "/b*aaab").allows(long), "those that begin otherwise do not count")
	require.False(t, rules(500, "/"+strings.Repeat("*a", 500)+"b").allows(long))
}

// A lookup gives the same answer as trying rules one by one.
func FuzzRobotsByLookUp(f *testing.F) {
	f.Add("Disallow: /a\nAllow: /a/b\nDisallow: /a/b$\nAllow: /*c", "/a/b")
	f.Add("Allow: /\nDisallow: /$\nDisallow: /ab", "/abc")
	f.Fuzz(func(t *testing.T, file, path string) {
		r := parseRobots([]byte("User-agent: *\n"+file), "E")
		if r.tooMany || path == "/robots.txt" || 3*len(path)*len(r.wild) > maxWildWork {
			return
		}
		all := slices.Clone(r.wild)
		for _, kept := range []struct {
			rules    map[string]bool
			anchored bool
		}{{r.begins, false}, {r.ends, true}} {
			for part, allow := range kept.rules {
				rule := robotsRule{allow: allow, parts: []string{part}, anchored: kept.anchored, length: len(part)}
				if kept.anchored {
					rule.length++
				}
				all = append(all, rule)
			}
		}
		allowed, longest := true, -1
		for _, rule := range all {
			if !rule.matches(normalizeEscapes(path, robotsPlain)) || rule.length < longest || rule.length == longest && !rule.allow {
				continue
			}
			allowed, longest = rule.allow, rule.length
		}
		require.Equal(t, allowed, r.allows(path))
	})
}

func FuzzParseRobots(f *testing.F) {
	f.Add("User-agent: *\nDisallow: /*a$\nAllow: *", "/a")
	f.Fuzz(func(_ *testing.T, file, path string) {
		parseRobots([]byte(file), "EchoMindSync").allows(path)
	})
}
