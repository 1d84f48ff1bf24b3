package audit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/chaos/source"
)

func TestAChainThatWaitsForWhatHasHappenedIsFound(t *testing.T) {
	const waits = "no chain waits for what has happened"
	l := newLab(t)
	first, second := l.add("synthetic", source.Config{}), l.add("synthetic", source.Config{})
	l.do(`UPDATE connectors SET refresh_freq_minutes = NULL`)
	l.do(`INSERT INTO run_after (connector_id, upstream_id) VALUES ($1, $2)`, second, first)
	f := l.audit(waits)
	require.Empty(t, f.Violations)
	require.Equal(t, 1, f.Checked)
	session := l.claim(first)
	l.pickUp(first, time.Hour)
	l.finish(first, session, 1)
	l.finds(waits, "waits, and all that it runs after have ended")
	l.do(`SELECT moves.let_follow(ARRAY[$1::integer])`, second)
	require.Empty(t, l.audit(waits).Violations)
	session = l.claim(second)
	l.pickUp(second, time.Hour)
	l.finish(second, session, 1)
	require.Empty(t, l.audit(waits).Violations)
	l.force(`UPDATE connectors SET followed = false WHERE id = $1`, first) // its ends are not told
	session = l.claim(first)
	l.pickUp(first, time.Hour)
	l.finish(first, session, 1)
	l.force(`UPDATE upstream_ends SET completed_at = completed_at - interval '1 minute'`)
	l.finds(waits, "who runs after it knows of")
	l.force(`UPDATE connectors SET follows = false WHERE id = $1`, second)
	l.finds(waits, "says so, or the other way round")
}
