//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// finishing is a subscriber that has finished the one run of a type whose cap is full, and does not commit.
func (s *stage) finishing(scheduler *Scheduler) pgx.Tx {
	s.Helper()
	s.do(scheduler.Tick(s.Context()))
	want(s, true, `SELECT waits FROM waiting_types WHERE name = 'web'`)
	id := one[int32](s, `SELECT min(connector_id) FROM open_runs WHERE picked_up_at IS NULL`)
	try := s.pickUp(id, time.Minute)
	tx, err := s.servers.Pool.Begin(s.Context())
	s.do(err)
	s.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	var finished bool
	s.do(tx.QueryRow(s.Context(), `SELECT moves.finish($1, $2)`, try.Run, try.ID).Scan(&finished))
	if !finished {
		s.Fatal("the run was not the try's")
	}
	return tx
}

func capped(places int) func(*Config) {
	return func(cfg *Config) { cfg.MaxConcurrentSyncs = places }
}

func TestAFinishThatStaysOpenHoldsUpNobodyOfItsType(t *testing.T) {
	s := setStage(t)
	s.connectors(4)
	s.finishing(s.scheduler(capped(1)))
	s.exec(`SET lock_timeout = '200ms'; INSERT INTO connectors (name, type, user_id) VALUES ('x', 'web', 1); RESET lock_timeout`)
	s.exec(`SET lock_timeout = '200ms'; UPDATE connector_types SET max_concurrent_syncs = 3 WHERE name = 'web'; RESET lock_timeout`)
	s.do(s.scheduler(capped(1)).Tick(t.Context()))
	want(s, 3, `SELECT count(*) FROM open_runs`)
}

func TestACapThatSomebodyIsChangingHoldsUpNoClaim(t *testing.T) {
	s := setStage(t)
	s.connectors(1)
	s.connector(row{"type": "file"})
	tx, err := s.servers.Pool.Begin(t.Context())
	s.do(err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `SET ROLE echomind_console; UPDATE connector_types SET max_concurrent_syncs = 7`)
	s.do(err)
	s.do(s.scheduler(capped(5)).Tick(t.Context()))
	want(s, 2, `SELECT count(*) FROM open_runs`)
}

// The first verdict holds the wake and does not commit; the place of the second is found without it.
func TestAPlaceThatNobodyWasWokenForIsTakenAllTheSame(t *testing.T) {
	s := setStage(t)
	s.connectors(4)
	scheduler := s.scheduler(capped(2))
	s.run(scheduler)
	s.eventually(wakes, s.countIs(2, `SELECT count(*) FROM open_runs`))
	s.finishing(s.scheduler(capped(2)))
	id := one[int32](s, `SELECT connector_id FROM open_runs WHERE picked_up_at IS NULL`)
	s.complete(id)
	s.eventually(pollEvery+5*time.Second, s.countIs(1, `SELECT count(*) FROM open_runs WHERE picked_up_at IS NULL`))
}
