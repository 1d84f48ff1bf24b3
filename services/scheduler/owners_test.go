//go:build !race

package scheduler

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"
)

// planned inserts a connector of an owner that is not due.
func (s *stage) planned(owner int) {
	s.Helper()
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at)
		VALUES ('planned', 'web', $1, 60, clock_timestamp())`, owner)
}

// owners are those of the claimed.
func owners(claimed []Trigger) []int32 {
	all := make([]int32, len(claimed))
	for i, t := range claimed {
		all[i] = t.UserID
	}
	return all
}

// claims claims up to n places of a cap.
func (s *stage) claims(scheduler *Scheduler, limit, n int) []Trigger {
	s.Helper()
	claimed, err := scheduler.Claim(s.Context(), "web", limit, n)
	s.do(err)
	return claimed
}

func TestOneOwnersBacklogDoesNotKeepAnotherWaiting(t *testing.T) {
	s := setStage(t)
	s.of(1, 2000, 24*time.Hour)
	s.of(7, 1, time.Minute)
	s.do(s.scheduler(func(cfg *Config) { cfg.MaxConcurrentSyncs = 5 }).Tick(t.Context()))
	want(s, 2, inFlightOf, 1)
	want(s, 1, inFlightOf, 7)
}

func TestOneOwnerHoldsNoMoreThanTheShareWhileAnotherMayCome(t *testing.T) {
	for name, c := range map[string]struct{ limit, share, want int }{
		"of five": {5, 80, 4}, "of fifty": {50, 80, 40}, "of two": {2, 80, 1}, "of one": {1, 80, 1}, "half": {10, 50, 5}, "none": {10, 100, 10},
	} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			s.of(1, 100, time.Hour)
			s.planned(7)
			scheduler := s.scheduler(func(cfg *Config) { cfg.MaxConcurrentSyncs, cfg.OwnerSharePercent = c.limit, c.share })
			s.do(scheduler.Tick(t.Context()))
			want(s, c.want, inFlightOf, 1)
			s.of(8, 1, time.Second)
			s.do(scheduler.Tick(t.Context()))
			want(s, min(1, c.limit-c.want), inFlightOf, 8)
		})
	}
}

func TestAnOwnerWhoIsAloneTakesAllPlaces(t *testing.T) {
	s := setStage(t)
	s.of(1, 100, time.Hour)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) VALUES ('of another type', 'file', 7, 60)`)
	s.exec(`INSERT INTO connectors (name, type, user_id) VALUES ('never by itself', 'web', 7)`)
	s.do(s.scheduler(func(cfg *Config) { cfg.MaxConcurrentSyncs = 5 }).Tick(t.Context()))
	want(s, 5, inFlightOf, 1)
}

func TestAnOwnerIsNotAloneWhileAnotherIsInFlight(t *testing.T) {
	s := setStage(t)
	s.of(7, 1, time.Hour)
	scheduler := s.scheduler(func(cfg *Config) { cfg.MaxConcurrentSyncs = 5 })
	s.do(scheduler.Tick(t.Context()))
	s.of(1, 100, time.Hour)
	s.do(scheduler.Tick(t.Context()))
	want(s, 2, inFlightOf, 1)
}

func TestPlacesGoRoundAmongTheOwners(t *testing.T) {
	for name, each := range map[string]int{"all that is due is seen": 3, "more is due than is seen": 300} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			for owner := 1; owner <= 4; owner++ {
				s.of(owner, each, time.Duration(10-owner)*time.Hour)
			}
			scheduler := s.scheduler()
			for round := range 3 {
				var served []int32
				for range 4 {
					claimed := s.claims(scheduler, 1, 1)
					served = append(served, owners(claimed)...)
					for _, c := range claimed {
						s.do(s.moves.Disable(t.Context(), c.ID))
					}
				}
				slices.Sort(served)
				if !slices.Equal(served, []int32{1, 2, 3, 4}) {
					t.Errorf("round %d served %v", round, served)
				}
			}
		})
	}
}

