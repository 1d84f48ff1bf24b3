package endtoend

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/testkit"
)

// A source gives two documents, then asks to wait, and semantic is frozen for longer than each of its runs lasts.
func TestASourceThatAsksToWaitIsReadToItsEndThoughSemanticIsBehind(t *testing.T) {
	l := newLine(t, "file", `{}`)
	const all, quota = 6, 2
	fetched := 0
	handler := func(ctx context.Context, run *worker.Run) error {
		known, err := run.Known(ctx)
		if err != nil {
			return err
		}
		left := quota
		for i := range all {
			id := fmt.Sprintf("%02d", i)
			if known[id].VersionToken != "" {
				continue
			}
			if left == 0 {
				return fmt.Errorf("list the drive: %w", worker.Postponed(time.Hour, errors.New("the drive asked us to wait")))
			}
			left--
			fetched++
			err := errors.Join(
				run.Put(ctx, worker.Document{SourceID: id, Title: id, VersionToken: "v1", ContentHash: "aa", Chunks: []chunk.Chunk{{Text: "text", End: 4}}}),
				run.Checkpoint(ctx, map[string]any{"page": i}))
			if err != nil {
				return err
			}
		}
		return nil
	}
	l.connector = handler
	for round := 1; round <= all/quota-1; round++ {
		require.NoError(t, l.semantic.Signal(syscall.SIGSTOP))
		session := l.dispatch()
		testkit.Eventually(t, soon, func() error {
			var drains bool
			if err := l.pool.QueryRow(t.Context(), `SELECT drain_seq IS NOT NULL FROM scheduler_runs WHERE id = $1 AND status = 'running'`, session).Scan(&drains); err != nil {
				return err
			}
			if !drains {
				return errors.New("it is still fetched")
			}
			return nil
		})
		require.NoError(t, l.semantic.Signal(syscall.SIGCONT))
		require.Equal(t, "superseded: the drive asked us to wait", l.verdict(session))
		require.Len(t, l.documents(), round*quota)
		var page, due string
		require.NoError(t, l.pool.QueryRow(t.Context(), `SELECT state->>'page', due_reason FROM connectors WHERE id = $1`, l.id).Scan(&page, &due))
		require.Equal(t, fmt.Sprint(round*quota-1), page)
		require.Equal(t, "wait", due)
	}
	require.Equal(t, "completed", l.trigger())
	require.Len(t, l.documents(), all)
	require.Equal(t, all, fetched, "none is fetched twice")
}
