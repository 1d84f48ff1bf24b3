package scheduler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/testonly/faultproxy"
	"github.com/echomind/sync/testonly/testkit"
)

// ways are how a network loses packets.
var ways = map[string][]faultproxy.Direction{
	"both ways":     {faultproxy.ToServer, faultproxy.ToClient},
	"to the client": {faultproxy.ToClient},
}

// behind is a scheduler that reaches its servers through proxies, on a stage that does not.
type behind struct {
	*Scheduler
	postgres, nats *faultproxy.Proxy
	log            *said
}

// said is a log that a test asks.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(line)
}

// logs waits until a scheduler's log holds a text.
func (s *stage) logs(b *behind, text string) {
	s.Helper()
	s.eventually(30*time.Second, func() error {
		b.log.mu.Lock()
		defer b.log.mu.Unlock()
		if log := b.log.text.String(); !strings.Contains(log, text) {
			return fmt.Errorf("the log does not say %q: %s", text, log)
		}
		return nil
	})
}

func (s *stage) behind(change ...func(*Config)) *behind {
	s.Helper()
	b := &behind{log: &said{}}
	through := func(server string) (*faultproxy.Proxy, string) {
		u, err := url.Parse(server)
		s.do(err)
		proxy, err := faultproxy.Start(u.Host)
		s.do(err)
		s.Cleanup(func() { s.do(proxy.Close()) })
		address, err := proxy.URL(server)
		s.do(err)
		return proxy, address
	}
	cfg := s.config()
	b.postgres, cfg.DatabaseURL = through(s.url)
	b.nats, cfg.NATSURL = through(s.broker.URL())
	for _, c := range change {
		c(&cfg)
	}
	log := slog.New(slog.NewMultiHandler(testkit.Logger(s.T).Handler(), slog.NewTextHandler(b.log, nil)))
	process := connect.NewProcess(log)
	servers, err := connect.Open(s.Context(), cfg.Common, "scheduler", process)
	s.do(err)
	s.Cleanup(func() { s.do(servers.Close()) })
	b.Scheduler = New(cfg, servers, process)
	return b
}

// heal ends every silence.
func (b *behind) heal() {
	b.postgres.Heal()
	b.nats.Heal()
}

const allPending = `SELECT count(*) FROM connectors WHERE status = 'PENDING' AND failure_count = 0`

func TestASilentPostgresStopsNoLoopForLongerThanItsDeadline(t *testing.T) {
	for name, silent := range ways {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			b := s.behind(func(cfg *Config) { cfg.CheckIntervalSeconds, cfg.WatchIntervalSeconds = 1, 1 })
			s.run(b.Scheduler)
			s.listening(b.Scheduler)
			b.postgres.Silence(silent...)
			s.connectors(3)
			s.logs(b, "scheduler.plan: ")
			s.logs(b, "scheduler.replan_calendars: ")
			s.logs(b, "scheduler.pending_types: ")
			s.logs(b, "scheduler.connections: ")
			s.logs(b, "scheduler.listen_keepalive: ")
			s.dueAtRest(3)
			b.heal()
			s.eventually(30*time.Second, s.countIs(3, allPending))
		})
	}
}

func TestASilentBrokerStopsNoLoopForLongerThanItsDeadline(t *testing.T) {
	for name, silent := range ways {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			s.connector(nil)
			b := s.behind(func(cfg *Config) { cfg.CheckIntervalSeconds, cfg.WatchIntervalSeconds = 1, 1 })
			s.run(b.Scheduler)
			s.eventually(5*time.Second, s.countIs(1, allPending))
			s.age(time.Hour) // so that it is looked for
			b.nats.Silence(silent...)
			s.connectors(3)
			s.logs(b, "the sync stream takes nothing; connectors stay due") // by its own deadline, or by the connection's
			s.logs(b, "look for what is acknowledged: the broker gave no answer")
			s.logs(b, "NATS is away")
			want(s, 3, `SELECT count(*) FROM connectors WHERE status = 'ACTIVE' AND next_sync_at <= clock_timestamp()`)
			b.heal()
			s.eventually(10*time.Second, s.countIs(4, allPending))
		})
	}
}

func TestASilentBrokerIsNotTakenForASilentPostgres(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	session := s.syncing(id, gone).Run
	s.connector(nil)
	s.claim(s.scheduler())
	s.age(time.Hour) // a message to look for
	b := s.behind(impatient)
	b.nats.Silence(ways["both ways"]...)
	if err := b.Republish(t.Context()); err == nil && !b.dispatcher.away.Load() {
		t.Error("the look found nothing wrong with a broker that is silent")
	}
	if b.leases.Held() {
		t.Error("the workers' heartbeats were forgotten, though Postgres answers")
	}
	s.do(b.Rescue(t.Context()))
	if s.session(id) == session {
		t.Error("nobody was rescued, though Postgres answers")
	}
	b.heal()
}

func TestASchedulerThatListensOnADeadConnectionStillTicks(t *testing.T) {
	s := setStage(t)
	b := s.behind(func(cfg *Config) { cfg.CheckIntervalSeconds = 1 })
	s.run(b.Scheduler)
	s.listening(b.Scheduler)
	b.postgres.Strand()
	s.connectors(3)
	s.eventually(20*time.Second, s.countIs(3, allPending))
}

