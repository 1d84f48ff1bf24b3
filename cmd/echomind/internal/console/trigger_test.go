package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/chunker"
	"github.com/echomind/sync/testonly/testkit"
)

// services sync connector 1 once, as soon as it is triggered. The returned function waits for them.
func (u terminal) services(settle func(context.Context, *lifecycle.Lifecycle, lifecycle.Try) error) (wait func()) {
	u.t.Helper()
	ctx := context.Background()
	pool := u.pool()
	var working sync.WaitGroup
	working.Go(func() {
		try, moves := lifecycle.Try{Run: uuid.New(), ID: uuid.New()}, lifecycle.New(pool)
		testkit.Eventually(u.t, 20*time.Second, func() error {
			var claimed int
			err := pool.QueryRow(ctx, `SELECT moves.claim(jsonb_build_array(jsonb_build_object('id', id, 'run_id', $1::uuid, 'asked', next_parameters IS NOT NULL)),
				clock_timestamp()) FROM connectors WHERE id = 1 AND (trigger_requested_at IS NOT NULL OR next_parameters IS NOT NULL)`, try.Run).Scan(&claimed)
			if err == nil && claimed == 0 {
				err = errors.New("not triggered yet")
			}
			return err
		})
		err := moves.PickUp(ctx, 1, try, uuid.New(), time.Minute)
		_, storing := pool.Exec(ctx, `UPDATE open_runs SET total = 3, stored = 3, whole = true, documents_processed = 3
			WHERE id = $1`, try.Run)
		if err := errors.Join(err, storing, settle(ctx, moves, try)); err != nil {
			u.t.Errorf("sync: %v", err)
		}
	})
	return working.Wait
}

func completes(ctx context.Context, moves *lifecycle.Lifecycle, try lifecycle.Try) error {
	_, err := moves.Complete(ctx, try.Run)
	return err
}

func fails(ctx context.Context, moves *lifecycle.Lifecycle, try lifecycle.Try) error {
	return moves.Fail(ctx, try, lifecycle.Permanent, "no such folder")
}

func TestTriggerWaitShowsProgressUntilTheVerdict(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--refresh", "manual")
	wait := u.services(completes)
	shown := u.succeed("connectors", "trigger", "1", "--wait", "--timeout", "30s")
	wait()
	require.Contains(t, shown, "completed: 3 documents, 0 unchanged, 0 deleted, 0 failed\n")

	u.exec(`INSERT INTO documents (connector_id, source_id, status, error, chunk_count, config_version)
		VALUES (1, 'of an earlier run', 'failed', 'not a PDF', 0, 1)`)
	wait = u.services(completes)
	require.Contains(t, u.succeed("connectors", "trigger", "1", "--wait"), "completed: 3 documents, 0 unchanged, 0 deleted, 0 failed\n"+
		"1 document is failed; `echomind documents 1 --failed` lists what failed:\n    1 × not a PDF\n")
	wait()

	wait = u.services(completes)
	out := u.run("connectors", "trigger", "1", "--wait", "-o", "json")
	wait()
	require.Equal(t, 0, out.code)
	var run map[string]any
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &run), out.stdout)
	require.Equal(t, "completed", run["status"])
	require.InDelta(t, 3, run["stored"], 0)
	failed, ok := run["still_failed"].(map[string]any)
	require.True(t, ok)
	require.InDelta(t, 1, failed["documents"], 0)
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

func TestASyncMayDeleteManyDocumentsWhereItsTriggerSaysSo(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).as(consoleRole)
	u.add("--refresh", "manual")
	require.Nil(t, u.object("connectors", "get", "1")["deletions_allowed_at"])
	require.Contains(t, u.succeed("connectors", "trigger", "1", "--allow-deletions"), "connector 1 is triggered, and may delete many documents; ")
	require.NotNil(t, u.object("connectors", "get", "1")["deletions_allowed_at"])
	require.Regexp(t, `deletion guard +on, but the next sync may delete many documents\n`, u.succeed("connectors", "get", "1"))

	said := "300 of 305 documents are not in the source any more; if they are gone for good: echomind connectors trigger 1 --allow-deletions"
	wait := u.services(func(ctx context.Context, moves *lifecycle.Lifecycle, try lifecycle.Try) error {
		return moves.Fail(ctx, try, lifecycle.Transient, said)
	})
	wait()
	require.Contains(t, strings.Join(strings.Fields(u.succeed("why", "1")), " "), "error: "+said)
	require.Contains(t, strings.Join(strings.Fields(u.succeed("connectors", "list")), " "), said)
	require.NotNil(t, u.array("connectors", "list")[0]["deletions_allowed_at"], "it is tried again")

	wait = u.services(completes)
	require.Contains(t, u.succeed("connectors", "trigger", "1", "--allow-deletions", "--wait"), "completed: 3 documents")
	wait()
	wait = u.services(completes)
	require.Equal(t, false, u.object("connectors", "trigger", "1")["deletions_allowed"])
	wait()
	runs := u.array("runs", "1")
	require.Nil(t, runs[0]["deletions_allowed_at"])
	require.NotNil(t, runs[1]["deletions_allowed_at"])
	shown := strings.Join(strings.Fields(u.succeed("runs", "1")), " ")
	require.Contains(t, shown, "deletions allowed; transient failure: "+said)
	require.Equal(t, 2, strings.Count(shown, "deletions allowed"), shown)
	require.Regexp(t, `(?m)completed.* deletions allowed *$`, u.succeed("runs", "1", "-o", "wide"))
}

