package audit_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/source"
)

const (
	soItWas    = "slots are passed over for what was so"
	rulesKept  = "no run against a rule"
	noneInside = "no run is claimed inside a blackout"
)

// addRules adds a connector whose calendar has closed some of the slots that have passed.
func (l *lab) addRules() (id int32) {
	l.t.Helper()
	l.do(`INSERT INTO calendars (name, time_zone, entries) SELECT 'pauses', 'UTC', jsonb_build_array(jsonb_build_object('name', 'pause',
		'start', to_char(m - interval '8 minutes', f), 'end', to_char(m - interval '5 minutes', f)))
		FROM (SELECT clock_timestamp() AT TIME ZONE 'UTC' AS m, 'YYYY-MM-DD"T"HH24:MI' AS f) now`)
	id = l.addScheduled("schedule_cron", "* * * * *", source.Config{Seed: 3, Documents: 3, Changes: 2})
	l.do(`UPDATE connectors SET calendar = 'pauses' WHERE id = $1`, id)
	l.do(`DELETE FROM passed_slots`)
	l.force(`UPDATE connectors SET planned_through = last_sync_at WHERE id = $1`, id)
	return id
}

// addJob adds a job that is due and asks about a matter, which has stood in some way.
func (l *lab) addJob(stood string) (id int32) {
	l.t.Helper()
	l.do(`INSERT INTO connector_types (name, kind) VALUES ('errand', 'job')`)
	l.do(`INSERT INTO chaos.matters VALUES ('it', $1)`, stood)
	l.do(`INSERT INTO conditions (name, query) VALUES ('stands_well', $1)`, audit.Asks)
	l.ask(&id, `INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes, condition)
		VALUES ('one', 'errand', 1, '{"matter": "it"}', 1, 'stands_well') RETURNING id`)
	return id
}

// line writes a line of slots that no run answers.
func (l *lab) line(id int32, verdict, reason, said string, minutes int) {
	l.t.Helper()
	l.do(`INSERT INTO runs (id, connector_id, type, trigger, slot, slot_last, missed_count, due_at, started_at, completed_at, status, reason, error_message, config_version)
		SELECT gen_random_uuid(), id, type, 'schedule', m, m, CASE $2 WHEN 'failed' THEN NULL ELSE 1 END, m, m, clock_timestamp(), $2, $3, $4, config_version
		FROM connectors, (SELECT date_trunc('minute', clock_timestamp()) - $5 * interval '1 minute' AS m) at WHERE id = $1`, id, verdict, reason, said, minutes)
}

// claimSlot claims a connector for its slot of some minutes ago.
func (l *lab) claimSlot(id int32, minutes int) (run uuid.UUID) {
	l.t.Helper()
	l.force(`UPDATE connectors SET needs_plan = false, due_reason = 'schedule', slot_at = m, next_sync_at = m
		FROM (SELECT date_trunc('minute', clock_timestamp()) - $2 * interval '1 minute' AS m) at WHERE id = $1`, id, minutes)
	return l.claim(id)
}

func TestWhatConditionsAnswerIsAsked(t *testing.T) {
	l := newLab(t)
	l.addJob("met")
	for stands, want := range map[string]string{"met": "true", "not met": "false", "null": ""} {
		l.do(`UPDATE chaos.matters SET stands = $1`, stands)
		var met string
		l.ask(&met, `SELECT coalesce(condition_queries.stands_well('{"matter": "it"}')::text, '')`)
		require.Equal(t, want, met, stands)
	}
	l.do(`UPDATE chaos.matters SET stands = 'raises'`)
	_, err := l.pool.Exec(ctx, `SELECT condition_queries.stands_well('{"matter": "it"}')`)
	require.ErrorContains(t, err, "division by zero")
}

