package election

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

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/services/scheduler/leader"
	"github.com/echomind/sync/services/scheduler/leader/lease"
	"github.com/echomind/sync/testonly/faultproxy"
	"github.com/echomind/sync/testonly/leadertest"
	"github.com/echomind/sync/testonly/testkit"
	"github.com/echomind/sync/tools/kube/election/kubetest"
)

const (
	// handover is how long a clean one may take: a look of the standby, on a machine busy with tests.
	handover = 4 * time.Second
	// takeover is how long one may take after a crash.
	takeover = 10 * time.Second
	// childKubeconfig makes this test binary a candidate in a process of its own.
	childKubeconfig = "ELECTION_TEST_CHILD_KUBECONFIG"
)

// settings are the defaults.
func settings(kubeconfig string) leader.Config {
	var cfg leader.Config
	if err := config.Load(&cfg); err != nil {
		panic(err) // the environment of the tests sets none of them
	}
	cfg.By, cfg.Kubeconfig, cfg.LeaseName = leader.ByKubernetes, kubeconfig, leaseName
	return cfg
}

// by makes candidates that share a kubeconfig.
func by(kubeconfig string) leadertest.New {
	return func(t *testing.T, log *slog.Logger, gauge prometheus.Gauge) (leadertest.Candidate, func(context.Context, func(context.Context) error) error) {
		t.Helper()
		c := leader.NewCandidate(log, gauge)
		elector, err := lease.New(c, settings(kubeconfig), testkit.Logger(t))
		if err != nil {
			t.Fatal(err)
		}
		return c, func(ctx context.Context, work func(context.Context) error) error { return elector.Run(ctx, work) }
	}
}

// beCandidate says on its output when it leads, and when it has lost that.
func beCandidate(kubeconfig string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.DiscardHandler)
	candidate := leader.NewCandidate(log, prometheus.NewGauge(prometheus.GaugeOpts{Name: "leader"}))
	elector, err := lease.New(candidate, settings(kubeconfig), log)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = elector.Run(ctx, func(ctx context.Context) error {
		fmt.Println("leads")
		<-ctx.Done()
		fmt.Println("lost", context.Cause(ctx))
		return nil
	})
}

// child is a candidate in a process of its own; next is the next thing it says.
func child(t *testing.T, kubeconfig string) (cmd *exec.Cmd, next func() string) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), childKubeconfig+"="+kubeconfig), kubetest.EndsWithUs()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	said := bufio.NewScanner(out)
	return cmd, func() string {
		said.Scan()
		return said.Text()
	}
}

// wants fails the test where another says something else.
func wants(t *testing.T, next func() string, prefix string) string {
	t.Helper()
	said := next()
	if !strings.HasPrefix(said, prefix) {
		t.Fatalf("it says %q, want %q", said, prefix)
	}
	return said
}

func aNamespaceOfItsOwn(t *testing.T) leadertest.New {
	_, kubeconfig := sharedAPIServer(t).namespace(t, all)
	return by(kubeconfig)
}

func TestALeaseElectsWithTheVerbsThatTheChartGrants(t *testing.T) {
	t.Parallel()
	leadertest.Contract(t, handover, aNamespaceOfItsOwn)
}

func TestAnElectionByLeaseLeavesNothingBehind(t *testing.T) {
	leadertest.LeavesNothingBehind(t, handover, aNamespaceOfItsOwn)
}

func TestAKilledLeaderIsFollowedInTime(t *testing.T) {
	t.Parallel()
	_, kubeconfig := sharedAPIServer(t).namespace(t, all)
	killed, next := child(t, kubeconfig)
	wants(t, next, "leads")
	second := leadertest.NewGroup(t).Join(by(kubeconfig))
	testkit.Eventually(t, handover, func() error { return second.Check(t.Context()) })
	begun := time.Now()
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	second.Term(takeover)
	t.Logf("another led after %s", time.Since(begun).Round(time.Millisecond))
}

func TestALeaderThatWasFrozenKnowsItWhenItWakesUpBeforeAnybodyTellsIt(t *testing.T) {
	t.Parallel()
	server := sharedAPIServer(t)
	namespace, kubeconfig := server.namespace(t, all)
	proxy := proxyTo(t, server)
	frozen, next := child(t, server.Kubeconfig(t, all.token(), namespace, proxy.Addr()))
	wants(t, next, "leads")
	second := leadertest.NewGroup(t).Join(by(kubeconfig))
	testkit.Eventually(t, handover, func() error { return second.Check(t.Context()) })
	if err := frozen.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	second.Term(takeover)
	proxy.Silence(faultproxy.ToServer, faultproxy.ToClient)
	begun := time.Now()
	if err := frozen.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	said := wants(t, next, "lost")
	took := time.Since(begun)
	t.Logf("it knew after %s: %s", took.Round(time.Millisecond), said)
	if took > time.Second {
		t.Errorf("it believed in itself for %s", took)
	}
	proxy.Speak()
	second.Stop()
	wants(t, next, "leads") // and it is a candidate as before
}

