package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/services/scheduler/leader"
)

// errTaken is how a leader learns that it is none any more.
var errTaken = errors.New("the Lease carries another name")

// guard is the Lease as client-go sees it, with a deadline for every call, a report of what fails, and an alarm that
// ends the term in time.
type guard struct {
	resourcelock.Interface
	candidate *leader.Candidate
	// answer bounds every call. It is half the renew deadline, so that one that hangs is tried again.
	answer time.Duration
	// patience is how long after a renewal the Lease counts as held.
	patience time.Duration

	mu sync.Mutex
	// renewed is when the write began that made or kept the Lease ours; zero = it is not, as far as is known.
	renewed time.Time
	// failed says that a call has failed since the Lease was read last.
	failed bool
	lost   func(error)
	alarm  *time.Timer
}

func newGuard(
	leases coordination.LeasesGetter, namespace, identity string, cfg leader.Config, candidate *leader.Candidate,
) *guard {
	return &guard{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: cfg.LeaseName, Namespace: namespace},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		candidate: candidate, answer: cfg.RenewDeadline / 2, patience: cfg.RenewDeadline,
	}
}

// watch calls lost, for a term that has just begun, when the Lease is not held any more. The time runs while the
// process is frozen, too: a process that wakes up does not believe in itself.
func (g *guard) watch(lost func(error)) (end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lost = lost
	silence := &deadline.Error{Name: "leader.renew", After: g.patience}
	g.alarm = time.AfterFunc(g.patience-time.Since(g.renewed), func() { lost(silence) })
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.alarm.Stop()
		g.lost, g.alarm = nil, nil
	}
}

// Get reads the Lease.
func (g *guard) Get(ctx context.Context) (record *resourcelock.LeaderElectionRecord, raw []byte, err error) {
	err = deadline.Do(ctx, "leader.lease_get", g.answer, func(ctx context.Context) (err error) {
		record, raw, err = g.Interface.Get(ctx)
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		g.report(ctx, "get", err)
		return nil, nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// A refused write follows each successful reading: only one that nothing failed after is a good sign.
	if !g.failed {
		g.candidate.Report(nil)
	}
	g.failed = false
	if record != nil && record.HolderIdentity != g.Identity() {
		g.renewed = time.Time{}
		if g.lost != nil {
			g.lost(fmt.Errorf("%w: %q", errTaken, record.HolderIdentity))
		}
	}
	return record, raw, err
}

// Create makes the Lease, with this candidate as its holder.
func (g *guard) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return g.write(ctx, "create", func(ctx context.Context) error { return g.Interface.Create(ctx, record) })
}

// Update takes or renews the Lease.
func (g *guard) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return g.write(ctx, "update", func(ctx context.Context) error { return g.Interface.Update(ctx, record) })
}

func (g *guard) write(ctx context.Context, verb string, call func(context.Context) error) error {
	begun := time.Now()
	if err := deadline.Do(ctx, "leader.lease_"+verb, g.answer, call); err != nil {
		g.report(ctx, verb, err)
		return err
	}
	g.candidate.Report(nil)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.renewed = begun
	if g.alarm != nil {
		g.alarm.Reset(g.patience - time.Since(begun))
	}
	return nil
}

// report passes on what keeps the election from being held. That another candidate was faster does not, nor that
// somebody has deleted the Lease, which is then created again.
func (g *guard) report(ctx context.Context, verb string, err error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	if verb == "update" && apierrors.IsNotFound(err) {
		return
	}
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("its Role lacks the verb %q on leases of the API group coordination.k8s.io: %w", verb, err)
	}
	g.mu.Lock()
	g.failed = true
	g.mu.Unlock()
	g.candidate.Report(fmt.Errorf("%s the Lease %s: %w", verb, g.Describe(), err))
}

// release gives the Lease back, if it is ours, so that another candidate need not wait for its end. It is called when
// nothing else uses the guard.
func (g *guard) release(ctx context.Context) {
	if g.renewed.IsZero() {
		return
	}
	record, _, err := g.Get(ctx)
	if err != nil || record.HolderIdentity != g.Identity() {
		return
	}
	now := metav1.Now()
	// An update of what was just read: where somebody has taken the Lease meanwhile, the API server refuses it.
	_ = g.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
	})
	g.renewed = time.Time{}
}
