package lifecycle_test

import (
	"encoding/json"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/lifecycle"
)

// crowd is how many ask at the same time: more than go together.
const crowd = 150

// all does something for each at the same time, and returns what came of it.
func all(trips []trip, do func(trip) error) []error {
	var group sync.WaitGroup
	errs := make([]error, len(trips))
	for i, c := range trips {
		group.Go(func() { errs[i] = do(c) })
	}
	group.Wait()
	return errs
}

func (f *fixture) many(n int, one func() trip) (trips []trip) {
	f.t.Helper()
	worker := uuid.New()
	for range n {
		c := one()
		c.worker = worker
		trips = append(trips, c)
	}
	return trips
}

// keep holds the rows of a query until the test ends.
func (f *fixture) keep(sql string, args ...any) {
	f.t.Helper()
	tx, err := f.pool.Begin(ctx)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = tx.Rollback(ctx) })
	_, err = tx.Exec(ctx, sql, args...)
	require.NoError(f.t, err)
}

// refuse makes Postgres refuse every write of a connector.
func (f *fixture) refuse(c trip) {
	f.t.Helper()
	f.exec(`CREATE TABLE refused AS SELECT $1::integer AS id`, c.id)
	f.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
		IF NEW.id IN (SELECT id FROM refused) THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$`)
	f.exec(`CREATE TRIGGER refuse BEFORE UPDATE ON connectors FOR EACH ROW EXECUTE FUNCTION refuse()`)
}

// each move that is made of many at once: what must be before it, the move, and what is after it.
var togethers = map[string]struct {
	before func(*fixture) func() trip
	move   func(*fixture, trip) error
	after  string
}{
	"pick-up": {func(f *fixture) func() trip { return f.pending }, func(f *fixture, c trip) error {
		return f.PickUp(ctx, c.id, c.try, c.worker, lease)
	}, `SELECT count(*) FROM connectors c JOIN open_runs r ON r.id = c.run_id WHERE c.status = 'SYNCING' AND r.try_id IS NOT NULL AND c.id = ANY ($1)`},
	"drain": {func(f *fixture) func() trip { return f.syncing }, func(f *fixture, c trip) error {
		return f.Drain(ctx, c.try, uint64(c.id))
	}, `SELECT count(*) FROM open_runs WHERE worker_id IS NULL AND drain_seq = connector_id AND connector_id = ANY ($1)`},
	"skip": {func(f *fixture) func() trip { return f.syncing }, func(f *fixture, c trip) error {
		return f.Skip(ctx, c.try, json.RawMessage(`{"at": 7}`), "nothing new", 3)
	}, `SELECT count(*) FROM connectors c JOIN runs r ON r.connector_id = c.id WHERE c.status = 'ACTIVE' AND c.state->>'at' = '7'
		AND r.status = 'skipped' AND r.reason = 'nothing new' AND r.documents_unchanged = 3 AND c.docs_analyzed = 3 AND c.id = ANY ($1)`},
	"completion": {func(f *fixture) func() trip { return func() trip { return f.stored(2) } }, func(f *fixture, c trip) error {
		_, err := f.Complete(ctx, c.try.Run)
		return err
	}, `SELECT count(*) FROM connectors c JOIN runs r ON r.connector_id = c.id WHERE c.status = 'ACTIVE' AND r.status = 'completed' AND c.id = ANY ($1)`},
}

func TestWhatManyAskAtOnceIsDoneForEach(t *testing.T) {
	for name, m := range togethers {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			trips := f.many(crowd, m.before(f))
			for _, err := range all(trips, func(c trip) error { return m.move(f, c) }) {
				require.NoError(t, err)
			}
			require.Equal(t, crowd, one[int](f, m.after, ids(trips)))
		})
	}
}

func ids(trips []trip) (all []int32) {
	for _, c := range trips {
		all = append(all, c.id)
	}
	return all
}

func TestWhoHoldsOneOfManyHoldsNoOther(t *testing.T) {
	for name, m := range togethers {
		for what, sql := range map[string]string{
			"connector": `SELECT FROM connectors WHERE id = $1 FOR UPDATE`, "run": `SELECT FROM open_runs WHERE connector_id = $1 FOR UPDATE`,
		} {
			if name == "drain" && what == "connector" {
				continue // it touches none
			}
			t.Run(name+", "+what, func(t *testing.T) {
				f := newFixture(t)
				trips := f.many(40, m.before(f))
				f.keep(sql, trips[7].id)
				for i, err := range all(trips, func(c trip) error { return m.move(f, c) }) {
					if i == 7 {
						require.ErrorIs(t, err, lifecycle.ErrHeld)
						continue
					}
					require.NoError(t, err)
				}
				require.Equal(t, 39, one[int](f, m.after, ids(trips)))
			})
		}
	}
}

func TestOneOfManyThatPostgresRefusesIsRefusedAlone(t *testing.T) {
	for name, m := range togethers {
		if name == "drain" {
			continue // it writes no connector
		}
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			trips := f.many(40, m.before(f))
			f.refuse(trips[7])
			for i, err := range all(trips, func(c trip) error { return m.move(f, c) }) {
				if i == 7 {
					require.ErrorContains(t, err, "refused")
					continue
				}
				require.NoError(t, err)
			}
			require.Equal(t, 39, one[int](f, m.after, ids(trips)))
		})
	}
}

func TestOldNewsAmongManyIsFenced(t *testing.T) {
	for name, m := range togethers {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			trips := f.many(40, m.before(f))
			require.NoError(t, f.Disable(ctx, trips[7].id))
			before := f.everything(trips[7])
			for i, err := range all(trips, func(c trip) error { return m.move(f, c) }) {
				if i == 7 {
					require.ErrorIs(t, err, lifecycle.ErrFenced)
					continue
				}
				require.NoError(t, err)
			}
			require.Equal(t, before, f.everything(trips[7]))
		})
	}
}

// A message that came twice to one process: one try has the run.
func TestOfTwoTriesOfARunOneIsTakenAmongMany(t *testing.T) {
	f := newFixture(t)
	trips := f.many(20, f.pending)
	for _, c := range trips[:20] {
		c.try.ID = uuid.New()
		trips = append(trips, c)
	}
	taken := 0
	for _, err := range all(trips, func(c trip) error { return f.PickUp(ctx, c.id, c.try, c.worker, lease) }) {
		if err == nil {
			taken++
			continue
		}
		require.ErrorIs(t, err, lifecycle.ErrFenced)
	}
	require.Equal(t, 20, taken)
	require.Equal(t, 20, one[int](f, `SELECT count(*) FROM open_runs WHERE try_id IS NOT NULL`))
}

func TestASkippedRunLeavesNothingToSweepUnlessItEndsAListing(t *testing.T) {
	f := newFixture(t)
	plain, listed := f.syncing(), f.syncing()
	f.force(`UPDATE connectors SET state = '{"at": 1}' WHERE id = ANY ($1)`, []int32{plain.id, listed.id})
	f.force(`UPDATE connectors SET listing = '{"whole": true}' WHERE id = $1`, listed.id)
	for _, c := range []trip{plain, listed} {
		require.NoError(t, f.Skip(ctx, c.try, nil, "", 0))
		require.JSONEq(t, `{"at": 1}`, of[string](f, c, "state::text"), "nil leaves the state")
		require.Equal(t, "nothing had changed", run[string](f, c, "reason"))
	}
	require.Equal(t, []uuid.UUID{listed.try.Run}, column[uuid.UUID](f, `SELECT run_id FROM unswept_runs`))
	require.True(t, of[bool](f, listed, "listing IS NOT NULL"), "it goes on")
}

func column[T any](f *fixture, sql string) []T {
	f.t.Helper()
	rows, err := f.pool.Query(ctx, sql)
	require.NoError(f.t, err)
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(f.t, err)
	return values
}

func TestARunThatHasSentSomethingIsNotSkipped(t *testing.T) {
	f := newFixture(t)
	for _, sent := range []string{"stored = 1", "total = 0, whole = true", "worker_id = NULL, drain_seq = 9"} {
		c := f.syncing()
		f.exec(`UPDATE open_runs SET `+sent+` WHERE id = $1`, c.try.Run)
		before := f.everything(c)
		require.ErrorContains(t, f.Skip(ctx, c.try, nil, "", 0), "send sync completed instead", sent)
		require.Equal(t, before, f.everything(c), sent)
	}
}

func TestAStateThatNoTriggerCouldCarryIsNotKept(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	large, err := json.Marshal(map[string]string{"at": string(make([]byte, 70_000))})
	require.NoError(t, err)
	require.Error(t, f.Skip(ctx, c.try, large, "", 0))
	require.Equal(t, "SYNCING", of[string](f, c, "status"))
}

// faults are what a row may do to the call that it is in: errors that are elsewhere the server's.
var faults = map[string]string{
	"a bad block":           `RAISE EXCEPTION 'could not read block 7' USING ERRCODE = '58030'`,
	"a trigger's own fault": `RAISE EXCEPTION 'could not connect to server "audit"' USING ERRCODE = '08001'`,
	"late":                  `PERFORM pg_sleep(8)`,
}

func TestOneOfManyThatBreaksOrIsLateIsAloneToldThatPostgresIsAway(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			trips := f.many(40, f.pending)
			_, err := f.Heartbeat(ctx, trips[0].worker, time.Hour, nil)
			require.NoError(t, err)
			f.exec(`CREATE FUNCTION bad() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				IF NEW.id = ` + strconv.Itoa(int(trips[7].id)) + ` THEN ` + fault + `; END IF; RETURN NEW; END $$`)
			f.exec(`CREATE TRIGGER bad BEFORE UPDATE ON connectors FOR EACH ROW EXECUTE FUNCTION bad()`)
			for i, err := range all(trips, func(c trip) error { return f.PickUp(ctx, c.id, c.try, c.worker, lease) }) {
				if i == 7 {
					require.True(t, postgres.Unavailable(err), "%v", err)
					continue
				}
				require.NoError(t, err)
			}
		})
	}
}

// Together they take 12 s, and a call has 7 s.
func TestManyRowsThatAreSlowTogetherAreMovedAllTheSame(t *testing.T) {
	for _, name := range []string{"pick-up", "completion"} {
		t.Run(name, func(t *testing.T) {
			f, m := newFixture(t), togethers[name]
			trips := f.many(100, m.before(f))
			_, err := f.Heartbeat(ctx, trips[0].worker, time.Hour, nil)
			require.NoError(t, err)
			f.exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.12); RETURN NEW; END $$`)
			f.exec(`CREATE TRIGGER slow BEFORE UPDATE ON connectors FOR EACH ROW EXECUTE FUNCTION slow()`)
			for _, err := range all(trips, func(c trip) error {
				err := m.move(f, c)
				for range 2 { // as those who ask do
					if !postgres.Unavailable(err) {
						break
					}
					err = m.move(f, c)
				}
				return err
			}) {
				require.NoError(t, err)
			}
			require.Equal(t, 100, one[int](f, m.after, ids(trips)))
		})
	}
}
