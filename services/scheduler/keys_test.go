//go:build !race

package scheduler

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/postgres"
)

// keyed inserts n due connectors of an owner with these keys.
func (s *stage) keyed(owner, n int, keys ...string) {
	s.Helper()
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, concurrency_keys)
		SELECT 'keyed', 'web', $1::int, 60, nullif($3::text[], '{}') FROM generate_series(1, $2::int)`, owner, n, keys)
}

func (s *stage) limitKey(key string, most int) {
	s.Helper()
	s.exec(`INSERT INTO concurrency_limits (key, most) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET most = EXCLUDED.most`, key, most)
}

const (
	inFlightOfKey = `SELECT count(*) FROM key_places WHERE key = $1`
	inFlightAll   = `SELECT count(*) FROM open_runs`
	// openWithout counts places and runs that do not belong together.
	openWithout = `SELECT (SELECT count(*) FROM key_places p WHERE NOT EXISTS (SELECT FROM open_runs r WHERE r.id = p.run_id AND r.has_keys))
		+ (SELECT count(*) FROM open_runs r WHERE r.has_keys AND NOT EXISTS (SELECT FROM key_places p WHERE p.run_id = r.id))`
)

func TestAKeyHasNoMoreInFlightThanItsLimit(t *testing.T) {
	s := setStage(t)
	s.limitKey("k", 3)
	s.keyed(1, 10, "k")
	s.keyed(1, 2, "free")
	scheduler := s.scheduler()
	s.do(scheduler.Tick(t.Context()))
	s.do(scheduler.Tick(t.Context()))
	want(s, 3, inFlightOfKey, "k")
	want(s, 2, inFlightOfKey, "free")
	want(s, 7, `SELECT count(*) FROM connectors WHERE waits_for_key = 'k' AND due_at IS NULL`)
	want(s, 0, openWithout)
}

func TestWhoseKeyIsFullLeavesTheTypesPlacesToOthers(t *testing.T) {
	s := setStage(t)
	s.limitKey("k", 1)
	s.keyed(1, 50, "k")
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) SELECT 'c', 'web', 1, 60 FROM generate_series(1, 5)`)
	s.do(s.scheduler(func(cfg *Config) { cfg.MaxConcurrentSyncs = 4 }).Tick(t.Context()))
	want(s, 4, inFlightAll)
	want(s, 1, inFlightOfKey, "k")
}

func TestATypesKeyBindsAllOfIt(t *testing.T) {
	s := setStage(t)
	s.limitKey("site", 2)
	s.exec(`UPDATE connector_types SET concurrency_keys = ARRAY['site'] WHERE name = 'web'`)
	s.keyed(1, 5, "own")
	s.connectors(5)
	s.do(s.scheduler().Tick(t.Context()))
	want(s, 2, inFlightAll)
}

func TestEachOfSeveralKeysBinds(t *testing.T) {
	s := setStage(t)
	s.limitKey("a", 5)
	s.limitKey("b", 2)
	s.keyed(1, 10, "a", "b")
	s.keyed(1, 10, "a")
	s.do(s.scheduler().Tick(t.Context()))
	want(s, 5, inFlightOfKey, "a")
	want(s, 2, inFlightOfKey, "b")
}

func TestAVerdictLeavesThePlaceToTheNextOwner(t *testing.T) {
	s := setStage(t)
	s.limitKey("k", 1)
	s.keyed(1, 20, "k")
	s.keyed(7, 1, "k")
	scheduler := s.scheduler()
	for range 3 {
		s.do(scheduler.Tick(t.Context()))
		want(s, 1, inFlightOfKey, "k")
		s.do(s.moves.Disable(t.Context(), one[int32](s, `SELECT connector_id FROM key_places`)))
	}
	want(s, 1, `SELECT count(*) FROM connectors WHERE user_id = 7 AND status = 'DISABLED'`)
	want(s, 0, inFlightOfKey, "k")
}

func TestAVerdictOfAFullKeyWakesTheScheduler(t *testing.T) {
	s := setStage(t)
	s.limitKey("k", 1)
	s.keyed(1, 2, "k")
	s.run(s.scheduler())
	s.eventually(wakes, s.countIs(1, `SELECT count(*) FROM key_waiters`))
	first := one[int32](s, `SELECT connector_id FROM key_places`)
	s.do(s.moves.Disable(t.Context(), first))
	s.eventually(wakes, s.countIs(1, `SELECT count(*) FROM key_places p WHERE p.connector_id <> $1`, first))
}

func TestALimitBindsFromWhenItIsThereAndCancelsNothing(t *testing.T) {
	s := setStage(t)
	s.keyed(1, 5, "k")
	scheduler := s.scheduler()
	s.do(scheduler.Tick(t.Context()))
	want(s, 5, inFlightOfKey, "k")
	s.limitKey("k", 3)
	s.keyed(1, 5, "k")
	s.do(scheduler.Tick(t.Context()))
	want(s, 5, inFlightOfKey, "k")
	for range 3 {
		s.do(s.moves.Disable(t.Context(), one[int32](s, `SELECT min(connector_id) FROM key_places`)))
	}
	s.do(scheduler.Tick(t.Context()))
	want(s, 3, inFlightOfKey, "k")
	s.limitKey("k", 0)
	s.do(scheduler.Tick(t.Context()))
	want(s, 3, inFlightOfKey, "k")
	s.exec(`DELETE FROM concurrency_limits`)
	s.do(scheduler.Tick(t.Context()))
	want(s, 7, inFlightOfKey, "k")
	want(s, 0, `SELECT count(*) FROM connectors WHERE waits_for_key IS NOT NULL`)
	want(s, 0, `SELECT count(*) FROM key_waiters`)
}

