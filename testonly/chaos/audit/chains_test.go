package audit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/chaos/source"
)

// completes claims a connector, whose run then completes with a document.
func (l *lab) completes(id int32) {
	l.claim(id)
	l.ends(id)
}

// ends picks up the run of a connector, which then completes with a document.
func (l *lab) ends(id int32) {
	l.pickUp(id, time.Hour)
	l.do(`UPDATE open_runs SET total = 1, stored = 1, whole = true WHERE connector_id = $1`, id)
	l.do(`SELECT moves.complete(id) FROM open_runs WHERE connector_id = $1`, id)
}

func TestAChainThatWaitsForWhatHasHappenedIsFound(t *testing.T) {
	const waits = "no chain waits for what has happened"
	l := newLab(t)
	first, second := l.add("synthetic", source.Config{}), l.add("synthetic", source.Config{})
	l.do(`UPDATE connectors SET refresh_freq_minutes = NULL`)
	l.do(`INSERT INTO run_after (connector_id, upstream_id) VALUES ($1, $2)`, second, first)
	f := l.audit(waits)
	require.Empty(t, f.Violations)
	require.Equal(t, 1, f.Checked)
	l.do(`SELECT moves.trigger_sync($1)`, first)
	l.completes(first)
	l.finds(waits, "waits, and all that it runs after have ended")
	l.do(`SELECT moves.let_follow(ARRAY[$1::integer])`, second)
	require.Empty(t, l.audit(waits).Violations)
	l.completes(second)
	require.Empty(t, l.audit(waits).Violations)
	l.do(`SELECT moves.let_follow(ARRAY[$1::integer])`, second) // once more, for the same end
	l.completes(second)
	l.finds(waits, "has completed 2 times for ends of others")
	l.do(`SELECT moves.trigger_sync($1)`, first)
	l.force(`UPDATE connectors SET followed = false WHERE id = $1`, first) // its end is not told
	l.do(`UPDATE upstream_ends SET completed_at = completed_at - interval '1 minute'`)
	l.completes(first)
	l.finds(waits, "who runs after it knows of")
	l.force(`UPDATE connectors SET follows = false WHERE id = $1`, second)
	l.finds(waits, "says so, or the other way round")
}

// Postgres's clock steps ahead and back: a run that completed meanwhile looks younger than the last one.
func TestAnEndOfBeforePostgressClockSteppedBackIsNotTheLast(t *testing.T) {
	const waits = "no chain waits for what has happened"
	l := newLab(t)
	first, second := l.add("synthetic", source.Config{}), l.add("synthetic", source.Config{})
	l.do(`UPDATE connectors SET refresh_freq_minutes = NULL`)
	l.do(`INSERT INTO run_after (connector_id, upstream_id) VALUES ($1, $2)`, second, first)
	for range 2 {
		l.do(`SELECT moves.trigger_sync($1)`, first)
		l.completes(first)
		l.do(`SELECT moves.let_follow(ARRAY[$1::integer])`, second)
	}
	l.do(`DO $$
		DECLARE
			before uuid := (SELECT e.id FROM chaos.run_events e WHERE e.what = 'verdict' ORDER BY e.seq LIMIT 1);
		BEGIN
			PERFORM set_config('session_replication_role', 'replica', true); -- else nobody edits the ledger
			UPDATE chaos.run_events SET at = at + interval '1 minute' WHERE id = before AND what = 'verdict';
			UPDATE runs SET completed_at = completed_at + interval '1 minute' WHERE id = before;
		END $$`)
	require.Empty(t, l.audit(waits).Violations)
}

// A run with parameters is no end: nobody is told of it, and none is lost.
func TestARunWithParametersIsNoEndThatIsLost(t *testing.T) {
	const waits = "no chain waits for what has happened"
	l := newLab(t)
	first, second := l.add("capped", source.Config{}), l.add("synthetic", source.Config{})
	l.do(`UPDATE connector_types SET kind = 'job' WHERE name = 'capped'`)
	l.do(`UPDATE connectors SET refresh_freq_minutes = NULL`)
	l.do(`INSERT INTO run_after (connector_id, upstream_id) VALUES ($1, $2)`, second, first)
	l.do(`SELECT moves.trigger_sync($1)`, first)
	l.completes(first)
	l.do(`SELECT moves.let_follow(ARRAY[$1::integer])`, second)
	l.completes(second)
	l.do(`UPDATE upstream_ends SET completed_at = completed_at - interval '1 minute', ended_at = ended_at - interval '1 minute'`)
	l.do(`UPDATE chaos.run_events SET at = at - interval '1 minute'`)
	require.Empty(t, l.audit(waits).Violations)
	l.do(`SELECT moves.trigger_sync($1, parameters => '{"seed": 5}')`, first)
	l.do(`SELECT moves.claim(jsonb_build_array(jsonb_build_object('id', $1::int, 'run_id', gen_random_uuid(), 'asked', true)), clock_timestamp())`, first)
	l.ends(first)
	require.Empty(t, l.audit(waits).Violations)
}
