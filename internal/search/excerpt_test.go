package search

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// marked are the texts that an excerpt highlights.
func marked(e Excerpt) (all []string) {
	runes := []rune(e.Text)
	for _, m := range e.Marks {
		all = append(all, string(runes[m.Start:m.End]))
	}
	return all
}

func TestWordsThatWereSearchedForAreHighlightedAndThoseThatHaveThemInThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, searched string
		want           []string
	}{
		{"The Zebra runs; zebras stand.", "zebra", []string{"Zebra", "zebras"}},
		{"a cat in the category", "cat", []string{"cat"}},
		{"Größe, GRÖSSE, größer", "größe", []string{"Größe", "größer"}},
		{"the end", "THE end", []string{"the", "end"}},
		{"nothing", "else", nil},
		{"", "x", nil},
		{strings.Repeat("x", 100), strings.Repeat("x", 64), []string{strings.Repeat("x", 100)}},
	} {
		require.Equal(t, c.want, marked(ExcerptOf(c.text, c.searched, 1000)), c.text)
	}
}

func TestAnExcerptIsThePartThatHasMostOfWhatWasSearchedFor(t *testing.T) {
	t.Parallel()
	text := "zebra " + strings.Repeat("filler ", 500) + "the zebra and the lion meet a zebra" + strings.Repeat(" filler", 500)
	e := ExcerptOf(text, "zebra lion", 100)
	require.Equal(t, []string{"zebra", "lion", "zebra"}, marked(e))
	require.Equal(t, []any{100, true, true}, []any{len(e.Text), e.Before, e.After})
	e = ExcerptOf(strings.Repeat("filler ", 500)+"zebra", "zebra", 100)
	require.Equal(t, []any{true, false}, []any{e.Before, e.After})
	require.True(t, strings.HasSuffix(e.Text, "zebra"))
}

func TestAnExcerptIsAPartOfItsTextAndItsMarksLieInIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text, searched, most := rapid.String().Draw(t, "text"), rapid.StringMatching(`[a-cäß ]{0,8}`).Draw(t, "searched"), rapid.IntRange(1, 40).Draw(t, "most")
		e := ExcerptOf(text, searched, most)
		if n := utf8.RuneCountInString(e.Text); n > most {
			t.Fatalf("%d characters", n)
		}
		if !strings.Contains(string([]rune(text)), e.Text) || !e.Before && !e.After && e.Text != text {
			t.Fatalf("%+v is no part of %q", e, text)
		}
		at := 0
		for _, m := range e.Marks {
			if m.Start < at || m.End <= m.Start || m.End > utf8.RuneCountInString(e.Text) {
				t.Fatalf("%+v", e)
			}
			at = m.End
		}
	})
}
