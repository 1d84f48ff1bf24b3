package await_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/await"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// source is one connector and the moves of the services around it.
type source struct {
	t     *testing.T
	pool  *pgxpool.Pool
	moves *lifecycle.Lifecycle
	id    int32
	// try is of the latest claim.
	try lifecycle.Try
}

func newSource(t *testing.T) *source {
	t.Helper()
	pool, err := postgres.Open(context.Background(), testkit.Database(t, db.Up), "echomind", 4)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	s := &source{t: t, pool: pool, moves: lifecycle.New(pool)}
	require.NoError(t, pool.QueryRow(context.Background(), `INSERT INTO connectors (name, type, user_id,
		refresh_freq_minutes) VALUES ('docs', 'file', 1, 60) RETURNING id`).Scan(&s.id))
	return s
}

func (s *source) exec(sql string, args ...any) {
	s.t.Helper()
	_, err := s.pool.Exec(context.Background(), sql, args...)
	require.NoError(s.t, err)
}

func (s *source) claim() {
	s.t.Helper()
	var isDue bool
	require.NoError(s.t, s.pool.QueryRow(context.Background(), `SELECT coalesce(next_sync_at <= clock_timestamp(), false)
		FROM connectors WHERE id = $1`, s.id).Scan(&isDue))
	require.True(s.t, isDue, "it is not due")
	s.try = lifecycle.Try{Run: movestest.Claim(s.t, s.pool, s.id)}
}

func (s *source) pickUp() {
	s.t.Helper()
	s.try = movestest.PickUp(s.t, s.pool, s.id, s.try.Run, time.Minute)
}

func (s *source) complete(total int) {
	s.t.Helper()
	s.exec(`UPDATE open_runs SET total = $2, stored = $2, whole = true, documents_processed = $2 WHERE id = $1`, s.try.Run, total)
	_, err := s.moves.Complete(context.Background(), s.try.Run)
	require.NoError(s.t, err)
}

func (s *source) sync(total int) { s.claim(); s.pickUp(); s.complete(total) }

// lose ends the lease of its worker, which is silent from then on, and says so as the moves want it.
func (s *source) lose() (silent string) {
	s.t.Helper()
	require.NoError(s.t, s.pool.QueryRow(context.Background(), `UPDATE workers SET expires_at = clock_timestamp() - interval '1 s'
		WHERE id = (SELECT worker_id FROM open_runs WHERE id = $1)
		RETURNING jsonb_build_array(jsonb_build_object('id', id, 'beats', beats))::text`, s.try.Run).Scan(&silent))
	return silent
}

func (s *source) rescue() {
	s.t.Helper()
	require.NoError(s.t, s.pool.QueryRow(context.Background(), `SELECT run_id FROM moves.rescue($1, '6 h', 10)`, s.lose()).
		Scan(&s.try.Run))
}

func (s *source) abandon() {
	s.t.Helper()
	s.moved(`SELECT run_id FROM moves.abandon($1, '6 h', 10)`, s.lose())
}

func (s *source) loseDocuments() {
	s.t.Helper()
	require.NoError(s.t, s.moves.Drain(context.Background(), s.try, 7))
	s.moved(`SELECT run_id FROM moves.fail_lost_in_transit(ARRAY[$1::uuid], 8, 9)`, s.try.Run)
}

// moved makes a move that returns the run it ends.
func (s *source) moved(sql string, args ...any) {
	s.t.Helper()
	var run uuid.UUID
	require.NoError(s.t, s.pool.QueryRow(context.Background(), sql, args...).Scan(&run))
	require.Equal(s.t, s.try.Run, run)
}

func (s *source) release() {
	s.t.Helper()
	require.NoError(s.t, s.moves.Release(context.Background(), s.try))
}

func (s *source) postpone() {
	s.t.Helper()
	require.NoError(s.t, s.moves.Postpone(context.Background(), s.try, time.Hour, "Microsoft asked us to wait"))
}

func (s *source) fail(kind lifecycle.Failure) {
	s.t.Helper()
	require.NoError(s.t, s.moves.Fail(context.Background(), s.try, kind, "the site answers 500"))
}

func (s *source) trigger() (at time.Time) {
	s.t.Helper()
	require.NoError(s.t, s.pool.QueryRow(context.Background(), `UPDATE connectors SET trigger_requested_at = clock_timestamp()
		WHERE id = $1 RETURNING trigger_requested_at`, s.id).Scan(&at))
	return at
}

