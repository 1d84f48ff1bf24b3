//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/blackouts"
	"github.com/echomind/sync/internal/calendars"
	"github.com/echomind/sync/internal/slots"
)

// What a preview says becomes true: for schedules drawn at random, the ledger of simulated weeks and years has its lines and no others.
func TestAPreviewSaysWhatTheLedgerWillSay(t *testing.T) {
	foretells(t, 25, 5, "0 * * * *", "*/30 6-22 * * *", "30 2 * * *", "15 1,2,3 * * 0,1", "H H * * *", "0 4 1 * *")
}

func TestAPreviewSaysWhatTheLedgerOfYearsWillSay(t *testing.T) {
	foretells(t, 4, 800, "30 2 * * 1-6/2", "0 4 1,15,29 * *", "0 12 25-31 12 *", "0 0 * * 5")
}

// foretells compares previews of some days with what becomes of them.
func foretells(t *testing.T, draws, days int, schedules ...string) {
	t.Helper()
	begin := utc("2026-03-26 12:00") // clocks change in Berlin on the 29th, in New York before
	s := setClock(t, begin)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	pick := func(all ...string) string { return all[random.IntN(len(all))] }
	s.calendar("fair", "Europe/Berlin", `[{"name": "Sommerzeit", "start": "2026-03-29", "also": ["2026-04-01"]}, {"name": "Mittag", "start": "2026-03-01T11:30",
		"end": "2026-03-01T14:00", "rule": "FREQ=WEEKLY;BYDAY=MO,WE,FR"}, {"name": "frei", "start": "2026-03-01", "rule": "FREQ=WEEKLY;BYDAY=SA,SU"}, {"name": "Weihnachten", "start": "2025-12-24T12:00", "end": "2025-12-27", "rule": "FREQ=YEARLY"}]`)
	s.calendar("work", "America/New_York", `[{"name": "Werktag", "start": "2026-03-02", "rule": "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"}, {"name": "Ostern", "start": "2026-03-30", "except": true}]`)
	windows := [][2]string{
		{"UTC", `[{"name": "w", "start": "2026-03-01T02:00", "end": "2026-03-01T05:30", "rule": "FREQ=WEEKLY;BYDAY=MO,WE,FR,SU"}, {"name": "maintenance", "start": "2026-03-29T22:00", "end": "2026-03-31T01:00"}]`},
		{"Europe/Berlin", `[{"name": "w", "start": "2026-03-01T08:00", "end": "2026-03-01T18:00", "rule": "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"}, {"name": "night", "start": "2026-03-01T02:30", "end": "2026-03-01T03:30", "rule": "FREQ=WEEKLY;BYDAY=SA,SU"}]`},
	}
	for range draws {
		s.at(begin)
		s.exec(`DELETE FROM blackouts`)
		for i, w := range windows[:random.IntN(3)] {
			name := fmt.Sprint("window", i)
			s.calendar(name, w[0], w[1])
			s.exec(`INSERT INTO blackouts (name, calendar, mode, spread_minutes) VALUES ($1, $1, $2, $3)`, name, pick("skip", "defer"), random.IntN(3)*20)
		}
		takes := time.Duration([]int{0, 25, 50, 75, 3 * 60, 27 * 60}[random.IntN(6)]) * time.Minute
		columns := row{
			"schedule_cron": pick(schedules...),
			"time_zone":     pick("UTC", "Europe/Berlin", "Australia/Lord_Howe"), "overlap": pick("skip", "queue"),
			"catch_up": pick("none", "latest", "all"), "catch_up_most": 1 + random.IntN(5),
		}
		if per := pick("", "", "day", "week", "month"); per != "" {
			columns["once_per"] = per
		}
		if random.IntN(3) == 0 {
			columns["deadline_minutes"] = 10 + random.IntN(100)
		}
		if random.IntN(3) == 0 {
			columns["catch_up_minutes"] = 10 + random.IntN(600)
		}
		if random.IntN(3) == 0 {
			columns["dst_gap"], columns["dst_overlap"] = pick("after", "skip", "before"), pick("first", "second", "both")
		}
		if name := pick("", "fair", "work"); name != "" {
			columns["calendar"], columns["calendar_use"] = name, pick("exclude", "only")
		}
		until := begin.Add(time.Duration(3+random.IntN(days))*24*time.Hour + time.Duration(random.IntN(48)*30)*time.Minute)
		id := s.synced(columns)
		want := s.previewed(id, begin, until, takes)
		s.simulate(id, until, takes)
		if got := s.entries(id); !slices.EqualFunc(got, want, equal) {
			t.Fatalf("%v, each sync taking %s until %s:\nthe ledger has\n%v\nthe preview says\n%v", columns, takes, until, lines(got), lines(want))
		}
		s.exec(`DELETE FROM connectors WHERE id = $1`, id)
	}
}

