//go:build !race

package semantic

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestALookThatEndsEarlyKeepsItsPlaceAndTheNextGoesOnceRound(t *testing.T) {
	var place uuid.UUID
	var asked []string
	away := map[string]bool{uuidOf(3).String(): true}
	do := func(_ context.Context, id uuid.UUID) error {
		asked = append(asked, id.String()[35:])
		if away[id.String()] {
			return fmt.Errorf("%w: gone", errEmbedder) // a wait
		}
		return nil
	}
	look := func() error {
		asked = nil
		return eachPaged(ctx, "try", &place, numbered(5), always, do)
	}
	require.ErrorContains(t, look(), "try 00000000-0000-0000-0000-000000000003")
	require.Equal(t, []string{"1", "2", "3"}, asked)
	require.Error(t, look())
	require.Equal(t, []string{"4", "5", "1", "2", "3"}, asked, "nobody waits behind the third")
	away = nil
	require.NoError(t, look())
	require.Equal(t, []string{"4", "5", "1", "2", "3"}, asked)
	require.NoError(t, look())
	require.Equal(t, []string{"1", "2", "3", "4", "5"}, asked)
}

func TestALookBeginsNothingMoreWhenItsPortionIsOverAndTheNextGoesOn(t *testing.T) {
	var place uuid.UUID
	var asked []string
	do := func(_ context.Context, id uuid.UUID) error {
		asked = append(asked, id.String()[35:])
		return nil
	}
	for range 2 {
		left := 3
		require.NoError(t, eachPaged(ctx, "try", &place, numbered(5), func() bool { left--; return left >= 0 }, do))
	}
	require.Equal(t, []string{"1", "2", "3", "4", "5", "1"}, asked)
}

func TestALookGoesOnPastRefusalsAndNamesAFew(t *testing.T) {
	var place uuid.UUID
	count := 0
	err := eachPaged(ctx, "try", &place, numbered(25), always, func(context.Context, uuid.UUID) error {
		count++
		return errors.New("refused")
	})
	require.Equal(t, 25, count)
	require.Len(t, err.(interface{ Unwrap() []error }).Unwrap(), maxProblems)
}

func TestALookEndsWithItsContext(t *testing.T) {
	var place uuid.UUID
	bounded, cancel := context.WithCancel(ctx)
	count := 0
	err := eachPaged(bounded, "try", &place, numbered(1000), always, func(context.Context, uuid.UUID) error {
		if count++; count == 3 {
			cancel()
			return bounded.Err()
		}
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 3, count)
	require.Equal(t, uuidOf(3), place)
}

func TestEveryLookIsBounded(t *testing.T) {
	x := newIndexed(t)
	without := x.another()
	without.index = nil
	for _, s := range []*Semantic{x.Semantic, without} {
		for _, l := range s.looks() {
			require.Positive(t, l.every, l.name)
			require.Positive(t, l.within, l.name)
			require.LessOrEqual(t, l.within, lookTimeout, l.name)
		}
	}
}