// TestTheVerdictIsThatOfTheRunThatAnswers lets the services make their next step each time that something was seen.
func TestTheVerdictIsThatOfTheRunThatAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		setUp func(*source)
		steps []func(*source)
		// verdict of the run that was waited for; it is the latest one that was claimed.
		verdict string
		err     error
	}{
		{"it was at rest", func(s *source) { s.sync(1) },
			[]func(*source){(*source).claim, (*source).pickUp, func(s *source) { s.complete(3) }}, "completed", nil},
		{"nothing had changed", func(s *source) { s.sync(1) },
			[]func(*source){func(s *source) { s.sync(0) }}, "skipped", nil},
		{"it was pending", (*source).claim, []func(*source){func(s *source) { s.pickUp(); s.complete(1) }}, "completed", nil},
		{"it was fetching, and another sync follows", func(s *source) { s.claim(); s.pickUp() },
			[]func(*source){func(s *source) { s.complete(1) }, func(s *source) { s.sync(2) }}, "completed", nil},
		{"it was fetching, that sync fails, and another one follows", func(s *source) { s.claim(); s.pickUp() },
			[]func(*source){func(s *source) { s.fail(lifecycle.Transient) }, func(s *source) { s.sync(2) }}, "completed", nil},
		{"it is handed back before it is picked up", (*source).claim, []func(*source){
			(*source).release,
			func(s *source) { s.sync(2) },
		}, "completed", nil},
		{"it is handed back while it fetches", func(s *source) { s.sync(1) }, []func(*source){
			func(s *source) { s.claim(); s.pickUp() },
			(*source).release,
			func(s *source) { s.sync(2) },
		}, "completed", nil},
		{"it is changed in flight", func(s *source) { s.sync(1) }, []func(*source){
			func(s *source) { s.claim(); s.pickUp() },
			func(s *source) { s.exec(`UPDATE connectors SET config = '{"url":"file:///b"}' WHERE id = $1`, s.id) },
			func(s *source) { s.sync(2) },
		}, "completed", nil},
		{"its worker is lost", func(s *source) { s.sync(1) }, []func(*source){
			func(s *source) { s.claim(); s.pickUp() },
			(*source).rescue,
			func(s *source) { s.pickUp(); s.complete(2) },
		}, "completed", nil},
		{"its worker is lost twice", func(s *source) { s.sync(1) }, []func(*source){
			func(s *source) { s.claim(); s.pickUp() },
			func(s *source) { s.rescue(); s.pickUp() },
			(*source).abandon,
		}, "failed", await.ErrFailed},
		{"its documents are lost in transit", func(s *source) { s.sync(1) }, []func(*source){
			func(s *source) { s.claim(); s.pickUp() },
			(*source).loseDocuments,
			func(s *source) { s.sync(2) },
		}, "completed", nil},
		{"it takes too long, and goes on from a checkpoint", func(s *source) { s.sync(1) }, []func(*source){
			func(s *source) {
				s.claim()
				s.pickUp()
				s.exec(`UPDATE open_runs SET stored = 1, checkpoint_no = 1, advanced = true WHERE id = $1`, s.try.Run)
			},
			func(s *source) { s.fail(lifecycle.TooLong) },
			func(s *source) { s.sync(2) },
		}, "completed", nil},
		{"it takes too long, without a checkpoint", func(s *source) { s.sync(1) }, []func(*source){
			func(s *source) { s.claim(); s.pickUp(); s.fail(lifecycle.TooLong) },
		}, "failed", await.ErrFailed},
		{"its source asks to wait, and it is triggered again", func(s *source) { s.sync(1) }, []func(*source){
			func(s *source) { s.claim(); s.pickUp(); s.postpone() },
			func(s *source) { s.trigger(); s.sync(2) },
		}, "completed", nil},
		{"it fails", func(s *source) { s.sync(1) }, []func(*source){
			func(s *source) { s.claim(); s.pickUp(); s.fail(lifecycle.Transient) },
		}, "failed", await.ErrFailed},
		{"it fails for good", func(s *source) { s.sync(1) }, []func(*source){
			func(s *source) { s.claim(); s.pickUp(); s.fail(lifecycle.Permanent) },
		}, "failed", await.ErrFailed},
		{"it fails once too often", func(s *source) {
			s.sync(1)
			s.exec(`UPDATE connectors SET max_retries = 1 WHERE id = $1`, s.id)
		}, []func(*source){func(s *source) { s.claim(); s.pickUp(); s.fail(lifecycle.Transient) }}, "failed", await.ErrFailed},
		{"it is disabled before it is claimed", func(s *source) { s.sync(1) }, []func(*source){
			func(s *source) { require.NoError(s.t, s.moves.Disable(context.Background(), s.id)) },
		}, "", await.ErrDisabled},
		{"it is disabled while it fetches", func(s *source) { s.sync(1) }, []func(*source){
			func(s *source) { s.claim(); s.pickUp() },
			func(s *source) { require.NoError(s.t, s.moves.Disable(context.Background(), s.id)) },
		}, "superseded", await.ErrDisabled},
		{"it is disabled and enabled between two looks", func(s *source) { s.sync(1) }, []func(*source){
			func(s *source) {
				s.claim()
				s.pickUp()
				require.NoError(s.t, s.moves.Disable(context.Background(), s.id))
				require.NoError(s.t, s.moves.Enable(context.Background(), s.id))
			},
		}, "superseded", await.ErrDisabled},
		{"it is cancelled before it is picked up", func(s *source) { s.sync(1) }, []func(*source){
			func(s *source) { s.claim() },
			func(s *source) {
				require.NoError(s.t, s.moves.Cancel(context.Background(), s.try.Run, "cancelled by ada"))
			},
		}, "superseded", await.ErrCancelled},
		{"it is cancelled while it fetches", func(s *source) { s.sync(1) }, []func(*source){
			func(s *source) { s.claim(); s.pickUp() },
			func(s *source) {
				require.NoError(s.t, s.moves.Cancel(context.Background(), s.try.Run, "cancelled by ada"))
			},
		}, "superseded", await.ErrCancelled},
		{"another run is cancelled, that began before", func(s *source) { s.claim(); s.pickUp() }, []func(*source){
			func(s *source) {
				require.NoError(s.t, s.moves.Cancel(context.Background(), s.try.Run, "cancelled by ada"))
			},
			func(s *source) { s.sync(2) },
		}, "completed", nil},
		{"it is deleted", func(s *source) { s.claim() }, []func(*source){
			func(s *source) { s.exec(`DELETE FROM connectors WHERE id = $1`, s.id) },
		}, "", await.ErrDeleted},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			s := newSource(t)
			c.setUp(s)
			at := s.trigger()
			var seen []string
			run, err := await.Verdict(ctx, s.pool, s.id, at, func(p await.Progress) {
				seen = append(seen, p.String())
				if len(c.steps) > 0 {
					c.steps[0](s)
					c.steps = c.steps[1:]
				}
			})
			require.Empty(t, c.steps, "ended before its time: %v", seen)
			if c.err == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, c.err)
			}
			if c.verdict == "" {
				require.Nil(t, run)
				return
			}
			require.Equal(t, s.try.Run, run.ID, "%v", seen)
			require.Equal(t, c.verdict, run.Status)
		})
	}
}

