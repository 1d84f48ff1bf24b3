package console

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyYesConfirms(t *testing.T) {
	t.Parallel()
	for answer, confirmed := range map[string]bool{"y\n": true, "Yes \n": true, "yes": true, "\n": false, "": false, "n\n": false, "yellow\n": false} {
		var asked strings.Builder
		err := confirm(strings.NewReader(answer), &asked, "Delete? ")
		require.Equal(t, "Delete? ", asked.String())
		if confirmed {
			require.NoError(t, err, answer)
		} else {
			require.ErrorIs(t, err, errNotConfirmed, answer)
		}
	}
}

func TestNobodyIsAskedWhereNobodyAnswers(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer func() { require.NoError(t, null.Close()) }()
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	for _, stream := range []any{null, file, strings.NewReader("y\n")} {
		require.False(t, isTerminal(stream))
	}
}
