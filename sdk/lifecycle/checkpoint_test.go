package lifecycle_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
)

// counts marks messages of a run as stored, as semantic does.
func (f *fixture) counts(c trip, nos ...int64) {
	f.t.Helper()
	f.exec(`INSERT INTO run_messages (try_id, no) SELECT $1, unnest($2::bigint[])`, c.try.ID, nos)
	f.exec(`UPDATE open_runs SET stored = stored + $2 WHERE id = $1`, c.try.Run, len(nos))
}

// checkpoints counts checkpoints, each with its number as the page.
func (f *fixture) checkpoints(c trip, nos ...int64) {
	f.t.Helper()
	f.counts(c, nos...)
	f.exec(`INSERT INTO run_checkpoints (try_id, run_id, no, state) SELECT $1, $2, no, jsonb_build_object('page', no)
		FROM unnest($3::bigint[]) no`, c.try.ID, c.try.Run, nos)
}

func (f *fixture) advances(c trip) bool {
	f.t.Helper()
	moved, err := f.Advance(ctx, c.try.Run)
	require.NoError(f.t, err)
	return moved
}

func page(n int) string { return fmt.Sprintf(`{"page": %d}`, n) }

func TestACheckpointOfARunThatIsOverChangesNothing(t *testing.T) {
	f := newFixture(t)
	for name, end := range map[string]func(trip){
		"failed":   func(c trip) { require.NoError(t, f.Fail(ctx, c.try, lifecycle.Transient, "no")) },
		"released": func(c trip) { require.NoError(t, f.Release(ctx, c.try)) },
		"disabled": func(c trip) { require.NoError(t, f.Disable(ctx, c.id)) },
		"changed":  func(c trip) { f.exec(`UPDATE connectors SET config = '{"x": 1}' WHERE id = $1`, c.id) },
		"deleted":  func(c trip) { f.exec(`DELETE FROM connectors WHERE id = $1`, c.id) },
		"rescued": func(c trip) {
			f.lose(c)
			require.Equal(t, 1, f.rescue())
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := f.syncing()
			f.counts(c, 1)
			f.checkpoints(c, 2)
			end(c)
			require.False(t, f.advances(c))
			require.Zero(t, one[int](f, `SELECT count(*)::integer FROM connectors WHERE state <> '{}'`))
		})
	}
}

func TestOfEightCallersOneAdvances(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	f.counts(c, 1)
	f.checkpoints(c, 2)
	moved := make(chan bool, 8)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			m, err := f.Advance(ctx, c.try.Run)
			if err != nil && !errors.Is(err, lifecycle.ErrHeld) {
				t.Errorf("advance: %v", err)
			}
			moved <- m
		})
	}
	callers.Wait()
	close(moved)
	count := 0
	for m := range moved {
		if m {
			count++
		}
	}
	require.Equal(t, 1, count)
}
