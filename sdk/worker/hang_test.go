//go:build !race

package worker_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/testkit"
)

// hangs has some writes hang until the returned function is called, as on a disk that stands still; what only reads is answered.
func (f *fixture) hangs(writes string) (end func()) {
	f.t.Helper()
	f.exec(`CREATE TABLE hang AS SELECT 1 AS a`)
	f.exec(`CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$ BEGIN
		WHILE EXISTS (SELECT FROM hang) LOOP PERFORM pg_sleep(0.02); END LOOP; RETURN NEW; END $$`)
	f.exec(`CREATE TRIGGER hang ` + writes + ` EXECUTE FUNCTION hang()`)
	return func() { f.exec(`DELETE FROM hang`) }
}

// underWay waits until so many calls of a move are under way at once.
func (f *fixture) underWay(call, want string) {
	f.t.Helper()
	testkit.Eventually(f.t, soon, func() error {
		if n := f.one(`SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'
			AND pid <> pg_backend_pid() AND query LIKE '%' || $1 || '%'`, call); n != want {
			return errors.New(n + " calls are under way")
		}
		return nil
	})
}

// Nobody waits for others' calls: each would take a deadline of its own.
func TestPickUpsWhileWritesHangAreUnderWayAtOnceAndAStopWaitsForOneDeadline(t *testing.T) {
	const n = 20
	f := newFixture(t)
	f.conns = n + 2
	r := f.workWith(slots(n), func(context.Context, *worker.Run) error { return nil })
	f.settled(f.triggered())
	var all []trip
	for range n {
		all = append(all, f.pending())
	}
	end := f.hangs(`BEFORE UPDATE ON connectors FOR EACH ROW`)
	for _, c := range all {
		f.publish(c)
	}
	f.underWay("moves.pick_up(", "20")
	require.NoError(t, r.stop())
	end()
	for _, c := range all {
		f.is(c, `failure_count = 0`)
	}
}

// Between the end of the work and the drain that is written down the worker has the run.
func TestADrainThatHangsKeepsTheLease(t *testing.T) {
	f := newFixture(t)
	handle, begun, goOn := blocked()
	c := f.triggered()
	f.workWith(func(cfg *worker.Config) { cfg.LeaseSeconds = 3 }, handle)
	await(t, "the handler", begun)
	f.exec(`UPDATE open_runs SET picked_up_at = picked_up_at - interval '1 hour'`)
	end := f.hangs(`BEFORE UPDATE OF drain_seq ON open_runs FOR EACH STATEMENT`)
	has := f.one(`SELECT worker_id::text FROM open_runs`)
	close(goOn)
	f.underWay("moves.drain(", "1") // it holds no row
	beats := f.one(`SELECT max(beats)::text FROM workers`)
	testkit.Eventually(t, soon, func() error {
		if f.one(`SELECT (max(beats) >= $1::bigint + 2)::text FROM workers`, beats) != "true" {
			return errors.New("the worker has not beaten twice")
		}
		return nil
	})
	f.is(c, `worker_id = '`+has+`'`)
	end()
	f.becomes(c, drains+` AND failure_count = 0`)
}