func TestAWaitThatTheSourceAskedForIsSaidWhereverOneLooks(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).as(consoleRole)
	u.add("--refresh", "manual")
	words := func(args ...string) string { return strings.Join(strings.Fields(u.succeed(args...)), " ") }
	const until = `Microsoft asked us to wait until [0-9][0-9A-Za-z: ]*[0-9]( [-+0-9A-Z]+)?`
	var listed, detailed, ledger string
	wait := u.services(func(ctx context.Context, moves *lifecycle.Lifecycle, try lifecycle.Try) error {
		if err := moves.Waits(ctx, try, 5*time.Minute, "Microsoft asked us to wait"); err != nil {
			return err
		}
		listed, detailed, ledger = words("connectors", "list"), words("connectors", "get", "1"), words("runs", "1")
		return moves.Postpone(ctx, try, time.Hour, "Microsoft asked us to wait")
	})
	u.succeed("connectors", "trigger", "1")
	wait()
	require.Regexp(t, "in flight 0 0 "+until+"$", listed)
	require.Regexp(t, "message "+until+" failures", detailed)
	require.Regexp(t, "running .* "+until, ledger)

	require.Regexp(t, "ACTIVE [0-9: A-Za-z]+ 0 0 "+until+"$", words("connectors", "list"))
	require.Regexp(t, "message "+until+" failures", words("connectors", "get", "1"))
	require.Regexp(t, "is ACTIVE, not running: "+until+" ", words("why", "1"))
	require.Regexp(t, "superseded .* postponed: "+until, words("runs", "1"))
	u.force(`UPDATE connectors SET put_off_since = clock_timestamp() - interval '400 days'`)
	for _, command := range [][]string{{"connectors", "list"}, {"connectors", "get", "1"}, {"why", "1"}} {
		require.Regexp(t, until+", put off since 20[0-9-]+ [0-9:]+", words(command...))
	}
	require.NotNil(t, u.object("connectors", "get", "1")["put_off_since"])
	out := u.run("connectors", "trigger", "1", "--wait", "--timeout", "100ms")
	require.Equal(t, 1, out.code)
	require.NotContains(t, out.stdout, "Microsoft", "the trigger ends the wait")
	require.NotNil(t, u.array("runs", "1")[0]["waits_until"])
	require.Equal(t, "manual", u.object("connectors", "get", "1")["due_reason"])
}

func TestADeletionGuardIsSwitchedOffAndOn(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).as(consoleRole)
	u.add("--deletion-guard", "off")
	version := u.object("connectors", "get", "1")["config_version"]
	require.Equal(t, false, u.array("connectors", "list")[0]["deletion_guard"])
	require.Regexp(t, `deletion guard +off\n`, u.succeed("connectors", "get", "1"))
	require.Equal(t, false, u.object("connectors", "update", "1", "--name", "papers")["deletion_guard"], "it stays")
	require.Equal(t, true, u.object("connectors", "update", "1", "--deletion-guard=on")["deletion_guard"])
	require.Equal(t, version, u.object("connectors", "get", "1")["config_version"])
	require.Equal(t, 2, u.run("connectors", "update", "1", "--deletion-guard", "").code)
}

func TestTriggerWaitEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--refresh", "manual")
	out := u.run("connectors", "trigger", "1", "--wait", "--timeout", "300ms")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "no verdict within 300ms")
	require.Contains(t, out.stdout, "due: waiting to be claimed\n")
}

func TestTriggerWaitEndsWhenTheStackStops(t *testing.T) {
	t.Parallel()
	u, stack := runningStack(t, chunker.Reach{})
	u.add("--no-config-check", "--refresh", "manual")
	ended := make(chan output, 1)
	go func() { ended <- u.run("connectors", "trigger", "1", "--wait") }()
	testkit.Eventually(t, 20*time.Second, func() error {
		if u.object("connectors", "get", "1")["trigger_requested_at"] == nil {
			return errors.New("not triggered yet")
		}
		return nil
	})
	require.NoError(t, stack.Stop(context.Background()))
	out := <-ended
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "the stack stopped before there was a verdict")
	require.Contains(t, out.stderr, "echomind why 1")
}
