//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// theOnly has one run of key k in flight, picked up, and another connector that waits for it.
func (s *stage) theOnly(scheduler *Scheduler) (holder int32) {
	s.Helper()
	s.limitKey("k", 1)
	s.keyed(1, 2, "k")
	s.do(scheduler.Tick(s.Context()))
	want(s, 1, `SELECT count(*) FROM key_waiters`)
	return one[int32](s, `SELECT connector_id FROM key_places`)
}

func TestHoweverARunEndsItsPlaceIsFree(t *testing.T) {
	for name, end := range map[string]func(s *stage, id int32){
		"skipped": func(s *stage, id int32) {
			try := s.pickUp(id, time.Minute)
			s.exec(`SELECT moves.skip($1, $2, NULL, 'nothing new', 0)`, try.Run, try.ID)
		},
		"handed back": func(s *stage, id int32) {
			try := s.pickUp(id, time.Minute)
			s.exec(`SELECT moves.release($1, $2)`, try.Run, try.ID)
			s.exec(`SELECT moves.disable($1)`, id)
		},
		"failed": func(s *stage, id int32) {
			try := s.pickUp(id, time.Minute)
			s.exec(`SELECT moves.fail($1, $2, 'transient', 'no')`, try.Run, try.ID)
		},
		"cancelled": func(s *stage, id int32) { s.exec(`SELECT moves.cancel($1)`, s.session(id)) },
		"disabled":  func(s *stage, id int32) { s.exec(`SELECT moves.disable($1)`, id) },
		"deleted":   func(s *stage, id int32) { s.exec(`DELETE FROM connectors WHERE id = $1`, id) },
		"by hand":   func(s *stage, id int32) { s.force(`DELETE FROM open_runs WHERE connector_id = $1`, id) },
	} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			scheduler := s.scheduler()
			holder := s.theOnly(scheduler)
			end(s, holder)
			want(s, 0, openWithout)
			want(s, 0, `SELECT count(*) FROM key_places`)
			s.do(scheduler.Tick(t.Context()))
			want(s, 1, `SELECT count(*) FROM key_places WHERE connector_id <> $1`, holder)
		})
	}
}

func TestAWaitingRowThatCannotBeWrittenStopsNoOther(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler()
	s.limitKey("a", 0)
	s.limitKey("b", 0)
	s.keyed(1, 3, "a")
	s.keyed(1, 3, "b")
	s.connectors(1)
	s.do(scheduler.Tick(t.Context()))
	want(s, 6, `SELECT count(*) FROM key_waiters`)
	bad := one[int32](s, `SELECT connector_id FROM key_waiters WHERE key = 'a' ORDER BY due_at LIMIT 1`)
	s.refusesUpdates(bad)
	s.exec(`UPDATE concurrency_limits SET most = 3`)
	s.connectors(1)
	for range 3 {
		s.do(scheduler.Tick(t.Context()))
	}
	want(s, 3, inFlightOfKey, "b")
	want(s, 2, inFlightOfKey, "a")
	want(s, 7, inFlightAll)
	s.exec(`DELETE FROM refused_updates`)
	scheduler.unreleased.elapse()
	s.do(scheduler.Tick(t.Context()))
	want(s, 3, inFlightOfKey, "a")
}

func TestARowThatCannotBeMadeToWaitStopsNoOther(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler()
	s.limitKey("k", 0)
	s.keyed(1, 5, "k")
	s.connectors(3)
	s.refusesUpdates(one[int32](s, `SELECT min(id) FROM connectors`))
	s.do(scheduler.Tick(t.Context()))
	want(s, 4, `SELECT count(*) FROM key_waiters`)
	want(s, 3, inFlightAll)
}

// A batch whose connectors each name other keys costs a claim a bounded number of rows for each, and not for each pair.
func TestKeysOfABatchAreLookedUpOnceEach(t *testing.T) {
	s := setStage(t)
	cost := func(n int) int {
		s.exec(`INSERT INTO concurrency_limits (key, most) SELECT 'n' || $1::int || ':' || i, 5 FROM generate_series(1, $1::int * 4) i ON CONFLICT DO NOTHING`, n)
		keys := one[[]string](s, `SELECT array_agg(key) FROM concurrency_limits WHERE key LIKE 'n' || $1::int || ':%'`, n)
		buffers, rows := s.buffers("auto", "", `SELECT * FROM moves.key_room($1, true)`, keys)
		if rows != len(keys) {
			t.Fatalf("%d of %d keys have room", rows, len(keys))
		}
		return buffers
	}
	few, many := cost(50), cost(500)
	t.Logf("%d buffers for 200 keys, %d for 2000", few, many)
	if many > 14*few {
		t.Errorf("%d buffers for ten times as many keys as %d", many, few)
	}
	if locks := one[int](s, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); locks != 0 {
		t.Errorf("%d turns are left", locks)
	}
}

