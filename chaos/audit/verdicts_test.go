package audit_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/chaos/source"
)

const (
	verdict = "one verdict for each run"
	claims  = "every claim opens its run"
	passed  = "every slot that came is answered"
	slots   = "every cron slot once"
)

func TestARunWithoutOneVerdictIsFound(t *testing.T) {
	for part, forge := range map[string]func(l *lab, session uuid.UUID){
		"was written again": func(l *lab, session uuid.UUID) {
			l.do(`UPDATE scheduler_runs SET reason = 'another' WHERE id = $1`, session)
		},
		"opened 2 times": func(l *lab, session uuid.UUID) {
			l.do(`UPDATE scheduler_runs SET status = 'running', completed_at = NULL WHERE id = $1`, session)
		},
		"ended 2 times": func(l *lab, session uuid.UUID) {
			l.do(`UPDATE scheduler_runs SET status = 'failed' WHERE id = $1`, session)
		},
		"vanished": func(l *lab, session uuid.UUID) { l.do(`DELETE FROM scheduler_runs WHERE id = $1`, session) },
		"is open": func(l *lab, _ uuid.UUID) {
			l.claim(l.add("synthetic", source.Config{}))
		},
		"does not say why": func(l *lab, _ uuid.UUID) {
			session := l.claim(l.add("synthetic", source.Config{}))
			l.do(`UPDATE scheduler_runs SET status = 'failed', completed_at = clock_timestamp() WHERE id = $1`, session)
		},
	} {
		t.Run(part, func(t *testing.T) {
			l := newLab(t)
			id := l.add("synthetic", source.Config{})
			session := l.claim(id)
			l.pickUp(id, time.Hour)
			l.finish(id, session, 1)
			l.do(`UPDATE scheduler_runs SET swept_at = clock_timestamp() WHERE id = $1`, session)
			require.Empty(t, l.audit(verdict).Violations)
			forge(l, session)
			l.finds(verdict, part)
		})
	}
}

func TestAClaimWithoutItsOwnRunIsFound(t *testing.T) {
	const open = `INSERT INTO scheduler_runs (id, connector_id, job_name, trigger, slot, due_at, started_at, config_version)
		VALUES ($2, $1, 'test', $3, $4, clock_timestamp(), clock_timestamp(), 1)`
	const claim = `UPDATE connectors SET status = 'PENDING', chunking_session = $2, dispatched_at = clock_timestamp(),
		next_sync_at = NULL, due_reason = NULL, slot_at = NULL WHERE id = $1`
	forge := func(l *lab, id int32, reason string, slot *time.Time) {
		session := uuid.New()
		l.together(func(do func(string, ...any)) {
			do(open, id, session, reason, slot)
			do(claim, id, session)
		})
	}
	for part, act := range map[string]func(l *lab){
		"opened no run": func(l *lab) { l.do(claim, l.add("synthetic", source.Config{}), uuid.New()) },
		"claimed and opened no run": func(l *lab) { // but in another transaction
			id, session := l.add("synthetic", source.Config{}), uuid.New()
			l.do(open, id, session, "new", nil)
			l.do(claim, id, session)
		},
		"nobody claimed its connector": func(l *lab) {
			l.do(open, l.add("synthetic", source.Config{}), uuid.New(), "new", nil)
		},
		`was due for "new"`: func(l *lab) { forge(l, l.add("synthetic", source.Config{}), "manual", nil) },
		"which is not in the ledger": func(l *lab) {
			forge(l, l.addScheduled("refresh_freq_minutes", 1, source.Config{}), "schedule", nil)
		},
		"is not in the ledger": func(l *lab) { // a later one answers it, and none is missed
			later := time.Now()
			forge(l, l.addScheduled("refresh_freq_minutes", 1, source.Config{}), "schedule", &later)
		},
	} {
		t.Run(part, func(t *testing.T) {
			l := newLab(t)
			l.claim(l.add("synthetic", source.Config{}))
			l.claim(l.addScheduled("refresh_freq_minutes", 1, source.Config{}))
			f := l.audit(claims)
			require.Empty(t, f.Violations)
			require.Equal(t, 2, f.Checked)
			act(l)
			l.finds(claims, part)
		})
	}
}

func TestAPassedSlotWithoutARowIsFound(t *testing.T) {
	l := newLab(t)
	l.claim(l.addScheduled("refresh_freq_minutes", 1, source.Config{}))
	taken := l.addScheduled("refresh_freq_minutes", 1, source.Config{})
	l.do(`UPDATE connectors SET refresh_freq_minutes = NULL WHERE id = $1`, taken)
	f := l.audit(passed)
	require.Empty(t, f.Violations)
	require.Equal(t, 1, f.Checked, "what the user takes away is not looked at")
	id := l.addScheduled("refresh_freq_minutes", 1, source.Config{})
	l.do(`UPDATE connectors SET slot_at = NULL, due_reason = 'manual' WHERE id = $1`, id)
	l.finds(passed, "passed without a row")
}

func TestACronSlotThatIsNotInTheLedgerOnceIsFound(t *testing.T) {
	const missed = `INSERT INTO scheduler_runs (id, connector_id, job_name, trigger, slot, slot_last, missed_count, due_at,
			started_at, completed_at, status, reason, config_version)
		SELECT gen_random_uuid(), id, 'test', 'schedule', slot_at + $2 * interval '1 minute', slot_at + $3 * interval '1 minute', $4,
			clock_timestamp(), clock_timestamp(), clock_timestamp(), 'missed', 'passed', 1 FROM connectors WHERE id = $1`
	for part, rows := range map[string][][3]int{
		"":                         {{0, 4, 5}},
		"is in the ledger 0 times": {{0, 3, 4}},
		"is in the ledger 2 times": {{0, 4, 5}, {3, 3, 1}},
		"there are 5":              {{0, 4, 6}},
		"which never came":         {{0, 4, 5}, {-7, -6, 2}},
		"was planned by":           {{0, 4, 5}},
	} {
		t.Run(part, func(t *testing.T) {
			l := newLab(t)
			id := l.addScheduled("schedule_cron", "* * * * *", source.Config{})
			// Planned nine minutes ago; the claim comes five slots later.
			l.do(`UPDATE connectors SET needs_plan = false, due_reason = 'schedule',
				slot_at = date_trunc('minute', planned_through) + interval '1 minute',
				next_sync_at = date_trunc('minute', planned_through) + interval '1 minute' WHERE id = $1`, id)
			for _, r := range rows {
				l.do(missed, id, r[0], r[1], r[2])
			}
			l.do(`UPDATE connectors SET slot_at = slot_at + interval '5 minutes' WHERE id = $1`, id)
			l.claim(id)
			switch part {
			case "":
				f := l.audit(slots)
				require.Empty(t, f.Violations)
				require.Equal(t, 6, f.Checked)
				return
			case "was planned by":
				l.do(`UPDATE chaos.connector_events SET cron = 'never'`)
			}
			l.finds(slots, part)
		})
	}
}
