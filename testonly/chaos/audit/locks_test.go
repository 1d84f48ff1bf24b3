package audit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/chaos/source"
)

const oneHolder = "one run has a lock"

// locked is a lab in which one of two runs at work has a lock.
func locked(t *testing.T) (l *lab, holder, other int32) {
	l = newLab(t)
	ids := [2]int32{}
	for i := range ids {
		ids[i] = l.add("synthetic", source.Config{Seed: int64(i), Documents: 1})
		l.claim(ids[i])
		l.pickUp(ids[i], time.Hour)
	}
	l.do(`SELECT moves.acquire_lock(id, try_id, 'gpu', '1 minute') FROM open_runs WHERE connector_id = $1`, ids[0])
	return l, ids[0], ids[1]
}

func TestLocksThatTakeTurnsAreInOrder(t *testing.T) {
	l, holder, other := locked(t)
	l.do(`SELECT moves.acquire_lock(id, try_id, 'gpu', '1 minute') FROM open_runs WHERE connector_id = $1`, other)
	l.do(`UPDATE resource_locks SET expires_at = clock_timestamp()`)
	l.do(`SELECT moves.acquire_lock(id, try_id, 'gpu', '1 minute') FROM open_runs WHERE connector_id = $1`, other)
	l.do(`SELECT moves.drain(id, try_id, 7) FROM open_runs WHERE connector_id = $1`, other)
	l.do(`SELECT moves.acquire_lock(id, try_id, 'gpu', '1 minute') FROM open_runs WHERE connector_id = $1`, holder)
	l.fail(holder, "transient")
	f := l.audit(oneHolder)
	require.Empty(t, f.Violations)
	require.Equal(t, 3, f.Checked)
}

func TestALockOfAReleasedRunWhoseWorkDoesNotEndIsInOrder(t *testing.T) {
	l, holder, other := locked(t)
	l.do(`SELECT moves.release(id, try_id, keep_locks => true) FROM open_runs WHERE connector_id = $1`, holder)
	l.do(`SELECT moves.acquire_lock(id, try_id, 'gpu', '1 minute') FROM open_runs WHERE connector_id = $1`, other)
	l.do(`UPDATE resource_locks SET expires_at = clock_timestamp()`)
	l.do(`SELECT moves.acquire_lock(id, try_id, 'gpu', '1 minute') FROM open_runs WHERE connector_id = $1`, other)
	f := l.audit(oneHolder)
	require.Empty(t, f.Violations)
	require.Equal(t, 2, f.Checked)
}

func TestALockThatIsTakenBeforeItEndsIsFound(t *testing.T) {
	l, _, other := locked(t)
	l.do(`UPDATE resource_locks SET run_id = (SELECT id FROM open_runs WHERE connector_id = $1), epoch = epoch + 1`, other)
	l.finds(oneHolder, "before it ended")
}

func TestALockThatIsFreedWhileItsWorkerDoesNotKnowItIsFound(t *testing.T) {
	l, holder, _ := locked(t)
	l.do(`CREATE OR REPLACE FUNCTION moves.let_go(runs uuid[], own boolean) RETURNS void LANGUAGE sql AS 'DELETE FROM resource_locks WHERE run_id = ANY(runs)'`)
	l.do(`SELECT moves.disable($1)`, holder)
	l.finds(oneHolder, "its worker does not know it")
}

func TestAnEpochThatIsGivenTwiceIsFound(t *testing.T) {
	l, _, other := locked(t)
	l.do(`DELETE FROM resource_locks`)
	l.do(`INSERT INTO resource_locks SELECT l.key, l.epoch, r.id, r.connector_id, '1 minute', clock_timestamp(), clock_timestamp() + interval '1 minute', r.try_id, NULL, 0
		FROM open_runs r, (SELECT key, epoch FROM chaos.lock_events LIMIT 1) l WHERE r.connector_id = $1`, other)
	l.finds(oneHolder, "after run ")
}

func TestALockThatARunKeepsIsFound(t *testing.T) {
	for name, end := range map[string]string{
		"ended":    `SELECT moves.release(id, try_id) FROM open_runs WHERE connector_id = $1`,
		"drained":  `SELECT moves.drain(id, try_id, 7) FROM open_runs WHERE connector_id = $1`,
		"returned": `DELETE FROM open_runs WHERE connector_id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			l, holder, _ := locked(t)
			l.do(`CREATE OR REPLACE FUNCTION moves.let_go(runs uuid[], own boolean) RETURNS void LANGUAGE sql AS 'SELECT'`)
			l.force(end, holder)
			l.finds(oneHolder, "is not at work")
		})
	}
}