func TestFreePlacesAreDividedAmongTheOwners(t *testing.T) {
	s := setStage(t)
	for owner := 1; owner <= 3; owner++ {
		s.of(owner, 200, time.Duration(10-owner)*time.Hour)
	}
	s.of(9, 2, time.Minute)
	s.do(s.scheduler(func(cfg *Config) { cfg.MaxConcurrentSyncs = 20 }).Tick(t.Context()))
	want(s, 20, `SELECT count(*) FROM open_runs`)
	want(s, 2, inFlightOf, 9)
	want(s, true, `SELECT min(n) >= 4 FROM (SELECT count(*) AS n FROM open_runs WHERE user_id < 9 GROUP BY user_id) o`)
}

func TestWithinAnOwnerTheLongestDueIsClaimedFirst(t *testing.T) {
	s := setStage(t)
	for owner := 1; owner <= 3; owner++ {
		s.of(owner, 100, time.Duration(owner)*time.Hour)
	}
	scheduler := s.scheduler()
	for range 5 {
		s.claims(scheduler, 30, 7)
	}
	want(s, 30, `SELECT count(*) FROM open_runs`)
	want(s, true, `SELECT bool_and(r.due_at < least.due) FROM open_runs r JOIN (
		SELECT user_id, min(next_sync_at) AS due FROM connectors WHERE next_sync_at IS NOT NULL GROUP BY user_id) least USING (user_id)`)
}

func TestConcurrentClaimersNeverExceedTheShareOfAnOwner(t *testing.T) {
	s := setStage(t)
	s.of(1, 200, time.Hour)
	s.planned(7)
	if claimed := s.race(6, 10, 3); len(claimed) != 5 {
		t.Errorf("%d connectors are in flight, want 5", len(claimed))
	}
}

func TestARowThatSomebodyHoldsKeepsNeitherItsOwnerNorAnotherWaiting(t *testing.T) {
	for name, limit := range map[string]int{"one place": 1, "two places": 2} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			s.of(1, 50, time.Hour)
			s.of(7, 50, time.Minute)
			s.of(8, 1, time.Minute)
			tx, err := s.servers.Pool.Begin(t.Context())
			s.do(err)
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			_, err = tx.Exec(t.Context(), `SELECT FROM connectors WHERE user_id = 8 OR id IN (SELECT min(id) FROM connectors GROUP BY user_id) FOR UPDATE`)
			s.do(err)
			scheduler := s.scheduler()
			for range 4 {
				claimed := s.claims(scheduler, limit, 1)
				if len(claimed) != 1 {
					t.Fatalf("%d were claimed", len(claimed))
				}
				s.do(s.moves.Disable(t.Context(), claimed[0].ID))
			}
			want(s, 2, `SELECT count(*) FROM connectors WHERE status = 'DISABLED' AND user_id = 1`)
			want(s, 2, `SELECT count(*) FROM connectors WHERE status = 'DISABLED' AND user_id = 7`)
		})
	}
}

func TestRowsThatAreRefusedGiveTheirPlaceToOtherOwners(t *testing.T) {
	s := setStage(t)
	s.of(1, 100, time.Hour)
	s.of(7, 1, time.Minute)
	s.exec(`ALTER TABLE connectors ADD CONSTRAINT broken CHECK (user_id <> 1 OR status <> 'PENDING')`)
	s.do(s.behind(func(cfg *Config) { cfg.MaxConcurrentSyncs = 2 }).Tick(t.Context()))
	want(s, 1, inFlightOf, 7)
}

func TestTheOperatorGivesAnOwnerAnotherNumberOfPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		others    bool
		most      any
		inFlights int
	}{
		"fewer": {true, 2, 2}, "all": {true, 0, 10}, "more than there are": {true, 50, 10}, "its share": {true, nil, 5},
		"fewer, and alone": {false, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			s.exec(`INSERT INTO owner_quotas (user_id, max_concurrent_syncs) VALUES (1, $1)`, c.most)
			s.of(1, 100, time.Hour)
			if c.others {
				s.planned(7)
			}
			s.do(s.scheduler(func(cfg *Config) { cfg.MaxConcurrentSyncs = 10 }).Tick(t.Context()))
			want(s, c.inFlights, inFlightOf, 1)
		})
	}
}

