//go:build !race

package lifecycle_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestASkipLeavesWhatWasTriedOfItsMessagesToTheSweep(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	f.exec(`INSERT INTO message_tries (try_id, no, tries, mark) VALUES ($1, 0, 1, gen_random_uuid())`, c.try.ID)
	require.NoError(t, f.Skip(ctx, c.try, nil, "", 0))
	require.Equal(t, 1, one[int](f, `SELECT count(*) FROM unswept_runs WHERE run_id = $1`, c.try.Run))
}

func TestACallForManySaysAndWritesWhatSingleOnesDoWhateverIsInIt(t *testing.T) {
	f := newFixture(t)
	worker := uuid.New()
	trips := f.someOf(worker)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 30 {
		all := someAsked(random, trips)
		for _, what := range []string{"pick_up", "skip"} {
			type outcome struct {
				answers []bool
				rows    string
			}
			var outcomes []outcome
			for _, ask := range []func(*fixture, pgx.Tx, string, []asked, uuid.UUID) []bool{together, singly} {
				tx, err := f.pool.Begin(ctx)
				require.NoError(t, err)
				_, err = tx.Exec(ctx, `SELECT moves.heartbeat($1, '15 s', NULL, NULL)`, worker)
				require.NoError(t, err)
				o := outcome{answers: ask(f, tx, what, all, worker)}
				require.NoError(t, tx.QueryRow(ctx, standing).Scan(&o.rows))
				require.NoError(t, tx.Rollback(ctx))
				outcomes = append(outcomes, o)
			}
			require.Equal(t, outcomes[1], outcomes[0], what)
		}
		tx, err := f.pool.Begin(ctx) // the next round goes on from here
		require.NoError(t, err)
		together(f, tx, []string{"pick_up", "skip"}[random.IntN(2)], all[:len(all)/3], worker)
		require.NoError(t, tx.Commit(ctx))
	}
}

// A session of the users' own programs keeps its plans, too: those of the triggers.
func TestAUsersSessionThatPlannedOnAnEmptyDatabaseReadsNoMoreOnAFullOne(t *testing.T) {
	f := newFixture(t)
	f.exec(`ALTER TABLE connectors SET (autovacuum_enabled = off)`)
	f.exec(`ALTER TABLE open_runs SET (autovacuum_enabled = off)`)
	session, err := pgx.ConnectConfig(ctx, f.pool.Config().ConnConfig.Copy())
	require.NoError(t, err)
	defer func() { require.NoError(t, session.Close(ctx)) }()
	_, err = session.Exec(ctx, `SET plan_cache_mode = auto`)
	require.NoError(t, err)
	buffers := func(sql string) (n int) {
		tx, err := session.Begin(ctx)
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback(ctx)) }()
		rows, err := tx.Query(ctx, `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) `+sql, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
		plan, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[[]byte])
		require.NoError(t, err)
		var explained []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		require.NoError(t, json.Unmarshal(plan, &explained))
		return explained[0].Plan.Hit + explained[0].Plan.Read
	}
	trips := f.many(2, f.syncing)
	statements := []string{
		fmt.Sprintf(`UPDATE connectors SET config = '{"a": 1}' WHERE id = %d`, trips[0].id),
		fmt.Sprintf(`DELETE FROM connectors WHERE id = %d`, trips[1].id),
	}
	for range 8 {
		for _, sql := range statements {
			buffers(sql)
		}
	}
	f.force(`INSERT INTO open_runs (id, connector_id, type, user_id, trigger, due_at, started_at, config_version, dispatched_at)
		SELECT gen_random_uuid(), i, 'file', 1, 'schedule', now(), now(), 1, now() FROM generate_series(1000000, 1020000) i`)
	for _, sql := range statements {
		require.Less(t, min(buffers(sql), buffers(sql)), 100, "the catalogue is read again where another database has changed its own: %s", sql)
	}
}

// Both write down when the next sync is due, each in words of its own.
func TestASkippedConnectorIsPlannedAsOneThatHasCompleted(t *testing.T) {
	f := newFixture(t)
	const planned = `SELECT (to_jsonb(c) - ARRAY['last_sync_at', 'over_at', 'next_sync_at', 'due_at', 'slot_at', 'docs_analyzed'])::text || concat_ws(' ', '',
		last_sync_at > now(), over_at = last_sync_at, round(extract(epoch FROM next_sync_at - last_sync_at) / 60), slot_at = next_sync_at) FROM connectors c WHERE id = $1`
	for _, schedule := range []string{
		`refresh_freq_minutes = 60`, `refresh_freq_minutes = 0`, `refresh_freq_minutes = NULL`,
		`refresh_freq_minutes = NULL, schedule_cron = '*/5 * * * *'`,
	} {
		for _, triggered := range []bool{false, true} {
			for _, state := range []*string{nil, new(`{"at": 7}`)} {
				c := f.syncing()
				f.exec(`UPDATE connectors SET `+schedule+` WHERE id = $1`, c.id)
				f.force(`UPDATE connectors SET status_message = 'slow', failure_count = 2, state = '{"at": 1}', listing = '{"seen": 1}' WHERE id = $1`, c.id)
				if triggered {
					f.exec(`SELECT moves.trigger_sync($1)`, c.id)
				}
				var rows []string
				for _, move := range []string{`SELECT moves.finish($1, $2, $3)`, `SELECT moves.skip($1, $2, $3, NULL, 0)`} {
					tx, err := f.pool.Begin(ctx)
					require.NoError(t, err)
					var done bool
					require.NoError(t, tx.QueryRow(ctx, move, c.try.Run, c.try.ID, state).Scan(&done))
					require.True(t, done)
					var row string
					require.NoError(t, tx.QueryRow(ctx, planned, c.id).Scan(&row))
					require.NoError(t, tx.Rollback(ctx))
					rows = append(rows, row)
				}
				require.Equal(t, rows[0], rows[1], "%s, triggered: %v", schedule, triggered)
			}
		}
	}
}