// The verdict commits between the claimer's count and its commit: nobody is told of the place, and the waiting one is due at the next look all the same.
func TestAVerdictBeforeTheWaitingOneIsSeenLeavesNobodyBehind(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler()
	s.limitKey("k", 1)
	s.keyed(1, 1, "k")
	s.do(scheduler.Tick(t.Context()))
	holder := one[int32](s, `SELECT connector_id FROM key_places`)
	s.keyed(1, 1, "k")
	tx, err := s.servers.Pool.Begin(t.Context())
	s.do(err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, _, err = scheduler.claim(t.Context(), tx, atOnce, "web", 0, 10); err != nil {
		t.Fatal(err)
	}
	s.do(s.moves.Disable(t.Context(), holder))
	scheduler.releaseWaiting(t.Context())
	s.do(tx.Commit(t.Context()))
	want(s, 1, `SELECT count(*) FROM key_waiters`)
	s.do(scheduler.Tick(t.Context()))
	want(s, 1, inFlightOfKey, "k")
	want(s, 0, `SELECT count(*) FROM key_waiters`)
}

// One claimer has the turn of a key and never ends: what names other keys, and none, is claimed, and what names this one when the turn is free.
func TestAClaimerThatNeverEndsHoldsUpItsKeysAlone(t *testing.T) {
	s := setStage(t)
	s.limitKey("k", 1)
	s.limitKey("other", 1)
	s.keyed(1, 1, "k")
	frozen, err := s.servers.Pool.Begin(t.Context())
	s.do(err)
	defer func() { _ = frozen.Rollback(context.WithoutCancel(t.Context())) }()
	if _, _, err = s.scheduler().claim(t.Context(), frozen, atOnce, "web", 0, 10); err != nil {
		t.Fatal(err)
	}
	s.keyed(1, 2, "k")
	s.keyed(1, 1, "other")
	s.connectors(1)
	scheduler := s.scheduler()
	s.do(scheduler.Tick(t.Context()))
	want(s, 1, inFlightOfKey, "other")
	want(s, 2, inFlightAll)
	s.do(frozen.Rollback(t.Context()))
	s.do(scheduler.Tick(t.Context()))
	want(s, 1, inFlightOfKey, "k")
}

func TestAChangedLimitLeavesNobodyWaiting(t *testing.T) {
	for name, change := range map[string]string{
		"raised": `UPDATE concurrency_limits SET most = 5`, "deleted": `DELETE FROM concurrency_limits`,
		"not the connector's": `UPDATE connectors SET concurrency_keys = ARRAY['free']`,
		"none of it":          `UPDATE connectors SET concurrency_keys = NULL`,
	} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			scheduler := s.scheduler()
			s.limitKey("k", 0)
			s.keyed(1, 5, "k")
			s.do(scheduler.Tick(t.Context()))
			want(s, 5, `SELECT count(*) FROM key_waiters`)
			s.exec(change)
			s.do(scheduler.Tick(t.Context()))
			want(s, 5, inFlightAll)
			want(s, 0, `SELECT count(*) FROM key_waiters`)
		})
	}
}

func TestWhoWaitsForAKeyOfItsTypeIsDueWhenTheTypeNamesItNoMore(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler()
	s.limitKey("site", 0)
	s.exec(`UPDATE connector_types SET concurrency_keys = ARRAY['site'] WHERE name = 'web'`)
	s.connectors(3)
	s.do(scheduler.Tick(t.Context()))
	want(s, 3, `SELECT count(*) FROM key_waiters`)
	s.exec(`UPDATE connector_types SET concurrency_keys = NULL WHERE name = 'web'`)
	s.do(scheduler.Tick(t.Context()))
	want(s, 3, inFlightAll)
}