func TestWhoHasNothingDueIsPassedOverByLooks(t *testing.T) {
	s := setStage(t)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at)
		SELECT 'planned', 'web', 100 + n, 60, clock_timestamp() FROM generate_series(1, 1200) n`)
	s.of(5000, 1, 12*time.Hour) // neither among the longest nor the last that became due
	s.of(1, 100, 24*time.Hour)
	s.of(2, 100, time.Hour)
	scheduler := s.scheduler()
	s.exec(`INSERT INTO owner_turns VALUES ('web', 100)`)
	s.exec(`INSERT INTO owner_quotas (user_id, max_concurrent_syncs) VALUES (2, 1)`)
	looks := 0
	for ; one[int](s, inFlightOf, 5000) == 0; looks++ {
		if looks == 10 {
			t.Fatal("its turn does not come")
		}
		s.claims(scheduler, 5, 1)
	}
	if looks > 4 {
		t.Errorf("its turn came after %d looks of 500 owners, behind 1,200 who have nothing due", looks)
	}
}

// Everything that is due is one owner's, but for what is looked for. The statistics are those of a quiet time, or true.
func TestALookForTheNextOwnerReadsFewBuffersWhateverOthersHaveDue(t *testing.T) {
	for name, statistics := range map[string]string{"statistics of a quiet time": `SELECT`, "true statistics": `ANALYZE connectors, open_runs`} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			for _, table := range []string{"connectors", "open_runs", "owner_turns", "owner_quotas"} {
				s.exec(`ALTER TABLE ` + table + ` SET (autovacuum_enabled = false)`)
			}
			s.exec(`ALTER TABLE connectors DISABLE TRIGGER USER`)
			s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, next_sync_at, due_reason)
				SELECT 'planned', 'web', 1000 + n, 60, clock_timestamp() + interval '1 hour', 'schedule' FROM generate_series(1, 2000) n`)
			s.exec(`ANALYZE connectors, open_runs, owner_turns, owner_quotas`)
			s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, status, run_id)
				SELECT 'in flight', CASE WHEN n <= 50 THEN 'web' ELSE 'file' END, 1000 + n % 2000, 60, 'PENDING', gen_random_uuid() FROM generate_series(1, 20000) n`)
			s.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version)
				SELECT run_id, id, user_id, type, 'new', now(), now(), now(), 1 FROM connectors WHERE run_id IS NOT NULL`)
			s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, next_sync_at, due_reason)
				SELECT 'backlog', 'web', 1, 60, clock_timestamp() - interval '1 day' + n * interval '1 ms', 'new' FROM generate_series(1, 50000) n`)
			s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, next_sync_at, due_reason)
				SELECT 'behind', 'web', 10000 + n, 60, clock_timestamp() - interval '1 hour' + n * interval '1 ms', 'new' FROM generate_series(1, 1000) n`)
			s.exec(`ALTER TABLE connectors ENABLE TRIGGER USER`)
			s.exec(`INSERT INTO owner_quotas (user_id, max_concurrent_syncs) VALUES (1, 1)`)
			s.exec(statistics)
			const locked = `SELECT id FROM moves.lock_due('web', $1, $2, NULL, NULL, 80) WHERE user_id <> 1`
			turn := func(at string) string { return `INSERT INTO owner_turns VALUES ('web', ` + at + `)` }
			for name, c := range map[string]struct {
				before      string
				limit, free int
				most        int
			}{
				"the next owner is near": {turn("10000"), 51, 1, 50 + 100},
				"a batch of owners":      {turn("10000"), 100, 50, 50 + 50*25},
				"nobody is near":         {turn("1000"), 51, 1, 50 + 100 + 500*5},
				"no place is free":       {turn("10000"), 50, 0, 50},
			} {
				buffers, rows := s.buffers("auto", c.before, locked, c.limit, max(c.free, 1))
				t.Logf("%s: %d buffers for %d rows", name, buffers, rows)
				if rows != c.free || buffers > c.most {
					t.Errorf("%s: %d buffers for %d rows, want %d at most for %d", name, buffers, rows, c.most, c.free)
				}
			}
		})
	}
}

