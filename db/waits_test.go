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

const cutAndWait = `SELECT moves.cut(id, try_id, 2, 7, 'Microsoft asked us to wait', $2::interval) FROM open_runs WHERE connector_id = $1`

// stored says that everything of a connector's open run is, and completes it.
func (b *base) stored(id int32, verdict string) {
	b.Helper()
	b.force(`UPDATE open_runs SET stored = total, whole = true WHERE connector_id = $1`, id)
	b.moves(verdict, `SELECT verdict FROM moves.complete($1)`, b.run(id))
}

func TestARunThatIsToWaitIsPostponedWhenWhatItHasSentIsStored(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	b.syncing(id)
	b.moves("true", cutAndWait, id, "1 hour")
	b.moves("true", cutAndWait, id, "2 hours") // again, because the answer was lost
	b.holds(id, `c.status = 'SYNCING' AND r.drain_seq = 7 AND r.total = 2 AND r.worker_id IS NULL AND r.status = 'running'
		AND r.waits_until BETWEEN clock_timestamp() + interval '59 minutes' AND clock_timestamp() + interval '1 hour'`)
	b.moves("false", `SELECT moves.waits(id, try_id, '1 second', 'no') FROM open_runs WHERE connector_id = $1`, id)
	b.stored(id, "superseded")
	b.holds(id, `c.status = 'ACTIVE' AND c.failure_count = 0 AND c.run_id IS NULL AND c.due_reason = 'wait'
		AND c.status_message = 'Microsoft asked us to wait' AND c.next_sync_at = r.waits_until
		AND r.status = 'superseded' AND r.reason = 'postponed' AND r.error_message = 'Microsoft asked us to wait' AND r.total = 2 AND r.stored = 2`)
}

func TestAWaitThatIsOverBeforeEverythingIsStoredIsDueAtOnce(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	b.syncing(id)
	b.moves("true", cutAndWait, id, "1 hour")
	b.force(`UPDATE open_runs SET waits_until = clock_timestamp() - interval '1 hour' WHERE connector_id = $1`, id)
	b.stored(id, "superseded")
	b.holds(id, `c.due_reason = 'wait' AND c.next_sync_at BETWEEN r.completed_at - interval '1 second' AND clock_timestamp()
		AND r.waits_until < c.next_sync_at - interval '59 minutes'`)
}

func TestASyncThatIsAskedForWhileARunThatIsToWaitDrainsIsDueAtOnce(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	b.syncing(id)
	b.moves("true", cutAndWait, id, "1 hour")
	b.exec(`SELECT moves.trigger_sync($1)`, id)
	b.stored(id, "superseded")
	b.holds(id, `c.due_reason = 'manual' AND c.next_sync_at <= clock_timestamp() AND c.status_message IS NULL`)
}

func TestARunThatTookTooLongIsNotPostponedForAWaitOfBefore(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	b.syncing(id)
	b.moves("true", `SELECT moves.waits(id, try_id, '1 hour', 'Microsoft asked us to wait') FROM open_runs WHERE connector_id = $1`, id)
	b.moves("true", `SELECT moves.cut(id, try_id, 2, 7, 'slow') FROM open_runs WHERE connector_id = $1`, id)
	b.stored(id, "failed")
	b.holds(id, `c.status = 'ERROR' AND c.failure_count = 1 AND r.reason = 'took too long' AND r.waits_until IS NULL`)
}

func TestAWaitOutlastsWhatIsLostInTransit(t *testing.T) {
	b := newBase(t)
	lost := `SELECT count(*) = 1 FROM moves.fail_lost_in_transit(ARRAY[$1::uuid], 8, 9)`
	id := b.synced()
	b.syncing(id)
	b.moves("true", cutAndWait, id, "1 hour")
	b.moves("true", lost, b.run(id))
	b.holds(id, `c.status = 'ERROR' AND c.due_reason = 'wait' AND c.failure_count = 0 AND c.status_message = 'Microsoft asked us to wait'
		AND r.reason = 'lost in transit' AND r.waits_until = c.next_sync_at AND c.next_sync_at BETWEEN clock_timestamp() + interval '59 minutes' AND clock_timestamp() + interval '1 hour'`)
	id = b.synced()
	b.syncing(id)
	b.moves("true", cutAndWait, id, "1 hour")
	b.exec(`SELECT moves.trigger_sync($1)`, id)
	b.moves("true", lost, b.run(id))
	b.holds(id, `c.due_reason = 'lost' AND c.next_sync_at <= clock_timestamp()`)
}

