//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"strings"
	"testing"
	"time"

	"github.com/echomind/sync/internal/postgres"
)

// refuses lets Postgres refuse what is inserted for a connector, as a trigger of somebody else's would.
func (s *stage) refuses(table, connectors string) {
	s.Helper()
	s.exec(`CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$`)
	s.exec(`CREATE TRIGGER refuse BEFORE INSERT ON ` + table + ` FOR EACH ROW WHEN (NEW.connector_id IN (` + connectors + `)) EXECUTE FUNCTION refuse()`)
}

// elapse lets the time come at which everything is tried again.
func (r *refusals[K]) elapse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for row, last := range r.known {
		r.known[row] = refusal{wait: last.wait}
	}
}

// logged fails the test unless a scheduler's log holds a text so often.
func (s *stage) logged(b *behind, times int, text string) {
	s.Helper()
	b.log.mu.Lock()
	defer b.log.mu.Unlock()
	if n := strings.Count(b.log.text.String(), text); n != times {
		s.Errorf("the log says %q %d times, want %d", text, n, times)
	}
}

// passed are slots that passed before their user's change: two of each of n connectors.
func (s *stage) passed(n int) {
	s.Helper()
	s.exec(`INSERT INTO passed_slots (connector_id, type, config_version, schedule_cron, time_zone, after, through, reason)
		SELECT i, 'web', 1, '0 * * * *', 'UTC', '2026-01-03 00:30+00', '2026-01-03 02:30+00', 'x' FROM generate_series(1, $1::int) i`, n)
}

func TestPassedSlotsWhoseVerdictIsRefusedWaitAndStopNoOther(t *testing.T) {
	s := setStage(t)
	s.passed(20)
	s.refuses("runs", "1, 2, 3, 4, 17")
	b := s.behind(func(cfg *Config) { cfg.ClaimBatch = 3 })
	for range 3 {
		s.do(b.MissPassed(t.Context()))
		want(s, 15, `SELECT count(*) FROM runs WHERE status = 'missed'`)
		b.unanswered.elapse()
	}
	want(s, "1 2 3 4 17", `SELECT string_agg(connector_id::text, ' ' ORDER BY id) FROM passed_slots`)
	want(s, true, `SELECT count(*) = 15 AND bool_and(missed_count = 2) FROM runs WHERE status = 'missed'`)
	s.logged(b, 5, "the verdict of slots that passed was refused")
	s.exec(`DROP TRIGGER refuse ON runs`)
	s.do(s.scheduler().MissPassed(t.Context())) // it has not seen the refusals
	want(s, 20, `SELECT count(*) FROM runs WHERE status = 'missed'`)
}

func TestPassedSlotsWithoutAnEndAreRefused(t *testing.T) {
	s := setStage(t)
	s.passed(1)
	for _, set := range []string{"after = '-infinity'", "through = 'infinity'", "through = '20000-01-01'"} {
		_, err := s.servers.Pool.Exec(t.Context(), `UPDATE passed_slots SET `+set)
		if postgres.Constraint(err) != "passed_slots_range" {
			t.Errorf("%s: %v", set, err)
		}
	}
}

// front makes these connectors the longest due.
func (s *stage) front(connectors string) {
	s.Helper()
	s.force(`UPDATE connectors SET next_sync_at = clock_timestamp() - interval '1 hour' WHERE id IN (` + connectors + `)`)
}

func TestRefusedConnectorsDoNotKeepTheOnlyPlaceOfTheirType(t *testing.T) {
	s := setStage(t)
	s.connectors(9)
	s.front("1, 2, 3")
	s.refuses("open_runs", "1, 2, 3")
	b := s.behind(func(cfg *Config) { cfg.MaxConcurrentSyncs = 1 })
	s.do(b.Tick(t.Context()))
	want(s, true, `SELECT count(*) = 1 AND bool_and(connector_id > 3) FROM open_runs`)
	s.exec(`UPDATE connector_types SET max_concurrent_syncs = 2 WHERE name = 'web'`)
	b.unclaimed.elapse()
	s.do(b.Tick(t.Context()))
	want(s, true, `SELECT count(*) = 2 AND bool_and(connector_id > 3) FROM open_runs`)
	want(s, 3, `SELECT count(*) FROM connectors WHERE id <= 3 AND status = 'ACTIVE' AND next_sync_at IS NOT NULL AND run_id IS NULL`)
	s.logged(b, 3, "cannot be claimed and stays due")
}

