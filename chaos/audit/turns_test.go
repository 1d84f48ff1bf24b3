package audit_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/chaos/audit"
	"github.com/echomind/sync/chaos/source"
)

func TestARescueBeforeTheLeaseHasEndedIsFound(t *testing.T) {
	l := newLab(t)
	id := l.add("synthetic", source.Config{})
	l.claim(id)
	l.pickUp(id, -time.Second)
	l.rescue(id)
	l.pickUp(id, time.Hour)
	require.Empty(t, l.audit("one worker at a time").Violations, "a lease that had run out")
	l.rescue(id)
	l.finds("one worker at a time", `"worker lost"`)
	l.pickUp(id, time.Hour)
	l.finds("one worker at a time", "given up as lost, runs until")
}

func TestALossInTransitUnderALeaseIsFound(t *testing.T) {
	l := newLab(t)
	id := l.add("synthetic", source.Config{})
	l.claim(id)
	l.pickUp(id, time.Hour)
	l.fail(id, "lost")
	l.finds("one worker at a time", `"lost in transit"`)
}

func TestASecondWorkerInASessionIsFound(t *testing.T) {
	l := newLab(t)
	id := l.add("synthetic", source.Config{})
	l.claim(id)
	l.pickUp(id, time.Hour)
	l.do(`UPDATE connectors SET lease_expires_at = clock_timestamp() + interval '2 hours' WHERE id = $1`, id)
	require.Empty(t, l.audit("one worker at a time").Violations, "a renewal")
	l.pickUp(id, time.Hour)
	l.finds("one worker at a time", "was taken from worker")
}

func TestARunThatReplacesAnotherInSyncingIsFound(t *testing.T) {
	l := newLab(t)
	id := l.add("synthetic", source.Config{})
	l.claim(id)
	l.pickUp(id, time.Hour)
	l.do(`UPDATE connectors SET chunking_session = gen_random_uuid() WHERE id = $1`, id)
	l.finds("one worker at a time", "and so is")
}

const write = `INSERT INTO documents (connector_id, source_id, status, written_by, written_no, session, first_no)
	VALUES ($1, 'doc/1', 'stored', $2, 1, $2, 1)
	ON CONFLICT (connector_id, source_id) DO UPDATE SET written_by = EXCLUDED.written_by, session = EXCLUDED.session,
		updated_at = clock_timestamp()`

func TestAWriterWhoseRunIsOverIsFound(t *testing.T) {
	for name, stale := range map[string]func(l *lab, id int32, session uuid.UUID){
		"inserts": func(l *lab, id int32, session uuid.UUID) {
			l.finish(id, session, 1)
			l.do(write, id, session)
		},
		"updates": func(l *lab, id int32, session uuid.UUID) {
			l.do(write, id, session)
			l.finish(id, session, 1)
			require.Empty(l.t, l.audit("no stale writer").Violations)
			l.do(`UPDATE documents SET status = 'deleted', deleted_at = clock_timestamp()`)
		},
		"is overtaken before its commit": func(l *lab, id int32, session uuid.UUID) {
			l.together(func(do func(string, ...any)) {
				do(write, id, session)
				l.finish(id, session, 1)
			})
		},
		"was never a run": func(l *lab, id int32, _ uuid.UUID) { l.do(write, id, uuid.New()) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			id := l.add("synthetic", source.Config{})
			session := l.claim(id)
			l.pickUp(id, time.Hour)
			stale(l, id, session)
			l.finds("no stale writer", "doc/1 was written by run")
		})
	}
}

func TestAWriterOfAnotherConnectorIsFound(t *testing.T) {
	l := newLab(t)
	id, other := l.add("synthetic", source.Config{}), l.add("synthetic", source.Config{})
	session := l.claim(id)
	l.do(write, id, session)
	require.Empty(t, l.audit("no stale writer").Violations)
	l.do(write, other, session)
	l.finds("no stale writer", "doc/1 was written by run")
}

func TestADocumentThatNamesChunksOfAnotherSessionIsFound(t *testing.T) {
	l := newLab(t)
	id := l.add("synthetic", source.Config{})
	l.do(write, id, l.claim(id))
	l.do(`UPDATE documents SET session = gen_random_uuid()`)
	l.finds("no stale writer", "names chunks of session")
}

func TestASweepOfWhatIsStoredIsFound(t *testing.T) {
	l := newLab(t)
	id := l.add("synthetic", source.Config{})
	l.do(write, id, l.claim(id))
	l.do(`UPDATE documents SET config_version = (SELECT config_version FROM connectors)`)
	l.do(`DELETE FROM documents`)
	l.finds("no stale writer", "was swept")
}

func TestWhatIsGoneOutdatedOrMarkedToBeFetchedAgainMayBeWritten(t *testing.T) {
	l := newLab(t)
	id := l.add("synthetic", source.Config{})
	session := l.claim(id)
	l.pickUp(id, time.Hour)
	l.do(write, id, session)
	l.do(`UPDATE documents SET version_token = 't'`)
	l.finish(id, session, 1)
	l.do(`UPDATE documents SET version_token = '', updated_at = clock_timestamp()`)
	l.do(`DELETE FROM documents`) // config_version 0: of an earlier configuration
	f := l.audit("no stale writer")
	require.Empty(t, f.Violations)
	require.Equal(t, 4, f.Checked)
}

func TestAClaimAboveTheCapIsFound(t *testing.T) {
	l := newLab(t)
	l.opts = audit.Options{Caps: map[string]int{"capped": 1}}
	first, second := l.add("capped", source.Config{}), l.add("capped", source.Config{})
	l.claim(l.add("synthetic", source.Config{}))
	l.claim(first)
	l.pickUp(first, -time.Second)
	session := l.rescue(first)
	l.pickUp(first, time.Hour)
	l.finish(first, session, 1)
	l.claim(second)
	f := l.audit("caps")
	require.Empty(t, f.Violations, "one after the other, and a rescue keeps its place")
	require.Equal(t, 2, f.Checked)
	l.do(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, first)
	l.claim(first)
	l.finds("caps", "2 of its type are in flight")
}
