// Package lease elects the leader through a Lease of Kubernetes, with client-go's leader election. It is a package of
// its own, so that only the scheduler program carries client-go.
//
// client-go's elector decides who holds the Lease; this package adds what it leaves open:
//
//	client-go                                                     here
//	releases the Lease without waiting for the work               the work is waited for, then the Lease is released
//	returns for good once the Lease is lost                       candidates again, for ever
//	a leader that sees another's name goes on to its deadline     the term ends with that answer
//	a process that was frozen has a whole deadline left           the deadline runs from the last renewal
//	waits without limit for an answer while it is a standby       every call has a deadline with a name
//	tells its log what went wrong                                 readiness tells it too, with the verb that is missing
package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/go-logr/logr"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"

	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/services/scheduler/leader"
)

// elector holds the election through a Lease.
type elector struct {
	candidate *leader.Candidate
	config    leader.Config
	lease     *guard
	client    *http.Client
}

// New makes the elector of a pod, or of the user in SCHEDULER_KUBECONFIG. It asks nothing yet: an API server that is
// away at the start is a wait like any other.
func New(candidate *leader.Candidate, cfg leader.Config, log *slog.Logger) (leader.Elector, error) {
	leases, client, namespace, err := connect(cfg)
	if err != nil {
		return nil, err
	}
	identity, err := identify(cfg.Identity)
	if err != nil {
		return nil, err
	}
	log.Info("the leader is elected by a Lease", "namespace", namespace, "lease", cfg.LeaseName, "identity", identity)
	return &elector{
		candidate: candidate, config: cfg, client: client,
		lease: newGuard(leases, namespace, identity, cfg, candidate),
	}, nil
}

func (e *elector) Run(ctx context.Context, work leader.Work) error {
	defer utilnet.CloseIdleConnectionsFor(e.client.Transport)
	for ctx.Err() == nil {
		if err := e.term(ctx, work); err != nil {
			return err
		}
		_ = repeat.Sleep(ctx, e.config.RetryPeriod)
	}
	return nil
}

// term waits until this candidate is elected, runs work until it returns, which it is asked to when the Lease may be
// lost or ctx ends, and gives the Lease back.
func (e *elector) term(ctx context.Context, work leader.Work) error {
	// The Lease is renewed for as long as the work goes on, even where ctx has ended.
	renewing, stop := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logr.Discard()))
	elected := make(chan context.Context, 1)
	election, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          e.lease,
		LeaseDuration: e.config.Duration, RenewDeadline: e.config.RenewDeadline, RetryPeriod: e.config.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) { elected <- held },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		stop()
		return fmt.Errorf("make the elector: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		election.Run(renewing)
	}()
	defer func() {
		stop()
		<-ended
	}()

	var held context.Context
	select {
	case held = <-elected:
	case <-ctx.Done():
		stop()
		<-ended
		e.lease.release(context.WithoutCancel(ctx)) // it may have become ours at this very moment
		return nil
	}

	working, end := context.WithCancelCause(ctx)
	defer end(nil)
	unwatch := e.lease.watch(func(why error) { end(fmt.Errorf("%w: %w", leader.ErrLost, why)) })
	defer unwatch()
	defer context.AfterFunc(held, func() { end(leader.ErrLost) })()
	err = e.candidate.Lead(working, work)
	lost := errors.Is(context.Cause(working), leader.ErrLost)
	stop()
	<-ended
	if !lost {
		e.lease.release(context.WithoutCancel(ctx))
	}
	return err
}
