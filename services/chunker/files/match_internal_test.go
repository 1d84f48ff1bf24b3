package files

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAGlobOfTooManyAlternativesIsRefusedWhereItIsWritten(t *testing.T) {
	t.Parallel()
	for _, hostile := range []string{
		strings.Repeat("{,}", 60), strings.Repeat("{a,b}", 7), "{" + strings.Repeat(",", 200) + "}",
		strings.Repeat("{,", 300) + strings.Repeat("}", 300),
	} {
		err := Config{URL: "file:///a", Include: []string{hostile}}.Validate()
		require.ErrorContains(t, err, "include[0]", hostile)
		require.ErrorContains(t, err, "at most 100 alternatives", hostile)
	}
	many := make([]string, 100)
	for i := range many {
		many[i] = strings.Repeat("{a,b}", 6)
	}
	require.ErrorContains(t, Config{URL: "file:///a", Exclude: many}.Validate(), "exclude: 6400 alternatives")
	require.NoError(t, Config{URL: "file:///a", Include: []string{"{docs,notes}/**/*.{md,txt,html}"}}.Validate())
}

func TestMatchingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	g, err := Config{URL: "file:///a", Include: []string{"**/*.md"}}.globs()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = g.takes(ctx, "a.md")
	require.ErrorIs(t, err, context.Canceled)
}

// With every combination tried it would not end.
func TestTheWorstGlobThatIsAllowedIsMatched(t *testing.T) {
	t.Parallel()
	worst := "**/" + strings.Repeat("{a,b}", 6) + strings.Repeat("*a", 400) + "b"
	g, err := Config{URL: "file:///a", Include: []string{worst}}.globs()
	require.NoError(t, err)
	took, err := g.takes(t.Context(), strings.Repeat(strings.Repeat("a", 255)+"/", 15)+"x")
	require.NoError(t, err)
	require.False(t, took)
}

// The library's braces are the specification, except beside stars: "a*{,/**}" does not match "a" there.
func TestExpandedGlobsMatchAllThatTheLibraryMatches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"a", "b", "/", "*", "/**/", "?", "[ab]", "[!a]", "[{]", "[,}]", "{", "}", ",", "{a,b}", "{,a/b}", `\{`, `\,`, "é"})
		valid := func(pieces []string) bool {
			pattern := strings.Join(pieces, "")
			_, bounded := expand(pattern)
			return bounded && doublestar.ValidatePattern(pattern)
		}
		pattern := strings.Join(rapid.SliceOfN(piece, 0, 10).Filter(valid).Draw(t, "pattern"), "")
		name := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "/", "{", ",", "}", "é"}), 1, 8).Draw(t, "name"), "")
		expanded, _ := expand(pattern)
		got := false
		for _, p := range expanded {
			got = got || matches(t, p, name)
		}
		require.True(t, got || !doublestar.MatchUnvalidated(pattern, name), "%q on %q: %q", pattern, name, expanded)
	})
}

func matches(t require.TestingT, glob, name string) bool {
	matched, err := compile(glob).matches(context.Background(), newPace(), name)
	require.NoError(t, err)
	return matched
}

func TestGlobsWithoutBracesMatchWhatTheLibraryMatches(t *testing.T) {
	t.Parallel()
	for glob, name := range map[string]string{
		`a\bc`: "abc", `a\*`: "a*", "a\uFFFD": "a\xff", "**/a/**/": "b/a", "**/a[/b]c": "a/c", "a**b/**": "axb",
	} {
		require.Equal(t, doublestar.MatchUnvalidated(glob, name), matches(t, glob, name), "%q on %q", glob, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		globs := rapid.SampledFrom([]string{
			"a", "b", "ab", "/", "*", "**", "**/", "/**", "/**/", "?", "[ab]", "[!a]", "[^a-b]", "[a-]", "[\\]a]", "[*]", "[é-ü]", "[b-a]",
			"\\*", "\\a", "\\/", "é", "\uFFFD", "]", "-", ".",
		})
		glob := strings.Join(rapid.SliceOfN(globs, 0, 8).Filter(func(pieces []string) bool {
			return doublestar.ValidatePattern(strings.Join(pieces, ""))
		}).Draw(t, "glob"), "")
		names := rapid.SampledFrom([]string{"a", "b", "ab", "/", "*", "é", "ö", "\xff", "\xc3", "\uFFFD", "]", "\\", "-", "."})
		name := strings.Join(rapid.SliceOfN(names, 0, 8).Draw(t, "name"), "")
		require.Equal(t, doublestar.MatchUnvalidated(glob, name), matches(t, glob, name), "%q on %q", glob, name)
	})
}

// FuzzGlob: a glob that may be written matches what the library matches, but for braces beside stars.
func FuzzGlob(f *testing.F) {
	for glob, name := range map[string]string{
		"": "a", "**/*.{md,txt}": "a/b.md", "[!a-c\\]]?": "é", "a/**/b/**": "a/b/c", "{a,{b,c}*}": "cx", "\\{a": "{a", "[é-\uFFFD]": "\xff", "*a*a*b": "aaaaaaab",
	} {
		f.Add(glob, name)
	}
	f.Fuzz(func(t *testing.T, glob, name string) {
		if len(glob) > 100 || len(name) > 100 || strings.ContainsAny(name, "\x00") || (Config{URL: "file:///a", Include: []string{glob}}).Validate() != nil {
			return
		}
		expanded, _ := expand(glob)
		got := false
		for _, p := range expanded {
			got = matches(t, p, name) || got
		}
		if len(expanded) == 1 && next(glob, 0, "{") < 0 {
			require.Equal(t, doublestar.MatchUnvalidated(glob, name), got, "%q on %q", glob, name)
		}
	})
}

