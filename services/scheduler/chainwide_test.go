//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// fan is connectors that each run after the same upstreams, whose ids are 1 and on; its own come next.
func (s *stage) fan(upstreams, followers int) {
	s.Helper()
	s.exec(`INSERT INTO owner_quotas (user_id, max_connectors) VALUES (1, 30000)`)
	s.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'c', 'web', 1 FROM generate_series(1, $1::int)`, upstreams+followers)
	s.exec(`ALTER TABLE run_after DISABLE TRIGGER run_after_audit`)
	for f := upstreams + 1; f <= upstreams+followers; f += 100 {
		s.exec(`INSERT INTO run_after (connector_id, upstream_id) SELECT f, u FROM generate_series($1::int, $2) f, generate_series(1, $3::int) u`, f, min(f+99, upstreams+followers), upstreams)
	}
	s.follow(s.scheduler())
}

// end has runs of connectors end, as moves.note_ends writes it.
func (s *stage) end(from, to int) {
	s.Helper()
	s.exec(`SELECT moves.note_ends(ARRAY(SELECT generate_series($1::int, $2)), 'completed')`, from, to)
}

func TestANarrowChainIsNotBehindAWideFan(t *testing.T) {
	s := setStage(t)
	s.fan(100, 100)
	up := s.byHand()
	narrow := s.link(up)
	scheduler := s.scheduler()
	s.follow(scheduler)
	s.end(1, 100)
	s.end(int(up), int(up))
	s.follow(scheduler)
	want(s, 101, `SELECT count(*)::int FROM connectors WHERE due_reason = 'upstream'`)
	want(s, 0, `SELECT count(*)::int FROM connectors c, connectors n WHERE c.due_reason = 'upstream' AND n.id = $1 AND c.upstreams_met_at < n.upstreams_met_at`, narrow)
}

func TestAnEndIsToldToThoseAloneThatWaitForIt(t *testing.T) {
	for name, order := range map[string]func(i int) int{
		"all at once":           nil,
		"one after the other":   func(i int) int { return i },
		"the last one first":    func(i int) int { return 41 - i },
		"those between go last": func(i int) int { return 1 + (i*17)%40 },
	} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			s.fan(40, 20)
			scheduler := s.scheduler()
			before := one[int](s, `SELECT sum(told)::int FROM followers`)
			if order == nil {
				s.end(1, 40)
			}
			for i := 1; i <= 40 && order != nil; i++ {
				s.end(order(i), order(i))
				s.follow(scheduler)
			}
			s.follow(scheduler)
			want(s, 20, `SELECT count(*)::int FROM connectors WHERE due_reason = 'upstream'`)
			told := one[int](s, `SELECT sum(told)::int FROM followers`) - before
			t.Logf("20 that run after 40 were told %d times", told)
			if told > 20*10 {
				t.Errorf("20 that run after 40 were told %d times, want ten times each at most", told)
			}
		})
	}
}

func TestWhoIsInFlightIsNotToldOfEnds(t *testing.T) {
	s := setStage(t)
	s.fan(30, 10)
	scheduler := s.scheduler()
	s.end(1, 30)
	s.followed(scheduler, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40)
	before := one[int](s, `SELECT sum(told)::int FROM followers`)
	s.end(1, 30)
	s.follow(scheduler)
	want(s, before, `SELECT sum(told)::int FROM followers`)
	for id := range int32(10) {
		s.complete(31 + id)
	}
	s.followed(scheduler, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40)
}

// Somebody's transaction holds the followers row of one of a hundred, and each second the upstream tries again to tell that one.
func TestWhoseRowIsHeldHasTheOthersToldOnce(t *testing.T) {
	s := setStage(t)
	up, other := s.byHand(), s.byHand()
	s.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'c', 'web', 1 FROM generate_series(1, 100)`)
	s.exec(`INSERT INTO run_after (connector_id, upstream_id, timeout_minutes, max_age_minutes) SELECT id, $1, 60, 1 FROM connectors WHERE id > 2`, up)
	s.exec(`INSERT INTO run_after (connector_id, upstream_id) SELECT id, $1 FROM connectors WHERE id > 2`, other)
	scheduler := s.scheduler()
	s.follow(scheduler)
	holder := s.held(`SELECT FROM followers WHERE connector_id = 50 FOR UPDATE`)
	// Its end is too old to count, so that all go on waiting for it.
	s.force(`UPDATE connectors SET claimed_for = clock_timestamp() - interval '1 hour' WHERE id = 1`)
	s.end(1, 1)
	s.follow(scheduler)
	before := one[int](s, `SELECT sum(told)::int FROM followers`)
	for range 5 {
		want(s, 1, `SELECT count(*)::int FROM upstream_ends WHERE tell_at IS NOT NULL`)
		s.exec(`UPDATE upstream_ends SET tell_at = clock_timestamp() WHERE tell_at IS NOT NULL`) // a second later
		s.follow(scheduler)
	}
	want(s, before, `SELECT sum(told)::int FROM followers`)
	s.do(holder.Rollback(t.Context()))
	s.exec(`UPDATE upstream_ends SET tell_at = clock_timestamp() WHERE tell_at IS NOT NULL`)
	s.follow(scheduler)
	want(s, before+1, `SELECT sum(told)::int FROM followers`)
	want(s, 0, `SELECT count(*)::int FROM upstream_ends WHERE tell_at IS NOT NULL`)
}

