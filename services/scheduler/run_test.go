package scheduler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/testonly/testkit"
)

// wakes is within which a notification wakes the scheduler: less than what it would take by polling.
const wakes = pollEvery - time.Second

func rarely(cfg *Config) { cfg.CheckIntervalSeconds = 3600 }

// listening waits until a running scheduler listens.
func (s *stage) listening(scheduler *Scheduler) {
	s.Helper()
	s.eventually(5*time.Second, func() error { return scheduler.listening.check(s.Context()) })
}

func (s *stage) messagesAre(n int) func() error {
	return func() error {
		if got := len(s.messages("web")); got != n {
			return fmt.Errorf("%d messages, want %d", got, n)
		}
		return nil
	}
}

func TestAChangeReachesTheStreamInWellUnderASecond(t *testing.T) {
	s := setStage(t)
	quiet := s.connector(row{"refresh_freq_minutes": nil})
	scheduler := s.scheduler(rarely)
	s.run(scheduler)
	s.listening(scheduler)

	begun := time.Now()
	s.exec(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, quiet)
	s.eventually(wakes, s.messagesAre(1))
	s.connector(nil)
	s.eventually(wakes, s.messagesAre(2))
	s.connector(row{"refresh_freq_minutes": nil, "schedule_cron": nightly, "run_at_once": true})
	s.eventually(wakes, s.messagesAre(3))
	t.Logf("three changes took %s", time.Since(begun))
}

func TestATriggerDuringARunIsAnsweredAtOnceAfterTheVerdict(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler(rarely)
	s.run(scheduler)
	s.listening(scheduler)
	id := s.connector(nil)
	pending := s.countIs(1, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)
	s.eventually(wakes, pending)
	s.pickUp(id, time.Minute)
	s.eventually(wakes, s.countIs(1, `SELECT count(*) FROM connectors WHERE status = 'SYNCING'`))
	s.exec(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, id)
	s.finish(id)
	s.eventually(wakes, pending)
}

func TestAnEnabledConnectorThatNeverSyncedIsDispatchedAtOnce(t *testing.T) {
	s := setStage(t)
	id := s.connector(row{"status": "DISABLED"})
	scheduler := s.scheduler(rarely)
	s.run(scheduler)
	s.listening(scheduler)
	s.do(s.moves.Enable(t.Context(), id))
	s.eventually(wakes, s.countIs(1, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`))
}

func TestADeletedConnectorGivesItsPlaceToTheNext(t *testing.T) {
	s := setStage(t)
	s.exec(`UPDATE connector_types SET max_concurrent_syncs = 1`)
	scheduler := s.scheduler(rarely)
	s.run(scheduler)
	s.listening(scheduler)
	first := s.connector(nil)
	s.eventually(wakes, s.countIs(1, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`))
	s.connector(nil)
	s.capIsFull()
	s.exec(`DELETE FROM connectors WHERE id = $1`, first)
	s.eventually(wakes, s.countIs(1, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`))
}

func TestAVerdictGivesItsPlaceToTheNext(t *testing.T) {
	s := setStage(t)
	s.exec(`UPDATE connector_types SET max_concurrent_syncs = 1`)
	scheduler := s.scheduler(rarely)
	s.run(scheduler)
	s.listening(scheduler)
	first := s.connector(nil)
	s.eventually(wakes, s.messagesAre(1))
	second := s.connector(nil)
	s.capIsFull()
	s.complete(first)
	s.eventually(wakes, s.countIs(1, `SELECT count(*) FROM connectors WHERE status = 'PENDING' AND id = $1`, second))
}

func TestAVerdictGivesItsPlaceToTheNextWhereABatchHasFilledTheCap(t *testing.T) {
	s := setStage(t)
	s.exec(`UPDATE connector_types SET max_concurrent_syncs = 2`)
	s.connectors(2)
	scheduler := s.scheduler(rarely, func(cfg *Config) { cfg.ClaimBatch = 2 })
	s.run(scheduler)
	s.listening(scheduler)
	s.eventually(wakes, s.messagesAre(2))
	third := s.connector(nil)
	s.capIsFull()
	s.complete(s.messages("web")[0].ConnectorId)
	s.eventually(wakes, s.countIs(1, `SELECT count(*) FROM connectors WHERE status = 'PENDING' AND id = $1`, third))
}

// capIsFull waits until a claim has found a full cap, and asked to be told of a place.
func (s *stage) capIsFull() {
	s.Helper()
	s.eventually(wakes, s.countIs(1, `SELECT count(*) FROM waiting_types WHERE waits AND name = 'web'`))
}

// finish ends the run of a connector that was picked up.
func (s *stage) finish(id int32) {
	s.Helper()
	want(s, true, `SELECT moves.finish(id, try_id) FROM open_runs WHERE connector_id = $1`, id)
}

func TestWhatCronMakesDueIsDispatchedBehindManyCappedTypes(t *testing.T) {
	s := setStage(t)
	s.exec(`INSERT INTO connector_types (name, max_concurrent_syncs) SELECT 't' || i, 1 FROM generate_series(1, 300) i`)
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes)
		SELECT 'c', 't' || i, 1, 60 FROM generate_series(1, 300) i, generate_series(1, 3)`)
	scheduler := s.scheduler(rarely)
	s.run(scheduler)
	s.listening(scheduler)
	s.eventually(30*time.Second, s.countIs(300, `SELECT count(*) FROM open_runs`))
	id := s.connector(row{"refresh_freq_minutes": nil, "schedule_cron": nightly, "run_at_once": true})
	began := time.Now()
	s.eventually(10*time.Second, s.countIs(0, `SELECT count(*) FROM connectors WHERE needs_plan`))
	planned := time.Since(began)
	s.eventually(20*time.Second, s.countIs(1, `SELECT count(*) FROM open_runs WHERE connector_id = $1`, id))
	t.Logf("planned after %s, dispatched after %s", planned.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	if planned > 2*time.Second {
		t.Errorf("planned after %s", planned)
	}
}

func TestALostListenerSaysSoAndTicksWhenItIsBack(t *testing.T) {
	s := setStage(t)
	proxy := proxyTo(t, s.url)
	scheduler := s.scheduler(rarely, func(cfg *Config) { cfg.DatabaseDirectURL = proxy.url })
	s.run(scheduler)
	s.listening(scheduler)

	proxy.close()
	want(s, true, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN connectors_due' AND datname = current_database()`)
	s.eventually(5*time.Second, func() error {
		if _, problems := scheduler.ready.Ask(t.Context()); problems["scheduler.listen"] == "" {
			return errors.New("readiness has not noticed")
		}
		return nil
	})
	s.connector(nil) // notified to nobody
	s.eventually(8*time.Second, s.messagesAre(1))

	proxy.open()
	s.eventually(15*time.Second, func() error { return scheduler.listening.check(t.Context()) })
	s.connector(nil)
	s.eventually(wakes, s.messagesAre(2))
}

// proxy is a way to Postgres that can be closed.
type proxy struct {
	t        *testing.T
	address  string
	target   string
	url      string
	listener net.Listener
}

func proxyTo(t *testing.T, databaseURL string) *proxy {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, target: u.Host, address: "127.0.0.1:0"}
	p.open()
	p.address = p.listener.Addr().String()
	u.Host = p.address
	p.url = u.String()
	t.Cleanup(p.close)
	return p
}

func (p *proxy) open() {
	p.t.Helper()
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.listener = listener
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", p.target)
			if err != nil {
				_ = in.Close()
				continue
			}
			go relay(in, out)
			go relay(out, in)
		}
	}()
}

