//go:build !race

package scheduler

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/lifecycle"
)

func TestALostWorkersConnectorIsClaimedAgainAtOnce(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	lost := s.syncing(id, gone)
	old := lost.Run
	worker := one[uuid.UUID](s, `SELECT worker_id FROM open_runs WHERE id = $1`, old)
	s.rescue()
	session := s.session(id)
	if session == old {
		t.Fatal("the session is the lost worker's")
	}
	want(s, true, `SELECT status = 'PENDING' AND failure_count = 1 FROM connectors WHERE id = $1`, id)
	want(s, true, `SELECT worker_id IS NULL AND try_id IS NULL AND dispatches = 1 FROM open_runs WHERE connector_id = $1`, id)
	want(s, "failed: worker lost", `SELECT status || ': ' || reason FROM scheduler_runs WHERE id = $1`, old)
	want(s, "running: rescue", `SELECT status || ': ' || trigger FROM scheduler_runs WHERE id = $1`, session)
	s.queued(session)
	fenced, err := s.moves.Heartbeat(t.Context(), worker, time.Minute, []lifecycle.Try{lost})
	s.do(err)
	if !slices.Equal(fenced, []lifecycle.Try{lost}) {
		t.Errorf("the lost worker keeps its run: %v is not its own any more", fenced)
	}
}

func TestWhoLooksForWorkersThatAreLostAgainDoesNotHoldUpARescue(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	lost := s.syncing(id, gone)
	again := s.connector(nil)
	s.force(`UPDATE connectors SET failure_count = 1 WHERE id = $1`, again)
	s.syncing(again, gone)
	s.exec(`UPDATE open_runs SET worker_id = (SELECT worker_id FROM open_runs WHERE id = $1) WHERE connector_id = $2`, lost.Run, again)
	silent := one[string](s, `SELECT jsonb_agg(jsonb_build_object('id', id, 'beats', beats))::text FROM workers`)
	semantic, err := s.servers.Pool.Begin(t.Context())
	s.do(err)
	defer func() { _ = semantic.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = semantic.Exec(t.Context(), `SELECT moves.abandon($1::jsonb, '6 hours', 100)`, silent)
	s.do(err)
	s.rescue()
	want(s, "PENDING", `SELECT status FROM connectors WHERE id = $1`, id)
	// A call that takes a worker's runs keeps its heartbeat waiting until the outcome is known.
	_, err = s.servers.Pool.Exec(t.Context(), `SET lock_timeout = '100ms'; UPDATE workers SET beats = beats + 1; RESET lock_timeout`)
	if !postgres.Locked(err) {
		t.Errorf("a heartbeat came between: %v", err)
	}
}

func TestALiveLeaseIsLeftAlone(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	session := s.syncing(id, time.Minute).Run
	s.rescue()
	want(s, session, `SELECT run_id FROM connectors WHERE id = $1 AND status = 'SYNCING'`, id)
}

func TestARescueIgnoresTheCap(t *testing.T) {
	s := setStage(t)
	s.connectors(4)
	for _, trigger := range s.claim(s.scheduler()) {
		s.pickUp(trigger.ID, gone)
	}
	s.connectors(1)
	scheduler := s.scheduler(func(cfg *Config) { cfg.MaxConcurrentSyncs, cfg.LeaseSeconds = 1, 0 })
	s.do(scheduler.Rescue(t.Context()))
	s.do(scheduler.Tick(t.Context()))
	want(s, 4, `SELECT count(*) FROM connectors WHERE status = 'PENDING' AND failure_count = 1`)
	want(s, 1, `SELECT count(*) FROM connectors WHERE status = 'ACTIVE'`)
}

func TestARescueTakesMoreThanOneBatch(t *testing.T) {
	s := setStage(t)
	s.connectors(7)
	for _, trigger := range s.claim(s.scheduler()) {
		s.pickUp(trigger.ID, gone)
	}
	s.do(s.scheduler(func(cfg *Config) { cfg.ClaimBatch, cfg.LeaseSeconds = 2, 0 }).Rescue(t.Context()))
	want(s, 7, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)
	if n := len(s.messages("web")); n != 7 {
		t.Errorf("%d messages, want 7", n)
	}
}

func TestADrainingRunIsNotRescued(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	try := s.syncing(id, gone)
	s.do(s.moves.Drain(t.Context(), try, 1))
	s.exec(`UPDATE open_runs SET picked_up_at = picked_up_at - interval '1 day'`)
	s.rescue()
	want(s, try.Run, `SELECT run_id FROM connectors WHERE id = $1 AND status = 'SYNCING'`, id)
}

func TestARunOfWhichEverythingIsStoredIsNotRescued(t *testing.T) {
	s := setStage(t)
	kit, foreign := s.connector(nil), s.connector(nil)
	session := s.syncing(kit, gone).Run
	s.pickUpForeign(foreign)
	s.exec(`UPDATE open_runs SET stored = 3, total = 3, whole = true, picked_up_at = clock_timestamp() - interval '7 hours'`)
	s.rescue()
	want(s, session, `SELECT run_id FROM connectors WHERE id = $1 AND status = 'SYNCING'`, kit)
	want(s, 2, `SELECT count(*) FROM scheduler_runs WHERE status = 'running'`)
	s.exec(`UPDATE open_runs SET total = 4, whole = false`)
	s.rescue()
	want(s, 2, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)
}

func TestAForeignSubscriberIsRescuedOnlyAfterItsTimeout(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	session := s.claim(s.scheduler())[0].Session
	s.pickUpForeign(id)
	s.exec(`UPDATE open_runs SET picked_up_at = picked_up_at - interval '5 hours 59 minutes'`)
	s.rescue()
	want(s, session, `SELECT run_id FROM connectors WHERE id = $1`, id)
	s.exec(`UPDATE open_runs SET picked_up_at = picked_up_at - interval '2 minutes'`)
	s.rescue()
	want(s, true, `SELECT status = 'PENDING' AND run_id <> $2 FROM connectors WHERE id = $1`, id, session)
}
