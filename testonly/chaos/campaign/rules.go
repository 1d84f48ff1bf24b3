package campaign

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/world"
)

const (
	// typeJob asks conditions before it runs.
	typeJob = "errand"
	// steady is a calendar that nobody changes, turning one that is changed all the time.
	steady, turning = "steady", "turning"
	// held is the first owner whose connectors blackout windows hold: theirs have no other owner.
	held, holders = 91, 3
	// calendarMinutes is how far the calendars go, behind now and ahead.
	calendarBehind, calendarAhead = 10, 90
)

// matters are what conditions ask about: always and never stay as they are, the others change.
var matters = []string{"always", "never", "matter 0", "matter 1", "matter 2", "matter 3", "matter 4", "matter 5"}

// standings are how a matter may stand. What raises, is slow or has no answer is rare: each failure puts its job off for minutes.
var standings = []string{"met", "met", "met", "met", "not met", "not met", "not met", "not met", "null", "raises", "slow"}

// conditions are those of the harness. Both ask the same.
var conditions = []string{"stands_well", "stands_well_too"}

// entries are those of a calendar: every other minute, about, is on it.
func entries(rng *rand.Rand) ([]byte, error) {
	type entry struct {
		Name  string `json:"name"`
		Start string `json:"start"`
		End   string `json:"end"`
	}
	const minute = "2006-01-02T15:04"
	all := []entry{}
	begin := time.Now().UTC().Truncate(time.Minute)
	for i := -calendarBehind; i < calendarAhead; i++ {
		if rng.IntN(2) == 0 {
			at := begin.Add(time.Duration(i) * time.Minute)
			all = append(all, entry{fmt.Sprint("time ", rng.IntN(3)), at.Format(minute), at.Add(time.Minute).Format(minute)})
		}
	}
	return json.Marshal(all)
}

// addRules adds conditions, calendars, and n connectors whose schedules have rules of every kind: jobs, and synthetic ones.
func addRules(ctx context.Context, w *world.World, n int, rng *rand.Rand) error {
	_, err := w.Pool.Exec(ctx, `INSERT INTO connector_types (name, kind, max_concurrent_syncs) VALUES ($1, 'job', 0)`, typeJob)
	for i, name := range matters {
		stands := standings[rng.IntN(len(standings))]
		if i < 2 {
			stands = []string{"met", "not met"}[i]
		}
		if err == nil {
			_, err = w.Pool.Exec(ctx, `INSERT INTO chaos.matters VALUES ($1, $2)`, name, stands)
		}
	}
	for _, name := range conditions {
		if err == nil {
			_, err = w.Pool.Exec(ctx, `INSERT INTO conditions (name, query, timeout_ms) VALUES ($1, $2, 1000)`, name, audit.Asks)
		}
	}
	for _, name := range []string{steady, turning} {
		text, problem := entries(rng)
		if err == nil {
			err = problem
		}
		if err == nil {
			_, err = w.Pool.Exec(ctx, `INSERT INTO calendars (name, time_zone, entries) VALUES ($1, 'UTC', $2)`, name, text)
		}
	}
	for i, act := range blackouts {
		if err == nil {
			_, err = w.Pool.Exec(ctx, act, i)
		}
	}
	for i := 0; i < n && err == nil; i++ {
		err = addRuled(ctx, w, i, rng)
	}
	if err == nil {
		err = w.Force(ctx, `UPDATE connectors SET planned_through = last_sync_at
			WHERE name LIKE 'ruled %' AND last_sync_at < created_at AND status = 'ACTIVE'`)
	}
	return wrap("add schedules with rules", err)
}

// blackouts are statements that add windows: of a calendar that stays and one that turns, of each mode, by owner and by type.
var blackouts = []string{
	`INSERT INTO blackouts (name, calendar, mode, spread_minutes, user_id) VALUES ('steady', '` + steady + `', 'skip', 0, 91 + $1)`,
	`INSERT INTO blackouts (name, calendar, mode, spread_minutes, user_id) VALUES ('turning', '` + turning + `', 'defer', $1, 91 + $1)`,
	`INSERT INTO blackouts (name, calendar, mode, spread_minutes, user_id, type) VALUES ('typed', '` + turning + `', 'defer', $1 / 2, 91 + $1, '` + typeSynthetic + `')`,
}

