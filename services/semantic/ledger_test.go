//go:build !race

// What Postgres decides is the same under the race detector.

package semantic

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func (f *fixture) keepsLedger() LedgerKept {
	f.t.Helper()
	kept, err := f.KeepLedger(ctx, time.Now().Add(soon))
	require.NoError(f.t, err)
	return kept
}

func (f *fixture) keepsAudit() {
	f.t.Helper()
	_, err := f.KeepAudit(ctx, time.Now().Add(soon))
	require.NoError(f.t, err)
}

func TestTheLedgerDropsOldWeeksAndKeepsTheYoung(t *testing.T) {
	f := newFixture(t)
	older, old, young := f.week(130, 30), f.week(110, 30), f.week(80, 30)
	f.keepsLedger()
	require.Equal(t, []bool{false, false, true}, []bool{f.hasTable(older), f.hasTable(old), f.hasTable(young)})
	require.Equal(t, int64(30), f.count("runs"))
}

func TestTheLedgerIsKeptWithoutReadingIt(t *testing.T) {
	f := newFixture(t)
	old := f.week(110, 10)
	f.week(80, 10)
	for _, table := range many[string](f, `SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'runs'::regclass AND c.relname NOT IN ('runs_rest', $1)`, old) {
		f.holds(`LOCK TABLE ` + table + ` IN ACCESS EXCLUSIVE MODE`) // its readers wait
	}
	f.keepsLedger()
	require.False(t, f.hasTable(old))
}

func TestWhatNoWeekTookIsRemovedInBatches(t *testing.T) {
	f := newFixture(t)
	f.exec(`CREATE TABLE deletions (n bigint)`)
	f.exec(`CREATE FUNCTION count_deletions() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO deletions SELECT count(*) FROM gone; RETURN NULL; END $$`)
	f.exec(`CREATE TRIGGER count_deletions AFTER DELETE ON runs_rest REFERENCING OLD TABLE AS gone
		FOR EACH STATEMENT EXECUTE FUNCTION count_deletions()`)
	f.past(time.Now().AddDate(0, 0, -100), 12_000)
	f.past(time.Now().AddDate(0, 0, -30), 100)
	f.keepsLedger()
	require.Equal(t, int64(100), f.count("runs_rest"))
	require.Equal(t, int64(12_000), one[int64](f, `SELECT sum(n)::bigint FROM deletions`))
	require.LessOrEqual(t, one[int64](f, `SELECT max(n) FROM deletions`), int64(5_000))
}

func TestTheLedgerHasTheWeeksToCome(t *testing.T) {
	f := newFixture(t)
	f.exec(`DROP TABLE ` + "runs_" + one[time.Time](f, `SELECT date_trunc('week', clock_timestamp(), 'UTC') + interval '7 days'`).UTC().Format("20060102"))
	f.keepsLedger()
	for _, weeks := range []int{0, 1, 2} {
		begins := one[time.Time](f, `SELECT date_trunc('week', clock_timestamp(), 'UTC') + make_interval(days => 7 * $1)`, weeks).UTC()
		require.True(t, f.hasTable("runs_"+begins.Format("20060102")))
	}
	f.keepsLedger()
}

func TestAReaderOfTheLedgerHoldsUpNoVerdictAndOnlyTheKeeping(t *testing.T) {
	f := newFixture(t)
	old := f.week(110, 1)
	f.exec(`INSERT INTO workers (id, expires_at) VALUES (gen_random_uuid(), clock_timestamp() - interval '2 hours')`)
	release := f.holds(`SELECT count(*) FROM runs`)
	_, err := f.KeepLedger(ctx, time.Now().Add(soon))
	require.ErrorContains(t, err, "keep the ledger")
	gone, err := f.ForgetWorkers(ctx, time.Now().Add(soon))
	require.NoError(t, err)
	require.EqualValues(t, 1, gone.Workers)
	require.Zero(t, f.count("workers"), "long gone")
	c := f.syncing()
	c.stores(c.completed(0))
	require.Equal(t, "skipped", c.verdict())
	release()
	f.keepsLedger()
	require.False(t, f.hasTable(old))
}

func TestTheAuditForgetsWhatIsOlderThanItsRetention(t *testing.T) {
	f := newFixture(t)
	f.exec(`INSERT INTO audit (at, source, login, person, action, object_id)
		SELECT clock_timestamp() - make_interval(days => 400 - n / 100, hours => -12), 'sql', 'x', 'x', 'x', 'x' FROM generate_series(0, 6999) n`)
	before := f.count("audit")
	f.keepsAudit()
	require.Equal(t, before-3500, f.count("audit"))
	f.keepsAudit()
	require.Equal(t, before-3500, f.count("audit"))
}
