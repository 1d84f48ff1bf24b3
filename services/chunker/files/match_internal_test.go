package files

import (
	"context"
	"strings"
	"testing"
	"time"

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

// Tried in every combination it would not end.
func TestTheWorstGlobThatIsAllowedIsMatched(t *testing.T) {
	t.Parallel()
	worst := "**/" + strings.Repeat("{a,b}", 6) + strings.Repeat("*a", 400) + "b"
	g, err := Config{URL: "file:///a", Include: []string{worst}}.globs()
	require.NoError(t, err)
	took, err := g.takes(t.Context(), strings.Repeat(strings.Repeat("a", 255)+"/", 15)+"x")
	require.NoError(t, err)
	require.False(t, took)
}

// The library's braces are the specification, but where they stand beside stars: "a*{,/**}" does not match "a" there.
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
			got = got || match(p, name)
		}
		require.True(t, got || !match(pattern, name), "%q on %q: %q", pattern, name, expanded)
	})
}

// waited counts how often somebody waits for a context.
type waited struct {
	context.Context
	times int
}

func (w *waited) Done() <-chan struct{} { w.times++; return nil }

func TestAListingRestsAfterANameThatTookLong(t *testing.T) {
	t.Parallel()
	require.Zero(t, pauseAfter(time.Millisecond))
	require.Equal(t, 40*time.Millisecond, pauseAfter(10*time.Millisecond))
	require.Equal(t, time.Second, pauseAfter(time.Hour))
	hostile := "**/" + strings.Repeat("*a", 400) + "b"
	g, err := Config{URL: "file:///a", Exclude: []string{hostile}}.globs()
	require.NoError(t, err)
	long := &waited{Context: t.Context()}
	_, err = g.takes(long, strings.Repeat("a", 100_000))
	require.NoError(t, err)
	require.Equal(t, 1, long.times)
}
