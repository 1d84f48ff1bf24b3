package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/connector/internal/dbgen"
)

// Quota keeps an account's requests within what its provider allows.
type Quota interface {
	// Take waits until a request may be made. It returns an *Error where the account is to wait for too long.
	Take(ctx context.Context) error
	// Block makes all requests of this account wait.
	Block(ctx context.Context, d time.Duration) error
}

// Unlimited is no quota.
type Unlimited struct{}

// Take returns at once.
func (Unlimited) Take(ctx context.Context) error { return ctx.Err() }

// Block does nothing.
func (Unlimited) Block(context.Context, time.Duration) error { return nil }

// Rate is how fast an account may be asked.
type Rate struct {
	// PerSecond is how many requests a second, in the long run.
	PerSecond float64
	// Burst is how many requests may come at once after a rest.
	Burst float64
}

// pace is slightly more than the time between two requests.
func (r Rate) pace() time.Duration { return time.Duration(1.01 * float64(time.Second) / r.PerSecond) }

const (
	quotaTimeout = 5 * time.Second
	quotaPause   = 500 * time.Millisecond
	// maxBatch is how many permits one query may take. A replica may still use them after another replica was told to wait.
	maxBatch = 10
	// stale is how long unused permits stay valid.
	stale = time.Second
)

// Quotas are the token buckets of all accounts, in Postgres, whose clock refills them.
type Quotas struct {
	queries *dbgen.Queries
	log     *slog.Logger
	longest time.Duration
	clock   Clock

	mu       sync.Mutex
	accounts map[string]*bucket
}

// NewQuotas makes the Quotas of a process. longest is Limits.LongestWait.
func NewQuotas(pool *pgxpool.Pool, longest time.Duration, clock Clock, log *slog.Logger) *Quotas {
	return &Quotas{
		queries: dbgen.New(pool), log: log, longest: Limits{LongestWait: longest}.orDefault().LongestWait, clock: clock,
		accounts: map[string]*bucket{},
	}
}

// Account returns the bucket of an account. The runs of one process that use the same account share its permits; release is called
// when a run ends. waits is called where the provider has asked to wait, and may refuse; nil calls nothing.
func (q *Quotas) Account(dialect Dialect, account string, rate Rate, waits Waits) (quota Quota, release func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, known := q.accounts[account]
	if !known {
		b = &bucket{quotas: q, dialect: dialect, account: account, rate: rate, turn: make(chan struct{}, 1), want: 1}
		q.accounts[account] = b
	}
	b.users++
	return &taker{b, waits}, sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if b.users--; b.users == 0 && q.accounts[account] == b {
			delete(q.accounts, account)
		}
	})
}

// Sweep removes accounts that were not used for a day.
func (q *Quotas) Sweep(ctx context.Context) error {
	return deadline.Do(ctx, "connector.sweep_quotas", quotaTimeout, func(ctx context.Context) error {
		_, err := q.queries.SweepQuotas(ctx)
		return err
	})
}

type bucket struct {
	quotas  *Quotas
	dialect Dialect
	account string
	rate    Rate
	users   int // guarded by quotas.mu

	turn chan struct{} // a lock for the fields below
	// permits were taken from Postgres and are not used yet.
	permits int
	taken   time.Time
	// want is how many permits to take. It doubles while Postgres has plenty, so that not every request needs a query.
	want int32
}

// taker is the access of one run to a bucket.
type taker struct {
	*bucket
	waits Waits
}

// Take takes a permit.
func (b *taker) Take(ctx context.Context) error {
	for {
		wait, err := b.next(ctx)
		if err != nil {
			return err
		}
		switch {
		case wait == 0:
			return ctx.Err()
		case -wait > b.rate.pace(): // the provider has asked to wait; ask again after it
			wait = -wait
			if err := b.waits.sleep(ctx, b.quotas.clock, wait, b.dialect.waitReason()); err != nil {
				return err
			}
		case wait < 0: // too many wait for a permit already
			if err := b.quotas.clock.Sleep(ctx, -wait); err != nil {
				return err
			}
		default: // a permit that is valid after the wait
			return b.quotas.clock.Sleep(ctx, wait)
		}
	}
}

// next returns how long to wait for a permit: 0 for a permit now, negative where to ask again after the wait.
func (b *bucket) next(ctx context.Context) (time.Duration, error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if now := b.quotas.clock.Now(); b.permits > 0 && now.Sub(b.taken) < stale {
		b.permits--
		return 0, nil
	}
	b.permits = 0
	var row dbgen.TakeQuotaRow
	err := b.ask(ctx, "connector.take_quota", func(ctx context.Context) (err error) {
		row, err = b.quotas.queries.TakeQuota(ctx, dbgen.TakeQuotaParams{
			Account: b.account, Rate: b.rate.PerSecond, Burst: b.rate.Burst, Want: b.want,
		})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("take from the quota: %w", err)
	}
	wait := time.Duration(row.WaitSeconds * float64(time.Second))
	switch {
	case row.Granted == 0 && wait > b.quotas.longest:
		return 0, &Error{
			Provider: b.dialect.Name, Reason: "quota", RetryAfter: wait, Wait: wait, WaitReason: b.dialect.waitReason(),
			Message: "the provider has told this account to wait longer than a sync does; it is tried again later",
		}
	case row.Granted == 0:
		return -max(wait, time.Millisecond), nil
	case wait > 0:
		b.want = 1
		return wait, nil
	}
	b.permits, b.taken = int(row.Granted)-1, b.quotas.clock.Now()
	if row.Granted == b.want {
		b.want = min(2*b.want, b.batch())
	}
	return 0, nil
}

// batch is at most the permits of half a second, and a quarter of the burst, so that two replicas share both.
func (b *bucket) batch() int32 {
	return int32(max(1, min(maxBatch, b.rate.PerSecond/2, b.rate.Burst/4)))
}

// Block records that the provider asked to wait. It does not wait itself.
func (b *bucket) Block(ctx context.Context, d time.Duration) error {
	select {
	case b.turn <- struct{}{}:
		b.permits, b.want = 0, 1
		<-b.turn
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := b.ask(ctx, "connector.block_quota", func(ctx context.Context) error {
		return b.quotas.queries.BlockQuota(ctx, dbgen.BlockQuotaParams{Account: b.account, WaitSeconds: d.Seconds()})
	})
	if err != nil {
		return fmt.Errorf("write down that the account is to wait: %w", err)
	}
	return nil
}

// ask repeats a query while Postgres is away, or locked by many queries for the same account: both are waits.
func (b *bucket) ask(ctx context.Context, name string, call func(context.Context) error) error {
	for logged := false; ; {
		err := deadline.Do(ctx, name, quotaTimeout, call)
		if ctx.Err() != nil && err != nil {
			return context.Cause(ctx)
		}
		if !postgres.Unavailable(err) && !postgres.Locked(err) {
			return err
		}
		if !logged {
			logged = true
			b.quotas.log.Warn("a sync waits for Postgres", "call", name, "err", err)
		}
		if err := b.quotas.clock.Sleep(ctx, quotaPause); err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
	}
}
