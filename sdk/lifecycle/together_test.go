package lifecycle_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/testkit"
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

// each move that is made of many at once: what must be before it, the move, what is after it, and the rows that it has written; and
// the same for many in one call of Postgres: the places that it answers.
var togethers = map[string]struct {
	before  func(*fixture) func() trip
	move    func(*fixture, trip) error
	after   string
	written string
	many    string
}{
	"pick-up": {func(f *fixture) func() trip { return f.pending }, func(f *fixture, c trip) error {
		return f.PickUp(ctx, c.id, c.try, c.worker, lease)
	}, `SELECT count(*) FROM connectors c JOIN open_runs r ON r.id = c.run_id WHERE c.status = 'SYNCING' AND r.try_id IS NOT NULL AND c.id = ANY ($1)`, `connectors WHERE id`,
		`moves.pick_up_all((SELECT jsonb_agg(jsonb_build_object('connector', connector_id, 'run', id, 'try', gen_random_uuid()) ORDER BY connector_id)
			FROM open_runs WHERE connector_id = ANY ($1)), gen_random_uuid(), '15 s')`},
	"drain": {func(f *fixture) func() trip { return f.syncing }, func(f *fixture, c trip) error {
		return f.Drain(ctx, c.try, uint64(c.id))
	}, `SELECT count(*) FROM open_runs WHERE worker_id IS NULL AND drain_seq = connector_id AND connector_id = ANY ($1)`, `open_runs WHERE connector_id`,
		`moves.drain_all((SELECT jsonb_agg(jsonb_build_object('run', id, 'try', try_id, 'seq', connector_id) ORDER BY connector_id)
			FROM open_runs WHERE connector_id = ANY ($1)))`},
	"skip": {func(f *fixture) func() trip { return f.syncing }, func(f *fixture, c trip) error {
		return f.Skip(ctx, c.try, json.RawMessage(`{"at": 7}`), "nothing new", 3)
	}, `SELECT count(*) FROM connectors c JOIN runs r ON r.connector_id = c.id WHERE c.status = 'ACTIVE' AND c.state->>'at' = '7'
		AND r.status = 'skipped' AND r.reason = 'nothing new' AND r.documents_unchanged = 3 AND c.docs_analyzed = 3 AND c.id = ANY ($1)`, `connectors WHERE id`,
		`moves.skip_all((SELECT jsonb_agg(jsonb_build_object('run', id, 'try', try_id, 'new_state', '{"at": 7}'::jsonb,
			'reason', 'nothing new', 'unchanged', 3) ORDER BY connector_id) FROM open_runs WHERE connector_id = ANY ($1)))`},
	"completion": {func(f *fixture) func() trip { return func() trip { return f.stored(2) } }, func(f *fixture, c trip) error {
		_, err := f.Complete(ctx, c.try.Run)
		return err
	}, `SELECT count(*) FROM connectors c JOIN runs r ON r.connector_id = c.id WHERE c.status = 'ACTIVE' AND r.status = 'completed' AND c.id = ANY ($1)`, `connectors WHERE id`,
		`moves.complete_all((SELECT array_agg(id ORDER BY connector_id) FROM open_runs WHERE connector_id = ANY ($1)))`},
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

// While one transaction is under way the others gather. A machine that stands still may miss a deadline, so that it is tried again.
func TestWhatManyAskAtOnceIsFewTransactions(t *testing.T) {
	for name, m := range togethers {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			testkit.Eventually(t, time.Minute, func() error {
				trips := f.many(crowd, m.before(f))
				tx, err := f.pool.Begin(ctx)
				require.NoError(t, err)
				_, err = tx.Exec(ctx, `LOCK TABLE connectors, open_runs`)
				require.NoError(t, err)
				var asked sync.WaitGroup
				asked.Add(crowd)
				released := make(chan error, 1)
				go func() {
					asked.Wait()
					released <- tx.Rollback(ctx)
				}()
				errs := all(trips, func(c trip) error {
					asked.Done()
					return m.move(f, c)
				})
				if err := errors.Join(append(errs, <-released)...); err != nil {
					return err
				}
				if n := one[int](f, `SELECT count(DISTINCT xmin::text) FROM `+m.written+` = ANY ($1)`, ids(trips)); n > crowd/2 {
					return fmt.Errorf("%d transactions", n)
				}
				return nil
			})
		})
	}
}

