package audit_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/source"
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
	l.opts.ClockStepped = time.Minute
	require.Equal(t, 1, l.audit("one worker at a time").Violated, "what was seen as it happened")
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
	l.do(`SELECT moves.heartbeat(worker_id, '1 hour', ARRAY[id], ARRAY[try_id]) FROM open_runs`)
	require.Empty(t, l.audit("one worker at a time").Violations, "a heartbeat")
	l.do(`UPDATE open_runs SET worker_id = gen_random_uuid()`)
	l.finds("one worker at a time", "was taken from worker")
}

func TestAWorkerMayGiveUpWhatItDoesNotKnowOf(t *testing.T) {
	l := newLab(t)
	id := l.add("synthetic", source.Config{})
	l.claim(id)
	l.pickUp(id, time.Hour)
	l.do(`UPDATE open_runs SET picked_up_at = picked_up_at - interval '1 hour'`)
	l.do(`SELECT moves.heartbeat(worker_id, '1 minute', '{}', '{}') FROM open_runs`)
	var gone bool
	l.ask(&gone, `SELECT w.expires_at < clock_timestamp() FROM open_runs r JOIN workers w ON w.id = r.worker_id`)
	require.True(t, gone)
	l.rescue(id)
	require.Empty(t, l.audit("one worker at a time").Violations)
	l.pickUp(id, time.Hour)
	l.together(func(do func(string, ...any)) { // somebody else gives it up
		do(`INSERT INTO workers (id, expires_at) VALUES ('00000000-0000-0000-0000-000000000001', clock_timestamp())`)
		do(`UPDATE open_runs SET worker_id = '00000000-0000-0000-0000-000000000001'`)
	})
	l.finds("one worker at a time", "was taken from worker")
}

func TestASecondTryOfARunIsFound(t *testing.T) {
	l := newLab(t)
	id := l.add("synthetic", source.Config{})
	l.claim(id)
	l.pickUp(id, time.Hour)
	l.do(`UPDATE open_runs SET try_id = gen_random_uuid()`)
	l.finds("one worker at a time", "was taken from try")
}

func TestAWorkerThatIsForgottenWhileItHoldsSomethingIsFound(t *testing.T) {
	for name, lease := range map[string]time.Duration{"its lease runs": time.Hour, "it has a run": -time.Second} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			id := l.add("synthetic", source.Config{})
			l.claim(id)
			l.pickUp(id, lease)
			l.do(`DELETE FROM workers`)
			l.finds("one worker at a time", "was forgotten")
		})
	}
}

func TestAHeartbeatThatStandsStillIsFound(t *testing.T) {
	l := newLab(t)
	id := l.add("synthetic", source.Config{})
	l.claim(id)
	l.pickUp(id, time.Hour)
	l.do(`UPDATE workers SET expires_at = expires_at + interval '1 hour'`)
	l.finds("one worker at a time", "from beat 2 to 2")
}

func TestASubscriberWithoutALeaseThatIsGivenUpTooEarlyIsFound(t *testing.T) {
	l := newLab(t)
	id := l.add("synthetic", source.Config{})
	pickUp := func() {
		l.do(`SELECT moves.pick_up(id, run_id, gen_random_uuid()) FROM connectors`)
	}
	l.claim(id)
	pickUp()
	l.rescue(id)
	pickUp()
	require.Empty(t, l.audit("one worker at a time").Violations)
	l.opts.ForeignTimeout = time.Minute
	l.finds("one worker at a time", "has no lease")
}

func TestARunThatReplacesAnotherInSyncingIsFound(t *testing.T) {
	l := newLab(t)
	id := l.add("synthetic", source.Config{})
	l.claim(id)
	l.pickUp(id, time.Hour)
	l.do(`ALTER TABLE open_runs DISABLE TRIGGER chaos_write`) // nobody has ended it
	l.rescue(id)
	l.pickUp(id, time.Hour)
	l.finds("one worker at a time", "and so is")
}

const write = `INSERT INTO documents (connector_id, source_id, status, touched_by, written_by, written_no, try_id, first_no, config_version)
	SELECT $1, 'doc/1', 'stored', $2, $2, 1, $2, 1, config_version FROM connectors WHERE id = $1
	ON CONFLICT (connector_id, source_id) DO UPDATE SET written_by = EXCLUDED.written_by, try_id = EXCLUDED.try_id,
		updated_at = clock_timestamp()`

