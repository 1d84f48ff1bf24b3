package leader_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/services/scheduler/leader"
	"github.com/echomind/sync/testonly/faultproxy"
	"github.com/echomind/sync/testonly/leadertest"
	"github.com/echomind/sync/testonly/testkit"
)

// quick is a pace in which a test need not wait for long.
var quick = leader.Pace{
	Poll: 50 * time.Millisecond, Heartbeat: 300 * time.Millisecond, Answer: 2 * time.Second, IdleTimeout: 5 * time.Second,
}

const handover = 2 * time.Second

// childURL makes this test binary a candidate in a process of its own.
const childURL = "LEADER_TEST_CHILD_URL"

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		beCandidate(url)
		return
	}
	os.Exit(m.Run())
}

// beCandidate says on its output when it leads, and when it has lost that.
func beCandidate(url string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	candidate := leader.NewCandidate(slog.New(slog.DiscardHandler), prometheus.NewGauge(prometheus.GaugeOpts{Name: "leader"}))
	_ = leader.Postgres(candidate, url, quick).Run(ctx, func(ctx context.Context) error {
		fmt.Println("leads")
		<-ctx.Done()
		fmt.Println("lost", context.Cause(ctx))
		return nil
	})
}

func onPostgres(url string) leadertest.New { return at(quick, url) }

func at(pace leader.Pace, url string) leadertest.New {
	return func(_ *testing.T, log *slog.Logger, gauge prometheus.Gauge) (leadertest.Candidate, func(context.Context, func(context.Context) error) error) {
		c := leader.NewCandidate(log, gauge)
		return c, func(ctx context.Context, work func(context.Context) error) error {
			return leader.Postgres(c, url, pace).Run(ctx, work)
		}
	}
}

func onDatabaseOfItsOwn(t *testing.T) leadertest.New { return onPostgres(testkit.Postgres(t)) }

func TestAnAdvisoryLockElects(t *testing.T) {
	t.Parallel()
	leadertest.Contract(t, handover, onDatabaseOfItsOwn)
}

func TestAnElectionByAdvisoryLockLeavesNothingBehind(t *testing.T) {
	leadertest.LeavesNothingBehind(t, handover, onDatabaseOfItsOwn)
}

// connect is a look at the server from outside.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestALeaderWhoseConnectionIsEndedMakesWayForAnother(t *testing.T) {
	t.Parallel()
	url := testkit.Postgres(t)
	g := leadertest.NewGroup(t)
	first := g.Join(onPostgres(url))
	term := first.Term(handover)
	second := g.Join(onPostgres(url))
	testkit.Eventually(t, handover, func() error { return second.Check(t.Context()) })

	var ended int
	err := connect(t, url).QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_locks JOIN pg_database d
		ON d.oid = database AND datname = current_database() WHERE locktype = 'advisory'`).Scan(&ended)
	if err != nil || ended != 1 {
		t.Fatalf("%d sessions hold the lock: %v", ended, err)
	}
	took := leadertest.Over(term, t, time.Second)
	if cause := context.Cause(term); !errors.Is(cause, leader.ErrLost) {
		t.Errorf("the term ended by %v", cause)
	}
	second.Term(handover) // Postgres has given the lock away when the first learns of it: for a moment both may be at work
	t.Logf("noticed in %s", took)
}

func TestALeaderThatIsCutOffGivesUpBeforeAnotherIsElected(t *testing.T) {
	t.Parallel()
	url := testkit.Postgres(t)
	far, silent := throughProxy(t, url)
	g := leadertest.NewGroup(t)
	first := g.Join(onPostgres(far))
	term := first.Term(handover)
	second := g.Join(onPostgres(url))

	silent.Silence(faultproxy.ToServer, faultproxy.ToClient)
	took := leadertest.Over(term, t, quick.Heartbeat+quick.Answer+500*time.Millisecond)
	second.Term(quick.IdleTimeout + handover)
	t.Logf("the leader gave up after %s", took.Round(time.Millisecond))
	if most := g.MostAtOnce(); most != 1 {
		t.Errorf("%d worked at once", most)
	}
	testkit.Eventually(t, handover, func() error {
		if err := first.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "leader.connect: no answer within") {
			return errors.Join(errors.New("readiness says something else"), err)
		}
		return nil
	})
	silent.Speak()
	testkit.Eventually(t, 2*handover, func() error { return first.Check(t.Context()) })
}

func throughProxy(t *testing.T, url string) (string, *faultproxy.Proxy) {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := faultproxy.Start(fmt.Sprintf("%s:%d", cfg.Host, cfg.Port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	far, err := proxy.URL(url)
	if err != nil {
		t.Fatal(err)
	}
	return far, proxy
}

func TestAnElectionHealsAfterPostgresWasKilled(t *testing.T) {
	t.Parallel()
	server, url := testkit.PrivatePostgres(t, nil)
	g := leadertest.NewGroup(t)
	g.Join(onPostgres(url))
	g.Join(onPostgres(url))
	first := g.Leader(handover)
	term := first.Term(handover)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	leadertest.Over(term, t, time.Second)
	testkit.Eventually(t, handover, func() error {
		for _, m := range append(g.Others(first), first) {
			if m.Leads() || m.Check(t.Context()) == nil {
				return errors.New("a candidate has not noticed")
			}
		}
		return nil
	})
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := g.Leader(10 * time.Second)
	if err := again.Check(t.Context()); err != nil {
		t.Errorf("the leader is not ready: %v", err)
	}
	if most := g.MostAtOnce(); most != 1 {
		t.Errorf("%d worked at once", most)
	}
}

func TestALeaderThatIsFrozenLosesTheLockAndKnowsItWhenItWakesUp(t *testing.T) {
	t.Parallel()
	url := testkit.Postgres(t)
	frozen := exec.Command(os.Args[0])
	frozen.Env = append(os.Environ(), childURL+"="+url)
	out, err := frozen.StdoutPipe()
	if err == nil {
		err = frozen.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = frozen.Process.Kill()
		_ = frozen.Wait()
	})
	said := bufio.NewScanner(out)
	next := func() string {
		said.Scan()
		return said.Text()
	}
	if got := next(); got != "leads" {
		t.Fatalf("it says %q", got)
	}
	g := leadertest.NewGroup(t)
	second := g.Join(onPostgres(url))
	signalTo(t, frozen, syscall.SIGSTOP)
	begun := time.Now()
	second.Term(quick.IdleTimeout + handover)
	t.Logf("another led after %s", time.Since(begun).Round(time.Millisecond))
	signalTo(t, frozen, syscall.SIGCONT)
	if got := next(); !strings.HasPrefix(got, "lost") {
		t.Errorf("it says %q", got)
	}
	if !second.Leads() {
		t.Error("the other leads no more")
	}
}

func TestALeaderThatIsKilledIsFollowedAtOnce(t *testing.T) {
	t.Parallel()
	url := testkit.Postgres(t)
	killed := exec.Command(os.Args[0])
	killed.Env = append(os.Environ(), childURL+"="+url)
	out, err := killed.StdoutPipe()
	if err == nil {
		err = killed.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = killed.Wait() }()
	bufio.NewScanner(out).Scan()
	second := leadertest.NewGroup(t).Join(at(leader.DefaultPace, url))
	testkit.Eventually(t, handover, func() error { return second.Check(t.Context()) })
	begun := time.Now()
	signalTo(t, killed, syscall.SIGKILL)
	second.Term(3 * time.Second)
	t.Logf("another led after %s, at the default pace", time.Since(begun).Round(time.Millisecond))
}

func signalTo(t *testing.T, cmd *exec.Cmd, signal os.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}
