//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// One place, and the owner whose turn it is has nobody who can be written: the next owner has it.
func TestAnOwnerWhoseWaitingRowsAreRefusedKeepsNoPlaceFromTheNext(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler()
	s.limitKey("k", 0)
	s.keyed(1, 1, "k")
	s.keyed(2, 6, "k")
	s.do(scheduler.Tick(t.Context()))
	want(s, 7, `SELECT count(*) FROM key_waiters`)
	s.refusesUpdates(one[int32](s, `SELECT connector_id FROM key_waiters WHERE user_id = 1`))
	s.limitKey("k", 1)
	for range 8 {
		s.do(scheduler.Tick(t.Context()))
		s.exec(`SELECT moves.disable(connector_id) FROM key_places`)
	}
	want(s, 6, `SELECT count(*) FROM connectors WHERE user_id = 2 AND status = 'DISABLED'`)
}

func TestAnOwnerWhoseWaitingRowSomebodyHoldsKeepsNoPlaceFromTheNext(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler()
	s.limitKey("k", 0)
	s.keyed(1, 1, "k")
	s.keyed(2, 1, "k")
	s.do(scheduler.Tick(t.Context()))
	held, err := s.servers.Pool.Begin(t.Context())
	s.do(err)
	defer func() { _ = held.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = held.Exec(t.Context(), `SELECT FROM connectors WHERE user_id = 1 FOR UPDATE`)
	s.do(err)
	s.limitKey("k", 1)
	for range 3 {
		s.do(scheduler.Tick(t.Context()))
	}
	want(s, 1, `SELECT count(*) FROM key_places p JOIN connectors c ON c.id = p.connector_id WHERE c.user_id = 2`)
}

// A run that stands open all the same, and whose verdict is refused, stops no other connector of its type.
func TestAForgottenRunWhoseVerdictIsRefusedStopsNoOther(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler()
	s.limitKey("k", 1)
	s.keyed(1, 1, "k")
	s.do(scheduler.Tick(t.Context()))
	s.force(`UPDATE connectors SET status = 'ACTIVE', run_id = NULL, next_sync_at = now(), due_reason = 'manual'`)
	s.refuses("runs", "1")
	s.keyed(1, 3, "free")
	s.connectors(2)
	s.do(scheduler.Tick(t.Context()))
	want(s, 6, inFlightAll)
	want(s, 1, inFlightOfKey, "k")
	want(s, "ACTIVE", `SELECT status FROM connectors WHERE id = 1`)
}

// Those that wait longest have another key that is full, too: who needs none but this one has its place soon, and not one look after each of them.
func TestAKeyWithAPlaceStandsIdleForFewLooks(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler()
	s.limitKey("a", 0)
	s.limitKey("b", 0)
	s.keyed(1, 200, "a", "b")
	s.keyed(1, 1, "a")
	s.do(scheduler.Tick(t.Context()))
	s.limitKey("a", 1)
	looks := 0
	for one[int](s, inFlightAll) == 0 && looks < 300 {
		s.do(scheduler.Tick(t.Context()))
		looks++
	}
	if looks > 12 {
		t.Errorf("the only one that may run has its place after %d looks", looks)
	}
}

// The same where those that wait longest are of a type whose cap is full.
func TestAKeyWithAPlaceIsNotKeptByATypeWhoseCapIsFull(t *testing.T) {
	s := setStage(t)
	s.exec(`UPDATE connector_types SET max_concurrent_syncs = 1 WHERE name = 'web'`)
	scheduler := s.scheduler()
	s.connectors(1)
	s.do(scheduler.Tick(t.Context()))
	want(s, 1, inFlightAll)
	s.exec(`UPDATE connector_types SET max_concurrent_syncs = 0 WHERE name = 'web'`)
	s.limitKey("k", 0)
	s.keyed(1, 200, "k")
	s.do(scheduler.Tick(t.Context()))
	s.exec(`UPDATE connector_types SET max_concurrent_syncs = 1 WHERE name = 'web'`)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, concurrency_keys) VALUES ('t', 'teams', 1, 60, ARRAY['k'])`)
	s.do(scheduler.Tick(t.Context()))
	want(s, 201, `SELECT count(*) FROM key_waiters`)
	s.limitKey("k", 1)
	looks := 0
	for one[int](s, inFlightAll) == 1 && looks < 300 {
		s.do(scheduler.Tick(t.Context()))
		looks++
	}
	if looks > 12 {
		t.Errorf("the only one that may run has its place after %d looks", looks)
	}
}

// A session whose plans are of a quiet hour reads no more when many wait.
func TestAWriteToOneThatWaitsReadsLittleHoweverManyWait(t *testing.T) {
	s := setStage(t)
	s.limitKey("k", 0)
	s.keyed(1, 20, "k")
	s.do(s.scheduler().Tick(t.Context()))
	s.exec(`VACUUM ANALYZE key_waiters`)
	ids := one[[]int32](s, `SELECT array_agg(connector_id) FROM key_waiters`)
	lone := s.lone()
	for _, id := range ids[:10] {
		lone.exec(`UPDATE connectors SET name = 'renamed' WHERE id = $1`, id)
	}
	s.exec(`INSERT INTO key_waiters (connector_id, key, user_id, due_at) SELECT 1000000 + i, 'k', 1, now() FROM generate_series(1, 20000) i`)
	tx, err := lone.servers.Pool.Begin(t.Context())
	s.do(err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `UPDATE connectors SET name = 'again' WHERE id = $1`, ids[15])
	s.do(err)
	var read int
	s.do(tx.QueryRow(t.Context(), `SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'key_waiters'`).Scan(&read))
	if read > 0 {
		t.Errorf("%d of those that wait are read to rename one", read)
	}
}

// Of two slots that are due the first is too late, and the second waits for the key: when its deadline passes it is missed, too.
func TestALaterSlotWhoseDeadlinePassesWhileAKeyIsFullIsTooLate(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler()
	s.limitKey("k", 0)
	hour := one[time.Time](s, `SELECT date_trunc('hour', now())`).UTC()
	id := s.connector(row{
		"deadline_minutes": 121, "concurrency_keys": []string{"k"}, "refresh_freq_minutes": nil, "time_zone": "UTC",
		"schedule_cron": fmt.Sprintf("0 %d,%d * * *", hour.Add(-4*time.Hour).Hour(), hour.Add(-time.Hour).Hour()),
	})
	s.force(`UPDATE connectors SET needs_plan = false, last_sync_at = now() - interval '1 day', synced_version = config_version, planned_through = $2::timestamptz - interval '5 hours',
		next_sync_at = $2::timestamptz - interval '4 hours', slot_at = $2::timestamptz - interval '4 hours', due_reason = 'schedule' WHERE id = $1`, id, hour)
	s.do(scheduler.Tick(t.Context()))
	want(s, 1, `SELECT count(*) FROM key_waiters`)
	// As if so much time had gone by that the second is too late.
	s.force(`ALTER TABLE connectors DISABLE TRIGGER connectors_wait_anew`)
	s.force(`UPDATE connectors SET deadline_minutes = 1`)
	s.force(`ALTER TABLE connectors ENABLE TRIGGER connectors_wait_anew`)
	s.exec(`UPDATE key_waiters SET since = since - interval '2 minutes'`)
	s.do(scheduler.Tick(t.Context()))
	want(s, 0, `SELECT count(*) FROM key_waiters`)
	want(s, "missed: too late", `SELECT DISTINCT status || ': ' || reason FROM runs`)
}
