//go:build !race

package lifecycle_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
)

func TestACheckpointIsPassedOnceEverythingBeforeItIsStored(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	require.False(t, f.advances(c), "without a checkpoint")
	f.checkpoints(c, 4)
	f.counts(c, 1, 3, 5)
	before := f.everything(c)
	require.False(t, f.advances(c))
	require.Equal(t, before, f.everything(c))
	f.counts(c, 2)
	require.True(t, f.advances(c))
	require.Equal(t, page(4), of[string](f, c, "state::text"))
	require.True(t, of[bool](f, c, "status = 'SYNCING' AND run_id IS NOT NULL AND last_sync_at IS NULL"))
	require.True(t, run[bool](f, c, "status = 'running' AND checkpoint_no = 4 AND worker_id IS NOT NULL"))
	require.False(t, f.advances(c), "twice")
	require.Zero(t, one[int](f, `SELECT count(*)::integer FROM run_checkpoints`))
}

func TestOfSeveralCheckpointsTheLastThatIsReachedCounts(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	f.checkpoints(c, 9, 3, 6)
	f.counts(c, 1, 2, 4, 5, 8)
	require.True(t, f.advances(c))
	require.Equal(t, page(6), of[string](f, c, "state::text"))
	f.checkpoints(c, 12) // overtakes what is missing before it
	f.counts(c, 10, 11)
	require.False(t, f.advances(c))
	f.counts(c, 7)
	require.True(t, f.advances(c))
	require.Equal(t, page(12), of[string](f, c, "state::text"))
}

func TestAnyNumberOfCheckpointsIsPassedAtOnce(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	for no := int64(1); no <= 50; no++ {
		f.checkpoints(c, no)
	}
	require.True(t, f.advances(c))
	require.Equal(t, page(50), of[string](f, c, "state::text"))
}

func TestNoCheckpointPassesAMessageThatNobodyCanName(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	f.checkpoints(c, 2, 4)
	f.counts(c, 1)
	f.exec(`INSERT INTO run_messages (try_id, no, given_up) VALUES ($1, 3, 'unnamed')`, c.try.ID)
	f.exec(`UPDATE open_runs SET stored = stored + 1, documents_failed = 1, unnamed = 1, total = 4, whole = true,
		new_state = '{"end":true}' WHERE id = $1`, c.try.Run)
	require.True(t, f.advances(c))
	require.Equal(t, page(2), of[string](f, c, "state::text"))
	_, err := f.Complete(ctx, c.try.Run)
	require.NoError(t, err)
	require.Equal(t, page(2), of[string](f, c, "state::text"))
}

func TestOfAConnectorThatIsBeingChangedNoCheckpointIsPassed(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	f.checkpoints(c, 1)
	tx, err := f.pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	_, err = tx.Exec(ctx, `UPDATE connectors SET config = '{"x": 1}' WHERE id = $1`, c.id)
	require.NoError(t, err)
	_, err = f.Advance(ctx, c.try.Run)
	require.ErrorIs(t, err, lifecycle.ErrHeld)
	require.NoError(t, tx.Commit(ctx))
	require.False(t, f.advances(c))
	require.Equal(t, `{}`, of[string](f, c, "state::text"))
}

func TestACheckpointIsWhatTheNextRunBeginsWith(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	f.checkpoints(c, 1)
	require.True(t, f.advances(c))
	require.NoError(t, f.Fail(ctx, c.try, lifecycle.Transient, "no"))
	require.Equal(t, page(1), of[string](f, c, "state::text"))
}

func TestACompletionWithoutAStateLeavesTheLastCheckpoint(t *testing.T) {
	f := newFixture(t)
	for state, want := range map[string]string{`NULL`: page(2), `'{"end": true}'`: `{"end": true}`} {
		c := f.syncing()
		f.counts(c, 1)
		f.checkpoints(c, 2)
		f.exec(`UPDATE open_runs SET total = 2, whole = true, new_state = `+state+` WHERE id = $1`, c.try.Run)
		_, err := f.Complete(ctx, c.try.Run)
		require.NoError(t, err)
		require.Equal(t, want, of[string](f, c, "state::text"))
	}
}

func TestARunOfNothingButNotesIsSkipped(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	f.checkpoints(c, 1, 2)
	f.exec(`UPDATE open_runs SET total = 2, whole = true, notes = 2 WHERE id = $1`, c.try.Run)
	ended, err := f.Complete(ctx, c.try.Run)
	require.NoError(t, err)
	require.Equal(t, lifecycle.Skipped, ended.Verdict)
	require.Equal(t, page(2), of[string](f, c, "state::text"))
}

func TestCheckpointedRunsAreTheOpenOnesWhoseCheckpointWaits(t *testing.T) {
	f := newFixture(t)
	waiting, passed, over := f.syncing(), f.syncing(), f.syncing()
	for _, c := range []trip{waiting, passed, over} {
		f.checkpoints(c, 1)
	}
	require.True(t, f.advances(passed))
	require.NoError(t, f.Fail(ctx, over.try, lifecycle.Transient, "no"))
	tries, err := f.CheckpointedRuns(ctx, uuid.Nil)
	require.NoError(t, err)
	require.Equal(t, []lifecycle.Try{waiting.try}, tries)
}

func TestASmallStepAtATimeACheckpointIsPassedExactlyWhenEverythingBeforeItIsStored(t *testing.T) {
	f := newFixture(t)
	const n = 40
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 0))
		c, isThere, isCheckpoint := f.syncing(), map[int64]bool{}, map[int64]bool{}
		blocked := int64(1 + random.IntN(2*n)) // maybe none of them
		for _, at := range random.Perm(n) {
			no := int64(at + 1)
			isCheckpoint[no] = no != blocked && random.IntN(3) == 0
			if isThere[no] = no != blocked; isCheckpoint[no] {
				f.checkpoints(c, no)
			} else if isThere[no] {
				f.counts(c, no)
			} else {
				f.exec(`INSERT INTO run_messages (try_id, no, waits_for) VALUES ($1, $2, $1)`, c.try.ID, no)
				f.exec(`UPDATE open_runs SET stored = stored + 1, waiting = 1 WHERE id = $1`, c.try.Run)
			}
			for more := true; more; { // 3 numbers at a time
				more = one[bool](f, `SELECT more FROM moves.advance($1, 3)`, c.try.Run)
			}
			want := int64(0)
			for k := int64(1); isThere[k]; k++ {
				if isCheckpoint[k] {
					want = k
				}
			}
			require.Equal(t, want, of[int64](f, c, "coalesce((state->>'page')::bigint, 0)"), "seed %d, after %d", seed, no)
			require.Equal(t, want, one[int64](f, `SELECT checkpoint_no FROM open_runs WHERE id = $1`, c.try.Run))
		}
	}
}
