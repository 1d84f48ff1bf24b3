package audit_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/chaos/source"
)

const noKeyOver = "no key over its limit"

// claimKeyed claims a connector with a place of key k, whatever its limit says.
func (l *lab) claimKeyed(id int32) {
	l.t.Helper()
	l.do(`UPDATE connectors SET concurrency_keys = ARRAY['k'] WHERE id = $1`, id)
	l.do(`SELECT moves.claim(jsonb_build_array(jsonb_build_object('id', $1::int, 'run_id', $2::uuid, 'keys', ARRAY['k'])), clock_timestamp())`, id, uuid.New())
}

func TestPlacesOfAKeyThatTakeTurnsAreInOrder(t *testing.T) {
	l := newLab(t)
	l.do(`INSERT INTO concurrency_limits (key, most) VALUES ('k', 1)`)
	first, second, third := l.add("synthetic", source.Config{}), l.add("synthetic", source.Config{}), l.add("synthetic", source.Config{})
	l.claimKeyed(first)
	l.pickUp(first, -time.Second)
	l.do(`SELECT moves.rescue('[]', '0', 10)`)
	l.do(`SELECT moves.disable($1)`, first)
	l.claimKeyed(second)
	l.do(`UPDATE concurrency_limits SET most = 0`)
	l.do(`UPDATE connectors SET concurrency_keys = ARRAY['k'] WHERE id = $1`, third)
	l.do(`SELECT moves.park(ARRAY[$1::int], ARRAY['k'])`, third)
	f := l.audit(noKeyOver)
	require.Empty(t, f.Violations)
	require.Equal(t, 2, f.Checked)
	l.do(`UPDATE concurrency_limits SET most = 1`)
	l.do(`SELECT moves.unpark(ARRAY[$1::int])`, third)
	l.claimKeyed(third)
	l.finds(noKeyOver, "2 runs of key k are in flight, and its limit is 1")
}

func TestAPlaceThatARunLeavesBehindIsFound(t *testing.T) {
	l := newLab(t)
	l.do(`INSERT INTO concurrency_limits (key, most) VALUES ('k', 1)`)
	id := l.add("synthetic", source.Config{})
	l.claimKeyed(id)
	l.do(`ALTER TABLE open_runs DISABLE TRIGGER open_runs_leave_keys`)
	l.do(`SELECT moves.disable($1)`, id)
	l.finds(noKeyOver, "is over, and has a place of key k")
}

func TestAWaitThatNobodyKnowsOfIsFound(t *testing.T) {
	l := newLab(t)
	l.do(`INSERT INTO concurrency_limits (key, most) VALUES ('k', 1)`)
	l.claimKeyed(l.add("synthetic", source.Config{}))
	id := l.add("synthetic", source.Config{})
	l.do(`UPDATE connectors SET concurrency_keys = ARRAY['k'] WHERE id = $1`, id)
	l.do(`SELECT moves.park(ARRAY[$1::int], ARRAY['k'])`, id)
	l.do(`DELETE FROM key_waiters`)
	l.finds(noKeyOver, "waits for key k, and no look knows it")
}
