package db_test

import (
	"fmt"
	"strings"
	"testing"
)

// weeks are the ledger's, by the day on which each begins.
func (b *base) weeks() string {
	b.Helper()
	return one[string](b, `SELECT string_agg(right(inhrelid::regclass::text, 8), ' ' ORDER BY 1) FROM pg_inherits
		WHERE inhparent = 'runs'::regclass AND inhrelid <> 'runs_rest'::regclass`)
}

// olderWeek makes a week of the ledger that ended this many weeks ago, with a run in it, and one in the rest.
func (b *base) olderWeek(weeks int) {
	b.Helper()
	b.exec(`DO $$ DECLARE begins timestamptz := date_trunc('week', now(), 'UTC') - make_interval(weeks => ` + fmt.Sprint(weeks) + `); BEGIN
		EXECUTE format('CREATE TABLE %I PARTITION OF runs FOR VALUES FROM (%L) TO (%L)',
			'runs_' || to_char(begins AT TIME ZONE 'UTC', 'YYYYMMDD'), begins, begins + interval '7 days');
		INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, config_version, completed_at, status)
			SELECT gen_random_uuid(), 1, 'web', 'new', at, at, 1, at, 'completed' FROM unnest(ARRAY[begins, begins - interval '7 weeks']) at;
	END $$`)
}

func TestTheLedgerDropsOldWeeksAndMakesNewOnes(t *testing.T) {
	b := newBase(t)
	fresh := b.weeks()
	if n := len(strings.Fields(fresh)); n != 3 {
		t.Errorf("a new schema has %d weeks: %s", n, fresh)
	}
	b.olderWeek(5)
	b.olderWeek(3)
	b.moves("(0,2)", `SELECT moves.keep_ledger('42 days')`) // of the rest, what is too old
	b.moves("(1,0)", `SELECT moves.keep_ledger('22 days')`)
	b.moves("(0,0)", `SELECT moves.keep_ledger('22 days')`)
	if n := one[int](b, `SELECT count(*) FROM runs`); n != 1 {
		t.Errorf("%d runs are left", n)
	}
	b.moves("(1,0)", `SELECT moves.keep_ledger('1 day')`)
	if weeks := b.weeks(); weeks != fresh {
		t.Errorf("the weeks are %s, want %s", weeks, fresh)
	}
	for _, retention := range []string{`'0'`, `'-1 year'`, `NULL`, `'23 hours'`} {
		if got := b.asked(`SELECT moves.keep_ledger(` + retention + `)`); !strings.Contains(got, "at least 1 day") {
			t.Errorf("retention %s: %s", retention, got)
		}
	}
	b.exec(`DROP TABLE runs_` + strings.Fields(fresh)[0])
	id := b.synced() // a verdict without a week
	if n := one[int](b, `SELECT count(*) FROM runs_rest WHERE connector_id = $1`, id); n != 1 {
		t.Errorf("%d verdicts in the rest", n)
	}
	b.exec(`SELECT moves.keep_ledger('90 days')`) // which stays unmade
	b.complete(id)
}

func TestKeepingTheLedgerHoldsUpVerdictsForHalfASecondAtMost(t *testing.T) {
	b := newBase(t)
	id := b.in("PENDING")
	run := b.run(id)
	b.olderWeek(5)
	reader, mover := b.other(), b.other()
	reader.exec(`BEGIN`)
	reader.exec(`SELECT count(*) FROM runs`)
	kept := b.waits(`SELECT moves.keep_ledger('7 days')`)
	mover.moves("true", `SELECT moves.release($1, $2)`, run, "00000000-0000-0000-0000-000000000001")
	if bound := one[bool](b, `SELECT 'lock_timeout=500ms' = ANY (proconfig) FROM pg_proc WHERE proname = 'keep_ledger'`); !bound {
		t.Error("a verdict may wait for longer than half a second")
	}
	if got := kept(); !strings.Contains(got, "55P03") {
		t.Errorf("keep_ledger behind a reader: %s", got)
	}
	reader.exec(`COMMIT`)
	b.moves("(1,1)", `SELECT moves.keep_ledger('7 days')`)
}