// One that somebody holds is left out, and the others are moved in the same call, without a wait.
func TestACallForManyLeavesOutWhatSomebodyHolds(t *testing.T) {
	for name, m := range togethers {
		for what, sql := range held {
			if name == "drain" && what == "connector" {
				continue // it touches none
			}
			t.Run(name+", "+what, func(t *testing.T) {
				f := newFixture(t)
				trips := f.many(3, m.before(f))
				f.keep(sql, trips[1].id)
				require.Equal(t, []int32{0, 2}, column[int32](f, `SELECT place FROM `+m.many, ids(trips)))
				require.Equal(t, 2, one[int](f, m.after, ids(trips)))
			})
		}
	}
}

// held are what somebody may hold of a connector on its way.
var held = map[string]string{
	"connector": `SELECT FROM connectors WHERE id = $1 FOR UPDATE`, "run": `SELECT FROM open_runs WHERE connector_id = $1 FOR UPDATE`,
}

func ids(trips []trip) (all []int32) {
	for _, c := range trips {
		all = append(all, c.id)
	}
	return all
}

func TestWhoHoldsOneOfManyHoldsNoOther(t *testing.T) {
	for name, m := range togethers {
		for what, sql := range held {
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

func column[T any](f *fixture, sql string, args ...any) []T {
	f.t.Helper()
	rows, err := f.pool.Query(ctx, sql, args...)
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

// Every column but those that the end of a run fills in: a slot without its verdict would be a slot that nobody can ask about.
func TestTheLedgersRowOfASkippedRunSaysAllThatItsRunSaid(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	f.exec(`UPDATE open_runs SET trigger = 'schedule', slot = due_at - interval '1 minute', trigger_requested_at = due_at - interval '1 hour', dispatches = 3,
		config_version = 77, started_at = due_at + interval '1 s', picked_up_at = due_at + interval '2 s' WHERE id = $1`, c.try.Run)
	const said = `SELECT (to_jsonb(r) - ARRAY['status', 'reason', 'worker_id', 'fetched_at', 'completed_at', 'total', 'documents_unchanged',
		'listing_whole', 'dispatched_at', 'fails_if_lost'])::text FROM scheduler_runs r WHERE id = $1`
	before := one[string](f, said, c.try.Run)
	require.NoError(t, f.Skip(ctx, c.try, nil, "", 3))
	require.JSONEq(t, before, one[string](f, said, c.try.Run))
}

// faults are what a row may do to the call that it is in: errors that are elsewhere the server's.
var faults = map[string]string{
	"a bad block":           `RAISE EXCEPTION 'could not read block 7' USING ERRCODE = '58030'`,
	"a trigger's own fault": `RAISE EXCEPTION 'could not connect to server "audit"' USING ERRCODE = '08001'`,
	"late":                  `PERFORM pg_sleep(8)`,
}

// spoil makes every write of a connector do something else first.
func (f *fixture) spoil(c trip, fault string) {
	f.t.Helper()
	f.exec(`CREATE FUNCTION bad() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.id = ` + strconv.Itoa(int(c.id)) + ` THEN ` + fault + `; END IF; RETURN NEW; END $$`)
	f.exec(`CREATE TRIGGER bad BEFORE UPDATE ON connectors FOR EACH ROW EXECUTE FUNCTION bad()`)
}

func TestOneOfManyThatBreaksOrIsLateIsAloneToldThatPostgresIsAway(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			trips := f.many(40, f.pending)
			_, err := f.Heartbeat(ctx, trips[0].worker, time.Hour, nil)
			require.NoError(t, err)
			f.spoil(trips[7], fault)
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

// The calls that wait behind the late one have long been answered.
func TestOneThatIsLateHoldsUpNoOtherOfItsProcess(t *testing.T) {
	for name, m := range togethers {
		if name == "drain" {
			continue // it writes no connector
		}
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			trips := f.many(40, m.before(f))
			_, err := f.Heartbeat(ctx, trips[0].worker, time.Hour, nil)
			require.NoError(t, err)
			f.spoil(trips[0], faults["late"])
			late := make(chan error, 1)
			go func() { late <- m.move(f, trips[0]) }()
			testkit.Eventually(t, time.Minute, func() error {
				if one[int](f, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`) != 1 {
					return errors.New("the late row is not written yet")
				}
				return nil
			})
			for _, err := range all(trips[1:], func(c trip) error { return m.move(f, c) }) {
				require.NoError(t, err)
			}
			select {
			case err := <-late:
				require.Fail(t, "the others were answered after the one that is late", "%v", err)
			default:
			}
			require.True(t, postgres.Unavailable(<-late))
		})
	}
}

// Together they take 12 s, and a call for several has 1 s. Nobody finds its own row held by the call that has failed.
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