func TestAWaitThatTheSourceAskedForIsShownWhileItLasts(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	s.sync(1)
	at := s.trigger()
	ctx, cancel := context.WithCancel(context.Background())
	steps := []func(){
		func() { s.claim(); s.pickUp() },
		func() {
			s.exec(`SELECT moves.waits($1, $2, '5 minutes', 'Microsoft asked us to wait')`, s.try.Run, s.try.ID)
		},
		s.postpone,
		cancel,
	}
	var seen []string
	_, err := await.Verdict(ctx, s.pool, s.id, at, func(p await.Progress) {
		seen = append(seen, p.String())
		steps[0]()
		steps = steps[1:]
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, seen, 4)
	require.Regexp(t, `^SYNCING: 0 stored, still fetching; Microsoft asked us to wait until [0-9 A-Za-z:]+$`, seen[2])
	require.Regexp(t, `^put off: Microsoft asked us to wait until [0-9 A-Za-z:]+$`, seen[3])
}

// What is due by itself goes first, and answers no request for a run with parameters.
func TestTheVerdictOfARunWithParametersIsItsOwn(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	s.exec(`UPDATE connector_types SET kind = 'job'`)
	ask := func() (at time.Time) {
		require.NoError(t, s.pool.QueryRow(context.Background(), `SELECT moves.trigger_sync($1, parameters => '{"dry_run": true}')`, s.id).Scan(&at))
		return at
	}
	asked := func() {
		s.try.Run = movestest.ClaimAsked(t, s.pool, s.id)
		s.pickUp()
	}
	at := ask()
	steps := []func(){
		func() { s.sync(7); asked() }, // what is due by itself, then the request
		s.postpone,
		func() {
			movestest.Force(t, s.pool, `UPDATE connectors SET parameters_due_at = clock_timestamp()`)
			asked()
		},
		func() { s.fail(lifecycle.Transient) },
	}
	var seen []string
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	run, err := await.Asked(ctx, s.pool, s.id, at, func(p await.Progress) {
		seen = append(seen, p.String())
		if len(steps) > 0 {
			steps[0]()
			steps = steps[1:]
		}
	})
	require.Empty(t, steps, "%v", seen)
	require.ErrorIs(t, err, await.ErrFailed)
	require.Equal(t, s.try.Run, run.ID)
	require.Regexp(t, `^put off: Microsoft asked us to wait until [0-9 A-Za-z:]+$`, seen[2])

	// A plain trigger is not answered by such a run.
	plain := s.trigger()
	s.try.Run = movestest.Claim(t, s.pool, s.id)
	ask()
	s.pickUp()
	s.complete(3)
	asked()
	run, err = await.Verdict(ctx, s.pool, s.id, plain, nil)
	require.NoError(t, err)
	require.Equal(t, int64(3), run.DocumentsProcessed)
	s.complete(0)

	_, err = await.Asked(ctx, s.pool, s.id, ask(), func(await.Progress) {
		s.exec(`SELECT moves.trigger_sync($1, parameters => '{}')`, s.id)
	})
	require.ErrorIs(t, err, await.ErrWithdrawn)
}

func TestWaitingForAnAddedConnectorNeedsNoTrigger(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	var added time.Time
	require.NoError(t, s.pool.QueryRow(context.Background(), `SELECT created_at FROM connectors`).Scan(&added))
	s.sync(4)
	run, err := await.Verdict(context.Background(), s.pool, s.id, added, nil)
	require.NoError(t, err)
	require.Equal(t, int64(4), run.DocumentsProcessed)
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := await.Verdict(ctx, s.pool, s.id, s.trigger(), func(await.Progress) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
}

func TestPostgresAwayIsWaitedFor(t *testing.T) {
	t.Parallel()
	server, url := testkit.PrivatePostgres(t, db.Up)
	pool, err := postgres.Open(context.Background(), url, "echomind", 4)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	s := &source{t: t, pool: pool, moves: lifecycle.New(pool)}
	require.NoError(t, pool.QueryRow(context.Background(), `INSERT INTO connectors (name, type, user_id,
		refresh_freq_minutes) VALUES ('docs', 'file', 1, 60) RETURNING id`).Scan(&s.id))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	step := 0
	run, err := await.Verdict(ctx, pool, s.id, s.trigger(), func(p await.Progress) {
		switch step++; {
		case step == 1:
			require.NoError(t, server.Stop(ctx))
		case p.Unreachable != nil:
			require.NoError(t, server.Restart(ctx))
			testkit.Eventually(t, 20*time.Second, func() error { return pool.Ping(ctx) })
			s.sync(1)
		}
	})
	require.NoError(t, err)
	require.Equal(t, "completed", run.Status)
}

// While the run with A's is fetched, others are asked for; then its worker is lost, and another takes it up.
func TestWhoWaitsForParametersIsNotToldOfARescuedRunWithOthers(t *testing.T) {
	s := newSource(t)
	s.exec(`UPDATE connector_types SET kind = 'job'`)
	s.sync(1)
	ask := func(parameters string) (at time.Time) {
		require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT moves.trigger_sync($1, parameters => $2)`, s.id, parameters).Scan(&at))
		return at
	}
	ask(`{"provider": "A"}`)
	s.try.Run = movestest.ClaimAsked(t, s.pool, s.id)
	s.pickUp()
	at := ask(`{"provider": "B"}`)
	s.rescue()
	s.pickUp()
	s.complete(1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	claims := sync.OnceFunc(func() {
		s.try.Run = movestest.ClaimAsked(t, s.pool, s.id)
		s.pickUp()
		s.complete(1)
	})
	run, err := await.Asked(ctx, s.pool, s.id, at, func(await.Progress) { claims() })
	require.NoError(t, err)
	require.JSONEq(t, `{"provider": "B"}`, string(run.Parameters))
}