func TestWhoseDeadlinePassesWhileAKeyIsFullIsTooLate(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler()
	s.limitKey("k", 0)
	id := s.connector(row{"deadline_minutes": 10, "concurrency_keys": []string{"k"}})
	s.force(`UPDATE connectors SET last_sync_at = now() - interval '1 day', synced_version = config_version, next_sync_at = now(), due_reason = 'schedule', slot_at = now() WHERE id = $1`, id)
	s.do(scheduler.Tick(t.Context()))
	want(s, 1, `SELECT count(*) FROM key_waiters`)
	s.exec(`UPDATE key_waiters SET since = since - interval '1 hour'`)
	s.force(`ALTER TABLE connectors DISABLE TRIGGER connectors_wait_anew`)
	s.force(`UPDATE connectors SET slot_at = slot_at - interval '30 minutes', next_sync_at = next_sync_at - interval '30 minutes'`)
	s.force(`ALTER TABLE connectors ENABLE TRIGGER connectors_wait_anew`)
	s.do(scheduler.Tick(t.Context()))
	want(s, "missed: too late", `SELECT status || ': ' || reason FROM runs WHERE connector_id = $1`, id)
	want(s, 0, `SELECT count(*) FROM key_waiters`)
}

func TestWhoIsSwitchedOffWaitsForNoKeyAndIsDueWhenSwitchedOn(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler()
	s.limitKey("k", 0)
	s.keyed(1, 1, "k")
	id := one[int32](s, `SELECT id FROM connectors`)
	s.do(scheduler.Tick(t.Context()))
	s.do(s.moves.Disable(t.Context(), id))
	want(s, 0, `SELECT count(*) FROM key_waiters`)
	want(s, true, `SELECT waits_for_key IS NULL AND due_at IS NULL FROM connectors`)
	s.exec(`SELECT moves.enable($1)`, id)
	s.do(scheduler.Tick(t.Context()))
	want(s, 1, `SELECT count(*) FROM key_waiters`)
}

func TestATriggerByHandWaitsForItsKeyToo(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler()
	holder := s.theOnly(scheduler)
	waiting := one[int32](s, `SELECT connector_id FROM key_waiters`)
	s.exec(`SELECT moves.trigger_sync($1)`, waiting)
	s.do(scheduler.Tick(t.Context()))
	want(s, 1, `SELECT count(*) FROM key_waiters`)
	want(s, 1, inFlightOfKey, "k")
	s.do(s.moves.Disable(t.Context(), holder))
	s.do(scheduler.Tick(t.Context()))
	want(s, waiting, `SELECT connector_id FROM key_places`)
}

func TestARunWithParametersTakesAPlace(t *testing.T) {
	s := setStage(t)
	s.ofJobs()
	scheduler := s.scheduler()
	s.limitKey("k", 1)
	first := s.connector(row{"concurrency_keys": []string{"k"}, "refresh_freq_minutes": nil})
	second := s.connector(row{"concurrency_keys": []string{"k"}, "refresh_freq_minutes": nil})
	for _, id := range []int32{first, second} {
		s.exec(`SELECT moves.trigger_sync($1, parameters => '{"a": 1}')`, id)
	}
	s.do(scheduler.Tick(t.Context()))
	want(s, 1, inFlightOfKey, "k")
	want(s, 1, `SELECT count(*) FROM key_waiters`)
	want(s, 0, openWithout)
	s.exec(`SELECT moves.cancel(run_id) FROM key_places`)
	s.do(scheduler.Tick(t.Context()))
	want(s, second, `SELECT connector_id FROM key_places`)
}

func TestAChangeOfKeysInFlightIsTheNextRuns(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler()
	s.limitKey("k", 1)
	s.limitKey("m", 0)
	s.keyed(1, 1, "k")
	s.do(scheduler.Tick(t.Context()))
	id := one[int32](s, `SELECT connector_id FROM key_places`)
	s.exec(`UPDATE connectors SET concurrency_keys = ARRAY['m']`)
	want(s, 1, inFlightOfKey, "k")
	s.exec(`SELECT moves.cancel(run_id) FROM key_places`)
	want(s, 0, `SELECT count(*) FROM key_places`)
	s.exec(`SELECT moves.trigger_sync($1)`, id)
	s.do(scheduler.Tick(t.Context()))
	want(s, "m", `SELECT key FROM key_waiters`)
}

// A run stands open whose connector knows nothing of it, as after a restored backup: it does not hold the place of its own connector.
func TestAForgottenRunHoldsNoPlaceAgainstItsOwnConnector(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler()
	s.limitKey("k", 1)
	s.keyed(1, 1, "k")
	s.do(scheduler.Tick(t.Context()))
	old := one[[16]byte](s, `SELECT run_id FROM key_places`)
	s.force(`UPDATE connectors SET status = 'ACTIVE', run_id = NULL, next_sync_at = now(), due_reason = 'manual'`)
	s.do(scheduler.Tick(t.Context()))
	want(s, 1, `SELECT count(*) FROM key_places p JOIN connectors c ON c.run_id = p.run_id WHERE p.run_id <> $1`, old)
	want(s, 0, openWithout)
}

