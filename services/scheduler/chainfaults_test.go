//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// held holds rows until the test ends.
func (s *stage) held(sql string, args ...any) pgx.Tx {
	s.Helper()
	conn, err := pgx.Connect(s.Context(), s.url)
	s.do(err)
	tx, err := conn.Begin(s.Context())
	s.do(err)
	_, err = tx.Exec(s.Context(), sql, args...)
	s.do(err)
	s.Cleanup(func() { _ = conn.Close(context.WithoutCancel(s.Context())) })
	return tx
}

func TestAFollowerThatSomebodyHoldsHoldsUpNobody(t *testing.T) {
	s := setStage(t)
	s.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'c', 'web', 1 FROM generate_series(1, 30)`)
	for up := int32(1); up <= 15; up++ { // 15 upstreams, whose first followers are held
		s.after(up+15, up)
	}
	last := s.link(15)
	alone := s.held(`SELECT FROM connectors WHERE id BETWEEN 16 AND 20 FOR UPDATE`)
	chained := s.held(`SELECT FROM followers WHERE connector_id BETWEEN 21 AND 29 FOR UPDATE`)
	for up := int32(1); up <= 15; up++ {
		s.runs(up)
	}
	scheduler := s.scheduler()
	s.followed(scheduler, 30, last)
	other := s.connector(nil)
	s.followed(scheduler, other) // what is held does not keep its type from being claimed
	s.do(alone.Rollback(t.Context()))
	s.followed(scheduler, 16, 17, 18, 19, 20)
	s.do(chained.Rollback(t.Context()))
	s.exec(`UPDATE upstream_ends SET tell_at = clock_timestamp() WHERE tell_at IS NOT NULL`) // a second later
	s.followed(scheduler, 21, 22, 23, 24, 25, 26, 27, 28, 29)
	want(s, 0, `SELECT count(*)::int FROM upstream_ends WHERE tell_at IS NOT NULL`)
}

func TestAWriterOfAChainHoldsUpNobodyButTheConnectorsThatItWrites(t *testing.T) {
	s := setStage(t)
	a := s.byHand()
	id, second, other := s.link(a), s.link(a), s.byHand()
	s.runs(a)
	// Somebody has changed rows of run_after, and stays away.
	tx := s.held(`UPDATE run_after SET max_age_minutes = 5 WHERE connector_id = $1`, id)
	s.followed(s.scheduler(), second)
	s.complete(second)
	s.runs(a)
	s.followed(s.scheduler(), second)
	s.do(tx.Rollback(t.Context()))
	tx = s.held(`INSERT INTO run_after (connector_id, upstream_id) VALUES ($1, $2)`, other, id)
	s.do(s.scheduler().Follow(t.Context()))
	free := s.connector(nil)
	s.followed(s.scheduler(), free)
	s.do(tx.Rollback(t.Context()))
	s.followed(s.scheduler(), id)
}

func TestAnUpstreamThatIsDeletedOrGivenAwayIsWaitedForNoMore(t *testing.T) {
	s := setStage(t)
	a, b, c := s.byHand(), s.byHand(), s.byHand()
	id := s.link(a, b, c)
	scheduler := s.scheduler()
	s.runs(a)
	s.exec(`DELETE FROM connectors WHERE id = $1`, b)
	s.followed(scheduler)
	s.exec(`UPDATE connectors SET user_id = 2 WHERE id = $1`, c)
	s.followed(scheduler, id)
	s.complete(id)
	want(s, fmt.Sprint(a), `SELECT string_agg(upstream_id::text, ', ') FROM run_after`)
	s.runs(c)
	s.followed(scheduler)
	want(s, fmt.Sprintf("%d true", a), `SELECT string_agg(id || ' ' || followed, ', ') FROM connectors WHERE followed`)
	want(s, 1, `SELECT count(*)::int FROM upstream_ends`)
	s.exec(`UPDATE connectors SET user_id = 2 WHERE id = $1`, id)
	s.followed(scheduler)
	want(s, 0, `SELECT (SELECT count(*) FROM run_after) + (SELECT count(*) FROM followers) + (SELECT count(*) FROM upstream_uses) + (SELECT count(*) FROM connectors WHERE follows)::int`)
	s.runs(a)
	s.followed(scheduler)
	want(s, 0, `SELECT (SELECT count(*) FROM upstream_ends) + (SELECT count(*) FROM connectors WHERE followed)::int`)
}

func TestADeletedConnectorsEdgesAreNotThoseOfAnotherWithItsID(t *testing.T) {
	s := setStage(t)
	a := s.byHand()
	id, other := s.link(a), s.byHand()
	s.runs(a)
	s.exec(`DELETE FROM connectors WHERE id = $1`, a)
	s.connector(row{"id": a, "refresh_freq_minutes": nil})
	s.after(other, a)
	s.followed(s.scheduler())
	s.runs(a)
	s.followed(s.scheduler(), other)
	want(s, fmt.Sprint(other), `SELECT string_agg(connector_id::text, ', ') FROM run_after`)
	want(s, false, `SELECT follows FROM connectors WHERE id = $1`, id)
	s.exec(`DELETE FROM connectors WHERE id = $1`, other)
	want(s, 0, `SELECT (SELECT count(*) FROM run_after) + (SELECT count(*) FROM followers) + (SELECT count(*) FROM upstream_uses)::int`)
}

func TestAnEndBehindManyRowsOfTheLedgerCounts(t *testing.T) {
	s := setStage(t)
	a := s.byHand()
	s.runs(a)
	s.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), $1, 'web', 'retry', now(), now() + make_interval(secs => i), now(), 'failed', 1000 FROM generate_series(1, 5000) i`, a)
	id := s.link(a)
	s.followed(s.scheduler(), id)
	s.complete(id)
	s.followed(s.scheduler())
	s.exec(`UPDATE run_after SET accepts = 'skipped'`)
	s.followed(s.scheduler())
}

