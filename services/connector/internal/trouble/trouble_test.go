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

func TestWhatCannotBeAskedForFailsAloneUnlessTheAccountIsAtFault(t *testing.T) {
	var row trouble.Row
	one, quota, away := errors.New("one"), errors.New("quota"), errors.New("away")
	ends := func(err error) bool { return errors.Is(err, quota) }
	answers := func(context.Context) error { return nil }
	for range 3 * trouble.Most {
		require.NoError(t, row.Alone(t.Context(), one, ends, answers))
	}
	require.ErrorIs(t, row.Alone(t.Context(), quota, ends, answers), quota)
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, row.Alone(ended, one, ends, answers), context.Canceled)
	for range trouble.Most - 1 {
		require.NoError(t, row.Alone(t.Context(), one, ends, answers))
	}
	err := row.Alone(t.Context(), one, ends, func(context.Context) error { return away })
	require.ErrorIs(t, err, away)
	require.ErrorIs(t, err, one)
}
