//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/cron"
)

// chance draws what happens to connectors.
type chance struct{ *rand.Rand }

func (c chance) pick(all ...string) string { return all[c.IntN(len(all))] }

// chances are some that are always the same, and one that is not.
func chances(t *testing.T, always ...uint64) (all []chance) {
	t.Helper()
	fresh := rand.Uint64()
	t.Logf("seed %d", fresh)
	for _, seed := range append(always, fresh) {
		all = append(all, chance{rand.New(rand.NewPCG(seed, 2))})
	}
	return all
}

// span is a time in which a connector had a schedule.
type span struct {
	from, to     time.Time
	cron, zone   string
	gap, overlap *string
}

// history is what has happened to a connector.
type history struct {
	span  // that goes on
	on    bool
	spans []span
	log   []string
}

func (h *history) ends(now time.Time) {
	if h.on {
		h.to = now
		h.spans = append(h.spans, h.span)
	}
	h.from = now
}

// Clocks change in Berlin on the 29th.
func TestEachSlotHasOneLineWhateverItsUserChangesAndWhateverFails(t *testing.T) {
	begin := utc("2026-03-26 12:00")
	s := setClock(t, begin)
	s.ofJobs()
	for i, c := range append(chances(t, 13888621625326338691, 15254822170169319953), chances(t, 3)...) {
		var more []string
		if i > 2 {
			more = []string{"with", "with", "with"}
		}
		for range 2 {
			s.at(begin)
			columns := row{
				"schedule_cron": c.pick("*/20 * * * *", "*/30 6-22 * * *", "30 2 * * *", "30 1-3 * * *"), "time_zone": c.pick("UTC", "Europe/Berlin"),
				"overlap": c.pick("skip", "queue"), "catch_up": c.pick("none", "latest", "all"), "catch_up_most": 1 + c.IntN(5), "max_retries": 1000,
			}
			if per := c.pick("", "day", "week"); per != "" {
				columns["once_per"] = per
			}
			if c.IntN(2) == 0 {
				columns["deadline_minutes"] = 10 + c.IntN(300)
			}
			id := s.synced(columns)
			h := &history{span: span{from: begin, cron: columns["schedule_cron"].(string), zone: columns["time_zone"].(string)}, on: true}
			now := begin
			for now.Before(begin.Add(5 * 24 * time.Hour)) {
				now = now.Add(time.Duration(c.IntN(200)*c.IntN(4)) * time.Minute / 2)
				s.at(now)
				s.changes(id, c, h, now, more...)
				want(s.stage, false, `SELECT status IN ('ACTIVE', 'ERROR') AND next_sync_at IS NULL FROM connectors WHERE id = $1`, id)
			}
			through := one[*time.Time](s.stage, `SELECT planned_through FROM connectors WHERE id = $1`, id)
			if through == nil {
				through = &now
			}
			h.ends(*through)
			s.hasOneLineEach(id, columns, h)
			s.exec(`DELETE FROM connectors WHERE id = $1`, id)
			s.do(s.scheduler().MissPassed(s.Context()))
		}
	}
}

// changes lets something happen to a connector.
func (s simulated) changes(id int32, c chance, h *history, now time.Time, more ...string) {
	s.Helper()
	did := c.pick(append(more, "claim", "claim", "claim", "complete", "complete", "fail", "release", "lose", "trigger", "skip", "cron", "zone", "gap", "once", "disable", "enable",
		"policy", "config")...)
	h.log = append(h.log, now.Format("02 15:04 ")+did)
	switch did {
	case "cron":
		if to := c.pick("*/20 * * * *", "*/30 6-22 * * *", "30 2 * * *", "0 * * * *"); to != h.cron {
			h.ends(now)
			h.cron = to
			s.exec(`UPDATE connectors SET schedule_cron = $2 WHERE id = $1`, id, to)
		}
	case "zone":
		if to := c.pick("UTC", "Europe/Berlin", "America/New_York"); to != h.zone {
			h.ends(now)
			h.zone = to
			s.exec(`UPDATE connectors SET time_zone = $2 WHERE id = $1`, id, to)
		}
	case "gap":
		if gap, overlap := c.pick("after", "skip", "before"), c.pick("first", "second", "both"); h.gap == nil || gap != *h.gap || overlap != *h.overlap {
			h.ends(now)
			h.gap, h.overlap = &gap, &overlap
			s.exec(`UPDATE connectors SET dst_gap = $2, dst_overlap = $3 WHERE id = $1`, id, gap, overlap)
		}
	case "once":
		s.exec(`UPDATE connectors SET once_per = nullif($2, '') WHERE id = $1`, id, c.pick("", "day", "week", "month"))
	case "disable":
		if h.on {
			h.ends(now)
			h.on = false
			s.exec(`SELECT moves.disable($1)`, id)
		}
	case "enable":
		if !h.on {
			h.on, h.from = true, now
			s.exec(`SELECT moves.enable($1)`, id)
		}
	case "policy":
		s.exec(`UPDATE connectors SET overlap = $2, catch_up = $3, catch_up_most = $4, deadline_minutes = $5, catch_up_minutes = $6 WHERE id = $1`, id,
			c.pick("skip", "queue"), c.pick("none", "latest", "all"), 1+c.IntN(4), 1+c.IntN(500), 1+c.IntN(500))
	case "config":
		if h.on {
			s.exec(`UPDATE connectors SET config = jsonb_build_object('url', $2::text) WHERE id = $1`, id, fmt.Sprint(c.Uint32()))
		}
	case "skip":
		if one[bool](s.stage, `SELECT run_id IS NOT NULL FROM connectors WHERE id = $1`, id) {
			try := s.pickUp(id, time.Minute)
			want(s.stage, true, `SELECT moves.skip($1, $2, NULL, 'x', 0)`, try.Run, try.ID)
		}
	default:
		if h.on {
			s.happens(id, did)
		}
	}
	s.plan()
	s.do(s.scheduler().MissPassed(s.Context()))
}

