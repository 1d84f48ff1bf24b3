package extract

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/source"
)

func TestTextComesBackAsItWent(t *testing.T) {
	t.Parallel()
	for _, text := range []source.Content{
		{MediaType: mediaText}, {Title: "T", MediaType: mediaHTML},
		{Title: "T", MediaType: mediaMarkdown, Sections: []chunk.Section{
			{Text: "before\n\n"}, {HeadingPath: []string{"A"}, Text: "A\n\n", Start: 8},
			{HeadingPath: []string{"A", "B"}, Text: "B\n\n", Start: 11}, {HeadingPath: []string{"C"}, Text: "C", Start: 14},
		}},
	} {
		got, err := decodeAnswer(string(encodeText(text)), boundsOf(100))
		require.NoError(t, err)
		require.Equal(t, hashOf(text), hashOf(got))
		require.Equal(t, text.Sections, got.Sections)
	}
}

// takenOver is a child that says what it likes.
type takenOver struct{ answer string }

func (c takenOver) Do(_ context.Context, _ string, most int64, read func(string) error, _ ...[]byte) error {
	if int64(len(c.answer)) > most {
		return errTooLong
	}
	return read(c.answer)
}

func (takenOver) MemoryMB() int { return 256 }

var errTooLong = errors.New("too long")

func TestAnAnswerThatExtractDoesNotGiveIsNotBelieved(t *testing.T) {
	t.Parallel()
	content := []byte("ten bytes.")
	section := func(path []string, text string) source.Content {
		return source.Content{MediaType: mediaText, Sections: []chunk.Section{{HeadingPath: path, Text: text}}}
	}
	many := source.Content{MediaType: mediaText}
	for range len(content) + 1 {
		many.Sections = append(many.Sections, chunk.Section{Text: "x"})
	}
	text := func(t source.Content) string { return string(encodeText(t)) }
	fine := text(section([]string{"A"}, "A"))
	for name, answer := range map[string]string{
		"more sections than bytes": text(many), "a section without text": text(section(nil, "")),
		"sections that are announced alone": fine[:len(fine)-5] + "\xff\xff\xff\x7f",
		"a long title":                      text(source.Content{Title: strings.Repeat("T", MaxTitleBytes+1), MediaType: mediaText}),
		"a long heading":                    text(section([]string{strings.Repeat("h", maxHeadingBytes+1)}, "x")),
		"many headings":                     text(section(make([]string, headingLevels+1), "x")),
		"a type that is not read":           text(source.Content{MediaType: "application/pdf"}),
		"NUL":                               text(section(nil, "a\x00b")), "not UTF-8": text(section(nil, "a\xff")), "CR": text(section(nil, "a\r")),
		"NUL in a heading": text(section([]string{"\x00"}, "x")), "NUL in a title": text(source.Content{Title: "\x00", MediaType: mediaText}),
		"more text than the content makes": text(section(nil, strings.Repeat("x", boundsOf(len(content)).text+1))),
		"more after its end":               fine + "x", "nothing": "", "no outcome": "\x09\x00",
		"more after a reason": string(encodeError(ErrTooLarge)) + "x", "a reason that is not UTF-8": "\x02\x01\xff",
		"a long reason": "\x02" + string(appendString(nil, strings.Repeat("x", maxReasonBytes+1))),
	} {
		got, err := In(takenOver{answer}).Extract(t.Context(), content, Hint{})
		require.ErrorIs(t, err, errAnswer, name)
		require.Empty(t, got)
	}
	got, err := In(takenOver{fine}).Extract(t.Context(), content, Hint{})
	require.NoError(t, err)
	require.Equal(t, "A", textOf(got))
	_, err = In(takenOver{strings.Repeat("\x00", 1<<20)}).Extract(t.Context(), content, Hint{})
	require.ErrorIs(t, err, errTooLong, "it is not even taken from the child")
}

func TestTheLargestAnswerIsTaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]string{
		"a.md": strings.Repeat("# a\n", 20_000), "b.md": strings.Repeat("###### "+strings.Repeat("é", 200)+"\n", 500), "a.txt": strings.Repeat("\x80", 100_000), "b.txt": "a",
		"a.csv": "a,b\n" + strings.Repeat("1,2\n", 20_000), "a.json": "[" + strings.Repeat(`{"a":{"b":1}},`, 20_000) + "1]",
		"a.html": "<title>" + strings.Repeat("T", 900) + "</title>" + strings.Repeat("<h2>a</h2>", 20_000),
	} {
		text, err := Extract(t.Context(), []byte(c), Hint{Name: name})
		require.NoError(t, err, name)
		got, err := In(takenOver{string(encodeText(text))}).Extract(t.Context(), []byte(c), Hint{Name: name})
		require.NoError(t, err, name)
		require.Equal(t, hashOf(text), hashOf(got), name)
	}
}

// FuzzAnswer: a child that was taken over can say what it likes.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte{})
	f.Add(encodeText(source.Content{Title: "T", MediaType: mediaText, Sections: []chunk.Section{{HeadingPath: []string{"A", "B"}, Text: "x"}}}))
	f.Add(encodeError(&Unsupported{MediaType: "a/b"}))
	f.Add(encodeError(ErrTooLarge))
	f.Add([]byte{0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, said []byte) {
		most := boundsOf(10)
		text, err := decodeAnswer(string(said), most)
		if err != nil {
			return
		}
		size := 0
		for _, s := range text.Sections {
			require.Equal(t, int64(size), s.Start)
			require.LessOrEqual(t, len(s.HeadingPath), headingLevels)
			size += len(s.Text)
		}
		require.LessOrEqual(t, size, min(len(said), most.text))
		require.LessOrEqual(t, len(text.Sections), most.sections)
		require.Equal(t, clean(text.Title+textOf(text)), text.Title+textOf(text))
	})
}

// textOf joins the texts of the sections.
func textOf(c source.Content) string {
	var b strings.Builder
	for _, s := range c.Sections {
		b.WriteString(s.Text)
	}
	return b.String()
}
