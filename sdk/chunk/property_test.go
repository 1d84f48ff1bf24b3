package chunk_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/echomind/sync/sdk/chunk"
)

type failer interface {
	Fatalf(format string, args ...any)
}

// checkSplit checks the promises of Split for any input.
func checkSplit(t failer, sections []chunk.Section, opts chunk.Options) {
	text := source(sections)
	limit := opts.MaxTokens
	if limit == 0 {
		limit = chunk.DefaultMaxTokens
	}
	limit = min(max(limit, chunk.MinMaxTokens), chunk.MaxMaxTokens)
	sound := !strings.Contains(text, "\x00")
	for _, s := range sections {
		sound = sound && utf8.ValidString(s.Text)
	}
	covered, start := int64(0), int64(-1)
	for _, c := range chunk.Split(sections, opts) {
		switch {
		case c.Start <= start || c.Start < 0 || c.End > int64(len(text)) || c.Start >= c.End:
			t.Fatalf("offsets %d..%d after %d of %d", c.Start, c.End, start, len(text))
		case strings.Trim(c.Text, " \t\n\r\v\f") == "":
			t.Fatalf("empty chunk at %d", c.Start)
		case !utf8.ValidString(c.Text) || strings.Contains(c.Text, "\x00"):
			t.Fatalf("unclean chunk %q", c.Text)
		case chunk.Tokens(c.Text) > limit:
			t.Fatalf("%d tokens exceed %d", chunk.Tokens(c.Text), limit)
		case sound && c.Text != text[c.Start:c.End]:
			t.Fatalf("text %q is not the source %q", c.Text, text[c.Start:c.End])
		case c.End <= covered:
			t.Fatalf("chunk %d..%d adds nothing to %d", c.Start, c.End, covered)
		}
		if c.Start > covered && strings.Trim(text[covered:c.Start], "\x00 \t\n\r\v\f") != "" && sound {
			t.Fatalf("lost %q", text[covered:c.Start])
		}
		checkHeadings(t, sections, c)
		start, covered = c.Start, c.End
	}
	if sound && strings.Trim(text[covered:], " \t\n\r\v\f") != "" {
		t.Fatalf("lost the end %q", text[covered:])
	}
}

// checkHeadings checks that a chunk names every heading above its text: in its path, or in the text.
func checkHeadings(t failer, sections []chunk.Section, c chunk.Chunk) {
	for _, s := range sections {
		from, to := max(c.Start, s.Start), min(c.End, s.Start+int64(len(s.Text)))
		if from >= to || strings.Trim(s.Text[from-s.Start:to-s.Start], "\x00 \t\n\r\v\f") == "" {
			continue
		}
		if len(c.HeadingPath) > len(s.HeadingPath) || !slices.Equal(c.HeadingPath, s.HeadingPath[:len(c.HeadingPath)]) {
			t.Fatalf("path %q of a text under %q", c.HeadingPath, s.HeadingPath)
		}
		for _, heading := range s.HeadingPath[len(c.HeadingPath):] {
			if !strings.Contains(c.Text, heading) {
				t.Fatalf("lost heading %q of %q: %q", heading, s.HeadingPath, c.Text)
			}
		}
	}
}

func TestNothingIsLostAndEveryOffsetIsRight(t *testing.T) {
	piece := rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{"\n\n", "\n", ". ", "! ", "。", " ", "word", strings.Repeat("x", 300), "語", "😀", "é", "e.g. ", "\r\n", "\u00a0"}),
	)
	text := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(piece, 0, 80).Draw(t, "pieces"), "") })
	heading := rapid.SampledFrom([]string{"A", "B", "word"})
	rapid.Check(t, func(t *rapid.T) {
		sections := make([]chunk.Section, rapid.IntRange(0, 8).Draw(t, "sections"))
		for i := range sections {
			path := rapid.SliceOfN(heading, 0, 3).Draw(t, "path")
			sections[i].HeadingPath = path
			sections[i].Text = text.Draw(t, "text")
			switch rapid.IntRange(0, 3).Draw(t, "named") {
			case 0, 1: // small, and it begins with its heading: such sections are merged
				sections[i].Text = strings.Join(path[max(len(path)-1, 0):], "") + "\n\n"
			case 2:
				sections[i].Text = strings.Join(path[max(len(path)-1, 0):], "") + "\n\n" + sections[i].Text
			}
		}
		checkSplit(t, sectionsOf(sections...), chunk.Options{
			MaxTokens:      rapid.IntRange(chunk.MinMaxTokens, 120).Draw(t, "max"),
			OverlapPercent: rapid.IntRange(chunk.NoOverlap, chunk.MaxOverlapPercent).Draw(t, "overlap"),
		})
	})
}

func TestSplitIsSafeOnAnyBytesAndOptions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(t, "bytes"))
		checkSplit(t, []chunk.Section{{Text: text}}, chunk.Options{
			MaxTokens:      rapid.IntRange(-5, 100).Draw(t, "max"),
			OverlapPercent: rapid.IntRange(-200, 200).Draw(t, "overlap"),
		})
	})
}

func FuzzSplit(f *testing.F) {
	f.Add("One. Two.\n\nThree", "Four", 16, 15)
	f.Add("\xff\xe3\x80\x82", "。", 20, 50)
	f.Fuzz(func(t *testing.T, a, b string, maxTokens, overlap int) {
		checkSplit(t, sectionsOf(chunk.Section{HeadingPath: []string{"A"}, Text: a}, chunk.Section{Text: b}),
			chunk.Options{MaxTokens: maxTokens, OverlapPercent: overlap})
	})
}