func TestOwnersTakeTurnsAtAKey(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler()
	s.limitKey("k", 1)
	s.keyed(3, 20, "k")
	s.do(scheduler.Tick(t.Context()))
	for _, owner := range []int{5, 7} {
		s.keyed(owner, 1, "k")
	}
	var served []int32
	for range 5 {
		served = append(served, one[int32](s, `SELECT user_id FROM key_places`))
		s.exec(`SELECT moves.disable(connector_id) FROM key_places`)
		s.do(scheduler.Tick(t.Context()))
	}
	if n := slices.Index(served, 5); n < 0 || slices.Index(served, 7) < 0 {
		t.Errorf("owners %v were served, 5 and 7 are to be among them", served)
	}
}

func TestTheLongestDueOfAnOwnerIsFirst(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler()
	s.limitKey("k", 0)
	s.keyed(1, 5, "k")
	s.force(`UPDATE connectors SET next_sync_at = next_sync_at - make_interval(hours => id)`)
	s.do(scheduler.Tick(t.Context()))
	s.limitKey("k", 1)
	for range 5 {
		first := one[int32](s, `SELECT id FROM connectors WHERE waits_for_key = 'k' ORDER BY next_sync_at LIMIT 1`)
		s.do(scheduler.Tick(t.Context()))
		want(s, first, `SELECT connector_id FROM key_places`)
		s.exec(`SELECT moves.disable($1)`, first)
	}
}

func TestASystemJobHasItsTurnAtAKey(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler()
	s.limitKey("k", 0)
	s.exec(`INSERT INTO connector_types (name, kind, system, max_concurrent_syncs) VALUES ('chores', 'job', true, 0)`)
	s.exec(`INSERT INTO connectors (name, type, scope, refresh_freq_minutes, concurrency_keys) VALUES ('chores', 'chores', 'system', 60, ARRAY['k'])`)
	s.do(scheduler.Tick(t.Context()))
	want(s, 1, `SELECT count(*) FROM key_waiters WHERE user_id = 0`)
	s.limitKey("k", 1)
	s.do(scheduler.Tick(t.Context()))
	want(s, 1, inFlightOfKey, "k")
}

func TestTypesThatShareAKeyShareItsPlaces(t *testing.T) {
	s := setStage(t)
	s.limitKey("k", 3)
	s.keyed(1, 5, "k")
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, concurrency_keys) SELECT 'f', 'teams', 1, 60, ARRAY['k'] FROM generate_series(1, 5)`)
	s.do(s.scheduler().Tick(t.Context()))
	want(s, 3, inFlightOfKey, "k")
	want(s, 7, `SELECT count(*) FROM key_waiters`)
}

func TestKeysHaveAForm(t *testing.T) {
	s := setStage(t)
	long := fmt.Sprintf("%0129d", 1)
	for _, bad := range [][]string{{}, {""}, {" "}, {"a b"}, {":a"}, {"a\n"}, {long}, {"a", "b", "c", "d", "e"}, {"ü"}} {
		for _, sql := range []string{
			`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, concurrency_keys) VALUES ('c', 'web', 1, 60, $1)`,
			`UPDATE connector_types SET concurrency_keys = $1 WHERE name = 'web'`,
		} {
			if _, err := s.servers.Pool.Exec(t.Context(), sql, bad); err == nil {
				t.Errorf("keys %q are accepted by %s", bad, sql)
			}
		}
		if len(bad) == 1 {
			if _, err := s.servers.Pool.Exec(t.Context(), `INSERT INTO concurrency_limits VALUES ($1, 1)`, bad[0]); err == nil {
				t.Errorf("a limit of key %q is accepted", bad[0])
			}
		}
	}
	if _, err := s.servers.Pool.Exec(t.Context(), `UPDATE connector_types SET concurrency_keys = ARRAY['a', NULL] WHERE name = 'web'`); err == nil {
		t.Error("a key that is null is accepted")
	}
	s.limitKey(long[1:], 1)
	s.keyed(1, 2, long[1:], "a", "A", "a")
	s.do(s.scheduler().Tick(t.Context()))
	want(s, 1, inFlightOfKey, "A")
	want(s, 1, inFlightOfKey, long[1:])
}
