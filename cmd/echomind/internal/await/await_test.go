package await_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/await"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/testkit"
	"github.com/echomind/sync/sdk/lifecycle"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// source is one connector and the moves of the services around it.
type source struct {
	t     *testing.T
	pool  *pgxpool.Pool
	moves *lifecycle.Lifecycle
	id    int32
	// session is that of the latest claim.
	session, owner uuid.UUID
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

func (s *source) openRun(trigger string) {
	s.t.Helper()
	s.exec(`INSERT INTO scheduler_runs (id, connector_id, job_name, trigger, due_at, started_at, config_version)
		VALUES ($1, $2, 'connector.sync.file', $3, clock_timestamp(), clock_timestamp(), 1)`, s.session, s.id, trigger)
}

func (s *source) claim() {
	s.t.Helper()
	var reason string
	require.NoError(s.t, s.pool.QueryRow(context.Background(), `SELECT due_reason FROM connectors WHERE id = $1
		AND next_sync_at <= clock_timestamp()`, s.id).Scan(&reason), "it is not due")
	s.session = uuid.New()
	s.openRun(reason)
	s.exec(`UPDATE connectors SET status = 'PENDING', chunking_session = $1, dispatched_at = clock_timestamp(),
		next_sync_at = NULL, due_reason = NULL WHERE id = $2`, s.session, s.id)
}

func (s *source) pickUp() {
	s.t.Helper()
	s.owner = uuid.New()
	require.NoError(s.t, s.moves.PickUp(context.Background(), s.id, s.session, s.owner, time.Minute))
}

func (s *source) complete(total int) {
	s.t.Helper()
	s.exec(`UPDATE scheduler_runs SET total = $2, stored = $2, documents_processed = $2 WHERE id = $1`, s.session, total)
	_, err := s.moves.Complete(context.Background(), s.session)
	require.NoError(s.t, err)
}

func (s *source) sync(total int) { s.claim(); s.pickUp(); s.complete(total) }

func (s *source) rescue() {
	s.t.Helper()
	s.session = uuid.New()
	tx, err := s.pool.Begin(context.Background())
	require.NoError(s.t, err)
	_, err = tx.Exec(context.Background(), `UPDATE connectors SET status = 'PENDING', chunking_session = $1,
		dispatched_at = clock_timestamp(), failure_count = failure_count + 1, lease_owner = NULL, lease_expires_at = NULL,
		status_message = 'worker lost: its lease ran out' WHERE id = $2`, s.session, s.id)
	require.NoError(s.t, err)
	_, err = tx.Exec(context.Background(), `INSERT INTO scheduler_runs (id, connector_id, job_name, trigger, due_at,
		started_at, config_version) VALUES ($1, $2, 'connector.sync.file', 'rescue', clock_timestamp(), clock_timestamp(), 1)`,
		s.session, s.id)
	require.NoError(s.t, err)
	require.NoError(s.t, tx.Commit(context.Background()))
}

func (s *source) fail(kind lifecycle.Failure) {
	s.t.Helper()
	require.NoError(s.t, s.moves.Fail(context.Background(), s.session, kind, "the site answers 500"))
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
			func(s *source) { require.NoError(s.t, s.moves.Release(context.Background(), s.session)) },
			func(s *source) { s.sync(2) },
		}, "completed", nil},
		{"it is handed back while it fetches", func(s *source) { s.sync(1) }, []func(*source){
			func(s *source) { s.claim(); s.pickUp() },
			func(s *source) { require.NoError(s.t, s.moves.Release(context.Background(), s.session)) },
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
			func(s *source) { s.fail("rescue") },
		}, "failed", await.ErrFailed},
		{"its documents are lost in transit", func(s *source) { s.sync(1) }, []func(*source){
			func(s *source) { s.claim(); s.pickUp() },
			func(s *source) { s.fail("lost") },
			func(s *source) { s.sync(2) },
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
			require.Equal(t, s.session, run.ID, "%v", seen)
			require.Equal(t, c.verdict, run.Status)
		})
	}
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
