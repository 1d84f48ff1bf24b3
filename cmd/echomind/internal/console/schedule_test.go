package console_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/movestest"
)

// foreseen is what `schedule preview` answers.
type foreseen struct {
	Now foreseenSlots
	Set *foreseenSlots
}

type foreseenSlots struct {
	Schedule string
	TimeZone string `json:"time_zone"`
	Slots    []struct {
		Verdict, Reason string
		First, Last     time.Time
		Count           int
		LocalFirst      time.Time `json:"local_first"`
	}
	Note string
	Cut  bool
}

func (u terminal) foreseen(args ...string) (p foreseen) {
	u.t.Helper()
	u.json(&p, append([]string{"schedule", "preview", "1"}, args...)...)
	return p
}

func TestAPreviewShowsWhatASchedulesPoliciesDecideBesideAnother(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--config", `{"url":"file:///a"}`, "--cron", "0 3 * * *", "--time-zone", "Europe/Berlin")
	p := u.foreseen("--next", "10d")
	require.Nil(t, p.Set)
	require.Len(t, p.Now.Slots, 10)
	require.Equal(t, 3, p.Now.Slots[0].LocalFirst.Hour(), "it waits for its first slot")
	u.succeed("connectors", "update", "1", "--now")
	p = u.foreseen("--next", "10d")
	require.Equal(t, "new", p.Now.Slots[0].Reason, "its first sync is at once")
	require.Len(t, p.Now.Slots, 11)
	for _, slot := range p.Now.Slots[1:] {
		require.Equal(t, []any{"runs", "", 1, 3, 0}, []any{slot.Verdict, slot.Reason, slot.Count, slot.LocalFirst.Hour(), slot.LocalFirst.Minute()})
		require.True(t, slot.First.Equal(slot.LocalFirst))
	}
	p = u.foreseen("--set", "cron=*/30 6-22 * * *", "--set", "once_per=day", "--set", "time_zone=UTC", "--last", "3d")
	require.Equal(t, "0 3 * * * Europe/Berlin", p.Now.Schedule)
	require.Equal(t, "*/30 6-22 * * * UTC, once per day", p.Set.Schedule)
	runs := map[string]int{}
	for i, slot := range p.Set.Slots {
		if slot.Verdict == "runs" {
			runs[slot.First.UTC().Format(time.DateOnly)]++
			continue
		}
		require.Equal(t, []any{"skipped", "already completed for " + slot.First.UTC().Format(time.DateOnly)}, []any{slot.Verdict, slot.Reason}, i)
	}
	require.GreaterOrEqual(t, len(runs), 3)
	for day, n := range runs {
		require.Equal(t, 1, n, day)
	}
	text := u.succeed("schedule", "preview", "1", "--set", "once_per=week", "--next", "14d")
	require.Contains(t, text, "as it is: 0 3 * * * Europe/Berlin")
	require.Contains(t, text, "as it would be: 0 3 * * * Europe/Berlin, once per week")
	require.Regexp(t, `(?m)^... 20\d\d-\d\d-\d\d 03:00 \+0[12]:00 … \d\d 03:00 +20\d\d.* +\d +skipped: already completed for 20\d\d-W\d\d$`, text)
	require.NotContains(t, u.succeed("connectors", "get", "1"), "once per", "it changes nothing")
}

func TestAPreviewOfWhatIsUnderWayShowsWhichSlotsItSkips(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--config", `{"url":"file:///a"}`, "--cron", "0 * * * *", "--now")
	foreseen := func() foreseenSlots {
		now := u.foreseen("--next", "60h", "--takes", "10h").Now
		if now.Slots[1].Verdict == "runs" { // an hour has begun since it was written
			now.Slots = now.Slots[1:]
		}
		return now
	}
	p := foreseen()
	require.Equal(t, []any{"skipped", "its last run was not over", 10}, []any{p.Slots[1].Verdict, p.Slots[1].Reason, p.Slots[1].Count})
	require.Contains(t, []string{"runs", "skipped"}, p.Slots[2].Verdict)
	u.succeed("connectors", "update", "1", "--cron", "0 * * * *", "--overlap", "queue")
	p = foreseen()
	require.Equal(t, []any{"missed", "passed before it could be claimed", 9}, []any{p.Slots[1].Verdict, p.Slots[1].Reason, p.Slots[1].Count})
}

