package line_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomind/sync/internal/line"
)

func TestWhiteSpaceBecomesOneSpace(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", " \n\t ": "", "a": "a", " a \r\n\tb\u00a0c\u2028d ": "a b c d", "a\xff\xfeb": "a\ufffdb",
	} {
		require.Equal(t, want, line.One(in))
	}
}

func TestALineIsCutAtACharacter(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a b", line.Clip("a\nb", 3))
	require.Equal(t, "a…", line.Clip("a b", 2))
	require.Equal(t, "ä…", line.Clip("äöü", 3))
	require.Equal(t, "…", line.Clip("ä", 1))
	rapid.Check(t, func(t *rapid.T) {
		s, most := string(rapid.SliceOf(rapid.Byte()).Draw(t, "s")), rapid.IntRange(0, 40).Draw(t, "most")
		got := line.Clip(s, most)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, len(strings.TrimSuffix(got, "…")), most)
		require.Equal(t, line.One(got), got)
	})
}
