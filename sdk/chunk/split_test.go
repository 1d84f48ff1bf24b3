package chunk_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/chunk"
)

// sectionsOf sets offsets as an extraction does: each section starts where the one before it ends.
func sectionsOf(parts ...chunk.Section) []chunk.Section {
	var at int64
	for i := range parts {
		parts[i].Start = at
		at += int64(len(parts[i].Text))
	}
	return parts
}

func source(sections []chunk.Section) string {
	var b strings.Builder
	for _, s := range sections {
		b.WriteString(s.Text)
	}
	return b.String()
}

func texts(chunks []chunk.Chunk) []string {
	out := make([]string, len(chunks))
	for i, c := range chunks {
		out[i] = c.Text
	}
	return out
}

func TestShortTextIsOneChunk(t *testing.T) {
	got := chunk.Split(sectionsOf(chunk.Section{HeadingPath: []string{"A"}, Text: "  Hello there.\n\n"}), chunk.Options{})
	require.Equal(t, []chunk.Chunk{{Text: "Hello there.", HeadingPath: []string{"A"}, Start: 2, End: 14}}, got)
}

func TestNothingButWhiteSpaceIsNoChunk(t *testing.T) {
	require.Empty(t, chunk.Split(nil, chunk.Options{}))
	require.Empty(t, chunk.Split(sectionsOf(chunk.Section{Text: ""}, chunk.Section{Text: " \n\t\n"}), chunk.Options{}))
	require.Empty(t, chunk.Split(sectionsOf(chunk.Section{Text: strings.Repeat("\n", 5000)}), chunk.Options{}))
	require.Empty(t, chunk.Split(sectionsOf(chunk.Section{Text: "\x00\x00"}), chunk.Options{}))
}

func TestParagraphsAreCutBeforeSentences(t *testing.T) {
	paragraph := strings.Repeat("One two three four. ", 5)
	text := strings.TrimSpace(paragraph) + "\n\n" + strings.TrimSpace(paragraph)
	got := chunk.Split(sectionsOf(chunk.Section{Text: text}), chunk.Options{MaxTokens: 40, OverlapPercent: chunk.NoOverlap})
	require.Equal(t, []string{strings.TrimSpace(paragraph), strings.TrimSpace(paragraph)}, texts(got))
}

func TestSentencesAreCutBeforeWords(t *testing.T) {
	text := strings.Repeat("The quick brown fox jumps over the dog, e.g. this one. ", 12)
	for _, c := range chunk.Split(sectionsOf(chunk.Section{Text: text}), chunk.Options{MaxTokens: 50, OverlapPercent: 40}) {
		require.True(t, strings.HasSuffix(c.Text, "this one."), "%q", c.Text)
		require.True(t, strings.HasPrefix(c.Text, "The quick"), "%q", c.Text)
	}
}

func TestLinesAreCutBeforeWords(t *testing.T) {
	text := strings.Repeat("key = value of this\n", 40)
	for _, c := range chunk.Split(sectionsOf(chunk.Section{Text: text}), chunk.Options{MaxTokens: 50}) {
		require.True(t, strings.HasPrefix(c.Text, "key"), "%q", c.Text)
		require.True(t, strings.HasSuffix(c.Text, "this"), "%q", c.Text)
	}
}

func TestWordsStayWhole(t *testing.T) {
	text := strings.Repeat("wordlike ", 400)
	for _, c := range chunk.Split(sectionsOf(chunk.Section{Text: text}), chunk.Options{MaxTokens: 30}) {
		for _, w := range strings.Fields(c.Text) {
			require.Equal(t, "wordlike", w)
		}
	}
}

func TestChineseIsCutAtItsFullStop(t *testing.T) {
	text := strings.Repeat("今天天气很好我们去公园。", 30)
	got := chunk.Split(sectionsOf(chunk.Section{Text: text}), chunk.Options{MaxTokens: 40})
	require.Greater(t, len(got), 5)
	for _, c := range got {
		require.True(t, strings.HasSuffix(c.Text, "。"), "%q", c.Text)
		require.True(t, strings.HasPrefix(c.Text, "今"), "%q", c.Text)
	}
}

func TestOneGiantWordStaysWithinTheLimit(t *testing.T) {
	for _, word := range []string{"x", "é", "語", "😀", "\xff", "\x80"} {
		text := strings.Repeat(word, 10_000)
		got := chunk.Split(sectionsOf(chunk.Section{Text: text}), chunk.Options{MaxTokens: 100})
		for _, c := range got {
			require.LessOrEqual(t, chunk.Tokens(c.Text), 100)
		}
		if word < "\x80" || len(word) > 1 {
			require.Equal(t, text, strings.Join(texts(got), ""))
		}
	}
}

func TestOverlapIsAboutTheAskedShare(t *testing.T) {
	text := strings.Repeat("Some words of a sentence here. ", 2000)
	got := chunk.Split(sectionsOf(chunk.Section{Text: text}), chunk.Options{})
	var shared, total int64
	for i := 1; i < len(got); i++ {
		require.Less(t, got[i].Start, got[i-1].End)
		shared += got[i-1].End - got[i].Start
		total += got[i].End - got[i].Start
	}
	require.InDelta(t, 0.15, float64(shared)/float64(total), 0.05)
}

func TestOverlapNeverCrossesAHeading(t *testing.T) {
	long := strings.Repeat("Some words of a sentence here. ", 100)
	s := sectionsOf(chunk.Section{HeadingPath: []string{"A"}, Text: long}, chunk.Section{HeadingPath: []string{"B"}, Text: long})
	for _, c := range chunk.Split(s, chunk.Options{}) {
		switch c.HeadingPath[0] {
		case "A":
			require.LessOrEqual(t, c.End, s[1].Start)
		case "B":
			require.GreaterOrEqual(t, c.Start, s[1].Start)
		}
	}
}