func (s simulated) previewed(id int32, from, until time.Time, takes time.Duration) []slots.Entry {
	s.Helper()
	c := slots.Columns{ID: id}
	var name, zone *string
	var use string
	var entries []byte
	s.do(s.servers.Pool.QueryRow(s.Context(), `SELECT schedule_cron, c.time_zone, deadline_minutes, overlap, once_per, catch_up, catch_up_most,
			catch_up_minutes, claimed_at, over_at, claimed_for, synced_for, calendar, calendar_use, k.time_zone, k.entries, dst_gap, dst_overlap
		FROM connectors c LEFT JOIN calendars k ON k.name = c.calendar WHERE id = $1`, id).Scan(&c.Cron, &c.Zone, &c.Deadline,
		&c.Overlap, &c.OncePer, &c.CatchUp, &c.Most, &c.Window, &c.ClaimedAt, &c.OverAt, &c.ClaimedFor, &c.SyncedFor, &name, &use, &zone, &entries, &c.DSTGap, &c.DSTOverlap))
	if name != nil {
		times, err := calendars.Read(*zone, entries)
		s.do(err)
		c.Calendar = &slots.Calendar{Name: *name, Use: use, Times: times}
	}
	c.Blackouts = s.windows(id)
	c.Through = &from
	schedule, err := c.Schedule()
	s.do(err)
	all := schedule.Preview(c.State(), from, until, takes, 1_000_000)
	for i := range all {
		if all[i].Verdict == slots.Runs {
			all[i].Reason = "" // what it has waited for is no verdict
		}
	}
	return all
}

// windows are the blackout windows that may hold a connector.
func (s simulated) windows(id int32) []slots.Blackout {
	s.Helper()
	rows, err := s.servers.Pool.Query(s.Context(), `SELECT name, mode, spread_minutes, user_id, types, except_connectors, version, time_zone, entries FROM blackout_windows ORDER BY name`)
	s.do(err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[blackouts.Row])
	s.do(err)
	some, problems := blackouts.Of(all, blackouts.Who{ID: id, UserID: 1, Type: "web"})
	s.do(errors.Join(problems...))
	return some
}

// simulate lets the scheduler do what it does until a moment, each sync taking as long.
func (s simulated) simulate(id int32, until time.Time, takes time.Duration) {
	s.Helper()
	scheduler := s.scheduler()
	for {
		next := one[*time.Time](s.stage, `SELECT next_sync_at FROM connectors WHERE id = $1`, id)
		if next == nil || next.After(until) {
			break
		}
		now := one[time.Time](s.stage, `SELECT clock_timestamp()`)
		if next.After(now) {
			now = *next
			s.at(now)
		}
		if len(s.claim(scheduler)) == 0 {
			continue
		}
		s.at(now.Add(takes))
		s.completes(id)
	}
	// What is known of slots whose period is not over is written down when the connector is switched off; what waits then is none of it.
	if one[time.Time](s.stage, `SELECT clock_timestamp()`).Before(until) {
		s.at(until)
	}
	s.exec(`SELECT moves.disable($1)`, id)
	s.do(scheduler.MissPassed(s.Context()))
}

func (s simulated) entries(id int32) (all []slots.Entry) {
	s.Helper()
	rows, err := s.servers.Pool.Query(s.Context(), `SELECT CASE status WHEN 'completed' THEN 'runs' ELSE status END, coalesce(reason, ''), slot,
		coalesce(slot_last, slot), coalesce(missed_count, 1) FROM runs WHERE connector_id = $1 AND slot IS NOT NULL
			AND reason IS DISTINCT FROM 'disabled before it could be claimed' ORDER BY slot`, id)
	s.do(err)
	defer rows.Close()
	for rows.Next() {
		var e slots.Entry
		s.do(rows.Scan(&e.Verdict, &e.Reason, &e.First, &e.Last, &e.Count))
		all = append(all, e)
	}
	s.do(rows.Err())
	return all
}

func equal(a, b slots.Entry) bool {
	return a.Verdict == b.Verdict && a.Reason == b.Reason && a.First.Equal(b.First) && a.Last.Equal(b.Last) && a.Count == b.Count
}

func lines(all []slots.Entry) (text string) {
	for _, e := range all {
		text += fmt.Sprintf("%s %s %s to %s x%d\n", e.Verdict, e.Reason, e.First.UTC(), e.Last.UTC(), e.Count)
	}
	return text
}
