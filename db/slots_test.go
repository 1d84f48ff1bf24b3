package db_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

// slotted is a connector whose slots come when the test says so.
type slotted struct {
	*base
	id     int32
	passed []time.Time
	log    []string
}

// comes lets the slot that is planned come now.
func (s *slotted) comes() {
	s.Helper()
	rows, err := s.conn.Query(s.Context(), `SELECT slot_at FROM connectors WHERE id = $1 AND slot_at > clock_timestamp()`, s.id)
	if err != nil {
		s.Fatal(err)
	}
	isPlanned := rows.Next()
	if rows.Close(); !isPlanned {
		return
	}
	s.force(`UPDATE connectors SET slot_at = m, next_sync_at = m FROM (SELECT clock_timestamp() AS m) n WHERE id = $1`, s.id)
	s.passed = append(s.passed, one[time.Time](s.base, `SELECT slot_at FROM connectors WHERE id = $1`, s.id))
}

// claim does what the scheduler does with one that is due.
func (s *slotted) claim() {
	s.Helper()
	s.exec(`SELECT moves.claim(coalesce(jsonb_agg(jsonb_build_object('id', id, 'run_id', gen_random_uuid(), 'slot',
		CASE WHEN due_reason = 'schedule' THEN slot_at END)), '[]'), now()) FROM moves.lock_due('web', 0, 10)`)
}

// ofRun calls a move of the open run, if there is one.
func (s *slotted) ofRun(call string) {
	s.Helper()
	var run uuid.UUID
	var try *uuid.UUID
	if err := s.conn.QueryRow(s.Context(), `SELECT id, try_id FROM open_runs WHERE connector_id = $1`, s.id).Scan(&run, &try); err != nil {
		return
	}
	if try == nil {
		try = new(uuid.UUID)
	}
	s.exec(`SELECT (`+call+`) FROM (SELECT $1::uuid, $2::uuid) p(run, try)`, run, *try)
}

// sync goes through everything, so that a slot is planned.
func (s *slotted) sync() {
	s.Helper()
	s.exec(`SELECT moves.enable($1)`, s.id)
	s.exec(`SELECT moves.trigger_sync($1)`, s.id)
	s.claim()
	for range 2 {
		s.ofRun(pickUp)
		s.ofRun(`SELECT moves.finish(run, try)`)
		s.claim()
	}
	s.comes()
}

const pickUp = `SELECT moves.pick_up((SELECT connector_id FROM open_runs WHERE id = run), run, gen_random_uuid())`

var slotSteps = map[string]func(*slotted){
	"slot comes":   (*slotted).comes,
	"slot comes 2": (*slotted).comes,
	"claim":        (*slotted).claim,
	"claim 2":      (*slotted).claim,
	"pick up":      func(s *slotted) { s.ofRun(pickUp) },
	"finish":       func(s *slotted) { s.ofRun(`SELECT moves.finish(run, try)`) },
	"finish 2":     func(s *slotted) { s.ofRun(`SELECT moves.finish(run, try)`) },
	"fail":         func(s *slotted) { s.ofRun(`SELECT moves.fail(run, try, 'transient', 'no')`) },
	"release":      func(s *slotted) { s.ofRun(`SELECT moves.release(run, try)`) },
	"cancel":       func(s *slotted) { s.ofRun(`SELECT moves.cancel(run) FROM (SELECT try) t`) },
	"postpone":     func(s *slotted) { s.ofRun(`SELECT moves.postpone(run, try, '1 ms', 'wait')`) },
	"trigger": func(s *slotted) {
		s.exec(`UPDATE connectors SET trigger_requested_at = now() WHERE id = $1 AND status <> 'DISABLED'`, s.id)
	},
	"configure": func(s *slotted) {
		s.exec(`UPDATE connectors SET config = jsonb_build_object('n', random()) WHERE id = $1`, s.id)
	},
	"schedule": func(s *slotted) {
		s.exec(`UPDATE connectors SET refresh_freq_minutes = 1 + refresh_freq_minutes % 90 WHERE id = $1`, s.id)
	},
	"both": func(s *slotted) {
		s.exec(`UPDATE connectors SET refresh_freq_minutes = 1 + refresh_freq_minutes % 90, user_id = 1 + user_id % 3 WHERE id = $1`, s.id)
	},
	"wait for slot":   func(s *slotted) { s.exec(`SELECT moves.wait_for_slot($1)`, s.id) },
	"wait for slot 2": func(s *slotted) { s.exec(`SELECT moves.wait_for_slot($1, now() - interval '1 year')`, s.id) },
	"disable":         func(s *slotted) { s.exec(`SELECT moves.disable($1)`, s.id) },
	"enable":          func(s *slotted) { s.exec(`SELECT moves.enable($1)`, s.id) },
	"sync":            (*slotted).sync, "sync 2": (*slotted).sync, "sync 3": (*slotted).sync, "sync 4": (*slotted).sync,
	"enable 2": func(s *slotted) { s.exec(`SELECT moves.enable($1)`, s.id) },
}

