package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/testkit"
	"github.com/echomind/sync/sdk/lifecycle"
)

// services sync connector 1 once, as soon as it is triggered. The returned function waits for them.
func (u terminal) services(settle func(context.Context, *lifecycle.Lifecycle, uuid.UUID) error) (wait func()) {
	u.t.Helper()
	ctx := context.Background()
	pool := u.pool()
	var working sync.WaitGroup
	working.Go(func() {
		session, moves := uuid.New(), lifecycle.New(pool)
		testkit.Eventually(u.t, 20*time.Second, func() error {
			claimed, err := pool.Exec(ctx, `UPDATE connectors SET status = 'PENDING', chunking_session = $1,
				dispatched_at = clock_timestamp(), next_sync_at = NULL, due_reason = NULL
				WHERE id = 1 AND trigger_requested_at IS NOT NULL`, session)
			if err == nil && claimed.RowsAffected() == 0 {
				err = errors.New("not triggered yet")
			}
			return err
		})
		_, err := pool.Exec(ctx, `INSERT INTO scheduler_runs (id, connector_id, job_name, trigger, due_at, started_at,
			config_version) VALUES ($1, 1, 'connector.sync.file', 'manual', clock_timestamp(), clock_timestamp(), 1)`, session)
		err = errors.Join(err, moves.PickUp(ctx, 1, session, uuid.New(), time.Minute))
		_, storing := pool.Exec(ctx, `UPDATE scheduler_runs SET total = 3, stored = 3, documents_processed = 3 WHERE id = $1`, session)
		if err := errors.Join(err, storing, settle(ctx, moves, session)); err != nil {
			u.t.Errorf("sync: %v", err)
		}
	})
	return working.Wait
}

func completes(ctx context.Context, moves *lifecycle.Lifecycle, session uuid.UUID) error {
	_, err := moves.Complete(ctx, session)
	return err
}

func fails(ctx context.Context, moves *lifecycle.Lifecycle, session uuid.UUID) error {
	return moves.Fail(ctx, session, lifecycle.Permanent, "no such folder")
}

func TestTriggerWaitShowsProgressUntilTheVerdict(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--refresh", "manual")
	wait := u.services(completes)
	shown := u.succeed("connectors", "trigger", "1", "--wait", "--timeout", "30s")
	wait()
	require.Contains(t, shown, "completed: 3 documents, 0 unchanged, 0 deleted, 0 failed\n")

	wait = u.services(completes)
	out := u.run("connectors", "trigger", "1", "--wait", "-o", "json")
	wait()
	require.Equal(t, 0, out.code)
	var run map[string]any
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &run), out.stdout)
	require.Equal(t, "completed", run["status"])
	require.InDelta(t, 3, run["stored"], 0)
}

func TestTriggerWaitExitsWith1WhereTheSyncFails(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--refresh", "manual")
	wait := u.services(fails)
	out := u.run("connectors", "trigger", "1", "--wait")
	wait()
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "the sync failed: permanent failure: no such folder")
}

func TestTriggerWaitEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--refresh", "manual")
	out := u.run("connectors", "trigger", "1", "--wait", "--timeout", "300ms")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "no verdict within 300ms")
	require.Contains(t, out.stdout, "ACTIVE: waiting to be claimed\n")
}