// A look and an end with the telling of it, in every order that they can have. The look is one of a follower that was told, or one by the clock of a follower that is
// told of another's end: until then.
func TestNoEndIsLostBetweenALookAndWhatItWrites(t *testing.T) {
	s := setStage(t)
	conn, err := pgx.Connect(t.Context(), s.url)
	s.do(err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	scheduler := s.scheduler()
	for start, set := range map[string]string{
		"told":  `UPDATE followers SET look_at = clock_timestamp(), told = told + 1, waits_for = NULL WHERE connector_id = $1 AND $2 > 0`,
		"timed": `UPDATE followers SET look_at = clock_timestamp(), waits_for = $2 WHERE connector_id = $1`,
	} {
		for end := range 5 {
			for tell := end; tell < 5; tell++ {
				v, w := s.byHand(), s.byHand()
				id := s.link(v, w)
				s.end(int(v), int(v))
				s.follow(scheduler)
				s.exec(set, id, v)
				at := func(step int) {
					if step == end {
						s.end(int(w), int(w))
					}
					if step == tell {
						s.exec(`SELECT moves.have_told(e.connector_id, e.no, NULL, e.tell_at, h.held) FROM upstream_ends e, moves.hand_on(e.connector_id, 0, 1000) h WHERE e.connector_id = $1`, w)
					}
				}
				var told int64
				var met bool
				var waitsFor *int32
				s.do(conn.QueryRow(t.Context(), `SELECT told FROM followers WHERE connector_id = $1`, id).Scan(&told))
				at(0)
				tx, err := conn.Begin(t.Context())
				s.do(err)
				s.in(tx, `SELECT FROM moves.lock_followers(ARRAY[$1::int])`, id)
				at(1)
				s.do(tx.QueryRow(t.Context(), `SELECT met, waits_for FROM moves.upstreams_of(ARRAY[$1::int], clock_timestamp())`, id).Scan(&met, &waitsFor))
				at(2)
				if met {
					s.in(tx, `SELECT moves.let_follow(ARRAY[$1::int])`, id)
				} else {
					s.in(tx, `SELECT moves.look_again(ARRAY[$1::int], ARRAY[$2::bigint], ARRAY[NULL::timestamptz], ARRAY[NULL::timestamptz], ARRAY[$3::int])`, id, told, waitsFor)
				}
				at(3)
				s.do(tx.Commit(t.Context()))
				at(4)
				s.exec(`UPDATE upstream_ends SET tell_at = clock_timestamp() WHERE tell_at IS NOT NULL`) // a second later
				s.follow(scheduler)
				if one[string](s, `SELECT coalesce(due_reason, '') FROM connectors WHERE id = $1`, id) != "upstream" {
					t.Errorf("%s: an end at step %d that is told at step %d is lost", start, end, tell)
				}
			}
		}
	}
}

// begun is a transaction on a connection of its own, whose statements the test orders.
func (s *stage) begun() pgx.Tx {
	s.Helper()
	return s.held(`SELECT 1`)
}

func (s *stage) in(tx pgx.Tx, sql string, args ...any) {
	s.Helper()
	_, err := tx.Exec(s.Context(), sql, args...)
	s.do(err)
}

// A user changes a chain and then its connector, in one transaction, while the connector's run ends.
func TestAWriterOfAChainAndItsConnectorDoesNotWaitInACircleWithAVerdict(t *testing.T) {
	s := setStage(t)
	a := s.byHand()
	id := s.link(a)
	scheduler := s.scheduler()
	s.runs(a)
	s.followed(scheduler, id)
	try := s.pickUp(id, time.Minute)
	verdict, writer := s.begun(), s.begun()
	s.in(verdict, `SELECT FROM connectors WHERE id = $1 FOR UPDATE`, id)
	s.in(writer, `UPDATE run_after SET max_age_minutes = 100 WHERE connector_id = $1`, id)
	wrote := make(chan error, 1)
	go func() {
		_, err := writer.Exec(context.WithoutCancel(t.Context()), `UPDATE connectors SET name = 'other' WHERE id = $1`, id)
		wrote <- err
	}()
	s.eventually(10*time.Second, func() error {
		if one[int](s, `SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 0 {
			return errors.New("the writer does not wait for the verdict")
		}
		return nil
	})
	s.in(verdict, `SELECT moves.finish($1, $2)`, try.Run, try.ID)
	s.do(verdict.Commit(t.Context()))
	s.do(<-wrote)
	s.follow(scheduler) // with the row as it was
	s.do(writer.Commit(t.Context()))
	s.runs(a)
	s.followed(scheduler, id)
	want(s, 0, `SELECT count(*)::int FROM changed_followers`)
}

func TestAChangeThatIsWrittenWhileSomebodyHoldsTheConnectorIsLookedAt(t *testing.T) {
	s := setStage(t)
	a := s.byHand()
	id := s.link(a)
	s.exec(`UPDATE run_after SET max_age_minutes = 1`)
	scheduler := s.scheduler()
	s.force(`UPDATE connectors SET claimed_for = clock_timestamp() - interval '1 hour' WHERE id = $1`, a)
	s.end(int(a), int(a))
	s.followed(scheduler)
	holder := s.held(`SELECT FROM connectors WHERE id = $1 FOR UPDATE`, id)
	s.exec(`UPDATE run_after SET max_age_minutes = NULL`)
	s.followed(scheduler)
	s.do(holder.Rollback(t.Context()))
	s.followed(scheduler, id)
}

func TestAnImportedFollowerThatWasChangedInFlightKeepsItsEndsForItsSlot(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	a := s.byHand()
	id := s.connector(row{"refresh_freq_minutes": 60, "spread_percent": 0})
	s.after(id, a)
	scheduler := s.scheduler()
	s.runs(a)
	s.followed(scheduler, id)
	s.exec(`UPDATE connectors SET config = '{"url": "https://b"}' WHERE id = $1`, id)
	want(s.stage, true, `SELECT moves.wait_for_slot($1)`, id)
	s.at(utc("2026-02-02 13:01"))
	s.followed(scheduler, id) // with the end that nobody has used
}
