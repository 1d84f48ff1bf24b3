package db_test

import (
	"testing"

	"github.com/google/uuid"
)

func TestACancelledRunIsDueByItsPlanAndNotAtOnce(t *testing.T) {
	b := newBase(t)
	for plan, due := range map[string]string{
		`refresh_freq_minutes = 60`: `NOT c.needs_plan AND c.due_reason = 'schedule' AND c.slot_at = c.next_sync_at
			AND c.next_sync_at BETWEEN clock_timestamp() + interval '53 minutes' AND clock_timestamp() + interval '1 hour'`,
		`refresh_freq_minutes = 0`:                                    `NOT c.needs_plan AND c.next_sync_at IS NULL`,
		`refresh_freq_minutes = NULL`:                                 `NOT c.needs_plan AND c.next_sync_at IS NULL`,
		`refresh_freq_minutes = NULL, schedule_cron = '0 3 * * *'`:    `c.needs_plan AND c.due_reason = 'schedule' AND c.next_sync_at IS NULL`,
		`config = '{"url": "of a change that was not synced yet"}'`:   `c.due_reason = 'schedule' AND c.next_sync_at > clock_timestamp()`,
		`max_retries = 5, failure_count = 3, status_message = 'gone'`: `c.failure_count = 3 AND c.status_message = 'gone' AND c.next_sync_at > clock_timestamp()`,
	} {
		for what, begin := range map[string]func(int32) uuid.UUID{
			"PENDING": b.pending, "SYNCING": func(id int32) uuid.UUID { return b.syncing(id).Run },
		} {
			for name, of := range map[string]func() int32{"new": b.connector, "synced": b.synced} {
				id := of()
				b.force(`UPDATE connectors SET `+plan+` WHERE id = $1`, id)
				b.exec(`SELECT moves.trigger_sync($1)`, id)
				run := begin(id)
				b.moves("true", `SELECT moves.cancel($1, 'cancelled by ada')`, run)
				t.Log(what, name, plan)
				b.holds(id, `c.status = 'ACTIVE' AND c.run_id IS NULL AND c.trigger_requested_at IS NULL AND r.status = 'superseded'
					AND r.reason = 'cancelled' AND r.error_message = 'cancelled by ada' AND `+due)
				before := b.everything(id)
				b.moves("false", `SELECT moves.cancel($1)`, run)
				if after := b.everything(id); after != before {
					t.Errorf("the second time changed\n%s\nto\n%s", before, after)
				}
			}
		}
	}
	for _, none := range []any{uuid.New(), nil} {
		b.moves("false", `SELECT moves.cancel($1)`, none)
	}
}

func TestATriggerThatCameAfterThePickUpOutlivesACancel(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	b.exec(`SELECT moves.trigger_sync($1)`, id)
	run := b.syncing(id).Run
	b.exec(allow, id)
	b.moves("true", `SELECT moves.cancel($1)`, run)
	b.holds(id, `c.due_reason = 'manual' AND c.next_sync_at <= clock_timestamp() AND c.deletions_allowed_at = c.trigger_requested_at`)
}

func TestACancelFreesItsPlace(t *testing.T) {
	b := newBase(t)
	b.exec(`UPDATE connector_types SET max_concurrent_syncs = 1 WHERE name = 'web'`)
	first := b.connector()
	run := b.pending(first)
	b.connector()
	b.exec(`SELECT FROM moves.lock_due('web', 1, 10)`)
	if n := b.notified(`SELECT moves.cancel($1)`, run); n != 1 {
		t.Errorf("%d notifications", n)
	}
}