func TestAStopWhileAServerIsSilentEnds(t *testing.T) {
	for name, c := range map[string]struct {
		postgres, nats []faultproxy.Direction
		change         func(*Config)
	}{
		"Postgres both ways":          {postgres: ways["both ways"]},
		"Postgres to the client":      {postgres: ways["to the client"]},
		"NATS both ways":              {nats: ways["both ways"]},
		"both of them, as an elected": {postgres: ways["both ways"], nats: ways["both ways"], change: byPostgres},
	} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			change := []func(*Config){func(cfg *Config) { cfg.CheckIntervalSeconds, cfg.WatchIntervalSeconds = 1, 1 }}
			if c.change != nil {
				change = append(change, c.change)
			}
			b := s.behind(change...)
			stop := s.run(b.Scheduler)
			s.listening(b.Scheduler)
			b.postgres.Silence(c.postgres...)
			b.nats.Silence(c.nats...)
			s.connectors(3)
			s.eventually(10*time.Second, func() error {
				if len(b.wake) == 0 && b.lanes.atWork() == 0 {
					return errors.New("no tick is at work: every wish for one is taken, and no type is")
				}
				return nil
			})
			stop() // fails the test after 10 s
			s.wayToAVerdict()
			b.heal()
		})
	}
}

// wayToAVerdict fails the test unless every connector is due, or in flight under an open run that the watch looks after.
func (s *stage) wayToAVerdict() {
	s.Helper()
	want(s, 0, `SELECT count(*) FROM connectors c LEFT JOIN scheduler_runs r ON r.id = c.run_id
		WHERE c.failure_count > 0 OR NOT (
			c.status = 'ACTIVE' AND c.next_sync_at IS NOT NULL AND c.run_id IS NULL OR
			c.status = 'PENDING' AND r.dispatched_at IS NOT NULL AND coalesce(r.status, '') = 'running')`)
	want(s, 0, `SELECT count(*) FROM scheduler_runs r WHERE r.status = 'running'
		AND NOT EXISTS (SELECT FROM connectors c WHERE c.run_id = r.id)`)
}

// The claim waits for the type's turn, which the test has taken.
func TestAStopDuringAClaimLeavesEverythingDue(t *testing.T) {
	s := setStage(t)
	s.connectors(3)
	turn, err := s.servers.Pool.Begin(t.Context())
	s.do(err)
	scheduler := s.scheduler(func(cfg *Config) { cfg.MaxConcurrentSyncs = 5 })
	s.takeTurn(turn)
	stop := s.run(scheduler)
	s.eventually(5*time.Second, s.countIs(1, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event = 'advisory'`))
	stop()
	s.dueAtRest(3)
	s.do(turn.Rollback(t.Context()))
	s.dueAtRest(3)
	want(s, 0, `SELECT count(*) FROM scheduler_runs`)
}

func TestWhatWasClaimedBeforeAStopIsPublishedByTheNextScheduler(t *testing.T) {
	for name, publish := range map[string]func(s *stage, b *behind, batch []Trigger){
		"between commit and publish": func(*stage, *behind, []Trigger) {},
		"in publish, with a silent broker": func(s *stage, b *behind, batch []Trigger) {
			b.nats.Silence(ways["both ways"]...)
			ctx, cancel := context.WithCancel(s.Context())
			ended := make(chan struct{})
			go func() { b.dispatcher.publish(ctx, batch); close(ended) }()
			s.eventually(5*time.Second, func() error {
				if b.servers.Stream.PublishAsyncPending() < len(batch) {
					return errors.New("nothing is on its way")
				}
				return nil
			})
			cancel()
			select {
			case <-ended:
			case <-time.After(publishTimeout - time.Second):
				s.Error("a stop waits for the broker")
			}
		},
		"in publish, with the broker away": func(s *stage, b *behind, batch []Trigger) {
			s.stopBroker()
			b.dispatcher.publish(s.Context(), batch)
			s.do(s.broker.Restart(false))
			s.eventually(15*time.Second, func() error {
				if !s.servers.NATS.IsConnected() {
					return errors.New("not connected yet")
				}
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			s.connectors(3)
			b := s.behind()
			batch := s.claim(b.Scheduler)
			publish(s, b, batch)
			s.wayToAVerdict()
			s.do(b.servers.Close())
			s.age(time.Minute)
			s.purge() // what did get out is the harmless case
			s.do(s.scheduler().Republish(t.Context()))
			s.queued(batch[0].Session, batch[1].Session, batch[2].Session)
			want(s, 0, `SELECT count(*) FROM connectors WHERE failure_count > 0`)
		})
	}
}

func TestABrokerThatIsBackIsDispatchedToWithinSeconds(t *testing.T) {
	s := setStage(t)
	scheduler := s.scheduler(rarely)
	s.stopBroker()
	s.run(scheduler)
	s.connectors(1)
	s.eventually(5*time.Second, func() error {
		if !scheduler.dispatcher.away.Load() {
			return errors.New("it has not noticed")
		}
		return nil
	})
	s.do(s.broker.Restart(false))
	s.eventually(5*time.Second, s.countIs(1, allPending))
}