func TestARunThatIsHandedBackWhileItWaitsIsPutOff(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	try := b.syncing(id)
	b.moves("true", `SELECT moves.waits($1, $2, '5 minutes', 'Google asked us to wait')`, try.Run, try.ID)
	b.moves("true", `SELECT moves.release($1, $2)`, try.Run, try.ID)
	b.holds(id, `c.status = 'ACTIVE' AND c.due_reason = 'wait' AND c.failure_count = 0 AND c.status_message = 'Google asked us to wait'
		AND c.next_sync_at BETWEEN clock_timestamp() + interval '4 minutes' AND clock_timestamp() + interval '5 minutes'
		AND r.reason = 'postponed' AND r.waits_until = c.next_sync_at`)
	b.force(`UPDATE connectors SET next_sync_at = clock_timestamp() WHERE id = $1`, id)
	try = b.syncing(id)
	b.moves("true", `SELECT moves.waits($1, $2, '1 second', 'Google asked us to wait')`, try.Run, try.ID)
	b.force(`UPDATE open_runs SET waits_until = clock_timestamp() WHERE id = $1`, try.Run)
	b.moves("true", `SELECT moves.release($1, $2)`, try.Run, try.ID)
	b.holds(id, `c.due_reason = 'release' AND c.next_sync_at <= clock_timestamp() AND r.reason = 'released'`)
}

// since says since when a connector is put off, in minutes; -1 where it is not.
func (b *base) since(id int32) int {
	b.Helper()
	return one[int](b, `SELECT coalesce(round(extract(epoch FROM clock_timestamp() - put_off_since) / 60), -1)::int FROM connectors WHERE id = $1`, id)
}

// putOff postpones a connector's next run.
func (b *base) putOff(id int32) {
	b.Helper()
	b.exec(`SELECT moves.trigger_sync($1)`, id)
	b.syncing(id)
	b.moves("true", postpone, id, "1 hour")
}

func TestAConnectorSaysSinceWhenItIsPutOffAndComesNoFurther(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	if got := b.since(id); got != -1 {
		t.Errorf("put off for %d minutes, and never was", got)
	}
	b.putOff(id)
	if got := b.since(id); got != 0 {
		t.Errorf("put off for %d minutes", got)
	}
	hourAgo := `UPDATE connectors SET put_off_since = clock_timestamp() - interval '1 hour' WHERE id = $1`
	b.force(hourAgo, id)
	for range 3 {
		b.putOff(id)
	}
	if got := b.since(id); got != 60 {
		t.Errorf("put off for %d minutes, want the first time", got)
	}
	for what, c := range map[string]struct {
		end  string
		want int
	}{
		"released": {`SELECT moves.release(id, try_id) FROM open_runs WHERE connector_id = $1`, 60},
		"finished": {`SELECT moves.finish(id, try_id) FROM open_runs WHERE connector_id = $1`, -1},
		"skipped":  {`SELECT moves.skip(id, try_id, NULL, NULL, 0) FROM open_runs WHERE connector_id = $1`, -1},
		"failed":   {`SELECT moves.fail(id, try_id, 'transient', 'no') FROM open_runs WHERE connector_id = $1`, -1},
		"disabled": {`SELECT moves.disable($1)`, -1},
		"changed":  {`UPDATE connectors SET config = '{"folder":"another"}' WHERE id = $1`, -1},
		"renamed":  {`UPDATE connectors SET name = 'another' WHERE id = $1`, 60},
	} {
		id := b.synced()
		b.putOff(id)
		b.force(hourAgo, id)
		b.exec(`SELECT moves.trigger_sync($1)`, id)
		b.syncing(id)
		b.exec(c.end, id)
		if got := b.since(id); got != c.want {
			t.Errorf("%s: put off for %d minutes, want %d", what, got, c.want)
		}
	}
	id = b.synced()
	b.putOff(id)
	b.exec(`SELECT moves.trigger_sync($1)`, id)
	b.syncing(id)
	b.force(`SELECT moves.claim_again(c) FROM connectors c WHERE id = $1`, id)
	if got := b.since(id); got != -1 {
		t.Errorf("put off for %d minutes, and its worker was lost", got)
	}
	id = b.synced()
	b.putOff(id)
	b.force(hourAgo, id)
	b.exec(`SELECT moves.trigger_sync($1)`, id)
	b.syncing(id)
	b.force(`UPDATE open_runs SET advanced = true WHERE connector_id = $1`, id)
	b.moves("true", postpone, id, "1 hour")
	if got := b.since(id); got != 0 {
		t.Errorf("put off for %d minutes, and has come further", got)
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
	b.moves("true", `SELECT moves.waits($1, $2, '0', '')`, try.Run, try.ID)
	b.moves("nothing", `SELECT coalesce(wait_message, waits_until::text) FROM connector_evidence WHERE id = $1`, id)
	b.moves("true", `SELECT moves.fail($1, $2, 'transient', 'it broke')`, try.Run, try.ID)
	b.holds(id, `r.status = 'failed' AND r.waits_until IS NULL AND r.wait_message IS NULL`)
}
