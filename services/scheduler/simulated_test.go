package scheduler

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

// simulated is a stage whose Postgres takes the time from the test.
type simulated struct{ *stage }

// setClock gives a test a database in which it is now what the test says.
func setClock(t *testing.T, now time.Time) simulated {
	t.Helper()
	t.Parallel()
	url := testkit.Database(t, db.Up)
	movestest.SetClock(t, url, now)
	s := simulated{setStageOn(t, url)}
	want(s.stage, true, `SELECT clock_timestamp() = $1`, now)
	return s
}

// at lets the clock stand at a moment.
func (s simulated) at(now time.Time) {
	s.Helper()
	s.exec(`UPDATE fake.clock SET at = $1`, now)
}

func utc(text string) time.Time {
	at, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	return at
}

// synced adds a connector with these columns that was synced just now, and plans it.
func (s simulated) synced(columns row) int32 {
	s.Helper()
	all := row{"refresh_freq_minutes": nil, "last_sync_at": one[time.Time](s.stage, `SELECT clock_timestamp()`)}
	for name, value := range columns {
		all[name] = value
	}
	id := s.connector(all)
	s.plan()
	return id
}

// ledger is what became of a connector's slots, in their order: "verdict: reason first-last xN".
func (s simulated) ledger(id int32) []string {
	s.Helper()
	rows, err := s.servers.Pool.Query(s.Context(), `SELECT status || coalesce(': ' || reason, '') ||
			to_char(slot AT TIME ZONE 'UTC', ' DD HH24:MI') || coalesce(to_char(slot_last AT TIME ZONE 'UTC', '-DD HH24:MI') || ' x' || missed_count, '')
		FROM scheduler_runs WHERE connector_id = $1 AND slot IS NOT NULL ORDER BY slot, started_at`, id)
	s.do(err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	s.do(err)
	return lines
}

// next is when a connector is due next, in UTC.
func (s simulated) next(id int32) string {
	s.Helper()
	return one[string](s.stage, `SELECT coalesce(to_char(next_sync_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'), '-') FROM connectors WHERE id = $1`, id)
}
