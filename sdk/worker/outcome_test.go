package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/worker"
)

var errSource = errors.New("the source said no")

func TestWhatTheHandlerReturnsDecidesWhatBecomesOfTheSync(t *testing.T) {
	f := newFixture(t)
	put := func(ctx context.Context, run *worker.Run) error { return run.Put(ctx, note(1)) }
	for name, c := range map[string]struct {
		handle worker.Handler
		then   string
	}{
		"nil": {put, `status = 'SYNCING' AND worker_id IS NULL AND drain_seq IS NOT NULL AND fetched_at IS NOT NULL`},
		"skipped": {
			func(context.Context, *worker.Run) error { return worker.Skipped("nothing new") },
			`status = 'ACTIVE' AND failure_count = 0 AND verdict = 'skipped' AND reason = 'nothing new'`,
		},
		"permanent": {
			func(context.Context, *worker.Run) error { return fmt.Errorf("log in: %w", worker.Permanent(errSource)) },
			`status = 'ERROR' AND next_sync_at IS NULL AND failure_count = 1 AND verdict = 'failed'
				AND reason = 'permanent failure' AND error_message = 'log in: the source said no'`,
		},
		"transient": {
			func(context.Context, *worker.Run) error { return errSource },
			`status = 'ERROR' AND due_reason = 'retry' AND failure_count = 1 AND verdict = 'failed'
				AND status_message = 'the source said no'`,
		},
		"transient, after some documents": {
			func(ctx context.Context, run *worker.Run) error { return errors.Join(put(ctx, run), errSource) },
			`status = 'ERROR' AND due_reason = 'retry' AND verdict = 'failed'`,
		},
		"panic": {
			func(context.Context, *worker.Run) error { panic("no such luck") },
			`status = 'ERROR' AND due_reason = 'retry' AND failure_count = 1
				AND error_message = 'the handler panicked: no such luck'`,
		},
		"its goroutine ends": { // a test's FailNow does so
			func(context.Context, *worker.Run) error { runtime.Goexit(); return nil },
			`status = 'ERROR' AND due_reason = 'retry' AND failure_count = 1 AND error_message LIKE '%runtime.Goexit%'`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			trip := f.triggered()
			r := f.work(c.handle)
			f.settled(trip)
			require.NoError(t, r.stop())
			f.is(trip, c.then)
		})
	}
}

// There is nothing to store, and so nothing to ask semantic or the broker for.
func TestARunThatSentNothingIsSkippedWhileTheBrokerIsAway(t *testing.T) {
	for name, c := range map[string]struct{ end, reason string }{
		"with a reason": {"the delta was empty", "the delta was empty"}, "without": {"", "nothing had changed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			trip := f.triggered()
			begun, goOn := make(chan struct{}), make(chan struct{})
			f.work(func(_ context.Context, run *worker.Run) error {
				close(begun)
				<-goOn
				run.Unchanged(3)
				if err := run.SetState(page{7}); err != nil || c.end == "" {
					return err
				}
				return worker.Skipped(c.end)
			})
			await(t, "the handler", begun)
			f.empties(topology.SyncStream)
			require.NoError(t, f.nats.Stop(ctx))
			close(goOn)
			f.settled(trip)
			f.is(trip, `status = 'ACTIVE' AND failure_count = 0 AND docs_analyzed = 3 AND state = '{"page": 7}' AND next_sync_at > now()
				AND verdict = 'skipped' AND reason = '`+c.reason+`'`)
			require.Equal(t, "0 0 3", f.one(`SELECT concat_ws(' ', total, stored, documents_unchanged) FROM runs WHERE id = $1`, trip.session))
			f.measures("worker_syncs_total", 1)
		})
	}
}