// addRuled adds a connector that is due every minute and has some rules. Half of them have slots that passed while nobody was there.
func addRuled(ctx context.Context, w *world.World, i int, rng *rand.Rand) error {
	kind, config := typeSynthetic, map[string]any{"seed": rng.IntN(1 << 30), "documents": 2, "changes": 1, "milliseconds": rng.IntN(400), "mode": "delta"}
	var condition, calendar, oncePer *string
	if i%5 < 2 {
		kind, config = typeJob, map[string]any{"matter": matters[rng.IntN(len(matters))], "milliseconds": rng.IntN(400)}
		condition = &conditions[rng.IntN(len(conditions))]
	} else if rng.IntN(4) == 0 {
		config["trouble"], config["every"] = "fail", 1
	}
	if rng.IntN(2) == 0 {
		calendar = &[]string{steady, turning}[rng.IntN(2)]
	}
	if rng.IntN(4) == 0 || config["trouble"] != nil && i%2 == 0 {
		oncePer = &[]string{"day", "week", "month"}[rng.IntN(3)]
	}
	var deadline *int
	if rng.IntN(4) == 0 && oncePer == nil {
		deadline = new(int)
		*deadline = 1 + rng.IntN(2)
	}
	catchUp := []string{"none", "latest", "all"}[rng.IntN(3)]
	if oncePer != nil && rng.IntN(2) == 0 {
		catchUp = "all"
	}
	var age *time.Duration
	if i%2 == 0 {
		age = new(time.Duration)
		*age = missedMinutes * time.Minute
	}
	text, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("write a configuration: %w", err)
	}
	owner := 1 + i%5
	if i%3 == 0 {
		owner = held + i/3%holders
	}
	_, err = w.Pool.Exec(ctx, `
		INSERT INTO connectors (name, type, user_id, config, schedule_cron, last_sync_at, condition, calendar, calendar_use, once_per, deadline_minutes, overlap, catch_up)
		VALUES ($1, $2, $3, $4, '* * * * *', clock_timestamp() - $5::interval, $6, $7, $8, $9, $10, $11, $12)`,
		fmt.Sprint("ruled ", i), kind, owner, text, age, condition, calendar, []string{"exclude", "only"}[rng.IntN(2)], oncePer, deadline,
		[]string{"skip", "queue"}[rng.IntN(2)], catchUp)
	return wrap("add a schedule with rules", err)
}

// ruled are connectors of addRuled, some of them each time; no statement of a user waits for the row of another.
const ruled = ` WHERE name LIKE 'ruled %' AND id % 47 = $1 % 47`

// turn has matters and calendars change, and users change the rules of their schedules, until ctx ends.
func turn(ctx context.Context, w *world.World, rng *rand.Rand, log *slog.Logger) {
	for ctx.Err() == nil {
		for _, act := range []string{
			`UPDATE connectors SET once_per = CASE WHEN once_per IS NULL THEN (ARRAY['day', 'week', 'month'])[1 + $1 % 3] END` + ruled,
			`UPDATE connectors SET overlap = CASE overlap WHEN 'skip' THEN 'queue' ELSE 'skip' END, catch_up = (ARRAY['none', 'latest', 'all'])[1 + $1 % 3]` + ruled,
			`UPDATE connectors SET deadline_minutes = CASE WHEN deadline_minutes IS NULL THEN 1 + $1 % 2 END` + ruled,
			`UPDATE connectors SET calendar = CASE WHEN calendar IS NULL THEN '` + turning + `' END` + ruled,
			`UPDATE connectors SET calendar_use = CASE calendar_use WHEN 'only' THEN 'exclude' ELSE 'only' END` + ruled,
			`UPDATE connectors SET condition = CASE condition WHEN 'stands_well' THEN 'stands_well_too' ELSE 'stands_well' END` + ruled + ` AND type = '` + typeJob + `'`,
			`UPDATE conditions SET timeout_ms = 900 + $1 % 200 WHERE name = 'stands_well'`,
			`SELECT moves.disable(id) FROM connectors` + ruled + ` AND status <> 'DISABLED'`,
			`SELECT moves.enable(id) FROM connectors WHERE name LIKE 'ruled %' AND status = 'DISABLED' AND id % 3 = $1 % 3`,
			`DELETE FROM connectors` + ruled + ` AND $1 % 5 = 0`,
		} {
			say(ctx, w, log, act, rng.IntN(1<<30))
		}
		say(ctx, w, log, `UPDATE chaos.matters SET stands = $2 WHERE name = $1`, matters[2+rng.IntN(len(matters)-2)], standings[rng.IntN(len(standings))])
		if text, err := entries(rng); err == nil {
			say(ctx, w, log, `UPDATE calendars SET entries = $2 WHERE name = $1`, turning, text)
		}
		for _, act := range []string{
			`DELETE FROM blackouts WHERE name = 'turning' AND $1 % 7 = 0`,
			`INSERT INTO blackouts (name, calendar, mode, spread_minutes, user_id) VALUES ('turning', '` + turning + `', 'defer', $1 % 2, 91 + $1 % 3)
				ON CONFLICT (name) DO UPDATE SET mode = CASE WHEN blackouts.mode = 'skip' THEN 'defer' ELSE 'skip' END, user_id = EXCLUDED.user_id`,
			`UPDATE blackouts SET except_connectors = CASE WHEN except_connectors IS NULL THEN
				(SELECT array_agg(id) FROM (SELECT id FROM connectors WHERE user_id = 91 + $1 % 3 ORDER BY id LIMIT 5) k) END WHERE name = 'typed'`,
		} {
			say(ctx, w, log, act, rng.IntN(1<<30))
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func say(ctx context.Context, w *world.World, log *slog.Logger, act string, args ...any) {
	asking, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := w.Pool.Exec(asking, act, args...); err != nil && ctx.Err() == nil {
		log.Debug("a user has to wait", "err", err)
	}
}
