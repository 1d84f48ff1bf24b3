package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/natsserver"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

// stage is a database and a broker of one test's own, with what a test says about them in one line.
type stage struct {
	*testing.T
	url     string
	broker  *natsserver.Server
	servers *connect.Servers
	moves   *lifecycle.Lifecycle
}

// setStage runs the test in parallel with others.
func setStage(t *testing.T) *stage {
	t.Helper()
	t.Parallel()
	return setStageOn(t, testkit.Database(t, db.Up))
}

// setStageOn takes a database that is there, and leaves the test where it is.
func setStageOn(t *testing.T, url string) *stage {
	t.Helper()
	s := &stage{T: t, url: url, broker: testkit.NATS(t)}
	servers, err := connect.Open(t.Context(), s.config().Common, "test", s.process())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servers.Close(); err != nil {
			t.Error(err)
		}
	})
	s.servers, s.moves = servers, lifecycle.New(servers.Pool)
	return s
}

func (s *stage) config() Config {
	cfg := Config{Common: config.Common{DatabaseURL: s.url, NATSURL: s.broker.URL(), DatabaseMaxConns: 10}}
	if err := config.Load(&cfg); err != nil {
		s.Fatal(err)
	}
	cfg.DatabaseURL, cfg.NATSURL, cfg.MaxConcurrentSyncs = s.url, s.broker.URL(), 0
	return cfg
}

func (s *stage) process() connect.Process { return connect.NewProcess(testkit.Logger(s.T)) }

// scheduler is one more scheduler, without a cap unless change sets one.
func (s *stage) scheduler(change ...func(*Config)) *Scheduler {
	cfg := s.config()
	for _, c := range change {
		c(&cfg)
	}
	scheduler := New(cfg, s.servers, s.process())
	scheduler.dispatcher.within = testkit.Patience(publishTimeout)
	return scheduler
}

// run runs a scheduler until the test, or the function it returns, ends it.
func (s *stage) run(scheduler *Scheduler) (stop func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- scheduler.Run(ctx) }()
	stop = func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				s.Errorf("Run returned %v", err)
			}
			ended <- nil
		case <-time.After(time.Minute):
			s.Error("Run did not return")
		}
	}
	s.Cleanup(stop)
	return stop
}

// row names the columns in which a connector differs from a web connector of user 1 that is synced hourly.
type row map[string]any

// connector inserts a connector, which is due at once unless columns say otherwise.
func (s *stage) connector(columns row) int32 {
	s.Helper()
	all := row{"name": "docs", "type": "web", "user_id": 1, "refresh_freq_minutes": 60}
	for name, value := range columns {
		all[name] = value
	}
	var names, places []string
	var values []any
	for name, value := range all {
		names, values = append(names, name), append(values, value)
		places = append(places, fmt.Sprintf("$%d", len(values)))
	}
	return one[int32](s, fmt.Sprintf(`INSERT INTO connectors (%s) VALUES (%s) RETURNING id`,
		strings.Join(names, ", "), strings.Join(places, ", ")), values...)
}

