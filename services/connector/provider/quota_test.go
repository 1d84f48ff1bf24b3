package provider_test

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/connector/provider"
	"github.com/echomind/sync/testonly/faultproxy"
	"github.com/echomind/sync/testonly/testkit"
)

// replica is a process with its own connections to the same Postgres.
func replica(t *testing.T, url string, c provider.Clock) *provider.Quotas {
	t.Helper()
	return provider.NewQuotas(pool(t, url), 0, c, testkit.Logger(t))
}

func pool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	p, err := postgres.Open(t.Context(), url, "test", 4)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func accountError(t *testing.T, q *provider.Quotas, rate provider.Rate) provider.Quota {
	t.Helper()
	quota, release := q.Account(provider.Google, "google_drive:alice", rate, nil)
	t.Cleanup(release)
	return quota
}

func TestSeveralReplicasKeepTogetherToOneRate(t *testing.T) {
	t.Parallel()
	url := testkit.Database(t, db.Up)
	rate := provider.Rate{PerSecond: 50, Burst: 20}
	began := time.Now()
	var mu sync.Mutex
	taken := 0
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(20*time.Second)) // it takes 1.6 s
	defer cancel()
	var group sync.WaitGroup
	for range 3 {
		q := replica(t, url, provider.System{})
		for range 3 {
			quota := accountError(t, q, rate)
			group.Go(func() {
				for quota.Take(ctx) == nil {
					mu.Lock()
					if taken++; taken == 100 {
						cancel()
					}
					mu.Unlock()
				}
			})
		}
	}
	group.Wait()
	most := rate.Burst + rate.PerSecond*time.Since(began).Seconds()
	require.LessOrEqual(t, float64(taken), most+1)
	require.GreaterOrEqual(t, taken, 100, "and none stands still")
}

func TestWithPlentyThereIsNotOneQuestionForEveryRequest(t *testing.T) {
	t.Parallel()
	url := testkit.Database(t, db.Up)
	p := pool(t, url)
	c := newClock()
	quota := accountError(t, provider.NewQuotas(p, 0, c, testkit.Logger(t)), provider.Rate{PerSecond: 1000, Burst: 1000})
	before := p.Stat().AcquireCount()
	for range 100 {
		require.NoError(t, quota.Take(t.Context()))
	}
	asked := p.Stat().AcquireCount() - before
	require.LessOrEqual(t, asked, int64(15))
	require.Empty(t, c.sleeps())
	var tokens float64
	require.NoError(t, p.QueryRow(t.Context(), `SELECT tokens FROM provider_quotas`).Scan(&tokens))
	require.GreaterOrEqual(t, tokens, 840.0)
	require.LessOrEqual(t, tokens, 990.0, "what was taken is taken for everybody; Postgres's clock has brought some back")
}

func TestWhatOneReplicaIsToldHoldsForAll(t *testing.T) {
	t.Parallel()
	url := testkit.Database(t, db.Up)
	rate := provider.Rate{PerSecond: 1000, Burst: 1000}
	told := accountError(t, replica(t, url, newClock()), rate)
	require.NoError(t, told.Take(t.Context()))
	require.NoError(t, told.Block(t.Context(), time.Hour))
	c := newClock()
	other := replica(t, url, c)
	err := accountError(t, other, rate).Take(t.Context())
	var e *provider.Error
	require.ErrorAs(t, err, &e, "longer than a sync waits")
	require.InDelta(t, time.Hour, e.RetryAfter, float64(time.Minute))
	require.Zero(t, e.Status, "nobody was asked")
	require.ErrorAs(t, told.Take(t.Context()), &e, "what it had taken before does not count")

	elsewhere, release := other.Account(provider.Google, "google_drive:bob", rate, nil)
	defer release()
	require.NoError(t, elsewhere.Take(t.Context()))

	// A wait that a sync does wait for.
	p := pool(t, url)
	_, err = p.Exec(t.Context(), `UPDATE provider_quotas SET blocked_until = now() + interval '5 min', refilled_at = now() + interval '5 min'`)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := &stopping{clock: newClock(), cancel: cancel}
	var said string
	waiting, free := replica(t, url, waits).Account(provider.Google, "google_drive:alice", rate,
		func(_ context.Context, wait time.Duration, asked string) (func(), error) {
			said = fmt.Sprintf("%s %.0f", asked, wait.Round(time.Minute).Minutes())
			return func() { said += ", and it is over" }, nil
		})
	defer free()
	require.ErrorIs(t, waiting.Take(ctx), context.Canceled)
	require.Equal(t, "Google asked us to wait 5, and it is over", said)
	require.InDelta(t, 5*time.Minute, waits.sleeps()[0], float64(time.Minute))
}

func TestASyncThatMayWaitNoMoreDoesNotWaitForItsQuota(t *testing.T) {
	t.Parallel()
	url := testkit.Database(t, db.Up)
	c := newClock()
	quota, release := replica(t, url, c).Account(provider.Google, "google_drive:alice", provider.Rate{PerSecond: 1000, Burst: 1000}, refuseWaits)
	defer release()
	require.NoError(t, quota.Take(t.Context()))
	require.NoError(t, quota.Block(t.Context(), time.Minute))
	err := quota.Take(t.Context())
	require.ErrorIs(t, err, errWaitedEnough)
	requireEndsSync(t, err)
	require.Empty(t, c.sleeps())
}