// counted are the globs of a listing whose rests are counted, and take no time.
func counted(t *testing.T, c Config) (g globs, rests *int) {
	t.Helper()
	c.URL = "file:///a"
	g, err := c.globs()
	require.NoError(t, err)
	rests = new(int)
	g.pace.rest = func(context.Context) error { *rests++; return nil }
	return g, rests
}

func numbered(n int, format string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(format, i)
	}
	return all
}

const ordinary = "department/projects/2024/customer-a/documents/final/a/b/c/d/e/f/g/minutes of the meeting.docx"

func TestGlobsThatPeopleWriteNeverRest(t *testing.T) {
	t.Parallel()
	extensions := "{" + strings.Join(numbered(100, "x%02d"), ",") + "}"
	for name, c := range map[string]struct {
		Config
		steps int // the most for a name
	}{
		"100 extensions":               {Config{Include: []string{"**/*." + extensions}}, 101},
		"20 folders of 100 extensions": {Config{Exclude: numbered(20, "**/team%02d/**/*."+extensions)}, 2001},
		"200 folders anywhere":         {Config{Exclude: numbered(200, "**/folder-%d/**")}, 2000},
		"all alternatives that there may be, twice": {Config{
			Include: append(numbered(19, "**/folder-%d-"+extensions+"/**"), "**"), Exclude: numbered(20, "**/other-%d-"+extensions+"/**"),
		}, stepsOfName},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, rests := counted(t, c.Config)
			g.pace.left = 1 // all allowed steps are taken
			for range 300 {
				_, err := g.takes(t.Context(), ordinary)
				require.NoError(t, err)
				g.skipsDir(t.Context(), ordinary)
			}
			require.Zero(t, *rests)
			g.pace.left = stepsOfRest
			_, err := g.takes(t.Context(), ordinary)
			require.NoError(t, err)
			require.LessOrEqual(t, stepsOfRest-g.pace.left, c.steps)
		})
	}
}

// A character of a name takes 50 steps of each pattern.
func TestGlobsThatTakeMoreThanANameBringsRestForEachShare(t *testing.T) {
	t.Parallel()
	g, rests := counted(t, Config{Exclude: numbered(60, "**/*"+strings.Repeat("a", 50)+"[b%d]*")})
	name := strings.Repeat(strings.Repeat("a", 200)+"/", 20)
	taken, err := g.takes(t.Context(), name)
	require.NoError(t, err)
	require.True(t, taken)
	require.InDelta(t, 60*20*(150*53+50*25)/stepsOfRest-1, *rests, 1)
	before := *rests
	require.False(t, g.skipsDir(t.Context(), name))
	require.Greater(t, *rests, before)
}

func TestAFolderIsLeftOutIfAllInItIs(t *testing.T) {
	t.Parallel()
	for _, glob := range []string{"a/**", "a*/**", "**/a*/**", "*/**", "**/**", "[a]/**"} {
		g, _ := counted(t, Config{Exclude: []string{glob}})
		require.True(t, g.skipsDir(t.Context(), "a"), glob)
	}
	pieces := rapid.SampledFrom([]string{"a", "b", "/", "*", "**/", "?", "[ab]"})
	globs := rapid.Map(rapid.SliceOfN(pieces, 1, 6), func(all []string) string {
		return strings.TrimPrefix(strings.Join(all, ""), "/") + "/**"
	}).Filter(func(glob string) bool {
		_, err := Config{URL: "file:///a", Exclude: []string{glob}}.globs()
		return err == nil // no absolute path
	})
	rapid.Check(t, func(t *rapid.T) {
		glob := globs.Draw(t, "glob")
		name := strings.Trim(strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "a/", "b/"}), 1, 5).Draw(t, "name"), ""), "/")
		g, err := Config{URL: "file:///a", Exclude: []string{glob}}.globs()
		require.NoError(t, err)
		want := doublestar.MatchUnvalidated(glob, name) || doublestar.MatchUnvalidated(strings.TrimSuffix(glob, "/**"), name)
		require.Equal(t, want, g.skipsDir(context.Background(), name), "%q on %q", glob, name)
	})
}

func TestALongClassIsCountedByItsLength(t *testing.T) {
	t.Parallel()
	g, _ := counted(t, Config{Exclude: []string{"*[" + strings.Repeat("b", 1000) + "]*"}})
	_, err := g.takes(t.Context(), strings.Repeat("a", 200))
	require.NoError(t, err)
	require.Greater(t, stepsOfRest-g.pace.left, 200*1000/4)
}

// One glob may take as long as a thousand names.
func TestARestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	g, _ := counted(t, Config{Include: []string{"**/" + strings.Repeat("*a", 400) + "[b]*"}})
	ctx, cancel := context.WithCancel(t.Context())
	g.pace.rest = func(ctx context.Context) error { cancel(); return rest(ctx) }
	g.pace.left = -stepsOfName + 100
	_, err := g.takes(ctx, strings.Repeat("a", 200))
	require.ErrorIs(t, err, context.Canceled)
	g.pace.left = -stepsOfName + 100
	require.True(t, g.skipsDir(ctx, "a"))
}
