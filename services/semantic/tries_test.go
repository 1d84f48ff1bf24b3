//go:build !race

// What Postgres decides is the same under the race detector.

package semantic

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/testonly/movestest"
)

// failsOver puts the run back to where its pick-up has not been, as a failover does that loses a commit, and has another try
// pick it up.
func (c trip) failsOver() trip {
	c.f.t.Helper()
	movestest.Force(c.f.t, c.f.pool, `UPDATE open_runs SET picked_up_at = NULL, try_id = NULL, worker_id = NULL, drain_seq = NULL,
		total = NULL, stored = 0, whole = false, notes = 0, new_state = NULL WHERE id = $1`, c.session)
	movestest.Force(c.f.t, c.f.pool, `UPDATE connectors SET status = 'PENDING' WHERE id = $1`, c.connector)
	return c.begun(c.session)
}

func TestOfTwoTriesOfOneRunOnlyTheSecondCounts(t *testing.T) {
	f := newFlow(t)
	lost := f.synced(map[string]string{"kept": "old", "0": "old"}).again()
	c := lost.failsOver()
	require.Equal(t, lost.session, c.session)
	require.NotEqual(t, lost.try, c.try)
	var mixed []*internalpb.DocumentProcessRequest
	for no := range int64(40) {
		mixed = append(mixed, lost.doc(no+1, fmt.Sprint(no), "stale"), c.doc(no+1, fmt.Sprint(no%20), fmt.Sprint("fresh ", no)))
	}
	mixed = append(mixed, lost.doc(41, "large", "stale", part(0, 2)), c.doc(42, "large", "fresh", part(1, 2)),
		c.doc(41, "large", "fresh", part(0, 2)), lost.doc(42, "large", "stale", part(1, 2)),
		lost.deletion(43, "kept"), lost.checkpoint(44, 7), lost.seen(45, 1, "kept"), lost.completed(45), lost.completed(3), c.completed(42))
	rand.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	f.publishRaw([]byte{0xff, 0xff}, lost.session.String(), lost.try.String(), 46)
	f.publishRaw([]byte{0xff, 0xff}, lost.session.String(), lost.try.String(), 0)
	f.publishes(mixed...)
	for _, msg := range f.pulled(10) {
		require.NoError(t, msg.Nak()) // these are handled alone
	}
	f.runs()
	f.becomes(c, "completed")
	f.empties()
	want := ""
	for _, id := range []int{0, 1, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 2, 3, 4, 5, 6, 7, 8, 9} {
		want += line(fmt.Sprint(id), fmt.Sprint("fresh ", id+20)) + "\n"
	}
	require.Equal(t, want+line("kept", "old")+"\n"+`large | stored | token of fresh | hash of fresh | {"to fresh"} | 2 | - | fresh + fresh`,
		c.documents())
	require.Equal(t, int64(42), c.stored())
	require.Contains(t, one[string](f.fixture, `SELECT state::text FROM connectors WHERE id = $1`, c.connector), c.session.String())
	for _, table := range []string{"run_messages", "chunks", "message_tries", "run_checkpoints", "sightings"} {
		require.Zero(t, one[int64](f.fixture, `SELECT count(*) FROM `+table+` WHERE try_id = $1`, lost.try), table)
	}
}
