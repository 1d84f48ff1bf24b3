//go:build !race

package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestLooksForTheNextOwnerGoOnUntilTheyHaveBeenRound(t *testing.T) {
	for name, c := range map[string]struct {
		at []int32
		on []bool
	}{
		"round":              {[]int32{500, 900, 200, 400, 600}, []bool{true, true, true, true, false}},
		"to the same":        {[]int32{500, 900, 500}, []bool{true, true, false}},
		"it does not move":   {[]int32{500, 500, 500}, []bool{true, false, false}},
		"and moves again":    {[]int32{500, 500, 700, 100}, []bool{true, false, true, true}},
		"from the beginning": {[]int32{0, 3, 1}, []bool{true, true, false}},
		"another lap":        {[]int32{5, 9, 6, 7}, []bool{true, true, false, true}},
	} {
		all := &turns{laps: map[string]*lap{}}
		for i, at := range c.at {
			if on := all.goesOn("web", at); on != c.on[i] {
				t.Errorf("%s: look %d goes on: %v", name, i, on)
			}
			all.goesOn("file", 1) // another type's laps are its own
		}
	}
}

func TestAnOwnerBehindThousandsWhoHaveNothingDueIsLookedForAtOnce(t *testing.T) {
	s := setStage(t)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at)
		SELECT 'planned', 'web', 10 + i, 60, clock_timestamp() FROM generate_series(1, 3000) i`)
	s.of(1, 100, time.Hour)
	s.force(`UPDATE connectors SET next_sync_at = clock_timestamp() - interval '30 min', due_reason = 'manual' WHERE user_id = 1500`)
	// Not among the newest either.
	s.force(`UPDATE connectors SET next_sync_at = clock_timestamp() - interval '1 min'
		WHERE id IN (SELECT id FROM connectors WHERE user_id = 1 ORDER BY next_sync_at DESC LIMIT 20)`)
	s.exec(`INSERT INTO owner_turns (type, served) VALUES ('web', 1600)`)
	if ticks := s.comes(s.scheduler(func(cfg *Config) { cfg.MaxConcurrentSyncs = 5 }), 1500, 12); ticks < 3 {
		t.Errorf("it came after %d looks: the test looks for nothing", ticks)
	}
}

func TestAConnectorBehindThoseThatSomebodyHoldsIsLookedForAtOnce(t *testing.T) {
	s := setStage(t)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) SELECT 'held', 'web', i, 60 FROM generate_series(1, 60) i`)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) VALUES ('free', 'web', 5000, 60)`)
	tx, err := s.servers.Pool.Begin(t.Context())
	s.do(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `SELECT FROM connectors WHERE user_id <= 60 FOR UPDATE`)
	s.do(err)
	s.comes(s.scheduler(func(cfg *Config) { cfg.MaxConcurrentSyncs = 5 }), 5000, 20)
}

func TestAFullCapIsLookedAtAgainLater(t *testing.T) {
	s := setStage(t)
	s.of(1, 10, time.Hour)
	scheduler := s.scheduler(func(cfg *Config) { cfg.MaxConcurrentSyncs = 2 })
	var pauses []time.Duration
	for range 4 {
		pause, err := scheduler.tick(t.Context())
		s.do(err)
		pauses = append(pauses, pause)
	}
	if pauses[2] != pollEvery || pauses[3] != pollEvery {
		t.Errorf("it looks again after %v", pauses)
	}
}

func TestATickLooksAtTheTypesItIsAskedForAndAtAllWhereThereAreMany(t *testing.T) {
	var w wishes
	if got := w.take(); got != nil {
		t.Errorf("nobody asked for a type: %v, want all", got)
	}
	w.add("web")
	w.add("file")
	w.add("web")
	if got := slices.Sorted(slices.Values(w.take())); !slices.Equal(got, []string{"file", "web"}) {
		t.Errorf("%v", got)
	}
	w.add("web")
	w.add("")
	if got := w.take(); got != nil {
		t.Errorf("all were asked for: %v", got)
	}
	for i := range 10 * mostWishes {
		w.add(fmt.Sprint("type", i))
	}
	if n := len(w.types); n > mostWishes+1 {
		t.Errorf("%d types are remembered", n)
	}
	if got := w.take(); got != nil {
		t.Errorf("too many were asked for: %v, want all", got)
	}
}
