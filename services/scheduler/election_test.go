package scheduler

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/services/scheduler/leader"
)

func byPostgres(cfg *Config) { cfg.Election.By = leader.ByPostgres }

// says is nil when a scheduler's readiness says this of its leadership.
func (s *stage) says(scheduler *Scheduler, want string) func() error {
	return func() error {
		if got := scheduler.ready.Notes()["scheduler.leadership"]; got != want {
			return fmt.Errorf("it says %q, want %q", got, want)
		}
		return nil
	}
}

// elected is a running leader, with a standby beside it.
func (s *stage) elected(change ...func(*Config)) (first, second metered, stop func()) {
	s.Helper()
	member := func() metered { return s.metered(append([]func(*Config){byPostgres}, change...)...) }
	first = member()
	stop = s.run(first.Scheduler)
	s.eventually(5*time.Second, s.says(first.Scheduler, "leader"))
	second = member()
	s.run(second.Scheduler)
	s.listening(second.Scheduler)
	return first, second, stop
}

// endLeader ends the session that holds the leader's lock.
func (s *stage) endLeader() {
	s.Helper()
	want(s, 1, `SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
}

func TestAStandbyIsReadyAndDoesNothing(t *testing.T) {
	s := setStage(t)
	lost, abandoned := s.connector(nil), s.connector(nil)
	s.claim(s.scheduler())
	s.pickUp(abandoned, gone)
	s.age(time.Hour)
	first, second, _ := s.elected(func(cfg *Config) { cfg.WatchIntervalSeconds, cfg.LeaseSeconds = 1, 1 })
	s.connectors(20)
	s.eventually(10*time.Second, s.countIs(2, `SELECT count(*) FROM open_runs WHERE connector_id = ANY($1) AND picked_up_at IS NULL
		AND dispatched_at > now() - interval '1 minute'`, []int32{lost, abandoned}))
	s.eventually(5*time.Second, s.messagesAre(22))

	if _, problems := second.ready.Ask(t.Context()); len(problems) > 0 {
		t.Errorf("the standby is not ready: %v", problems)
	}
	s.do(s.says(second.Scheduler, "standby")())
	first.values(map[string]float64{
		"scheduler_leader": 1, "scheduler_jobs_total": 22, "scheduler_republished_total": 1, "scheduler_rescued_total": 1,
	})
	second.values(map[string]float64{"scheduler_leader": 0, "scheduler_pending_syncs": 0})
	for _, name := range []string{
		"scheduler_jobs_total", "scheduler_republished_total", "scheduler_rescued_total", "scheduler_sync_duration_seconds",
	} {
		if families := second.families(name); len(families) > 0 {
			t.Errorf("the standby counts %s: %v", name, families)
		}
	}
}

func TestTheNextLeaderTicksAtOnceButRescuesNobodyForALease(t *testing.T) {
	s := setStage(t)
	abandoned := s.connector(nil)
	session := s.syncing(abandoned, gone).Run
	_, second, stop := s.elected(rarely, func(cfg *Config) { cfg.WatchIntervalSeconds, cfg.LeaseSeconds = 1, 600 })
	stop()
	due := s.connector(nil)
	begun := time.Now()
	s.eventually(3*time.Second, s.countIs(1, `SELECT count(*) FROM connectors WHERE id = $1 AND status = 'PENDING'`, due))
	t.Logf("dispatched %s after a clean stop", time.Since(begun).Round(time.Millisecond))
	s.do(s.says(second.Scheduler, "leader")())

	s.eventually(10*time.Second, func() error {
		for _, look := range second.families("scheduler_look_left") {
			if look.GetLabel()[0].GetValue() == "workers" {
				return nil
			}
		}
		return errors.New("it has not looked")
	})
	if !second.leases.Held() {
		t.Error("the patience did not begin with its leadership")
	}
	want(s, session, `SELECT run_id FROM connectors WHERE id = $1`, abandoned)
}

func TestATickThatHangsEndsWithTheLeadership(t *testing.T) {
	s := setStage(t)
	first, _, _ := s.elected(rarely, func(cfg *Config) { cfg.MaxConcurrentSyncs = 5 })
	conn, err := pgx.Connect(t.Context(), s.url)
	s.do(err)
	defer func() { _ = conn.Close(t.Context()) }()
	_, err = conn.Exec(t.Context(), `BEGIN; SELECT pg_advisory_xact_lock(hashtext('echomind.claim'), hashtext('web'))`)
	s.do(err)
	s.connector(nil)
	s.eventually(5*time.Second, s.countIs(1, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
		AND wait_event = 'advisory' AND application_name = 'echomind-test'`))

	begun := time.Now()
	s.endLeader()
	s.eventually(time.Second, s.says(first.Scheduler, "standby"))
	t.Logf("the tick ended %s after the lock was lost", time.Since(begun).Round(time.Millisecond))
}

func TestSchedulersWithoutElectionAllWork(t *testing.T) {
	s := setStage(t)
	for range 2 {
		scheduler := s.scheduler(rarely)
		s.run(scheduler)
		s.eventually(5*time.Second, s.says(scheduler, "no election"))
		s.eventually(5*time.Second, func() error { return scheduler.candidate.IsLeader(t.Context()) })
	}
	s.connectors(50)
	s.eventually(5*time.Second, s.messagesAre(50))
}

func TestAProgramWithoutKubernetesSaysSo(t *testing.T) {
	s := setStage(t)
	cfg := s.config()
	cfg.Election.By = leader.ByKubernetes
	if err := Run(t.Context(), cfg, s.process()); !errors.Is(err, errNoKubernetes) {
		t.Errorf("Run returned %v", err)
	}
}