// What is wrong with this move alone fails no sync: semantic ends it as every other, or says what is wrong.
func TestASkipThatPostgresCannotCarryOutIsLeftToSemantic(t *testing.T) {
	raises := func(code string) string {
		return `CREATE FUNCTION bad() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'bad' USING ERRCODE = '` + code + `'; END $$;
			CREATE TRIGGER bad BEFORE INSERT ON runs FOR EACH ROW WHEN (NEW.status = 'skipped') EXECUTE FUNCTION bad()`
	}
	for name, fault := range map[string]string{
		"a bad block": raises("XX001"), "an internal error": raises("XX000"), "no room": raises("53000"), "not allowed": raises("42501"),
		"refused":               raises("P0001"),
		"no such function":      `DROP FUNCTION moves.skip(uuid, uuid, jsonb, text, bigint); DROP FUNCTION moves.skip_all(jsonb)`,
		"it has sent something": `UPDATE open_runs SET total = 0, whole = true`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c := f.pending()
			f.exec(`UPDATE connectors SET max_retries = 1 WHERE id = $1`, c.id)
			f.work(func(context.Context, *worker.Run) error {
				f.exec(fault)
				return nil
			})
			f.publish(c)
			f.settled(c)
			f.is(c, drains+` AND failure_count = 0`)
			f.whole(c, 0)
			f.says("it is left to semantic to end")
		})
	}
}

// A mistake in what is counted for the ledger alone fails no sync, and is not written down.
func TestANegativeNumberOfUnchangedDocumentsIsNotCountedAndTheLogSaysSo(t *testing.T) {
	for name, sent := range map[string]int{"nothing was sent": 0, "a document was sent": 1} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c := f.triggered()
			f.work(func(ctx context.Context, run *worker.Run) error {
				run.Unchanged(2)
				run.Unchanged(-3)
				for i := range sent {
					if err := run.Put(ctx, note(i)); err != nil {
						return err
					}
				}
				return nil
			})
			f.says("Unchanged: n must be 0 or more")
			f.settled(c)
			if sent > 0 {
				require.Equal(t, int64(2), f.whole(c, sent)[0].GetCompleted().Unchanged)
				return
			}
			f.is(c, `status = 'ACTIVE' AND verdict = 'skipped' AND docs_analyzed = 2`)
		})
	}
}

func TestASyncThatSentDocumentsGivesNoReasonToSkip(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		run.ListingPartial()
		return run.Put(ctx, note(1))
	})
	completed := f.whole(c, 1)[0].GetCompleted()
	require.Empty(t, completed.Reason)
	require.False(t, completed.ListingWhole)
}

func TestARemarkTravelsWithSyncCompletedWhateverBecomesOfTheRun(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		run.Remark("a bound was reached")
		run.Remark("half of https://bob:hunter2@drive.example/ was left out")
		return run.Put(ctx, note(1))
	})
	reason := f.whole(c, 1)[0].GetCompleted().Reason
	require.Contains(t, reason, "was left out")
	require.NotContains(t, reason, "hunter2")
	c = f.inside(func(_ context.Context, run *worker.Run) error {
		run.Remark("half of it was left out")
		return nil
	})
	f.is(c, `verdict = 'skipped' AND reason = 'nothing had changed; half of it was left out'`)
}

func TestWhatARunWarnsOfIsKeptWhateverBecomesOfIt(t *testing.T) {
	for became, end := range map[string]worker.Handler{
		`drain_seq IS NOT NULL`: func(ctx context.Context, run *worker.Run) error { return run.Put(ctx, note(1)) },
		`verdict = 'skipped'`:   func(context.Context, *worker.Run) error { return nil },
		`verdict = 'failed'`:    func(context.Context, *worker.Run) error { return errors.New("the drive answers 500") },
	} {
		t.Run(became, func(t *testing.T) {
			f := newFixture(t)
			c := f.inside(func(ctx context.Context, run *worker.Run) error {
				run.Warn("left out: https://bob:hunter2@drive.example/a")
				run.Warn("left out: /b")
				return end(ctx, run)
			})
			f.is(c, became+` AND cardinality(warnings) = 2 AND warnings[1] NOT LIKE '%hunter2%' AND warnings[2] = 'left out: /b'`)
		})
	}
}

// blocked is a handler that says when it begins, and goes on when it is told to or its context ends.
func blocked() (handle worker.Handler, begun chan *worker.Run, goOn chan struct{}) {
	begun, goOn = make(chan *worker.Run, 8), make(chan struct{})
	return func(ctx context.Context, run *worker.Run) error {
		begun <- run
		select {
		case <-goOn:
			return run.Put(ctx, note(1))
		case <-ctx.Done():
			return ctx.Err()
		}
	}, begun, goOn
}

