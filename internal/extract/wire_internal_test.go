package extract

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/chunk"
)

func TestTextComesBackAsItWent(t *testing.T) {
	t.Parallel()
	for _, text := range []Text{
		{}, {Title: "T", MediaType: mediaHTML},
		{Title: "T", MediaType: mediaMarkdown, Sections: []chunk.Section{
			{Text: "before\n\n"}, {HeadingPath: []string{"A"}, Text: "A\n\n", Start: 8},
			{HeadingPath: []string{"A", "B"}, Text: "B\n\n", Start: 11}, {HeadingPath: []string{"C"}, Text: "C", Start: 14},
		}},
	} {
		got, err := decodeAnswer(string(encodeText(text)))
		require.NoError(t, err)
		require.Equal(t, text.ContentHash(), got.ContentHash())
		require.Equal(t, text.Sections, got.Sections)
	}
}

// FuzzAnswer: a child that was taken over can say what it likes.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte{})
	f.Add(encodeText(Text{Title: "T", MediaType: mediaText, Sections: []chunk.Section{{HeadingPath: []string{"A", "B"}, Text: "x"}}}))
	f.Add(encodeError(&Unsupported{MediaType: "a/b"}))
	f.Add(encodeError(ErrTooLarge))
	f.Add([]byte{0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, said []byte) {
		text, err := decodeAnswer(string(said))
		if err != nil {
			return
		}
		size := 0
		for _, s := range text.Sections {
			require.Equal(t, int64(size), s.Start)
			require.LessOrEqual(t, len(s.HeadingPath), headingLevels)
			size += len(s.Text)
		}
		require.LessOrEqual(t, size, len(said))
	})
}