// answered fails the test unless each slot that came has one verdict, or is still to have it: open, or due.
func (s *slotted) answered() {
	s.Helper()
	for _, slot := range s.passed {
		if n := one[int](s.base, `SELECT (SELECT count(*) FROM scheduler_runs WHERE connector_id = $1 AND $2 BETWEEN slot AND coalesce(slot_last, slot))
			+ (SELECT count(*) FROM connectors WHERE id = $1 AND slot_at = $2)`, s.id, slot); n != 1 {
			s.Fatalf("slot %s is answered %d times after %v\n%s", slot, n, s.log, s.everything(s.id))
		}
	}
}

func TestEachSlotHasOneVerdictWhateverHappensAroundIt(t *testing.T) {
	b := newBase(t)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	names := make([]string, 0, len(slotSteps))
	for name := range slotSteps {
		names = append(names, name)
	}
	slices.Sort(names)
	slots := 0
	for range 8 {
		s := &slotted{base: b, id: b.synced()}
		for range 50 {
			name := names[random.IntN(len(names))]
			s.log = append(s.log, name)
			slotSteps[name](s)
			s.answered()
		}
		s.exec(`DELETE FROM connectors WHERE id = $1`, s.id)
		s.log = append(s.log, "delete")
		s.answered()
		slots += len(s.passed)
	}
	if slots < 20 {
		t.Errorf("only %d slots came", slots)
	}
}

func TestASlotThatPassedIsMissedWhenItsScheduleGoes(t *testing.T) {
	b := newBase(t)
	for change, reason := range map[string]string{
		`UPDATE connectors SET refresh_freq_minutes = 7 WHERE id = $1`: "schedule changed before it could be claimed",
		`SELECT moves.disable($1)`:                                     "disabled before it could be claimed",
		`DELETE FROM connectors WHERE id = $1`:                         "connector deleted before it could be claimed",
	} {
		s := &slotted{base: b, id: b.synced()}
		b.exec(change, s.id)
		if n := one[int](b, `SELECT count(*) FROM runs WHERE connector_id = $1 AND status = 'missed'`, s.id); n != 0 {
			t.Errorf("%s before the slot: %d are missed", change, n)
		}
		s = &slotted{base: b, id: b.synced()}
		s.comes()
		b.exec(change, s.id)
		if got := b.asked(fmt.Sprintf(`SELECT reason FROM runs WHERE connector_id = %d AND status = 'missed' AND missed_count = 1
			AND slot = slot_last`, s.id)); got != reason {
			t.Errorf("%s after the slot: %s", change, got)
		}
	}
}

func TestWhatIsNewOrChangedMayWaitForItsNextSlot(t *testing.T) {
	b := newBase(t)
	nightly := func() int32 {
		return one[int32](b, `INSERT INTO connectors (name, type, user_id, schedule_cron) VALUES ('n', 'web', 1, '0 3 * * *') RETURNING id`)
	}
	const wait = `SELECT moves.wait_for_slot($1)`
	id := nightly()
	b.moves("true", wait, id)
	b.holds(id, `c.needs_plan AND c.due_reason = 'schedule' AND c.next_sync_at IS NULL`) // which the scheduler plans at its next slot
	b.moves("false", wait, id)

	id = b.connector()
	b.moves("true", `SELECT moves.wait_for_slot($1, now() - interval '20 min')`, id)
	b.holds(id, `c.due_reason = 'schedule' AND c.slot_at = c.next_sync_at AND c.next_sync_at BETWEEN now() + interval '33 min' AND now() + interval '40 min'`)
	id = b.connector()
	b.moves("true", `SELECT moves.wait_for_slot($1, now() - interval '9 days')`, id)
	b.holds(id, `c.due_reason = 'schedule' AND c.next_sync_at <= clock_timestamp()`)
	id = b.connector()
	b.moves("true", `SELECT moves.wait_for_slot($1, now() + interval '9 days')`, id) // a clock that goes ahead
	b.holds(id, `c.next_sync_at <= clock_timestamp() + interval '1 hour'`)

	id = b.connector()
	b.complete(id)
	b.exec(`UPDATE connectors SET config = '{"a": 1}' WHERE id = $1`, id)
	b.holds(id, `c.due_reason = 'changed' AND c.next_sync_at <= clock_timestamp()`)
	b.moves("true", wait, id)
	b.holds(id, `c.due_reason = 'schedule' AND c.next_sync_at = moves.interval_slot(c.id, c.last_sync_at, 60, 10)`)

	for _, from := range []string{"PENDING", "SYNCING", "ERROR", "DISABLED"} {
		id = b.in(from)
		before := b.everything(id)
		b.moves("false", wait, id)
		if after := b.everything(id); after != before {
			t.Errorf("from %s: it has changed\n%s\nto\n%s", from, before, after)
		}
	}
	id = nightly()
	b.exec(`SELECT moves.trigger_sync($1)`, id)
	b.moves("false", wait, id)
	b.holds(id, `c.due_reason = 'manual'`)
	once := one[int32](b, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) VALUES ('once', 'web', 1, 0) RETURNING id`)
	b.moves("false", wait, once)
	b.holds(once, `c.due_reason = 'new'`)
	b.moves("false", wait, 0)
}

func TestADeletedConnectorIsImportedNoMore(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	b.exec(`INSERT INTO imported_connectors (connector_id, source, origin, key, variant) VALUES ($1, 'rdbeat', 'here', 'a', '')`, id)
	b.exec(`DELETE FROM connectors WHERE id = $1`, id)
	if n := one[int](b, `SELECT count(*) FROM imported_connectors`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}