func TestALineWhoseReasonWasNotSoIsFound(t *testing.T) {
	const notMet = "condition `stands_well` not met"
	for part, forge := range map[string]func(l *lab, id int32){
		"never stood so":           func(l *lab, id int32) { l.line(id, "skipped", notMet, "", 2) },
		"division by zero; matter": func(l *lab, id int32) { l.line(id, "failed", "condition failed", "it failed: division by zero", 2) },
		"no version of it":         func(l *lab, id int32) { l.line(id, "skipped", "calendar `pauses`: pause", "", 2) },
		"closed them so":           func(l *lab, id int32) { l.line(id, "skipped", "calendar `pauses`: another", "", 7) },
		"no sync of it": func(l *lab, id int32) {
			l.line(id, "skipped", "already completed for "+time.Now().UTC().Format(time.DateOnly), "", 2)
		},
		`says "too late"`: func(l *lab, id int32) { l.line(id, "missed", "too late", "", 0) },
	} {
		t.Run(part, func(t *testing.T) {
			l := newLab(t)
			id := l.addJob("met")
			l.addRules()
			l.line(id, "skipped", "calendar `pauses`: pause", "", 7)
			l.line(id, "missed", "too late", "", 2)
			require.Empty(t, l.audit(soItWas).Violations)
			forge(l, id)
			l.finds(soItWas, part)
			if part == "never stood so" {
				l.do(`UPDATE chaos.matters SET stands = 'not met'`)
				l.line(id, "skipped", notMet, "", 1)
				require.Equal(t, 1, l.audit(soItWas).Violated, "it stood so then")
			}
		})
	}
}

func TestARunAgainstARuleIsFound(t *testing.T) {
	for part, forge := range map[string]func(l *lab){
		"was not asked": func(l *lab) { l.claim(l.addJob("met")) },
		"was never met": func(l *lab) {
			id := l.addJob("not met")
			l.do(`SELECT moves.note_met(ARRAY[$1::integer])`, id)
			l.claim(id)
		},
		"which calendar pauses closes": func(l *lab) { l.claimSlot(l.addRules(), 7) },
		"had completed": func(l *lab) {
			id := l.addRules()
			l.do(`UPDATE connectors SET once_per = 'month' WHERE id = $1`, id)
			l.finish(id, l.claimSlot(id, 4), 1)
			require.Empty(l.t, l.audit(rulesKept).Violations)
			l.claimSlot(id, 3)
		},
	} {
		t.Run(part, func(t *testing.T) {
			l := newLab(t)
			forge(l)
			l.finds(rulesKept, part)
		})
	}
	l := newLab(t)
	id := l.addJob("met")
	l.do(`SELECT moves.note_met(ARRAY[$1::integer])`, id)
	l.claim(id)
	l.claimSlot(l.addRules(), 3)
	f := l.audit(rulesKept)
	require.Empty(t, f.Violations)
	require.Equal(t, 2, f.Checked)
}

// inWindow claims a job of user 1 while a window stands that has stood for long, or was written a moment ago.
func (l *lab) inWindow(columns, values string, long bool) {
	l.t.Helper()
	id := l.addJob("met")
	l.do(`UPDATE connectors SET condition = NULL WHERE id = $1`, id)
	l.do(`INSERT INTO calendars (name, time_zone, entries) VALUES ('ever', 'UTC', '[{"name": "always", "start": "2020-01-01", "rule": "FREQ=DAILY"}]')`)
	l.do(`INSERT INTO blackouts (name, calendar, mode, ` + columns + `) VALUES ('w', 'ever', 'defer', ` + values + `)`)
	if long {
		l.do(`UPDATE chaos.blackout_events SET at = at - interval '1 minute'`)
		l.do(`UPDATE chaos.calendar_events SET at = at - interval '1 minute'`)
	}
	l.claim(id)
}

func TestAClaimInsideABlackoutIsFound(t *testing.T) {
	l := newLab(t)
	l.inWindow("type", "'errand'", true)
	l.finds(noneInside, "blackout w stood")
}

func TestAClaimInsideABlackoutIsFoundWhereItStoodFurtherThanTheClockHasStepped(t *testing.T) {
	l := newLab(t)
	l.inWindow("type", "'errand'", true)
	l.opts.ClockStepped = 10 * time.Second
	l.finds(noneInside, "blackout w stood")
	l.opts.ClockStepped = 2 * time.Minute
	require.Empty(t, l.audit(noneInside).Violations)
}

func TestAClaimInsideAnothersBlackoutIsNone(t *testing.T) {
	l := newLab(t)
	l.inWindow("user_id", "2", true)
	require.Empty(t, l.audit(noneInside).Violations)
}

func TestAClaimThatMayNotHaveSeenABlackoutIsNone(t *testing.T) {
	l := newLab(t)
	l.inWindow("type", "'errand'", false)
	require.Empty(t, l.audit(noneInside).Violations)
}