func TestWhoStandsInLineForAPermitIsNotToldThatTheProviderAsked(t *testing.T) {
	t.Parallel()
	url := testkit.Database(t, db.Up)
	p := pool(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := &stopping{clock: newClock(), cancel: cancel}
	quota, release := provider.NewQuotas(p, 0, waits, testkit.Logger(t)).Account(
		provider.Google, "google_drive:alice", provider.Rate{PerSecond: 0.05, Burst: 1}, refuseWaits)
	defer release()
	require.NoError(t, quota.Take(ctx))
	_, err := p.Exec(ctx, `UPDATE provider_quotas SET tokens = -5`)
	require.NoError(t, err)
	require.ErrorIs(t, quota.Take(ctx), context.Canceled)
	require.Equal(t, []time.Duration{20 * time.Second}, waits.sleeps())
}

// stopping ends a run at its first wait.
type stopping struct {
	*clock
	cancel context.CancelFunc
}

func (s *stopping) Sleep(ctx context.Context, d time.Duration) error {
	s.cancel()
	return s.clock.Sleep(ctx, d)
}

func TestAShorterBlockDoesNotEndALongerOneAndAfterItTheBucketIsEmpty(t *testing.T) {
	t.Parallel()
	url := testkit.Database(t, db.Up)
	p := pool(t, url)
	quota := accountError(t, replica(t, url, newClock()), provider.Rate{PerSecond: 10, Burst: 10})
	require.NoError(t, quota.Block(t.Context(), time.Minute))
	require.NoError(t, quota.Block(t.Context(), time.Second))
	var until time.Duration
	require.NoError(t, p.QueryRow(t.Context(), `SELECT blocked_until - now() FROM provider_quotas`).Scan(&until))
	require.Greater(t, until, 30*time.Second)
	_, err := p.Exec(t.Context(), `UPDATE provider_quotas SET blocked_until = now() - interval '1 ms', refilled_at = now()`)
	require.NoError(t, err)
	var granted int
	var wait float64
	require.NoError(t, p.QueryRow(t.Context(), `SELECT granted, wait_seconds FROM provider_quota_take('google_drive:alice', 0.01, 10, 10)`).Scan(&granted, &wait))
	require.Equal(t, 1, granted, "of the future")
	require.InDelta(t, 100, wait, 5)
}

func TestTakersOfAnEmptyBucketComeInOrderUpToItsBurst(t *testing.T) {
	t.Parallel()
	p := pool(t, testkit.Database(t, db.Up))
	take := func() (granted int, wait float64) {
		require.NoError(t, p.QueryRow(t.Context(), `SELECT granted, wait_seconds FROM provider_quota_take('a', 0.01, 3, 1)`).Scan(&granted, &wait))
		return granted, wait
	}
	for i, want := range []struct {
		granted int
		wait    float64
	}{{1, 0}, {1, 0}, {1, 0}, {1, 100}, {1, 200}, {1, 300}, {0, 100}, {0, 100}} {
		granted, wait := take()
		require.Equal(t, want.granted, granted, i)
		require.InDelta(t, want.wait, wait, 5, i)
	}
}

func TestPostgresAwayIsAWait(t *testing.T) {
	t.Parallel()
	direct := testkit.Database(t, db.Up)
	u, err := url.Parse(direct)
	require.NoError(t, err)
	proxy, err := faultproxy.Start(u.Host)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	through, err := proxy.URL(direct)
	require.NoError(t, err)
	healing := &healing{clock: newClock(), heal: proxy.Heal}
	quota := accountError(t, replica(t, through, healing), provider.Rate{PerSecond: 10, Burst: 10})
	proxy.Refuse(true)
	require.NoError(t, quota.Take(t.Context()))
	require.NotEmpty(t, healing.sleeps())
}

// healing brings Postgres back while somebody waits.
type healing struct {
	*clock
	heal func()
}

func (h *healing) Sleep(ctx context.Context, d time.Duration) error {
	h.heal()
	return h.clock.Sleep(ctx, d)
}

func TestQuotasThatNobodyUsesAreForgotten(t *testing.T) {
	t.Parallel()
	url := testkit.Database(t, db.Up)
	p := pool(t, url)
	for i, row := range []string{`now() - interval '2 days', NULL`, `now() - interval '2 days', now() + interval '1 h'`, `now(), NULL`} {
		_, err := p.Exec(t.Context(), fmt.Sprintf(`INSERT INTO provider_quotas (account, tokens, refilled_at, blocked_until) VALUES ('%d', 0, %s)`, i, row))
		require.NoError(t, err)
	}
	require.NoError(t, replica(t, url, newClock()).Sweep(t.Context()))
	var left string
	require.NoError(t, p.QueryRow(t.Context(), `SELECT string_agg(account, ',' ORDER BY account) FROM provider_quotas`).Scan(&left))
	require.Equal(t, "1,2", left)
}
