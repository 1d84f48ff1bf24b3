package db_test

import (
	"fmt"
	"strings"
	"testing"
)

const postpone = `SELECT moves.postpone(id, try_id, $2::interval, 'Microsoft asked us to wait') FROM open_runs WHERE connector_id = $1`

func TestAWaitThatTheSourceAskedForIsNoFailure(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	b.fail(id, "transient")
	b.fail(id, "transient")
	b.force(`UPDATE connectors SET state = '{"at": 7}' WHERE id = $1`, id)
	for range 5 {
		b.exec(`SELECT moves.trigger_sync($1)`, id)
		b.syncing(id)
		b.moves("true", postpone, id, "1 hour")
		b.holds(id, `c.status = 'ACTIVE' AND c.failure_count = 2 AND c.run_id IS NULL AND c.due_reason = 'wait' AND NOT c.needs_plan
			AND c.next_sync_at BETWEEN clock_timestamp() + interval '59 minutes' AND clock_timestamp() + interval '1 hour'
			AND c.status_message = 'Microsoft asked us to wait' AND c.state = '{"at": 7}'
			AND r.status = 'superseded' AND r.reason = 'postponed' AND r.error_message = 'Microsoft asked us to wait'
			AND r.waits_until = c.next_sync_at`)
	}
}

func TestAWaitHasABound(t *testing.T) {
	b := newBase(t)
	for _, c := range []struct{ asked, granted string }{
		{"30 days", "24 hours"}, {"24 hours", "24 hours"}, {"-1 hour", "1 second"}, {"0", "1 second"}, {"12 seconds", "12 seconds"},
	} {
		id := b.in("SYNCING")
		b.moves("true", postpone, id, c.asked)
		b.holds(id, fmt.Sprintf(`c.next_sync_at BETWEEN r.completed_at + interval '%[1]s' - interval '5 seconds'
			AND r.completed_at + interval '%[1]s'`, c.granted))
	}
	id := b.in("SYNCING")
	for _, move := range []string{"postpone", "waits"} {
		if got := b.asked(`SELECT moves.`+move+`(id, try_id, NULL, 'no') FROM open_runs WHERE connector_id = $1`, id); !strings.Contains(got, move+": wait is null") {
			t.Error(got)
		}
	}
}

func TestAWaitEndsWhereItsUserAsksForASync(t *testing.T) {
	b := newBase(t)
	for what, write := range map[string]string{
		"triggered": `SELECT moves.trigger_sync($1)`,
		"changed":   `UPDATE connectors SET config = '{"folder":"another"}' WHERE id = $1`,
	} {
		id := b.synced()
		b.syncing(id)
		b.moves("true", postpone, id, "1 hour")
		b.exec(write, id)
		b.holds(id, fmt.Sprintf(`c.next_sync_at <= clock_timestamp() AND c.due_reason = '%s' AND c.status_message IS NULL`,
			map[string]string{"triggered": "manual", "changed": "changed"}[what]))
	}
	// A schedule is not what was waited for.
	id := b.synced()
	b.syncing(id)
	b.moves("true", postpone, id, "1 hour")
	b.exec(`UPDATE connectors SET refresh_freq_minutes = 5 WHERE id = $1`, id)
	b.holds(id, `c.due_reason = 'wait' AND c.next_sync_at > clock_timestamp() + interval '59 minutes'`)
	// Asked for while the run went on.
	id = b.synced()
	b.syncing(id)
	b.exec(`SELECT moves.trigger_sync($1)`, id)
	b.moves("true", postpone, id, "1 hour")
	b.holds(id, `c.next_sync_at <= clock_timestamp() AND c.due_reason = 'manual' AND c.status_message IS NULL
		AND r.waits_until > clock_timestamp() + interval '59 minutes'`)
}

func TestTheRunAfterAWaitSaysSoAndNoLongerWaits(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	b.syncing(id)
	b.moves("true", postpone, id, "1 hour")
	b.force(`UPDATE connectors SET next_sync_at = now() WHERE id = $1`, id)
	b.pending(id)
	b.holds(id, `c.status = 'PENDING' AND c.status_message IS NULL AND r.trigger = 'wait' AND r.waits_until IS NULL`)
}

func TestATryThatWaitsIsSeenToWait(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	try := b.syncing(id)
	b.moves("true", `SELECT moves.waits($1, $2, '5 minutes', 'Google asked us to wait')`, try.Run, try.ID)
	seen := `SELECT wait_message || (waits_until BETWEEN clock_timestamp() + interval '4 minutes' AND clock_timestamp() + interval '5 minutes')
		FROM connector_evidence WHERE id = $1`
	if got := one[string](b, seen, id); got != "Google asked us to waittrue" {
		t.Error(got)
	}
	b.moves("true", `SELECT moves.fail($1, $2, 'transient', 'it broke')`, try.Run, try.ID)
	b.holds(id, `r.status = 'failed' AND r.waits_until IS NULL AND r.wait_message IS NULL`)
}
