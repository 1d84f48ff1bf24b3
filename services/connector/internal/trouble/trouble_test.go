package trouble_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/internal/trouble"
)

func TestTheServiceIsAskedOnceForEachTwentyFilesInARow(t *testing.T) {
	var row trouble.Row
	asked := 0
	ask := func(context.Context) error { asked++; return nil }
	for range 2*trouble.Most + 5 {
		require.NoError(t, row.Goes(t.Context(), ask))
	}
	require.Equal(t, 2, asked)
}

func TestAFileThatIsReadBeginsTheRowAnew(t *testing.T) {
	var row trouble.Row
	for range 10 {
		for range trouble.Most - 1 {
			require.NoError(t, row.Goes(t.Context(), func(context.Context) error { return errors.New("asked") }))
		}
		row.Ends()
	}
}

func TestAServiceThatDoesNotAnswerEndsTheSync(t *testing.T) {
	var row trouble.Row
	away := errors.New("away")
	ask := func(context.Context) error { return away }
	for range trouble.Most - 1 {
		require.NoError(t, row.Goes(t.Context(), ask))
	}
	err := row.Goes(t.Context(), ask)
	require.ErrorIs(t, err, away)
	require.ErrorContains(t, err, "20 files in a row")
}
