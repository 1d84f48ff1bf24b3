package lifecycle_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
)

func TestASkipWaitsForAStoreThatIsUnderWayAndIsRefused(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	tx, err := f.pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	_, err = tx.Exec(ctx, `UPDATE open_runs SET stored = 1, documents_processed = 1 WHERE id = $1`, c.try.Run)
	require.NoError(t, err)
	skipped := make(chan error, 1)
	go func() { skipped <- f.Skip(ctx, c.try, json.RawMessage(`{"at": 7}`), "nothing new", 0) }()
	require.Eventually(t, func() bool {
		return one[bool](f, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database())`)
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, tx.Commit(ctx))
	require.ErrorContains(t, <-skipped, "has sent something")
	require.Equal(t, "SYNCING", of[string](f, c, "status"))
}

// asked is one of a call for many, good or bad.
type asked struct {
	Connector int32           `json:"connector"`
	Run       *uuid.UUID      `json:"run"`
	Try       uuid.UUID       `json:"try"`
	NewState  json.RawMessage `json:"new_state"`
	Reason    *string         `json:"reason"`
	Unchanged *int64          `json:"unchanged"`
}

// standing is what there is, without what a clock says.
const standing = `SELECT string_agg(row, E'\n' ORDER BY row) FROM (
	SELECT (to_jsonb(c) - 'last_sync_at' - 'over_at' - 'next_sync_at' - 'due_at' - 'slot_at' - 'updated_at')::text AS row FROM connectors c
	UNION ALL SELECT (to_jsonb(o) - 'picked_up_at')::text FROM open_runs o
	UNION ALL SELECT (to_jsonb(r) - 'completed_at' - 'fetched_at')::text FROM runs r
	UNION ALL SELECT (to_jsonb(u) - 'next_at')::text FROM unswept_runs u
	UNION ALL SELECT to_jsonb(w)::text FROM waiting_types w) rows`

// someOf makes connectors of all kinds, each with a try: waiting, under way, and at rest.
func (f *fixture) someOf(worker uuid.UUID) (trips []trip) {
	f.t.Helper()
	for i := range 40 {
		c := f.active()
		switch i % 4 {
		case 0:
			f.exec(`UPDATE connectors SET max_retries = 1 WHERE id = $1`, c.id)
		case 1:
			f.exec(`UPDATE connectors SET refresh_freq_minutes = NULL, schedule_cron = '*/5 * * * *' WHERE id = $1`, c.id)
		case 2:
			f.force(`UPDATE connectors SET failure_count = 2, listing = '{"seen": 1}' WHERE id = $1`, c.id)
		}
		c.try = lifecycle.Try{Run: uuid.New(), ID: uuid.New()}
		if i%5 != 0 {
			c = f.claim(c)
		}
		if i%3 == 0 && i%5 != 0 {
			require.NoError(f.t, f.PickUp(ctx, c.id, c.try, worker, lease))
		}
		if i%2 == 0 && i%5 != 0 {
			f.exec(`SELECT moves.trigger_sync($1)`, c.id)
		}
		trips = append(trips, c)
	}
	f.exec(`INSERT INTO waiting_types VALUES ('file', true) ON CONFLICT (name) DO UPDATE SET waits = true`)
	return trips
}

func someAsked(random *rand.Rand, trips []trip) []asked {
	all := make([]asked, 1+random.IntN(30))
	for i := range all {
		c, other := trips[random.IntN(len(trips))], trips[random.IntN(len(trips))]
		reason, unchanged := fmt.Sprint("why ", i), int64(i)
		a := asked{Connector: c.id, Run: &c.try.Run, Try: c.try.ID, Reason: &reason, Unchanged: &unchanged}
		a.NewState = json.RawMessage([]string{`null`, `{}`, fmt.Sprintf(`{"n": %d}`, i)}[random.IntN(3)])
		switch random.IntN(10) {
		case 0:
			a.Try = uuid.New()
		case 1:
			a.Run = &other.try.Run
		case 2:
			a.Connector = other.id
		case 3:
			a.Run = nil
		case 4:
			a.Reason, a.Unchanged = nil, nil
		}
		all[i] = a
	}
	return all
}

// singly asks for each alone. A skip of what this call has skipped before is answered as it was then.
func singly(f *fixture, tx pgx.Tx, what string, all []asked, worker uuid.UUID) (answers []bool) {
	f.t.Helper()
	skipped := map[uuid.UUID]uuid.UUID{}
	for _, a := range all {
		var done bool
		if what == "pick_up" {
			require.NoError(f.t, tx.QueryRow(ctx, `SELECT moves.pick_up($1, $2, $3, $4, '15 s')`, a.Connector, a.Run, a.Try, worker).Scan(&done))
		} else {
			require.NoError(f.t, tx.QueryRow(ctx, `SELECT moves.skip($1, $2, nullif($3::jsonb, 'null'), $4, $5)`,
				a.Run, a.Try, string(a.NewState), a.Reason, a.Unchanged).Scan(&done))
			if done {
				skipped[a.Try] = *a.Run
			}
			done = done || a.Run != nil && skipped[a.Try] == *a.Run
		}
		answers = append(answers, done)
	}
	return answers
}

// together asks for all in one call.
func together(f *fixture, tx pgx.Tx, what string, all []asked, worker uuid.UUID) (answers []bool) {
	f.t.Helper()
	items, err := json.Marshal(all)
	require.NoError(f.t, err)
	sql, args := `SELECT s.skipped FROM moves.skip_all($1) s ORDER BY place`, []any{items}
	if what == "pick_up" {
		sql, args = `SELECT p.taken FROM moves.pick_up_all($1, $2, '15 s') p ORDER BY place`, []any{items, worker}
	}
	rows, err := tx.Query(ctx, sql, args...)
	require.NoError(f.t, err)
	answers, err = pgx.CollectRows(rows, pgx.RowTo[bool])
	require.NoError(f.t, err)
	return answers
}
