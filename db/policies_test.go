package db_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestAPolicyThatCannotBeSaysItsNameItsValueAndTheFix(t *testing.T) {
	b := newBase(t)
	b.exec(connector)
	for sql, says := range map[string]string{
		`UPDATE connectors SET spread_percent = 101`:     "spread_percent is 101; write 0 (off) to 100",
		`UPDATE connectors SET spread_percent = NULL`:    "spread_percent is null; write 0 (off) to 100",
		`UPDATE connectors SET deadline_minutes = 0`:     "deadline_minutes is 0; write 1 to 525600, or null for none",
		`UPDATE connectors SET overlap = 'run'`:          "overlap is 'run'; write skip or queue",
		`UPDATE connectors SET overlap = NULL`:           "overlap is null; write skip or queue",
		`UPDATE connectors SET once_per = 'year'`:        "once_per is 'year'; write day, week or month, or null",
		`UPDATE connectors SET catch_up = 'some'`:        "catch_up is 'some'; write none, latest or all",
		`UPDATE connectors SET catch_up_most = 1001`:     "catch_up_most is 1001; write 1 to 1000",
		`UPDATE connectors SET fresh_within_minutes = 0`: "fresh_within_minutes is 0; write 1 to 525600, or null for any age",
		`UPDATE connectors SET catch_up_minutes = -1`:    "catch_up_minutes is -1; write 1 to 525600, or null for any age",
		`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at, spread_percent)
			VALUES ('docs', 'web', 1, 60, now(), -2147483648)`: "spread_percent is -2147483648; write 0 (off) to 100",
	} {
		_, err := b.conn.Exec(t.Context(), sql)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.ConstraintName != "connectors_policies" || !strings.Contains(pg.Message, says) {
			t.Errorf("%s: %v, want %q", sql, err, says)
		}
	}
}

// 100,000 connectors that were synced at the same moment come due one after another in the tenth of their interval before its end, and
// keep their places.
func TestIntervalsThatBeginTogetherAreSpreadAndKeepTheirRate(t *testing.T) {
	b := newBase(t)
	at := time.Date(2026, 2, 2, 12, 0, 0, 0, time.UTC)
	b.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at)
		SELECT 'c', 'web', 1 + i % 1000, 60, $1 FROM generate_series(1, 20000) i`, at)
	// By how many of a hundred parts of the tenth it is: each has its share, but for one connector in a hundred of them.
	if got := b.asked(`SELECT format('%s parts, %s to %s each', count(*), min(n), max(n)) FROM (SELECT count(*) AS n FROM connectors
			WHERE next_sync_at > $1::timestamptz + interval '54 minutes' AND next_sync_at <= $1::timestamptz + interval '60 minutes' AND slot_at = next_sync_at
			GROUP BY width_bucket(extract(epoch FROM next_sync_at - $1::timestamptz), 54 * 60, 60 * 60, 100)) p`, at); got != "100 parts, 198 to 202 each" {
		t.Error(got)
	}
	// Cycle after cycle, with syncs that take up to as long as the spread: exactly an interval each, and the same place.
	if n := one[int](b, `WITH RECURSIVE cycle AS (
			SELECT id, next_sync_at AS slot, next_sync_at AS first, 0 AS n FROM connectors WHERE id % 100 = 0
			UNION ALL SELECT id, moves.interval_slot(id, slot + random() * interval '359 seconds', 60, 10), first, n + 1 FROM cycle WHERE n < 50)
		SELECT count(*) FROM cycle WHERE slot <> first + n * interval '1 hour'`); n != 0 {
		t.Errorf("%d slots are not an interval behind the one before", n)
	}
	for percent, what := range map[int]string{0: "1 parts, 3600 s", 100: "many parts, 0 to 3600 s", 30: "many parts, 2400 to 3600 s", 1: "many parts, 3564 to 3600 s"} {
		if got := b.asked(`SELECT format(CASE WHEN count(DISTINCT s) = 1 THEN '1 parts, %2$s s' ELSE 'many parts, %1$s to %2$s s' END, floor(min(s)), ceil(max(s)))
			FROM (SELECT extract(epoch FROM moves.interval_slot(i, $1::timestamptz, 60, $2::integer) - $1::timestamptz) AS s FROM generate_series(1, 10000) i) p`, at, percent); got != what {
			t.Errorf("a spread of %d %%: %s, want %s", percent, got, what)
		}
	}
}

func TestTheFirstSyncOfANewConnectorIsAtOnce(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, spread_percent) VALUES ('docs', 'web', 1, 600000, 100)`)
	if got := b.asked(`SELECT due_reason || ' ' || (next_sync_at <= clock_timestamp())::text FROM connectors`); got != "new true" {
		t.Error(got)
	}
}

func TestAChangedSpreadPlansAnewAndLeavesWhatIsPast(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at) VALUES ('docs', 'web', 1, 60, clock_timestamp())`)
	b.exec(`UPDATE connectors SET spread_percent = 0`)
	if got := b.asked(`SELECT (next_sync_at = last_sync_at + interval '1 hour' AND slot_at = next_sync_at)::text FROM connectors`); got != "true" {
		t.Error("it is due at the end of its interval: " + got)
	}
}