func TestAWriterWhoseRunIsOverIsFound(t *testing.T) {
	for name, stale := range map[string]func(l *lab, id int32, run, try uuid.UUID){
		"inserts": func(l *lab, id int32, run, try uuid.UUID) {
			l.finish(id, run, 1)
			l.do(write, id, try)
		},
		"updates": func(l *lab, id int32, run, try uuid.UUID) {
			l.do(write, id, try)
			l.finish(id, run, 1)
			require.Empty(l.t, l.audit("no stale writer").Violations)
			l.do(`UPDATE documents SET status = 'deleted', deleted_at = clock_timestamp()`)
		},
		"is overtaken before its commit": func(l *lab, id int32, run, try uuid.UUID) {
			l.together(func(do func(string, ...any)) {
				do(write, id, try)
				l.finish(id, run, 1)
			})
		},
		"has another try's run": func(l *lab, id int32, _, try uuid.UUID) {
			l.rescue(id)
			l.pickUp(id, time.Hour)
			l.do(write, id, try)
		},
		"was never a try": func(l *lab, id int32, _, _ uuid.UUID) { l.do(write, id, uuid.New()) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			id := l.add("synthetic", source.Config{})
			run := l.claim(id)
			stale(l, id, run, l.pickUp(id, time.Hour))
			l.finds("no stale writer", "doc/1 was written by try")
		})
	}
}

// writing is a connector with a try at it.
func (l *lab) writing() (id int32, try uuid.UUID) {
	l.t.Helper()
	id = l.add("synthetic", source.Config{})
	l.claim(id)
	return id, l.pickUp(id, time.Hour)
}

func TestAWriterOfAnotherConnectorIsFound(t *testing.T) {
	l := newLab(t)
	id, try := l.writing()
	other := l.add("synthetic", source.Config{})
	l.do(write, id, try)
	require.Empty(t, l.audit("no stale writer").Violations)
	l.do(write, other, try)
	l.finds("no stale writer", "doc/1 was written by try")
}

func TestAWriterThatBelievesAnotherConfigurationIsFound(t *testing.T) {
	l := newLab(t)
	id, try := l.writing()
	l.do(write, id, try)
	l.do(`UPDATE documents SET config_version = 0`)
	l.finds("no stale writer", "as of configuration 0")
}

func TestAPlaceThatIsTakenByNobodyIsFound(t *testing.T) {
	const place = `INSERT INTO documents (connector_id, source_id, touched_by, config_version)
		SELECT id, 'doc/2', $1, config_version + $2 FROM connectors`
	for name, took := range map[string]func(l *lab, try uuid.UUID){
		"of an earlier configuration": func(l *lab, try uuid.UUID) { l.do(place, try, -1) },
		"by no try":                   func(l *lab, _ uuid.UUID) { l.do(place, uuid.New(), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			id, try := l.writing()
			l.do(write, id, try)
			l.do(place, try, 0)
			require.Empty(t, l.audit("no stale writer").Violations)
			l.do(`UPDATE documents SET source_id = 'doc/3' WHERE source_id = 'doc/2'`)
			took(l, try)
			l.finds("no stale writer", "the place of document doc/2")
		})
	}
}

func TestADocumentThatNamesChunksOfAnotherTryIsFound(t *testing.T) {
	l := newLab(t)
	id, try := l.writing()
	l.do(write, id, try)
	l.do(`UPDATE documents SET try_id = gen_random_uuid()`)
	l.finds("no stale writer", "names chunks of try")
}

func TestASweepOfWhatIsStoredIsFound(t *testing.T) {
	l := newLab(t)
	id, try := l.writing()
	l.do(write, id, try)
	l.rescue(id)
	l.do(`DELETE FROM documents`)
	l.finds("no stale writer", "was swept while it was stored")
}

func TestASweepOfWhatIsBeingWrittenIsFound(t *testing.T) {
	l := newLab(t)
	id, try := l.writing()
	l.do(write, id, try)
	l.do(`DELETE FROM documents`)
	l.finds("no stale writer", "was swept while try")
}

func TestWhatIsGoneOutdatedOrMarkedToBeFetchedAgainMayBeWritten(t *testing.T) {
	l := newLab(t)
	id := l.add("synthetic", source.Config{})
	run := l.claim(id)
	l.do(write, id, l.pickUp(id, time.Hour))
	l.do(`UPDATE documents SET version_token = 't'`)
	l.finish(id, run, 1)
	l.do(`UPDATE documents SET version_token = '', updated_at = clock_timestamp()`)
	l.do(`UPDATE connectors SET config = config || '{"changes": 9}'`)
	l.do(`DELETE FROM documents`) // of an earlier configuration
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