func TestAnEndThatIsAddedToAPlanBehindARunWithParametersIsWaitedFor(t *testing.T) {
	s := setStage(t)
	s.exec(`INSERT INTO connector_types (name, kind) VALUES ('refresh', 'job')`)
	a, b := s.byHand(), s.byHand()
	id := s.connector(row{"type": "refresh", "refresh_freq_minutes": nil})
	s.after(id, a)
	scheduler := s.scheduler()
	s.force(`UPDATE connectors SET over_at = clock_timestamp() + interval '1 hour', claimed_at = clock_timestamp() WHERE id = $1`, id) // so that the request goes first
	s.runs(a)
	s.follow(scheduler)
	s.exec(`SELECT moves.trigger_sync($1, parameters => '{"dry": true}')`, id)
	if got := s.claimJobs(scheduler); len(got) != 1 {
		t.Fatalf("claimed %v", got)
	}
	want(s, true, `SELECT parameters IS NOT NULL FROM open_runs WHERE connector_id = $1`, id)
	s.after(id, b)
	try := s.pickUp(id, time.Minute)
	want(s, true, `SELECT moves.end_job($1, $2, '{}')`, try.Run, try.ID)
	s.followed(scheduler)
	want(s, true, `SELECT next_sync_at IS NULL AND due_reason IS NULL FROM connectors WHERE id = $1`, id)
	s.runs(b)
	s.follow(scheduler)
	if got := s.claimJobs(scheduler); len(got) != 1 {
		t.Errorf("claimed %v, want the one whose upstreams have both ended", got)
	}
}

func TestAThousandRunAfterOneAndOneAfterAThousand(t *testing.T) {
	s := setStage(t)
	first := s.byHand()
	s.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'c', 'web', 1 FROM generate_series(1, 1000)`)
	last := s.byHand()
	began := time.Now()
	s.exec(`INSERT INTO run_after (connector_id, upstream_id) SELECT id, $1 FROM connectors WHERE id NOT IN ($1, $2)`, first, last)
	s.exec(`INSERT INTO run_after (connector_id, upstream_id) SELECT $2, id FROM connectors WHERE id NOT IN ($1, $2)`, first, last)
	t.Log("2,000 rows are written in", time.Since(began))
	for _, sql := range []string{`INSERT INTO run_after (connector_id, upstream_id) VALUES ($2, $1)`, `INSERT INTO run_after (connector_id, upstream_id) VALUES ($1, $2)`} {
		if _, err := s.servers.Pool.Exec(t.Context(), sql, first, last); err == nil {
			t.Errorf("%s: no error", sql)
		}
	}
	scheduler := s.scheduler()
	s.runs(first)
	s.follow(scheduler)
	if n := len(s.claim(scheduler)); n != 1000 {
		t.Errorf("%d are claimed, want 1,000", n)
	}
	s.exec(`SELECT moves.pick_up(connector_id, id, gen_random_uuid(), NULL, NULL) FROM open_runs`)
	s.followed(scheduler)
	s.exec(`SELECT moves.finish(id, try_id) FROM open_runs`)
	began = time.Now()
	s.followed(scheduler, last)
	t.Log("a thousand ends let one go in", time.Since(began))
	s.complete(last)
	s.followed(scheduler)
}
