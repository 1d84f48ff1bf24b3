package scheduler

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/cron"
)

// Whatever happens to a connector, each slot of its schedule has one verdict or one run: schedulers that are away, syncs that take long, fail, are
// handed back or lose their worker, and people who ask for one.
func TestEachSlotIsAnsweredOnceUnderEveryPolicy(t *testing.T) {
	begin := utc("2026-03-26 12:00")
	s := setClock(t, begin)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	pick := func(all ...string) string { return all[random.IntN(len(all))] }
	for range 12 {
		s.at(begin)
		columns := row{
			"schedule_cron": pick("*/20 * * * *", "*/30 6-22 * * *", "30 2 * * *"), "time_zone": pick("UTC", "Europe/Berlin"), "overlap": pick("skip", "queue"),
			"catch_up": pick("none", "latest", "all"), "catch_up_most": 1 + random.IntN(5), "max_retries": 1000,
		}
		if per := pick("", "day", "week"); per != "" {
			columns["once_per"] = per
		}
		if random.IntN(2) == 0 {
			columns["deadline_minutes"] = 10 + random.IntN(300)
		}
		id := s.synced(columns)
		var log []string
		for now := begin; now.Before(begin.Add(5 * 24 * time.Hour)); {
			now = now.Add(time.Duration(random.IntN(200)*random.IntN(4)) * time.Minute / 2)
			s.at(now)
			did := pick("claim", "claim", "claim", "complete", "complete", "fail", "release", "lose", "trigger")
			log = append(log, now.Format("02 15:04 ")+did)
			s.happens(id, did)
		}
		s.answeredOnce(id, columns, begin, log)
		s.exec(`DELETE FROM connectors WHERE id = $1`, id)
	}
}

// happens does one thing to a connector, if it is where that can happen.
func (s simulated) happens(id int32, did string) {
	s.Helper()
	inFlight := one[bool](s.stage, `SELECT run_id IS NOT NULL FROM connectors WHERE id = $1`, id)
	switch {
	case did == "trigger":
		s.exec(`SELECT moves.trigger_sync($1)`, id)
	case !inFlight:
		s.plan()
		s.look()
	case did == "complete":
		s.complete(id)
	case did == "fail", did == "release":
		try := s.pickUp(id, time.Minute)
		if did == "fail" {
			want(s.stage, true, `SELECT moves.fail($1, $2, 'transient', 'no')`, try.Run, try.ID)
			break
		}
		want(s.stage, true, `SELECT moves.release($1, $2)`, try.Run, try.ID)
	case did == "lose":
		if one[int](s.stage, `SELECT failure_count FROM connectors WHERE id = $1`, id) == 0 {
			s.pickUp(id, -time.Minute)
			worker := one[uuid.UUID](s.stage, `UPDATE workers w SET expires_at = clock_timestamp() - interval '1 s' FROM open_runs r
				WHERE r.worker_id = w.id AND r.connector_id = $1 RETURNING w.id`, id)
			want(s.stage, 1, `SELECT count(*) FROM moves.rescue(jsonb_build_array(jsonb_build_object('id', $1::uuid, 'beats', 1)), '1 hour', 10)`, worker)
		}
	}
	s.plan()
	s.do(s.scheduler().MissPassed(s.Context()))
}

// answeredOnce fails the test unless each slot up to where the connector is planned is in the ledger once, and none behind it is.
func (s simulated) answeredOnce(id int32, columns row, begin time.Time, log []string) {
	s.Helper()
	schedule, err := cron.Parse(cron.Spec{Expression: columns["schedule_cron"].(string), Zone: columns["time_zone"].(string), ID: id})
	s.do(err)
	through := one[time.Time](s.stage, `SELECT planned_through FROM connectors WHERE id = $1`, id)
	n := 0
	for slot := schedule.Next(begin); !slot.After(through); slot = schedule.Next(slot) {
		n++
		if rows := one[int](s.stage, `SELECT count(*) FROM scheduler_runs WHERE connector_id = $1 AND $2 BETWEEN slot AND coalesce(slot_last, slot)`, id, slot); rows != 1 {
			s.Fatalf("%v: slot %s is answered %d times\n%q\n%q", columns, slot.UTC(), rows, s.ledger(id), log)
		}
	}
	if all := one[int](s.stage, `SELECT coalesce(sum(coalesce(missed_count, 1)), 0)::integer FROM scheduler_runs WHERE connector_id = $1 AND slot IS NOT NULL`, id); all != n {
		s.Fatalf("%v: the ledger has %d slots, and %d have come\n%q\n%q", columns, all, n, s.ledger(id), log)
	}
}
