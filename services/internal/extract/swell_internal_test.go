package extract

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATextThatIsManyTimesItsContentIsRefusedWithBoth(t *testing.T) {
	t.Parallel()
	b := newBuilder(t.Context(), 1000)
	b.block(strings.Repeat("x", 69_000))
	require.NoError(t, b.err)
	b.block(strings.Repeat("x", 1000))
	require.ErrorIs(t, b.err, ErrTooLarge)
	require.EqualError(t, b.err, "content too large: it makes 70004 bytes of text, or more, of 1000 bytes of content; at most 69536 are read")
}
