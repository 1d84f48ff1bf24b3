package again_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/internal/again"
)

func TestTheShareGrowsWhileItHelpsAndFallsBackWhereItDoesNot(t *testing.T) {
	var s again.Share
	for _, c := range []struct{ left, tried int }{
		{10_000, 200}, {9_800, 800}, {9_000, 3_200}, {7_400, 7_400}, // half of 3,200 have gone
		{7_400, 200}, {7_400, 200}, {7_301, 200}, {7_201, 800}, {7_500, 200}, // others were refused meanwhile
	} {
		s = s.Of(c.left, 200)
		require.Equal(t, again.Share{Tried: c.tried, Left: c.left}, s)
	}
}

func TestAShareIsBounded(t *testing.T) {
	s := again.Share{Tried: 19_000, Left: 900_000}.Of(880_000, 200)
	require.Equal(t, again.Most, s.Tried)
}

func TestFewDocumentsAreAllTried(t *testing.T) {
	s := again.Share{}.Of(7, 200)
	require.Equal(t, again.Share{Tried: 7, Left: 7}, s)
	require.Equal(t, again.Share{}, s.Of(0, 200))
	require.Equal(t, 200, s.Of(500, 200).Tried)
}
