//go:build !race

package semantic

import (
	"context"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/postgres"
)

// keeping are the connections that keep this database's ledger now; other packages' tests have theirs beside it.
const keeping = `FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%moves.keep_ledger%' AND state = 'active' AND pid <> pg_backend_pid()`

const keeps = `CREATE OR REPLACE FUNCTION moves.keep_ledger(retention interval, OUT dropped integer, OUT removed integer) LANGUAGE plpgsql AS `

func TestWhatPostgresSaysOfAJobsStatementIsTheJobsFailure(t *testing.T) {
	for code, text := range map[string]string{
		"53400": "temporary file size exceeds temp_file_limit (1024kB)", "53200": "out of memory", "58030": "could not read block 7 in file", "40P01": "deadlock detected",
	} {
		t.Run(code, func(t *testing.T) {
			f := newFlow(t)
			f.serving()
			f.exec(keeps + `$$ BEGIN RAISE EXCEPTION '` + text + `' USING ERRCODE = '` + code + `'; END $$`)
			var said string
			for range 4 {
				said = f.asks("ledger_retention")
			}
			require.Contains(t, f.asks("lease_sweep"), "completed", "Postgres answers")
			require.True(t, one[bool](f.fixture, `SELECT failure_count > 0 FROM connectors WHERE type = 'ledger_retention'`), said)
		})
	}
}

func TestAJobThatFailsAgainAndAgainWaitsLongerAndSaysWhy(t *testing.T) {
	f := newFlow(t)
	f.serving()
	f.exec(keeps + `$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$`)
	var said string
	for range 6 {
		said = f.asks("ledger_retention")
	}
	wait := one[float64](f.fixture, `SELECT extract(epoch FROM next_sync_at - clock_timestamp())::float8 FROM connectors WHERE type = 'ledger_retention'`)
	require.Contains(t, said, "No space left on device", "the ledger says why")
	require.Greater(t, wait, 30.0, "after six waits behind each other")
}

func TestAnOutageWhileADeletedConnectorIsSweptIsAWait(t *testing.T) {
	f := newFlow(t)
	f.serving()
	f.asks("orphan_sweep")
	gone := f.synced(map[string]string{"a": "zebra"})
	f.exec(`DELETE FROM connectors WHERE id = $1`, gone.connector)
	f.exec(`CREATE OR REPLACE FUNCTION moves.sweep_outdated(connector integer, version bigint, behind text, page integer) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'terminating connection due to administrator command' USING ERRCODE = '57P01'; END $$`)
	said := f.asks("orphan_sweep")
	require.Regexp(t, `^superseded \| postponed`, said)
}

func TestASilenceOfPostgresThatIsOverIsAWaitOfAJob(t *testing.T) {
	b := newBehind(t)
	b.config.LeaseSeconds = 15
	b.serving()
	b.exec(keeps + `$$ BEGIN PERFORM pg_sleep(4); dropped := 0; removed := 0; END $$`)
	run := b.publishesJob("ledger_retention")
	b.eventually(`SELECT EXISTS (SELECT ` + keeping + `)`)
	b.postgres.Silence(ways["both ways"]...)
	b.says("the database is away; a system job is put off")
	b.postgres.Heal()
	b.eventually(`SELECT EXISTS (SELECT FROM runs WHERE id = $1)`, run)
	require.Regexp(t, `^superseded \| postponed .*semantic.sweep: no answer within 5s`,
		one[string](b.fixture, `SELECT concat_ws(' | ', status, reason, error_message) FROM runs WHERE id = $1`, run))
}

func TestAJobWhoseRowsSomebodyHoldsFails(t *testing.T) {
	f := newFlow(t)
	f.serving()
	f.week(110, 5)
	release := f.holds(`LOCK TABLE runs IN ACCESS SHARE MODE`)
	defer release()
	said := f.asks("ledger_retention")
	require.Contains(t, said, "failed")
}

func TestAConnectionThatIsEndedIsAWaitOfAJob(t *testing.T) {
	f := newFlow(t)
	f.serving()
	f.exec(keeps + `$$ BEGIN PERFORM pg_sleep(30); dropped := 0; removed := 0; END $$`)
	run := f.publishesJob("ledger_retention")
	f.eventually(`SELECT EXISTS (SELECT ` + keeping + `)`)
	f.exec(`SELECT pg_terminate_backend(pid) ` + keeping)
	f.eventually(`SELECT EXISTS (SELECT FROM runs WHERE id = $1)`, run)
	said := one[string](f.fixture, `SELECT concat_ws(' | ', status, reason, error_message, result::text) FROM runs WHERE id = $1`, run)
	require.Contains(t, said, "postponed")
}