func (s *stage) connectors(n int) {
	s.Helper()
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes)
		SELECT 'c' || i, 'web', 1 + i / 10000, 60 FROM generate_series(1, $1::int) i`, n)
}

// multiply makes of every connector as many as it says.
func (s *stage) multiply(times int) {
	s.Helper()
	movestest.Multiply(s, s.servers.Pool, times)
}

func (s *stage) exec(sql string, args ...any) {
	s.Helper()
	if _, err := s.servers.Pool.Exec(s.Context(), sql, args...); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
}

// one is the single value that a statement returns.
func one[T any](s *stage, sql string, args ...any) T {
	s.Helper()
	var value T
	if err := s.servers.Pool.QueryRow(s.Context(), sql, args...).Scan(&value); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
	return value
}

// want fails the test unless a statement returns this value.
func want[T comparable](s *stage, value T, sql string, args ...any) {
	s.Helper()
	if got := one[T](s, sql, args...); got != value {
		s.Errorf("%s %v: %v, want %v", sql, args, got, value)
	}
}

func (s *stage) session(id int32) uuid.UUID {
	s.Helper()
	return one[uuid.UUID](s, `SELECT run_id FROM connectors WHERE id = $1`, id)
}

func (s *stage) do(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) claim(scheduler *Scheduler) []Trigger {
	s.Helper()
	claimed, err := scheduler.Claim(s.Context(), "web", 0, 1000)
	s.do(err)
	return claimed
}

// force is exec for what only moves may write.
func (s *stage) force(sql string, args ...any) {
	s.Helper()
	movestest.Force(s, s.servers.Pool, sql, args...)
}

// pickUp does what a worker does first, with a lease that ends after the given time.
func (s *stage) pickUp(id int32, lease time.Duration) lifecycle.Try {
	s.Helper()
	try := lifecycle.Try{Run: s.session(id), ID: uuid.New()}
	worker := uuid.New()
	s.do(s.moves.PickUp(s.Context(), id, try, worker, max(lease, time.Second)))
	if lease < time.Second {
		s.exec(`UPDATE workers SET expires_at = clock_timestamp() + $2::interval WHERE id = $1`, worker, lease)
	}
	return try
}

// syncing claims the due connectors and picks one of them up.
func (s *stage) syncing(id int32, lease time.Duration) lifecycle.Try {
	s.Helper()
	s.claim(s.scheduler())
	return s.pickUp(id, lease)
}

// age moves the dispatch of everything that waits into the past, as if so much time had gone by.
func (s *stage) age(by time.Duration) {
	s.Helper()
	s.exec(`UPDATE open_runs SET dispatched_at = dispatched_at - $1::interval WHERE picked_up_at IS NULL`, by)
}

// waiting is one trigger that waits in the stream.
type waiting struct {
	*internalpb.ConnectorSyncRequest
	header  nats.Header
	subject string
}

// messages are the triggers of a type that wait in the stream, the oldest first.
func (s *stage) messages(connectorType string) []waiting {
	s.Helper()
	stream, err := s.servers.Stream.Stream(s.Context(), topology.SyncStream)
	s.do(err)
	var out []waiting
	for seq := uint64(1); ; {
		raw, err := stream.GetMsg(s.Context(), seq, jetstream.WithGetMsgSubject("connector.sync."+connectorType))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return out
		}
		s.do(err)
		m := waiting{&internalpb.ConnectorSyncRequest{}, raw.Header, raw.Subject}
		s.do(proto.Unmarshal(raw.Data, m.ConnectorSyncRequest))
		out, seq = append(out, m), raw.Sequence+1
	}
}

// queued fails the test unless exactly these sessions wait in the stream.
func (s *stage) queued(sessions ...uuid.UUID) {
	s.Helper()
	var got, expected []string
	for _, m := range s.messages("web") {
		got = append(got, m.ChunkingSession)
	}
	for _, session := range sessions {
		expected = append(expected, session.String())
	}
	slices.Sort(got)
	slices.Sort(expected)
	if !slices.Equal(got, expected) {
		s.Errorf("queued sessions %v, want %v", got, expected)
	}
}

// acknowledge is what a worker does that picks nothing up: it takes one message of a type, as soon as the broker answers.
func (s *stage) acknowledge(connectorType string) error {
	declared, err := topology.SyncConsumer(connectorType)
	s.do(err)
	s.eventually(15*time.Second, func() error {
		consumer, err := streams.EnsureConsumer(s.Context(), s.servers.Stream, topology.SyncStream, declared)
		if err != nil {
			return err
		}
		msg, err := consumer.Next(jetstream.FetchMaxWait(5 * time.Second))
		if err != nil {
			return err
		}
		return msg.DoubleAck(s.Context())
	})
	return nil
}

func (s *stage) purge() {
	s.Helper()
	stream, err := s.servers.Stream.Stream(s.Context(), topology.SyncStream)
	s.do(err)
	s.do(stream.Purge(s.Context()))
}

// limit changes a setting of the sync stream.
func (s *stage) limit(change func(*jetstream.StreamConfig)) {
	s.Helper()
	stream, err := s.servers.Stream.Stream(s.Context(), topology.SyncStream)
	s.do(err)
	cfg := stream.CachedInfo().Config
	change(&cfg)
	_, err = s.servers.Stream.UpdateStream(s.Context(), cfg)
	s.do(err)
}

func (s *stage) eventually(within time.Duration, ask func() error) {
	s.Helper()
	testkit.Eventually(s.T, within, ask)
}

// countIs is an error until a statement returns this count.
func (s *stage) countIs(want int, sql string, args ...any) func() error {
	return func() error {
		var got int
		err := s.servers.Pool.QueryRow(s.Context(), sql, args...).Scan(&got)
		if err == nil && got != want {
			err = fmt.Errorf("%s: %d, want %d", sql, got, want)
		}
		return err
	}
}

const nightly = "0 3 * * *"

// cronConnector has synced once and is planned by a schedule up to some time ago.
func (s *stage) cronConnector(schedule string, ago time.Duration) int32 {
	s.Helper()
	id := s.connector(row{"refresh_freq_minutes": nil, "schedule_cron": schedule, "last_sync_at": time.Now().Add(-ago)})
	s.force(`UPDATE connectors SET planned_through = clock_timestamp() - $2::interval WHERE id = $1`, id, ago)
	return id
}

func (s *stage) plan() {
	s.Helper()
	s.do(s.scheduler().Plan(s.Context()))
}

// complete ends a claimed connector's run with everything stored.
func (s *stage) complete(id int32) {
	s.Helper()
	try := s.pickUp(id, time.Minute)
	s.exec(`UPDATE open_runs SET total = 1, stored = 1, whole = true WHERE id = $1`, try.Run)
	_, err := s.moves.Complete(s.Context(), try.Run)
	s.do(err)
}

func (s *stage) follow(scheduler *Scheduler) {
	s.Helper()
	s.do(scheduler.Follow(s.Context()))
}