// After a publish that was not acknowledged there is room for one.
func TestARefusedConnectorDoesNotKeepTheRoomForOne(t *testing.T) {
	s := setStage(t)
	s.connectors(5)
	s.front("1")
	s.refuses("open_runs", "1")
	scheduler := s.scheduler()
	scheduler.dispatcher.judge("web", 100, true)
	s.do(scheduler.Tick(t.Context()))
	want(s, 4, `SELECT count(*) FROM open_runs`)
	if scheduler.dispatcher.waiting() {
		t.Error("the scheduler waits for the stream, which took everything it was given")
	}
}

func TestATypeThatPublishesNothingDoesNotKeepTheRoomForOneFromTheOthers(t *testing.T) {
	for name, prepare := range map[string]func(*stage){
		"it is refused": func(s *stage) { s.refuses("open_runs", "1") },
		"its cap is full": func(s *stage) {
			s.exec(`UPDATE connector_types SET max_concurrent_syncs = 1 WHERE name = 'web'`)
			s.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version)
				VALUES (gen_random_uuid(), 99, 1, 'web', 'new', now(), now(), now(), 1)`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			s.connectors(1)
			s.front("1")
			prepare(s)
			file := s.connector(row{"type": "file"})
			scheduler := s.scheduler()
			scheduler.dispatcher.judge("web", 100, true)
			s.do(scheduler.Tick(t.Context()))
			want(s, "PENDING", `SELECT status FROM connectors WHERE id = $1`, file)
			if scheduler.dispatcher.refusedOf("file") > 0 {
				t.Error("the scheduler waits for the stream, which took everything it was given")
			}
		})
	}
}

func TestAConnectorThatIsClaimedIsNotRememberedAsRefused(t *testing.T) {
	s := setStage(t)
	s.connectors(2)
	s.refuses("open_runs", "1")
	scheduler := s.scheduler()
	s.do(scheduler.Tick(t.Context()))
	want(s, 1, `SELECT count(*) FROM open_runs`)
	s.exec(`DROP TRIGGER refuse ON open_runs`)
	scheduler.unclaimed.elapse()
	s.do(scheduler.Tick(t.Context()))
	want(s, 2, `SELECT count(*) FROM open_runs`)
	if n := len(scheduler.unclaimed.known); n != 0 {
		t.Errorf("%d connectors are remembered as refused", n)
	}
}

func TestWhatIsRefusedIsTriedAgainLaterAndLater(t *testing.T) {
	r, now := newRefusals[int32](), time.Now()
	for i, minutes := range []int{1, 2, 4, 8, 10, 10} {
		if isNew, kept := r.add(1, now); isNew != (i == 0) || !kept {
			t.Errorf("refusal %d: new %t, kept %t", i, isNew, kept)
		}
		if n := len(r.skipped(now.Add(time.Duration(minutes)*time.Minute - 1))); n != 1 {
			t.Errorf("refusal %d is tried again before %d minutes", i, minutes)
		}
		now = now.Add(time.Duration(minutes) * time.Minute)
		if n := len(r.skipped(now)); n != 0 {
			t.Errorf("refusal %d is not tried again after %d minutes", i, minutes)
		}
	}
}

func TestRefusalsAreRememberedUpToABound(t *testing.T) {
	r, now := newRefusals[int32](), time.Now()
	for row := range int32(mostRefused) {
		r.add(row, now)
	}
	if isNew, kept := r.add(mostRefused, now); isNew || kept {
		t.Error("one too many is remembered")
	}
	later := now.Add(2 * refusedFirst)
	r.add(7, later)
	if isNew, kept := r.add(mostRefused, later); !isNew || !kept {
		t.Error("those that are gone are remembered for ever")
	}
	if n := len(r.skipped(later)); n != 2 {
		t.Errorf("%d are skipped, want the two that were refused just now", n)
	}
}
