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

func TestTheUnknownAreTriedUntilTheyAreFewAndThenAskedWhereTheyAre(t *testing.T) {
	for _, c := range []struct{ unknown, waiting, try, place int }{
		{0, 0, 0, 0}, {2, 0, 2, 0}, {2, 3, 5, 0}, {9, 0, 5, 0}, {9, 9, 0, 9}, {11, 9, 5, 0}, {0, 9, 5, 0}, {2, 9, 3, 2}, {5, 9, 0, 5}, {5, 0, 5, 0},
	} {
		unknown, waiting := make([]string, c.unknown), make([]string, c.waiting)
		now, try, place := again.Share{}.Refused(unknown, waiting, 5)
		require.Len(t, try, c.try, "%+v", c)
		require.Len(t, place, c.place, "%+v", c)
		require.Equal(t, c.unknown+c.waiting, now.Left)
		require.LessOrEqual(t, len(try)+len(place), 10)
	}
}