func relay(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			_, _ = to.Write(buffer[:n])
		}
		if err != nil {
			_, _ = from.Close(), to.Close()
			return
		}
	}
}

func (p *proxy) close() { _ = p.listener.Close() }

func TestASchedulerThatIsSwitchedOffDispatchesNothing(t *testing.T) {
	s := setStage(t)
	off := s.metered()
	off.Scheduler.config.Enabled = false
	s.run(off.Scheduler)
	s.run(s.scheduler(rarely, func(cfg *Config) { cfg.ClaimBatch = 1 }))
	s.connectors(50)
	s.eventually(10*time.Second, s.messagesAre(50))
	if families := off.families("scheduler_jobs_total"); len(families) != 0 {
		t.Errorf("it dispatched: %v", families)
	}
}

func TestASchedulerThatIsSwitchedOffIsKnownByItsConnections(t *testing.T) {
	s := setStageOn(t, testkit.Database(t, db.Up))
	cfg := s.config()
	cfg.Enabled = false
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg, s.process()) }()
	s.eventually(10*time.Second, s.countIs(1, `SELECT least(count(*), 1) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'echomind-scheduler-off'`))
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) { // it may be stopped while it starts
		t.Error(err)
	}
}

func TestACleanStopLeavesNothingBehind(t *testing.T) {
	s := setStageOn(t, testkit.Database(t, db.Up))
	s.connectors(5)
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, s.config(), s.process()) }()
	s.eventually(5*time.Second, s.messagesAre(5))
	s.exec(`DELETE FROM connectors`)
	cancel()
	select {
	case err := <-ended:
		s.do(err)
	case <-time.After(time.Minute):
		t.Fatal("Run did not return")
	}
	// pgx reads in the background after a slow write, until the connection's next answer: those are the test's own.
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgconn/internal/bgreader.(*BGReader).bgRead"))
}

func TestPostgresAwayIsAWaitAfterWhichNobodyIsRescuedForALease(t *testing.T) {
	t.Parallel()
	postgres, url := testkit.PrivatePostgres(t, db.Up)
	s := setStageOn(t, url)
	id := s.connector(nil)
	session := s.syncing(id, gone).Run
	scheduler, past := s.patientBy(4)
	s.do(scheduler.Rescue(t.Context()))
	past(4 * time.Second)

	s.do(postgres.Stop(t.Context()))
	if err := scheduler.Tick(t.Context()); err == nil {
		t.Error("a tick without Postgres found nothing wrong")
	}
	if err := scheduler.Rescue(t.Context()); err == nil {
		t.Error("a look without Postgres found nothing wrong")
	}
	s.do(postgres.Restart(t.Context()))
	look := func() error { return scheduler.Rescue(t.Context()) } // connections from before the restart fail
	for _, by := range []time.Duration{0, 4*time.Second - 1} {
		past(by)
		s.eventually(20*time.Second, look)
		want(s, session, `SELECT run_id FROM connectors WHERE id = $1`, id)
	}
	s.eventually(20*time.Second, func() error {
		past(4 * time.Second)
		return errors.Join(look(), s.countIs(1, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)())
	})
}

func TestABadConfigurationNamesEveryProblem(t *testing.T) {
	s := setStage(t)
	cfg := s.config()
	cfg.ClaimBatch, cfg.LostGraceSeconds, cfg.WatchIntervalSeconds = 0, 13, 0
	err := Run(t.Context(), cfg, s.process())
	if err == nil {
		t.Fatal("it ran")
	}
	for _, name := range []string{"SCHEDULER_CLAIM_BATCH", "SCHEDULER_LOST_GRACE_SECONDS", "SCHEDULER_WATCH_INTERVAL_SECONDS"} {
		if !contains(err, name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
}
