package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
)

func TestWarningsThatCouldNotBeWrittenAtOnceAreKeptWhateverTheEnd(t *testing.T) {
	for name, end := range map[string]worker.Handler{
		"put off when stored": func(ctx context.Context, run *worker.Run) error {
			return errors.Join(run.Put(ctx, note(1)), worker.Postponed(time.Minute, errors.New("the drive asked us to wait")))
		},
		"fails when stored": func(ctx context.Context, run *worker.Run) error {
			return errors.Join(run.Put(ctx, note(1)), worker.KeepSent(errors.New("the drive answers 500")))
		},
		"drains": func(ctx context.Context, run *worker.Run) error { return run.Put(ctx, note(1)) },
		"fails":  func(context.Context, *worker.Run) error { return errors.New("the drive answers 500") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c := f.triggered()
			held := make(chan func(), 1)
			r := f.work(func(ctx context.Context, run *worker.Run) error {
				run.Warn("three of ten were left out")
				err := end(ctx, run)
				held <- f.holdRun(c)
				return err
			})
			f.says("what a run says of itself is not written down")
			await(t, "the run's row", held)()
			f.settled(c)
			require.NoError(t, r.stop())
			f.is(c, `cardinality(warnings) = 1`)
		})
	}
}

func TestAHundredGoroutinesMayWarnAndOneWhenTheRunIsOver(t *testing.T) {
	f := newFixture(t)
	var over *worker.Run
	c := f.inside(func(_ context.Context, run *worker.Run) error {
		over = run
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				for k := range 100 {
					run.Warn(fmt.Sprintf("%d/%d \x00 \xff %s", i, k, strings.Repeat("ü", 1<<10)))
				}
			})
		}
		all.Wait()
		return errors.New("so that it is kept")
	})
	over.Warn("late")
	f.is(c, `verdict = 'failed' AND cardinality(warnings) = 100 AND length(warnings[1]) <= 500`)
}

func TestASecretThatANULBreaksIsNotShownWithoutIt(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(_ context.Context, run *worker.Run) error {
		run.Warn("left out: pass\x00word=hunter2")
		run.Warn("left out: ht\x00tps://bob:hunter2@drive.example/a?to\x00ken=hunter2")
		run.Warn("Bear\x00er hunter2hunter2hunter2")
		return errors.New("pass\x00word=hunter2 in an error")
	})
	require.NotContains(t, f.ledger(c), "hunter2")
}

// Each commit that changes a run takes 2.5 s, as with a synchronous standby that lags.
func TestARunEndsThoughWhatItSaysTakesTooLongToWrite(t *testing.T) {
	for name, warns := range map[string]bool{"says nothing": false, "says something": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(2.5); RETURN NULL; END $$`)
			f.exec(`CREATE CONSTRAINT TRIGGER slow AFTER UPDATE OR DELETE ON open_runs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()`)
			c := f.triggered()
			f.work(func(_ context.Context, run *worker.Run) error {
				if warns {
					run.Warn("three of ten were left out")
				}
				return errors.New("the drive answers 500")
			})
			f.settled(c)
			f.is(c, `verdict = 'failed'`)
		})
	}
}

func TestARunEndsThoughThereIsNoRoomForWhatItSays(t *testing.T) {
	f := newFixture(t)
	f.exec(`CREATE OR REPLACE FUNCTION moves.report(run uuid, try uuid, done bigint, total bigint, line text, warnings text[] DEFAULT NULL) RETURNS boolean LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$`)
	c := f.triggered()
	f.work(func(_ context.Context, run *worker.Run) error {
		run.Warn("three of ten were left out")
		return errors.New("the drive answers 500")
	})
	f.settled(c)
	f.is(c, `verdict = 'failed'`)
}

func TestAStopHandsBackARunThoughWhatItSaysTakesTooLongToWrite(t *testing.T) {
	for name, warns := range map[string]bool{"says nothing": false, "says something": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1.5); RETURN NULL; END $$`)
			f.exec(`CREATE CONSTRAINT TRIGGER slow AFTER UPDATE OR DELETE ON open_runs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()`)
			c := f.triggered()
			begun := make(chan struct{})
			r := f.workWith(func(cfg *worker.Config) { cfg.Grace = 10 * time.Second }, func(ctx context.Context, run *worker.Run) error {
				if warns {
					run.Warn("three of ten were left out")
				}
				close(begun)
				<-ctx.Done()
				return ctx.Err()
			})
			await(t, "the handler", begun)
			require.NoError(t, r.stop())
			f.is(c, `status = 'ACTIVE' AND verdict = 'superseded' AND failure_count = 0`)
		})
	}
}

func TestARunThatIsNoLongerOnesOwnSaysNothing(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	var next trip
	rescued := make(chan struct{})
	r := f.work(func(ctx context.Context, run *worker.Run) error {
		run.Warn("of the old one")
		<-rescued
		return errors.New("of the old one")
	})
	f.becomes(c, `status = 'SYNCING'`)
	next = f.rescued(c)
	close(rescued)
	require.NoError(t, r.stop())
	f.is(next, `status = 'PENDING' AND warnings IS NULL AND verdict = 'running'`)
}

func TestAReportWithoutWarningsKeepsThoseBefore(t *testing.T) {
	f := newFixture(t)
	c := f.pending()
	try := uuid.New()
	tx, err := f.pool.Begin(ctx)
	require.NoError(t, err)
	for _, sql := range []string{`SELECT moves.pick_up($1, $2, $3)`} {
		_, err = tx.Exec(ctx, sql, c.id, c.session, try)
		require.NoError(t, err)
	}
	_, err = tx.Exec(ctx, `SELECT moves.report($1, $2, 1, 10, 'first', ARRAY['three of ten were left out'])`, c.session, try)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT moves.report($1, $2, 2, 10, 'second')`, c.session, try)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(ctx))
	f.is(c, `progress_done = 2 AND cardinality(warnings) = 1`)
}

func TestWarningsOfARunWithNothingNewAreKeptThoughSomebodyHoldsItsRow(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	held := make(chan func(), 1)
	r := f.work(func(_ context.Context, run *worker.Run) error {
		run.Warn("three of ten were left out")
		held <- f.holdRun(c)
		return nil
	})
	letGo := await(t, "the run's row", held)
	f.says("what a run says of itself is not written down")
	letGo()
	f.settled(c)
	require.NoError(t, r.stop())
	f.is(c, `cardinality(warnings) = 1`)
}
