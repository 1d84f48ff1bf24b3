package semantic

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/testkit"
)

// numbered lists pages of two of so many ids, in order.
func numbered(n int) func(context.Context, uuid.UUID) ([]uuid.UUID, error) {
	return func(ctx context.Context, after uuid.UUID) (page []uuid.UUID, err error) {
		for i := 1; i <= n && len(page) < 2; i++ {
			if id := uuidOf(i); id.String() > after.String() {
				page = append(page, id)
			}
		}
		return page, ctx.Err()
	}
}

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

func always() bool { return true }

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

func TestTheMaintenanceStopsWhileALookIsUnderWay(t *testing.T) {
	f := newFlow(t)
	c := f.syncing()
	c.tells(0)
	f.holds(`LOCK TABLE open_runs`) // every look waits
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- f.maintain(working) }()
	f.waitsForLocks(3)
	stop()
	require.NoError(t, await(t, "the end of the maintenance", ended))
}

// waitsForLocks waits until so many sessions wait for a lock.
func (f *fixture) waitsForLocks(n int64) {
	f.t.Helper()
	testkit.Eventually(f.t, soon, func() error {
		waiting := one[int64](f, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
		if waiting < n {
			return fmt.Errorf("%d wait", waiting)
		}
		return nil
	})
}