func TestARescueKeepsItsPlaceOfAKey(t *testing.T) {
	s := setStage(t)
	s.limitKey("k", 1)
	s.keyed(1, 1, "k")
	id := one[int32](s, `SELECT id FROM connectors`)
	s.claim(s.scheduler())
	old := s.pickUp(id, gone)
	s.limitKey("k", 0)
	s.rescue()
	want(s, 1, `SELECT count(*) FROM key_places p JOIN connectors c ON c.run_id = p.run_id WHERE p.run_id <> $1`, old.Run)
	want(s, 0, openWithout)
}

func TestAChangeOfKeysIsLookedAtAtOnce(t *testing.T) {
	s := setStage(t)
	s.limitKey("k", 0)
	s.keyed(1, 1, "k")
	scheduler := s.scheduler()
	s.do(scheduler.Tick(t.Context()))
	want(s, 0, inFlightAll)
	want(s, 1, `SELECT count(*) FROM key_waiters`)
	s.exec(`UPDATE connectors SET concurrency_keys = NULL`)
	want(s, 0, `SELECT count(*) FROM key_waiters`)
	s.do(scheduler.Tick(t.Context()))
	want(s, 1, inFlightAll)
}

func TestWhoIsDeletedWaitsForNoKey(t *testing.T) {
	s := setStage(t)
	s.limitKey("k", 0)
	s.keyed(1, 2, "k")
	scheduler := s.scheduler()
	s.do(scheduler.Tick(t.Context()))
	want(s, 2, `SELECT count(*) FROM key_waiters`)
	s.exec(`DELETE FROM connectors WHERE id = (SELECT min(id) FROM connectors)`)
	want(s, 1, `SELECT count(*) FROM key_waiters`)
	s.limitKey("k", 2)
	s.do(scheduler.Tick(t.Context()))
	want(s, 1, inFlightOfKey, "k")
	s.do(scheduler.Tick(t.Context()))
}

// Claimers hold their transactions open while others claim, some roll back, and verdicts come in between: no key ever has more committed
// than its limit, nobody waits in a circle, and everybody is served.
func TestClaimersInAnyOrderOfCommitsNeverExceedAKey(t *testing.T) {
	s := setStage(t)
	limits := map[string]int{"a": 2, "b": 3, "c": 1, "d": 4}
	for key, most := range limits {
		s.limitKey(key, most)
	}
	random := rand.New(rand.NewPCG(14, 4))
	names := []string{"a", "b", "c", "d", "unlimited"}
	for owner := range 5 {
		for range 12 {
			random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			s.keyed(owner+1, 1, names[:1+random.IntN(3)]...)
		}
	}
	const over = `SELECT count(*) FROM (SELECT FROM key_places p JOIN concurrency_limits l USING (key) GROUP BY p.key, l.most HAVING count(*) > l.most) o`
	var group sync.WaitGroup
	var mu sync.Mutex
	done := map[int32]bool{}
	deadline := time.Now().Add(90 * time.Second)
	for n := range 4 {
		scheduler := s.scheduler()
		dice := rand.New(rand.NewPCG(uint64(n), 7))
		group.Go(func() {
			for time.Now().Before(deadline) {
				var claimed []Trigger
				rolledBack := dice.IntN(4) == 0
				err := postgres.Tx(s.Context(), s.servers.Pool, func(tx pgx.Tx) (err error) {
					claimed, _, err = scheduler.claim(s.Context(), tx, atOnce, "web", 0, 1+dice.IntN(6))
					if err == nil && dice.IntN(2) == 0 {
						_, err = tx.Exec(s.Context(), `SELECT pg_sleep($1)`, dice.Float64()/50) // others claim meanwhile
					}
					if err == nil && rolledBack {
						return pgx.ErrTxClosed
					}
					return err
				})
				if err != nil && !rolledBack {
					s.Error(err)
					return
				}
				if n := one[int](s, over); n > 0 {
					s.Errorf("%d keys have more in flight than their limits", n)
				}
				if !rolledBack {
					for _, c := range claimed {
						s.do(s.moves.Disable(s.Context(), c.ID))
						mu.Lock()
						done[c.ID] = true
						mu.Unlock()
					}
				}
				scheduler.releaseWaiting(s.Context())
				mu.Lock()
				all := len(done) == 60
				mu.Unlock()
				if all {
					return
				}
			}
		})
	}
	group.Wait()
	if len(done) != 60 {
		t.Errorf("%d of 60 connectors had their turn", len(done))
	}
	want(s, 0, openWithout)
}