func TestACleanStopLetsAHandlerFinishWithinTheGrace(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	handle, begun, goOn := blocked()
	r := f.workWith(func(cfg *worker.Config) { cfg.Grace = soon }, handle)
	await(t, "the handler", begun)
	r.cancel()
	close(goOn)
	require.NoError(t, r.stop())
	f.is(c, `status = 'SYNCING' AND drain_seq IS NOT NULL AND worker_id IS NULL`)
	f.whole(c, 1)
}

func TestACleanStopReleasesWhatOutlastsTheGrace(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	handle, begun, _ := blocked()
	r := f.workWith(func(cfg *worker.Config) { cfg.Grace = 10 * time.Millisecond }, handle)
	await(t, "the handler", begun)
	require.NoError(t, r.stop())
	f.is(c, `status = 'ACTIVE' AND due_reason = 'release' AND next_sync_at <= clock_timestamp()
		AND failure_count = 0 AND verdict = 'superseded'`)
	require.Empty(t, f.sent(c))
}

func TestASyncThatTakesTooLongFailsForNow(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	f.work(func(ctx context.Context, _ *worker.Run) error {
		<-ctx.Done()
		return ctx.Err()
	}, func(w *worker.Worker) { w.SetMaxRun(50 * time.Millisecond) })
	f.becomes(c, `status = 'ERROR' AND due_reason = 'retry' AND next_sync_at > clock_timestamp() AND failure_count = 1
		AND reason = 'took too long' AND error_message = 'the sync took longer than it may'`)
}

func TestASyncThatTakesTooLongGoesOnFromItsCheckpointAtOnce(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	runs, stored := make(chan *worker.Run, 1), make(chan struct{})
	f.work(func(ctx context.Context, run *worker.Run) error {
		if err := run.Checkpoint(ctx, page{1}); err != nil {
			return err
		}
		// The clock stands still until the test has done semantic's part.
		if err := run.Patiently(ctx, "test.store", func(context.Context) error { runs <- run; <-stored; return nil }); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}, func(w *worker.Worker) { w.SetMaxRun(50 * time.Millisecond); w.SetQueryTimeout(time.Minute) })
	try := await(t, "the run", runs).Try()
	f.exec(`INSERT INTO run_messages (try_id, no) VALUES ($1, 1)`, try.ID)
	f.exec(`INSERT INTO run_checkpoints (try_id, run_id, no, state) VALUES ($1, $2, 1, '{"page": 1}')`, try.ID, try.Run)
	f.exec(`UPDATE open_runs SET stored = 1, notes = 1 WHERE id = $1`, try.Run)
	moved, err := lifecycle.New(f.pool).Advance(ctx, try.Run)
	require.NoError(t, err)
	require.True(t, moved)
	close(stored)
	f.becomes(c, `status = 'SYNCING' AND drain_seq IS NOT NULL AND worker_id IS NULL`)
	ended, err := lifecycle.New(f.pool).Complete(ctx, try.Run)
	require.NoError(t, err)
	require.Equal(t, lifecycle.Failed, ended.Verdict)
	f.is(c, `status = 'ERROR' AND due_reason = 'retry' AND next_sync_at <= clock_timestamp() AND failure_count = 0
		AND state = '{"page": 1}' AND verdict = 'failed' AND reason = 'took too long'
		AND error_message = 'the sync took longer than it may'`)
}

func TestAFencedHandlerEndsAndNothingMoreIsPublished(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	first, ended := make(chan struct{}), make(chan error, 1)
	fenced := make(chan struct{})
	r := f.workWith(func(cfg *worker.Config) { cfg.LeaseSeconds = 3 }, func(ctx context.Context, run *worker.Run) error {
		if err := run.Put(ctx, note(1)); err != nil {
			return err
		}
		close(first)
		<-fenced
		<-ctx.Done()
		ended <- run.Put(ctx, note(2))
		return nil
	})
	await(t, "the first document", first)
	f.rescued(c)
	before := f.everything(c)
	close(fenced)
	require.Error(t, await(t, "the end of the handler", ended))
	require.NoError(t, r.stop())
	require.Equal(t, before, f.everything(c))
	sent := f.sent(c)
	require.Len(t, sent, 1)
	require.NotNil(t, sent[1])
}
