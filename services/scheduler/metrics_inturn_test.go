//go:build !race

package scheduler

import (
	"testing"
	"time"

	"github.com/echomind/sync/sdk/lifecycle"
)

func TestMetricsCountDispatchesAndVerdicts(t *testing.T) {
	s := setStage(t)
	m := s.metered()
	s.connectors(4)
	s.do(m.Tick(t.Context()))
	since, err := m.measureLedger(t.Context(), time.Now().Add(-time.Hour))
	s.do(err)
	s.do(m.measureBacklog(t.Context()))
	m.values(map[string]float64{
		"scheduler_jobs_total": 4, "scheduler_dispatch_lag_seconds": 4, "scheduler_pending_syncs": 4, "scheduler_claimed_total": 4,
	})

	claimed := s.inFlight()
	s.complete(claimed[0].ID)
	s.do(s.moves.Fail(t.Context(), s.pickUp(claimed[1].ID, time.Minute), lifecycle.Transient, "no"))
	s.force(`UPDATE runs SET completed_at = completed_at - interval '10 s'`)
	since, err = m.measureLedger(t.Context(), since.Add(-20*time.Second))
	s.do(err)
	_, err = m.measureLedger(t.Context(), since) // counts nothing twice
	s.do(err)
	s.do(m.measureBacklog(t.Context()))
	m.values(map[string]float64{
		"scheduler_jobs_failed": 1, "scheduler_sync_duration_seconds": 2, "scheduler_verdicts_total": 2, "scheduler_pending_syncs": 2,
	})
}

func TestMetricsCountTheBacklogByTypeAndForgetIt(t *testing.T) {
	s := setStage(t)
	m := s.metered()
	s.connectors(3)
	s.do(m.measureBacklog(t.Context()))
	m.values(map[string]float64{"scheduler_due_connectors": 3, "scheduler_oldest_pending_seconds": 0})
	s.claim(m.Scheduler)
	s.age(pastTheGrace)
	s.pickUp(s.inFlight()[0].ID, gone)
	s.do(s.moves.Fail(t.Context(), s.pickUp(s.inFlight()[1].ID, time.Minute), lifecycle.Transient, "no"))
	s.do(m.measureBacklog(t.Context()))
	m.values(map[string]float64{"scheduler_due_connectors": 0, "scheduler_expired_leases": 1, "scheduler_connectors": 3})
	s.do(s.moves.Drain(t.Context(), s.syncing(s.connector(nil), time.Minute), 1))
	s.do(m.measureBacklog(t.Context()))
	m.values(map[string]float64{"scheduler_draining_runs": 1})
	if age := m.value("scheduler_oldest_drain_seconds"); age <= 0 {
		t.Errorf("what drains has drained for %v s", age)
	}
	if age := m.value("scheduler_oldest_pending_seconds"); age < pastTheGrace.Seconds() {
		t.Errorf("the oldest trigger has waited %v s", age)
	}
	s.force(`UPDATE connectors SET put_off_since = clock_timestamp() - n * interval '1 hour' FROM generate_series(1, 2) n
		WHERE id = (SELECT id FROM connectors ORDER BY id OFFSET n - 1 LIMIT 1)`)
	s.do(m.measureBacklog(t.Context()))
	if age := m.value("scheduler_longest_put_off_seconds"); age < 7200 || age > 7200+60 {
		t.Errorf("the one that is put off longest has been for %v s", age)
	}
	s.force(`UPDATE connectors SET created_at = clock_timestamp() - interval '61 minutes'`)
	s.exec(`UPDATE connectors SET fresh_within_minutes = 60`)
	s.force(`UPDATE connectors SET last_sync_at = clock_timestamp() - n * interval '59 minutes' FROM generate_series(1, 2) n
		WHERE id = (SELECT id FROM connectors ORDER BY id OFFSET n - 1 LIMIT 1)`)
	s.do(m.measureBacklog(t.Context()))
	m.values(map[string]float64{"scheduler_late_connectors": 3}) // one synced too long ago, two never
	s.exec(`UPDATE connectors SET fresh_within_minutes = NULL WHERE last_sync_at IS NULL`)
	s.exec(`DELETE FROM connectors WHERE last_sync_at < clock_timestamp() - interval '1 hour'`)
	s.do(m.measureBacklog(t.Context()))
	m.values(map[string]float64{"scheduler_late_connectors": 0})
	m.forget()
	if left := m.families("scheduler_connectors"); len(left) > 0 {
		t.Errorf("a scheduler that leads no more still says %v", left)
	}
}

func TestMetricsSayWhatTheServersHold(t *testing.T) {
	s := setStage(t)
	m := s.metered()
	s.connectors(2)
	s.do(m.Tick(t.Context()))
	s.do(m.measureStreams(t.Context()))
	s.do(m.measureServer(t.Context()))
	m.values(map[string]float64{"stream_up": 3, "stream_messages": 2, "stream_replicas": 3, "postgres_up": 1})
	for _, name := range []string{"stream_bytes", "stream_max_bytes", "stream_oldest_message_age_seconds", "postgres_connections_used",
		"postgres_connections_max", "postgres_database_bytes"} {
		if m.value(name) <= 0 {
			t.Errorf("%s is %v", name, m.value(name))
		}
	}
	s.do(s.servers.Stream.DeleteStream(t.Context(), "CONNECTOR_SYNC"))
	if err := m.measureStreams(t.Context()); !contains(err, "look at stream CONNECTOR_SYNC") {
		t.Errorf("a stream that is gone is measured: %v", err)
	}
	m.values(map[string]float64{"stream_up": 2})
}

func TestAReasonThatTheLedgerDoesNotKnowIsCountedAsOther(t *testing.T) {
	s := setStage(t)
	m := s.metered()
	for i, reason := range []string{"worker lost", "whatever a subscriber wrote", "another"} {
		s.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, reason, config_version)
			VALUES (gen_random_uuid(), $1, 'web', 'new', now(), now(), now() - interval '1 minute', 'failed', $2, 1)`, i+1, reason)
	}
	_, err := m.measureLedger(t.Context(), time.Now().Add(-10*time.Minute))
	s.do(err)
	m.values(map[string]float64{"scheduler_verdicts_total": 3})
	if n := len(m.families("scheduler_verdicts_total")); n != 2 {
		t.Errorf("%d reasons are told apart", n)
	}
}

func TestMetricsCountMoreVerdictsThanAPage(t *testing.T) {
	s := setStage(t)
	m := s.metered()
	s.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status,
			config_version)
		SELECT gen_random_uuid(), i, 'web', 'new', now() - interval '1 hour', now() - interval '1 hour',
			now() - interval '1 minute' - make_interval(secs => i * 0.001), 'failed', 1 FROM generate_series(1, 2500) i`)
	_, err := m.measureLedger(t.Context(), time.Now().Add(-10*time.Minute))
	s.do(err)
	m.values(map[string]float64{"scheduler_jobs_failed": 2500, "scheduler_sync_duration_seconds": 2500})
}

func TestMetricsCountWhatWentMissing(t *testing.T) {
	s := setStage(t)
	m := s.metered(impatient)
	s.connectors(1)
	s.claim(m.Scheduler)
	s.age(pastTheGrace)
	s.do(m.Republish(t.Context()))
	s.pickUp(s.inFlight()[0].ID, gone)
	s.do(m.Rescue(t.Context()))
	m.values(map[string]float64{"scheduler_republished_total": 1, "scheduler_rescued_total": 1})
}