func TestAPreviewOfAnIntervalHasTheSlotsThatTheDatabasePlans(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--config", `{"url":"file:///a"}`, "--refresh", "1h")
	pool := u.pool()
	movestest.Force(t, pool, `UPDATE connectors SET (last_sync_at, next_sync_at, slot_at, due_reason, synced_version)
		= (SELECT m, moves.interval_slot(1, m, 60, 10), moves.interval_slot(1, m, 60, 10), 'schedule', config_version FROM (SELECT clock_timestamp() AS m) n)`)
	var planned time.Time
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT next_sync_at FROM connectors`).Scan(&planned))
	p := u.foreseen("--next", "1d", "--takes", "5m")
	require.GreaterOrEqual(t, len(p.Now.Slots), 23)
	for i, slot := range p.Now.Slots {
		require.True(t, planned.Add(time.Duration(i)*time.Hour).Equal(slot.First), "%d: %s", i, slot.First)
	}
	u.succeed("connectors", "update", "1", "--refresh", "manual")
	require.Empty(t, u.foreseen().Now.Slots)
	require.Contains(t, u.succeed("schedule", "preview", "1"), "no slot comes until ")
}

// stands gives connector 1 columns that only moves write: where it would be at some moment.
func (u terminal) stands(set string) {
	u.t.Helper()
	movestest.Force(u.t, u.pool(), `UPDATE connectors SET synced_version = config_version, needs_plan = false, due_reason = 'schedule', `+set)
}

// ahead requires a moment that lay so far ahead at some time since then.
func ahead(t *testing.T, since time.Time, by time.Duration, moment time.Time) {
	t.Helper()
	require.False(t, moment.Before(since.Add(by-time.Second)), "%s is less than %s behind %s", moment, by, since)
	require.False(t, moment.After(time.Now().Add(by+time.Second)), "%s is more than %s ahead", moment, by)
}

func TestAPreviewOfWhatIsNotDueSaysWhy(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--config", `{"url":"file:///a"}`, "--cron", "0 * * * *")
	u.stands(`last_sync_at = clock_timestamp(), next_sync_at = clock_timestamp(), slot_at = clock_timestamp()`)
	pool := u.pool()
	try := movestest.Syncing(t, pool, 1)
	_, err := pool.Exec(t.Context(), `SELECT moves.fail($1, $2, 'permanent', 'no')`, try.Run, try.ID)
	require.NoError(t, err)
	p := u.foreseen("--set", "cron=* * * * *")
	require.Empty(t, p.Now.Slots)
	require.Empty(t, p.Set.Slots)
	require.Contains(t, p.Now.Note, "it has failed for good")
	u.succeed("connectors", "disable", "1")
	require.Contains(t, u.succeed("schedule", "preview", "1"), "it is disabled: no slot is due until it is enabled")
	u.succeed("connectors", "update", "1", "--refresh", "1h")
	p = u.foreseen()
	require.Empty(t, p.Now.Slots)
	require.Contains(t, p.Now.Note, "it is disabled")
	require.NotEmpty(t, u.foreseen("--last", "1d").Now.Slots, "what it would have done is another question")
}

func TestAPreviewOfWhatIsPutOffBeginsWithItsNextTry(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--config", `{"url":"file:///a"}`, "--cron", "0 * * * *")
	u.stands(`last_sync_at = clock_timestamp() - interval '1 hour', next_sync_at = clock_timestamp(), slot_at = date_trunc('hour', clock_timestamp()),
		planned_through = date_trunc('hour', clock_timestamp())`)
	pool := u.pool()
	try := movestest.Syncing(t, pool, 1)
	_, err := pool.Exec(t.Context(), `SELECT moves.postpone($1, $2, '20 hours', 'quota')`, try.Run, try.ID)
	require.NoError(t, err)
	p := u.foreseen("--next", "1h")
	require.Empty(t, p.Now.Slots)
	require.Regexp(t, `its next sync is due at 20.* \(wait\)`, p.Now.Note)
	p = u.foreseen("--next", "30h", "--takes", "5h")
	require.Equal(t, []any{"runs", "wait"}, []any{p.Now.Slots[0].Verdict, p.Now.Slots[0].Reason})
	require.Equal(t, []any{"skipped", "its last run was not over"}, []any{p.Now.Slots[1].Verdict, p.Now.Slots[1].Reason})
	require.InDelta(t, 20+5, p.Now.Slots[1].Count, 1)
	require.Equal(t, "runs", p.Now.Slots[2].Verdict)
	// An outage has left its slot, which is put off for half a day.
	began := time.Now()
	u.stands(`last_sync_at = clock_timestamp() - interval '60 hours', over_at = clock_timestamp() - interval '60 hours', claimed_at = clock_timestamp() - interval '60 hours',
		planned_through = clock_timestamp() - interval '50 hours', slot_at = clock_timestamp() - interval '50 hours', next_sync_at = clock_timestamp() + interval '12 hours'`)
	p = u.foreseen("--next", "24h", "--takes", "5h")
	require.Equal(t, []any{"missed", "passed before it could be claimed"}, []any{p.Now.Slots[0].Verdict, p.Now.Slots[0].Reason})
	require.InDelta(t, 50+11, p.Now.Slots[0].Count, 1)
	ahead(t, began.Add(-time.Hour), 12*time.Hour, p.Now.Slots[1].First) // the last slot by then
}

func TestAPreviewOfAnIntervalHasItsPoliciesAndTheSyncThatIsUnderWay(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--config", `{"url":"file:///a"}`, "--refresh", "60m", "--spread", "0", "--deadline", "30m")
	const late = `last_sync_at = clock_timestamp() - interval '265 minutes', next_sync_at = clock_timestamp() - interval '205 minutes',
		slot_at = clock_timestamp() - interval '205 minutes'`
	began := time.Now()
	u.stands(late)
	p := u.foreseen("--next", "5h", "--takes", "10m")
	require.Equal(t, []any{"missed", "too late"}, []any{p.Now.Slots[0].Verdict, p.Now.Slots[0].Reason})
	require.Equal(t, "runs", p.Now.Slots[1].Verdict)
	ahead(t, began, time.Hour, p.Now.Slots[1].First)
	require.Equal(t, 70*time.Minute, p.Now.Slots[2].First.Sub(p.Now.Slots[1].First))
	u.succeed("connectors", "update", "1", "--deadline", "none", "--catch-up", "none")
	u.stands(late)
	require.Equal(t, "not caught up", u.foreseen().Now.Slots[0].Reason)
	movestest.Syncing(t, u.pool(), 1)
	p = u.foreseen("--next", "5h", "--takes", "10m")
	require.Equal(t, "runs", p.Now.Slots[0].Verdict)
	ahead(t, began, 70*time.Minute, p.Now.Slots[0].First)
}

func TestAPreviewRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--config", `{"url":"file:///a"}`, "--cron", "0 3 * * *")
	for set, says := range map[string]string{
		"cron=at noon":    "five fields",
		"colour=red":      "must be FLAG=VALUE, with one of cron, time_zone",
		"once_per":        "must be FLAG=VALUE",
		"once_per=year":   `"year": must be day, week, month or none`,
		"time_zone=Mars":  "Europe/Berlin",
		"deadline=5":      "write 30m, 2h or 7d",
		"config={}":       "must be FLAG=VALUE",
		"catch_up_most=0": "must be 1 to 1000",
	} {
		out := u.run("schedule", "preview", "1", "--set", set)
		require.Equal(t, 2, out.code, set)
		require.Contains(t, out.stderr, says, set)
	}
	require.Contains(t, u.run("schedule", "preview", "7").stderr, "there is no connector 7")
	require.Equal(t, 2, u.run("schedule", "preview", "1", "--next", "1d", "--last", "1d").code)
}

func TestAConnectorSaysWhetherItIsAsFreshAsItShouldBe(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--config", `{"url":"file:///a"}`, "--refresh", "7d", "--fresh-within", "1d")
	require.Contains(t, u.succeed("connectors", "get", "1"), "never: no sync has completed")
	u.stands(`last_sync_at = clock_timestamp() - interval '2 days'`)
	require.Contains(t, u.succeed("connectors", "get", "1"), "late: last synced 2d ago, may be 1d old")
	require.Contains(t, u.succeed("why", "1"), "freshness: late: last synced 2d ago, may be 1d old")
	require.Regexp(t, `FRESHNESS(.|\n)*late`, u.succeed("connectors", "list", "-o", "wide"))
	require.Contains(t, u.succeed("connectors", "list", "-o", "json"), `"state": "late"`)
	u.succeed("connectors", "update", "1", "--fresh-within", "none")
	require.Contains(t, u.succeed("connectors", "get", "1"), "unknown: last synced 2d ago; nobody has said how old it may be")
	require.NotContains(t, u.succeed("why", "1"), "freshness")
	refused := u.run("connectors", "update", "1", "--fresh-within", "400d")
	require.NotZero(t, refused.code)
	require.Contains(t, refused.stderr, "write 30m, 2h or 7d, at most 365d, or none")
}