func TestSmallSiblingsWithTheirHeadingsInTheTextAreMerged(t *testing.T) {
	s := sectionsOf(
		chunk.Section{HeadingPath: []string{"FAQ"}, Text: "FAQ\n\n"},
		chunk.Section{HeadingPath: []string{"FAQ", "Why?"}, Text: "Why?\n\nBecause.\n\n"},
		chunk.Section{HeadingPath: []string{"FAQ", "How?"}, Text: "How?\n\nSo.\n\n"},
	)
	got := chunk.Split(s, chunk.Options{})
	require.Len(t, got, 1)
	require.Equal(t, []string{"FAQ"}, got[0].HeadingPath)
	require.Equal(t, strings.TrimSpace(source(s)), got[0].Text)
}

func TestSmallSectionsOfAlternatingLevelsAreMergedUnderThePathTheyShare(t *testing.T) {
	var parts []chunk.Section
	for range 10_000 {
		parts = append(parts,
			chunk.Section{HeadingPath: []string{"a"}, Text: "a\n\n"},
			chunk.Section{HeadingPath: []string{"a", "b"}, Text: "b\n\n"},
			chunk.Section{HeadingPath: []string{"a", "b", "c"}, Text: "c\n\n"},
		)
	}
	s := sectionsOf(parts...)
	got := chunk.Split(s, chunk.Options{})
	require.LessOrEqual(t, len(got), 2*chunk.Tokens(source(s))/chunk.DefaultMaxTokens+1)
	for _, c := range got {
		require.Equal(t, "a", c.HeadingPath[0])
	}
}

func TestSmallSectionsAreMergedAsFarAsTheTextNamesTheirHeadings(t *testing.T) {
	s := sectionsOf(
		chunk.Section{HeadingPath: []string{"Guide", "Install", "Linux"}, Text: "Linux\n\nUse apt.\n\n"},
		chunk.Section{HeadingPath: []string{"Guide", "Install", "Mac"}, Text: "Mac\n\nUse brew.\n\n"},
		chunk.Section{HeadingPath: []string{"Guide", "Use"}, Text: "Use\n\n"},
		chunk.Section{HeadingPath: []string{"Guide", "Use", "First"}, Text: "First\n\nStart it.\n\n"},
		chunk.Section{HeadingPath: []string{"Guide", "Remove"}, Text: "Remove\n\nDelete it.\n\n"},
	)
	got := chunk.Split(s, chunk.Options{})
	require.Len(t, got, 2, "Install stands in no text: what is under it is not merged with Use")
	require.Equal(t, []string{"Guide", "Install"}, got[0].HeadingPath)
	require.Equal(t, []string{"Guide"}, got[1].HeadingPath)
}

func TestSectionsAreNotMerged(t *testing.T) {
	big := strings.Repeat("word ", 300)
	for name, s := range map[string][]chunk.Section{
		"that do not name their heading": sectionsOf(
			chunk.Section{HeadingPath: []string{"A"}, Text: "one\n"}, chunk.Section{HeadingPath: []string{"B"}, Text: "two\n"}),
		"that are cousins": sectionsOf(
			chunk.Section{HeadingPath: []string{"A", "x"}, Text: "x\n"}, chunk.Section{HeadingPath: []string{"B", "x"}, Text: "x\n"}),
		"that do not touch": {
			{HeadingPath: []string{"A"}, Text: "A one\n"}, {HeadingPath: []string{"A"}, Text: "A two\n", Start: 100}},
		"that are large": sectionsOf(
			chunk.Section{HeadingPath: []string{"A"}, Text: "A " + big}, chunk.Section{HeadingPath: []string{"A"}, Text: "A " + big}),
	} {
		t.Run(name, func(t *testing.T) { require.Len(t, chunk.Split(s, chunk.Options{}), 2) })
	}
}

func TestInvalidTextIsCleanedAndKeepsItsPlace(t *testing.T) {
	got := chunk.Split(sectionsOf(chunk.Section{HeadingPath: []string{"A\xff"}, Text: "ab\xffcd\x00ef"}), chunk.Options{})
	require.Equal(t, []chunk.Chunk{{Text: "ab cd ef", HeadingPath: []string{"A"}, Start: 0, End: 8}}, got)
}

func TestOptionsNameEveryProblem(t *testing.T) {
	require.NoError(t, chunk.Options{}.Validate())
	require.NoError(t, chunk.Options{MaxTokens: 16, OverlapPercent: chunk.NoOverlap}.Validate())
	err := chunk.Options{MaxTokens: 5, OverlapPercent: 90}.Validate()
	require.ErrorContains(t, err, "MaxTokens: 5")
	require.ErrorContains(t, err, "OverlapPercent: 90")
}

func TestTokensFollowTheRuleOfThumb(t *testing.T) {
	require.Equal(t, 0, chunk.Tokens(""))
	require.Equal(t, 100, chunk.Tokens(strings.Repeat("word", 100)))
	require.Equal(t, 10, chunk.Tokens(strings.Repeat("語", 10)))
}

func BenchmarkSplit(b *testing.B) {
	for name, text := range map[string]string{
		"prose":      strings.Repeat(strings.Repeat("The quick brown fox jumps over the lazy dog. ", 8)+"\n\n", 3000),
		"giant_word": strings.Repeat("x", 1<<20),
		"chinese":    strings.Repeat("今天天气很好我们去公园。", 30_000),
	} {
		b.Run(fmt.Sprintf("text=%s", name), func(b *testing.B) {
			s := []chunk.Section{{Text: text}}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				chunk.Split(s, chunk.Options{})
			}
		})
	}
}