func proxyTo(t *testing.T, server *apiServer) *faultproxy.Proxy {
	t.Helper()
	proxy, err := faultproxy.Start(server.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	return proxy
}

func TestALeaderThatIsCutOffGivesUpBeforeAnotherIsElected(t *testing.T) {
	t.Parallel()
	server := sharedAPIServer(t)
	namespace, kubeconfig := server.namespace(t, all)
	proxy := proxyTo(t, server)
	g := leadertest.NewGroup(t)
	first := g.Join(by(server.Kubeconfig(t, all.token(), namespace, proxy.Addr())))
	term := first.Term(handover)
	second := g.Join(by(kubeconfig))
	testkit.Eventually(t, handover, func() error { return second.Check(t.Context()) })

	proxy.Silence(faultproxy.ToServer, faultproxy.ToClient)
	took := leadertest.Over(term, t, settings("").RenewDeadline+500*time.Millisecond)
	second.Term(takeover)
	t.Logf("it gave up after %s: %v", took.Round(time.Millisecond), context.Cause(term))
	if most := g.MostAtOnce(); most != 1 {
		t.Errorf("%d worked at once", most)
	}
	testkit.Eventually(t, takeover, func() error {
		if err := first.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "leader.lease_get: no answer within") {
			return errors.Join(errors.New("readiness says something else"), err)
		}
		return nil
	})
	proxy.Speak()
	testkit.Eventually(t, takeover, func() error { return first.Check(t.Context()) })
}

func TestAnAPIServerAwayForLongerThanTheLeaseStopsTheWorkUntilItIsBack(t *testing.T) {
	t.Parallel()
	server := ownAPIServer(t)
	_, kubeconfig := server.namespace(t, all)
	g := leadertest.NewGroup(t)
	g.Join(by(kubeconfig))
	g.Join(by(kubeconfig))
	first := g.Leader(handover)
	term := first.Term(handover)
	server.Kill()
	took := leadertest.Over(term, t, settings("").RenewDeadline+500*time.Millisecond)
	t.Logf("the work stopped after %s: %v", took.Round(time.Millisecond), context.Cause(term))
	testkit.Eventually(t, settings("").Duration, func() error {
		for _, m := range append(g.Others(first), first) {
			if m.Leads() || m.Check(t.Context()) == nil {
				return errors.New("a candidate has not noticed")
			}
		}
		return nil
	})
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	again := g.Leader(takeover)
	t.Logf("one leads %s after the API server was ready", time.Since(back).Round(time.Millisecond))
	testkit.Eventually(t, handover, func() error { return again.Check(t.Context()) })
	if most := g.MostAtOnce(); most != 1 {
		t.Errorf("%d worked at once", most)
	}
}

func TestAPauseOfTheAPIServerOfThreeSecondsChangesNothing(t *testing.T) {
	t.Parallel()
	server := ownAPIServer(t)
	_, kubeconfig := server.namespace(t, all)
	g := leadertest.NewGroup(t)
	first := g.Join(by(kubeconfig))
	term := first.Term(handover)
	second := g.Join(by(kubeconfig))
	for range 3 { // at another moment between two renewals each
		testkit.Eventually(t, handover, func() error { return errors.Join(first.Check(t.Context()), second.Check(t.Context())) })
		server.Signal(t, syscall.SIGSTOP)
		pause := time.After(3 * time.Second)
		select {
		case <-pause:
		case <-term.Done():
			t.Error("the leader gave up")
		}
		server.Signal(t, syscall.SIGCONT)
		testkit.Eventually(t, handover, server.Ready)
	}
	if term.Err() != nil || !first.Leads() || len(second.Terms) > 0 {
		t.Errorf("the leader has changed: %v", context.Cause(term))
	}
}

// overwrite changes the Lease as nobody should.
func overwrite(t *testing.T, server *apiServer, namespace string, change func(*coordinationv1.LeaseSpec)) {
	t.Helper()
	leases := server.Client(t).CoordinationV1().Leases(namespace)
	testkit.Eventually(t, handover, func() error { // the leader renews it at the same time
		l, err := leases.Get(t.Context(), leaseName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&l.Spec)
		_, err = leases.Update(t.Context(), l, metav1.UpdateOptions{})
		return err
	})
}

func TestAStolenLeaseEndsTheTermAtOnceAndIsWonBack(t *testing.T) {
	t.Parallel()
	server := sharedAPIServer(t)
	namespace, kubeconfig := server.namespace(t, all)
	g := leadertest.NewGroup(t)
	first := g.Join(by(kubeconfig))
	term := first.Term(handover)
	g.Join(by(kubeconfig))
	thief := "thief"
	overwrite(t, server, namespace, func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = &thief })
	took := leadertest.Over(term, t, 2*time.Second)
	cause := context.Cause(term)
	t.Logf("it knew after %s: %v", took.Round(time.Millisecond), cause)
	if !errors.Is(cause, leader.ErrLost) || !strings.Contains(cause.Error(), thief) {
		t.Errorf("the term ended by %v", cause)
	}
	for _, m := range append(g.Others(first), first) {
		if err := m.Check(t.Context()); err != nil {
			t.Errorf("a standby is not ready: %v", err)
		}
	}
	g.Leader(takeover)
	if most := g.MostAtOnce(); most != 1 {
		t.Errorf("%d worked at once", most)
	}
}

func TestADeletedLeaseIsMadeAgain(t *testing.T) {
	t.Parallel()
	server := sharedAPIServer(t)
	namespace, kubeconfig := server.namespace(t, all)
	g := leadertest.NewGroup(t)
	g.Join(by(kubeconfig))
	g.Join(by(kubeconfig))
	g.Leader(handover)
	leases := server.Client(t).CoordinationV1().Leases(namespace)
	if err := leases.Delete(t.Context(), leaseName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, handover, func() error {
		_, err := leases.Get(t.Context(), leaseName, metav1.GetOptions{})
		return err
	})
	g.Leader(handover)
}