func TestAnOutageOfOursIsAWaitOfASystemJobAndAStatementThatTakesTooLongIsItsFailure(t *testing.T) {
	f := newFlow(t)
	f.serving()
	for i, c := range [][2]string{
		{"57P01", `^superseded`}, {"57P01", `^superseded \| postponed\b.*the database is away: keep the ledger: `},
		{"57014", `^failed \| transient failure \| keep the ledger: `},
	} {
		f.exec(keeps + `$$ BEGIN RAISE EXCEPTION 'it ends' USING ERRCODE = '` + c[0] + `'; END $$`)
		require.Regexp(t, c[1], f.asks("ledger_retention"))
		require.Equal(t, c[0] == "57014", one[bool](f.fixture, `SELECT failure_count = 1 FROM connectors WHERE type = 'ledger_retention'`), c[0])
		if i == 1 {
			require.True(t, one[bool](f.fixture, `SELECT next_sync_at > clock_timestamp() + interval '15 s' FROM connectors WHERE type = 'ledger_retention'`), "the second wait is longer")
		}
	}
}

// Qdrant takes a request and does not answer, as a machine that hangs. Postgres is well.
func TestAQdrantThatIsSilentIsNoOutageOfPostgresAndNoFailureOfTheReview(t *testing.T) {
	x := newIndexed(t)
	x.synced(map[string]string{"a": "zebra"})
	x.exec(`UPDATE search_index SET review_at = clock_timestamp()`)
	var met outages
	for range 2 {
		h := &hold{operation: scroll, reached: make(chan struct{}), release: make(chan struct{}), done: make(chan struct{})}
		x.hold.Store(h)
		began := time.Now()
		_, err := x.reviewIndex(ctx, nil, began.Add(time.Second))
		close(h.release)
		require.Error(t, err)
		require.ErrorIs(t, err, errIndex, "else it is a failure of the job")
		require.False(t, x.postgresIsAway(ctx, began, err, &met), "Postgres answers; Qdrant does not")
		x.exec(`UPDATE search_index SET review_at = clock_timestamp()`)
	}
}

// Others have all connections for a moment: Postgres refuses one, whatever was to be asked.
func TestAConnectionThatPostgresRefusesBecauseItHasTooManyIsAWaitOfAJob(t *testing.T) {
	f := newFixture(t)
	name := "refused_" + time.Now().Format("150405000000")
	f.exec(`CREATE ROLE ` + name + ` LOGIN PASSWORD 'x' CONNECTION LIMIT 0`)
	t.Cleanup(func() { f.exec(`DROP ROLE ` + name) })
	u, err := url.Parse(f.pool.Config().ConnString())
	require.NoError(t, err)
	u.User = url.UserPassword(name, "x")
	_, err = pgx.Connect(context.Background(), u.String())
	require.True(t, postgres.Unavailable(err))
	require.True(t, postgres.Lost(err), "nothing was asked")
	require.True(t, f.postgresIsAway(ctx, time.Now(), err, &outages{}))
}

// The machine of Postgres is gone while a failover goes on: no connection is made, so nothing was asked. Twice in a row it is no fault of the statement.
func TestAConnectionThatCannotBeMadeInTimeSaysNothingOfTheStatement(t *testing.T) {
	f := newFixture(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	_, err = pgx.Connect(context.Background(), "postgres://x:x@"+silent.Addr().String()+"/x?connect_timeout=1&sslmode=disable")
	require.True(t, postgres.Unavailable(err))
	var met outages
	require.True(t, f.postgresIsAway(ctx, time.Now(), err, &met))
	require.True(t, f.postgresIsAway(ctx, time.Now(), err, &met), "the second time")
}

func TestAJobThatMeetsTooManyConnectionsIsPutOff(t *testing.T) {
	f := newFlow(t)
	f.serving()
	f.exec(keeps + `$$ BEGIN RAISE EXCEPTION 'sorry, too many clients already' USING ERRCODE = '53300'; END $$`)
	require.Regexp(t, `^superseded`, f.asks("ledger_retention"))
	require.False(t, one[bool](f.fixture, `SELECT failure_count > 0 FROM connectors WHERE type = 'ledger_retention'`))
}