// The first claims of a session are of a handful of connectors, and it keeps their plans.
func TestASessionThatPlannedItsClaimsOnASmallDatabaseReadsNoMoreOnALargeOne(t *testing.T) {
	s := setStage(t).lone()
	for _, table := range []string{"connectors", "open_runs", "owner_turns", "owner_quotas", "waiting_types"} {
		s.exec(`ALTER TABLE ` + table + ` SET (autovacuum_enabled = false)`)
	}
	s.exec(`ALTER TABLE connectors DISABLE TRIGGER USER`) // later it would take the plans away
	due := func(from, to, owners int) {
		s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, next_sync_at, due_reason)
			SELECT 'due', 'web', $3 + n % $3, 60, clock_timestamp() - interval '1 hour' + n * interval '1 ms', 'new'
			FROM generate_series($1::integer, $2::integer) n`, from, to, owners)
	}
	const claim = `SELECT moves.claim(jsonb_agg(jsonb_build_object('id', c.id, 'run_id', gen_random_uuid())), clock_timestamp())
		FROM moves.lock_due('web', $1, 5, NULL, NULL, 50) c`
	limits := []int{0, 5, 60}
	due(1, 30, 10)
	s.exec(`VACUUM ANALYZE`) // a table that was never looked at is taken for ten pages
	for _, limit := range limits {
		s.buffers("force_custom_plan", "", claim, limit)
	}
	due(1, 40_000, 1000)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, status, run_id)
		SELECT 'in flight', 'file', 1 + n % 1000, 60, 'PENDING', gen_random_uuid() FROM generate_series(1, 20000) n`)
	s.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version)
		SELECT run_id, id, user_id, type, 'new', now(), now(), now(), 1 FROM connectors WHERE run_id IS NOT NULL`)
	for _, limit := range limits {
		buffers, _ := s.buffers("force_custom_plan", "", claim, limit)
		t.Logf("cap %d: %d buffers for five claims", limit, buffers)
		if buffers > 5*80 {
			t.Errorf("cap %d: %d buffers are read for five claims", limit, buffers)
		}
	}
}

func TestTwoClaimersTakeTurnsByOneList(t *testing.T) {
	s := setStage(t)
	for owner := 1; owner <= 10; owner++ {
		s.of(owner, 30, time.Hour)
	}
	var mu sync.Mutex
	served := map[int32]int{}
	var group sync.WaitGroup
	for range 2 {
		scheduler := s.scheduler()
		group.Go(func() {
			for range 10 {
				claimed, err := scheduler.Claim(s.Context(), "web", 1000, 1)
				if err != nil {
					s.Error(err)
				}
				mu.Lock()
				for _, t := range claimed {
					served[t.UserID]++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	for owner, n := range served {
		if n != 2 {
			t.Errorf("owner %d was served %d times of 20 by 10 owners", owner, n)
		}
	}
}

func TestAVerdictOfAnOwnerWhoHoldsTheShareWakesTheScheduler(t *testing.T) {
	s := setStage(t)
	s.of(1, 100, time.Hour)
	s.planned(7)
	s.do(s.scheduler(func(cfg *Config) { cfg.MaxConcurrentSyncs, cfg.ClaimBatch = 10, 2 }).Tick(t.Context()))
	want(s, 5, inFlightOf, 1)
	want(s, true, `SELECT waits FROM waiting_types WHERE name = 'web'`)
}
