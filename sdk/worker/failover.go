package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/lifecycle"
)

// Provider is one of several services that can do the same work. The kit knows nothing else of it.
type Provider struct {
	// Name is for people: 1 to 64 characters, no control characters.
	Name string
	// Lock is the key of the lock that is needed to use it, as of Acquire; empty: it needs none.
	Lock string
	// TTL is that lock's, as of Acquire; 0 = a minute.
	TTL time.Duration
	// Probe asks whether the provider can be used now, within ten seconds, under its lock. An error says why not; an error of Postponed also says
	// for how long. An answer after the context has ended counts as an error. Without a Probe the provider can be used.
	Probe func(ctx context.Context) error
}

// Chosen is the provider that a run uses.
type Chosen struct {
	Name string
	// Lock is the lock that the run holds on the provider; nil where the provider needs none.
	Lock *Lock
}

// Free gives the provider's lock back.
func (c *Chosen) Free() {
	if c.Lock != nil {
		c.Lock.Free()
	}
}

// Holder is a run that may hold locks: a *Run or a *JobRun.
type Holder interface{ holder() *Run }

func (r *Run) holder() *Run { return r }

// ErrNoProvider is among what a NoProviderError wraps.
var ErrNoProvider = errors.New("no provider can be used now")

// NoProviderError says of each provider why it cannot be used. Where a provider is locked, or has asked to wait, a run whose handler returns
// the error is put off until the first of these may be free, as with Postponed.
type NoProviderError struct {
	Passed []lifecycle.PassedOver
	wait   error
}

// Error names them all.
func (e *NoProviderError) Error() string {
	said := make([]string, len(e.Passed))
	for i, one := range e.Passed {
		said[i] = one.Provider + ": " + one.Why
	}
	return ErrNoProvider.Error() + ": " + strings.Join(said, "; ")
}

// Unwrap has ErrNoProvider, and what puts the run off.
func (e *NoProviderError) Unwrap() []error {
	if e.wait == nil {
		return []error{ErrNoProvider}
	}
	return []error{ErrNoProvider, e.wait}
}

const (
	probeTimeout = 10 * time.Second
	usualTTL     = time.Minute
	maxProviders = 16
	// maxProviderName is in characters.
	maxProviderName = 64
)

// isName says what moves.note_provider takes.
func isName(s string) bool {
	n := utf8.RuneCountInString(s)
	return n >= 1 && n <= maxProviderName && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// Failover takes the first provider whose lock is free and whose probe answers, in the order that they are given in, 16 at most. It waits for no lock. The ledger
// says which provider the run used, and why not each provider before it (`echomind runs show`). The lock is held until it is freed, as of Acquire. It returns a
// NoProviderError where none can be used.
func Failover(ctx context.Context, of Holder, providers ...Provider) (*Chosen, error) {
	run := of.holder()
	if len(providers) == 0 || len(providers) > maxProviders {
		return nil, fmt.Errorf("%d providers: must be 1 to %d", len(providers), maxProviders)
	}
	for _, p := range providers {
		if !isName(p.Name) {
			return nil, fmt.Errorf("provider %q: its Name must be 1 to %d characters, and no control characters", clip(p.Name, maxReasonBytes), maxProviderName)
		}
	}
	none := &NoProviderError{}
	var soonest *postponedError
	for _, p := range providers {
		chosen, passed, err := run.take(ctx, p)
		if err != nil {
			return nil, err
		}
		if passed == nil {
			return run.uses(ctx, chosen, none.Passed)
		}
		why := passed.Error()
		if locked, is := errors.AsType[*LockedError](passed); is {
			why = locked.why()
		}
		none.Passed = append(none.Passed, lifecycle.PassedOver{Provider: p.Name, Why: clip(secret.Text(why), maxReasonBytes)})
		wait := asPostponed(passed)
		if wait != nil && (soonest == nil || wait.until.Before(soonest.until)) {
			soonest = wait
		}
	}
	run.locks.metrics.providers.WithLabelValues("none").Inc()
	if soonest != nil {
		none.wait = soonest
	}
	if err := run.notesProvider(ctx, lifecycle.Provider{Before: none.Passed}); err != nil {
		return nil, err
	}
	return nil, none
}

// take takes a provider, or says why it is passed over. err is what no other provider would mend.
func (r *Run) take(ctx context.Context, p Provider) (chosen *Chosen, passed, err error) {
	chosen = &Chosen{Name: p.Name}
	under := ctx
	if p.Lock != "" {
		chosen.Lock, err = r.Acquire(ctx, p.Lock, cmp.Or(p.TTL, usualTTL))
		if errors.Is(err, ErrLocked) {
			return nil, err, nil
		}
		if err != nil {
			return nil, nil, err
		}
		under = chosen.Lock.Context()
	}
	if p.Probe == nil {
		return chosen, nil, nil
	}
	passed = deadline.Do(under, "worker.probe", probeTimeout, func(ctx context.Context) error {
		return cmp.Or(p.Probe(ctx), context.Cause(ctx))
	})
	if passed == nil {
		return chosen, nil, nil
	}
	chosen.Free()
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	return nil, passed, nil
}

// uses writes down what the run has chosen.
func (r *Run) uses(ctx context.Context, chosen *Chosen, before []lifecycle.PassedOver) (*Chosen, error) {
	used := lifecycle.Provider{Name: chosen.Name, Before: before}
	if chosen.Lock != nil {
		used.Lock, used.Epoch = chosen.Lock.key, chosen.Lock.epoch
	}
	if err := r.notesProvider(ctx, used); err != nil {
		chosen.Free()
		return nil, err
	}
	result := "first"
	if len(before) > 0 {
		result = "later"
	}
	r.locks.metrics.providers.WithLabelValues(result).Inc()
	return chosen, nil
}

func (r *Run) notesProvider(ctx context.Context, used lifecycle.Provider) error {
	err := r.Patiently(ctx, "worker.note_provider", func(ctx context.Context) error { return r.lifecycle.NoteProvider(ctx, r.try, used) })
	if err != nil {
		return fmt.Errorf("write down the provider: %w", err)
	}
	return nil
}
