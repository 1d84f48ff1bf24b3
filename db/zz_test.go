package db_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

func TestZZ(t *testing.T) {
	b := newBase(t)
	began := time.Now()
	b.exec(`DO $$ DECLARE w timestamptz := date_trunc('week', now(), 'UTC') - interval '20 weeks'; s timestamptz; BEGIN
		FOR n IN 0..19 LOOP s := w + make_interval(days => 7*n);
		EXECUTE format('CREATE TABLE %I PARTITION OF runs FOR VALUES FROM (%L) TO (%L)', 'runs_' || to_char(s AT TIME ZONE 'UTC', 'YYYYMMDD'), s, s + interval '7 days');
		END LOOP; END $$`)
	ins := func(from string, n int) {
		b.exec(fmt.Sprintf(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, config_version, completed_at, status)
		SELECT gen_random_uuid(), 1 + i %% 100000, 'web', 'schedule', at, at, 1, at, 'completed' FROM (SELECT i, %s + i * (interval '1 day' * 140 / %d) AS at FROM generate_series(0, %d) i) q`, from, n, n-1))
	}
	ins(`date_trunc('week', now(), 'UTC') - interval '20 weeks'`, 5_000_000)
	t.Logf("filled in %s, size %s", time.Since(began), one[string](b, `SELECT pg_size_pretty(sum(pg_total_relation_size(inhrelid))) FROM pg_inherits WHERE inhparent = 'runs'::regclass`))
	b.exec(`INSERT INTO runs_rest (id, connector_id, type, trigger, due_at, started_at, config_version, completed_at, status)
		SELECT gen_random_uuid(), 1 + i % 100000, 'web', 'schedule', at, at, 1, at, 'completed' FROM (SELECT i, now() - interval '300 days' + i * interval '1 second' AS at FROM generate_series(0, 1000000) i) q`)
	b.exec(`ANALYZE`)
	t.Logf("rest 1M: %s heap", one[string](b, `SELECT pg_size_pretty(pg_relation_size('runs_rest'))`))
	var most atomic.Int64
	var n atomic.Int64
	stop := make(chan bool)
	v := b.other()
	done := make(chan bool)
	id := v.synced()
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			r := v.pending(id)
			at := time.Now()
			v.exec(`SELECT moves.release($1, gen_random_uuid())`, r)
			most.Store(max(most.Load(), int64(time.Since(at))))
			n.Add(1)
		}
	}()
	for range 8 {
		at := time.Now()
		var d, r int
		if err := b.conn.QueryRow(t.Context(), `SELECT dropped, removed FROM moves.keep_ledger('90 days')`).Scan(&d, &r); err != nil {
			t.Log(err)
		}
		t.Logf("keep_ledger: %s dropped %d removed %d; longest verdict %s of %d", time.Since(at), d, r, time.Duration(most.Swap(0)), n.Load())
	}
	// making weeks over a rest of 1M
	b.exec(`DO $$ DECLARE c text; BEGIN FOR c IN SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent='runs'::regclass AND inhrelid::regclass::text > 'runs_' || to_char(now() + interval '3 days', 'YYYYMMDD') AND inhrelid::regclass::text <> 'runs_rest' LOOP EXECUTE 'DROP TABLE ' || c; END LOOP; END $$`)
	most.Store(0)
	at := time.Now()
	b.exec(`SELECT moves.keep_ledger('90 days')`)
	t.Logf("making two weeks over a rest of 1M rows: %s, longest verdict %s", time.Since(at), time.Duration(most.Load()))
	// a reader holds runs
	rd := b.other()
	rd.exec(`BEGIN`)
	rd.exec(`SELECT count(*) FROM (SELECT FROM runs LIMIT 1) x`)
	most.Store(0)
	at = time.Now()
	_, err := b.conn.Exec(t.Context(), `SELECT moves.keep_ledger('90 days')`)
	t.Logf("behind a reader: %s %v, longest verdict %s", time.Since(at), err, time.Duration(most.Load()))
	rd.exec(`COMMIT`)
	close(stop)
	<-done
	rows, _ := b.conn.Query(t.Context(), `EXPLAIN (ANALYZE, BUFFERS) SELECT moves.keep_ledger('90 days')`)
	for rows.Next() {
		var s string
		_ = rows.Scan(&s)
		t.Log(s)
	}
	rows, _ = b.conn.Query(t.Context(), `EXPLAIN (ANALYZE, BUFFERS) SELECT * FROM scheduler_runs WHERE connector_id = 77 ORDER BY started_at DESC LIMIT 20`)
	for rows.Next() {
		var s string
		_ = rows.Scan(&s)
		t.Log(s)
	}
	rows, _ = b.conn.Query(t.Context(), `EXPLAIN (ANALYZE, BUFFERS) SELECT connector_id FROM runs WHERE id = gen_random_uuid()`)
	for rows.Next() {
		var s string
		_ = rows.Scan(&s)
		t.Log(s)
	}
}
