package db_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ledgerOf adds runs to the ledger that ended one a second, the last of them so many seconds ago, of a thousand connectors.
func (b *base) ledgerOf(first, last int) {
	b.Helper()
	b.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, picked_up_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), 1 + n % 1000, (ARRAY['web', 'file'])[1 + n % 2], 'schedule', at, at, at, at, 'completed', 1
		FROM generate_series($1::integer, $2::integer) n, LATERAL (SELECT now() - make_interval(secs => n)) t(at)`, first, last)
}

// What the console reads of a ledger of many weeks is bounded by the limit, or by the time that RunsBack finds, whatever the ledger has.
func TestALookAtTheLedgerReadsWhatItIsAskedForWhateverTheLedgerHas(t *testing.T) {
	b := newBase(t)
	const few, many, back, page, weeks = 20_000, 120_000, 2_000, 100, 50
	const ofOne = many / 1000 // runs of a connector in the week that is read
	for n := 1; n <= weeks; n++ {
		b.exec(fmt.Sprintf(`DO $$ DECLARE begins timestamptz := date_trunc('week', now(), 'UTC') - interval '%d weeks'; BEGIN
			EXECUTE format('CREATE TABLE %%I PARTITION OF runs FOR VALUES FROM (%%L) TO (%%L)',
				'runs_' || to_char(begins AT TIME ZONE 'UTC', 'YYYYMMDD'), begins, begins + interval '7 days');
		END $$`, n))
	}
	b.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'c' || i, 'web', 1 + i % 100 FROM generate_series(1, 1000) i`)
	b.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version)
		SELECT gen_random_uuid(), i, 1, 'web', 'new', now(), now(), now(), 1 FROM generate_series(1, 1000) i`)
	b.exec(`ANALYZE runs, connectors, open_runs`)
	b.exec(`SET plan_cache_mode = force_custom_plan`) // as internal/postgres has it
	b.exec(`SET enable_seqscan = off`)                // and ByIndex of it
	b.exec(`SET enable_bitmapscan = off`)
	ages := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	none := []string{}
	always := pgx.NamedArgs{"since": time.Time{}, "until": time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), "verdicts": none, "types": none,
		"owner": nil, "before": time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), "before_id": uuid.UUID{}, "page": page}
	with := func(more pgx.NamedArgs) pgx.NamedArgs {
		args := maps.Clone(always)
		maps.Copy(args, more)
		return args
	}
	day := ages(24 * time.Hour)
	slice := pgx.NamedArgs{"since": ages(back * time.Second), "verdicts": []string{"failed"}}
	owned := pgx.NamedArgs{"since": ages(back * time.Second), "owner": 7}
	all := []struct {
		name string
		args pgx.NamedArgs
		most int64
	}{
		// Where nothing says since when, the index of each of 50 weeks is entered.
		{"EndedRuns", always, page*2 + weeks*3},
		{"EndedRuns", with(pgx.NamedArgs{"before": ages(time.Hour), "since": ages(2 * time.Hour)}), page * 2},
		{"EndedRuns", with(slice), back / 2},
		{"EndedRuns", with(owned), back / 2},
		{"RunsBack", pgx.NamedArgs{"since": time.Time{}, "until": always["until"], "back": back}, back/2 + weeks*3},
		{"RunsBack", pgx.NamedArgs{"since": day, "until": always["until"], "back": back}, back / 2},
		{"StatRuns", with(pgx.NamedArgs{"since": ages(back * time.Second)}), back / 2},
		{"StatRunsOf", with(pgx.NamedArgs{"since": ages(back * time.Second), "connector_ids": []int32{1, 2, 3}, "most": 100}), 3*ofOne + 40},
		{"RunsOf", with(pgx.NamedArgs{"connector_id": 7, "open": true, "page": 5}), 20 + weeks*3},
		{"RunsOf", with(pgx.NamedArgs{"connector_id": 7, "open": false, "since": ages(time.Hour)}), ofOne + 40},
		{"RunsBetween", pgx.NamedArgs{"least": uuid.UUID{1}, "greatest": uuid.UUID{1, 1}, "page": 10}, 20 + weeks*3},
		{"OpenRuns", always, 1_000},
	}
	ofConnectors := map[string]bool{"RunsOf": true, "StatRunsOf": true}
	looks := queries(t, "console")
	first := make([]int64, len(all))
	for from, to := 1, few; to <= many; from, to = to+1, to+many-few {
		b.ledgerOf(from, to)
		for i, look := range all {
			_, _ = b.explained(looks[look.name], look.args) // what a session reads once of the catalogue
			reads, plan := b.explained(looks[look.name], look.args)
			if first[i] == 0 {
				first[i] = reads
			}
			if reads > look.most || (!ofConnectors[look.name] && reads > first[i]*2+20) {
				t.Errorf("%s (%d) reads %d buffers of a ledger of %d, and %d of one of %d; at most %d:\n%s",
					look.name, i, reads, to, first[i], few, look.most, plan)
			}
		}
	}
}