// happens does one thing to a connector, if it is where that can happen.
func (s simulated) happens(id int32, did string) {
	s.Helper()
	inFlight := one[bool](s.stage, `SELECT run_id IS NOT NULL FROM connectors WHERE id = $1`, id)
	switch {
	case did == "trigger":
		s.exec(`SELECT moves.trigger_sync($1)`, id)
	case did == "with":
		s.exec(dryRun, id)
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

// hasOneLineEach fails the test unless each slot that came is in the ledger once, and none besides.
func (s simulated) hasOneLineEach(id int32, columns row, h *history) {
	s.Helper()
	type line struct {
		First, Last time.Time
		Count       int
	}
	rows, err := s.servers.Pool.Query(s.Context(), `SELECT slot, coalesce(slot_last, slot), coalesce(missed_count, 1) FROM scheduler_runs
		WHERE connector_id = $1 AND slot IS NOT NULL`, id)
	s.do(err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[line])
	s.do(err)
	came, written := 0, 0
	for _, l := range all {
		written += l.Count
	}
	for _, p := range h.spans {
		schedule, err := cron.Parse(cron.Columns(p.cron, p.zone, id, p.gap, p.overlap))
		s.do(err)
		for slot := schedule.Next(p.from); !slot.After(p.to); slot = schedule.Next(slot) {
			came++
			hits := 0
			for _, l := range all {
				if !slot.Before(l.First) && !slot.After(l.Last) {
					hits++
				}
			}
			if hits != 1 {
				s.Fatalf("%v: slot %s (%s %s) is answered %d times\n%q\n%q", columns, slot.UTC(), p.cron, p.zone, hits, s.ledger(id), h.log)
			}
		}
	}
	if written != came {
		s.Errorf("%v: %d slots are in the ledger, %d came\n%q\n%q", columns, written, came, s.ledger(id), h.log)
	}
}

func TestNoPeriodCompletesTwiceWhateverFails(t *testing.T) {
	begin := utc("2026-03-26 12:00")
	s := setClock(t, begin)
	s.ofJobs()
	for i, c := range append(chances(t, 1, 2), chances(t, 3)...) {
		actions := []string{"claim", "claim", "claim", "complete", "complete", "fail", "release", "lose", "trigger", "skip", "postpone", "too_long"}
		if i > 2 {
			actions = append(actions, "with", "with", "with")
		}
		for range 2 {
			s.at(begin)
			zone := c.pick("UTC", "Europe/Berlin", "America/New_York")
			columns := row{
				"schedule_cron": c.pick("*/20 * * * *", "*/30 6-22 * * *", "0 20-23 * * *", "0 0,23 * * *"), "time_zone": zone, "once_per": "day",
				"overlap": c.pick("skip", "queue"), "catch_up": c.pick("none", "latest", "all"), "catch_up_most": 1 + c.IntN(5), "max_retries": 1000,
			}
			id := s.synced(columns)
			var log []string
			for now := begin; now.Before(begin.Add(6 * 24 * time.Hour)); {
				now = now.Add(time.Duration(c.IntN(200)*c.IntN(4)) * time.Minute / 2)
				s.at(now)
				did := c.pick(actions...)
				log = append(log, now.Format("02 15:04 ")+did)
				end := map[string]string{"skip": `moves.skip($1, $2, NULL, 'x', 0)`, "postpone": `moves.postpone($1, $2, '5 hours', 'x')`,
					"too_long": `moves.fail($1, $2, 'too_long', 'x')`}[did]
				switch {
				case end == "":
					s.happens(id, did)
				case one[bool](s.stage, `SELECT run_id IS NOT NULL FROM connectors WHERE id = $1`, id):
					try := s.pickUp(id, time.Minute)
					want(s.stage, true, "SELECT "+end, try.Run, try.ID)
				}
			}
			if days := one[string](s.stage, `SELECT coalesce(string_agg(day::text, ' '), '') FROM (SELECT (slot AT TIME ZONE $2)::date AS day FROM runs
					WHERE connector_id = $1 AND trigger = 'schedule' AND slot IS NOT NULL AND missed_count IS NULL AND status IN ('completed', 'skipped')
					GROUP BY 1 HAVING count(*) > 1) d`, id, zone); days != "" {
				t.Fatalf("%v: %s completed more than once\n%q\n%q", columns, days, s.ledger(id), log)
			}
			s.exec(`DELETE FROM connectors WHERE id = $1`, id)
		}
	}
}
