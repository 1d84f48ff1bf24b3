package conditions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/conditions"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// place is a database with a session that asks in it. The session's login is the owner, a superuser: what a condition could get back to is all there is.
type place struct {
	t       *testing.T
	conn    *pgx.Conn
	session *conditions.Session
	n       int
}

func newPlace(t *testing.T) *place {
	t.Helper()
	t.Parallel()
	url := testkit.Database(t, db.Up)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	session := conditions.New(url, "test", postgres.As("echomind_scheduler"))
	t.Cleanup(func() {
		session.Close(context.Background())
		require.NoError(t, conn.Close(context.Background()))
	})
	p := &place{t: t, conn: conn, session: session}
	p.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) VALUES ('docs', 'web', 1, 60)`)
	p.exec(`CREATE TABLE changes (n int NOT NULL); INSERT INTO changes VALUES (60), (70); GRANT SELECT ON changes TO echomind_conditions`)
	return p
}

func (p *place) exec(sql string, args ...any) {
	p.t.Helper()
	_, err := p.conn.Exec(p.t.Context(), sql, args...)
	require.NoError(p.t, err, sql)
}

func (p *place) is(sql string) bool {
	p.t.Helper()
	var value bool
	require.NoError(p.t, p.conn.QueryRow(p.t.Context(), sql).Scan(&value), sql)
	return value
}

// asks writes a condition and asks it about these configurations.
func (p *place) asks(query string, configs ...string) ([]*bool, error) {
	p.t.Helper()
	p.n++
	name := fmt.Sprint("c", p.n)
	if _, err := p.conn.Exec(p.t.Context(), `INSERT INTO conditions (name, query) VALUES ($1, $2)`, name, query); err != nil {
		return nil, fmt.Errorf("when it is written: %w", err)
	}
	all := make([]json.RawMessage, len(configs))
	for i, c := range configs {
		all[i] = json.RawMessage(c)
	}
	return p.session.Ask(p.t.Context(), name, 500*time.Millisecond, all)
}

func TestAConditionIsAskedAboutManyJobsAtOnce(t *testing.T) {
	p := newPlace(t)
	got, err := p.asks("SELECT max(n) > ($1->>'least')::int FROM changes -- the most\n;", `{"least": 65}`, `{"least": 75}`, `{}`)
	require.NoError(t, err)
	require.Equal(t, []*bool{new(true), new(false), nil}, got)
	got, err = p.asks(`SELECT n > 65 FROM changes WHERE n = ($1->>'n')::int`, `{"n": 60}`, `{"n": 70}`, `{"n": 80}`)
	require.NoError(t, err)
	require.Equal(t, []*bool{new(false), new(true), nil}, got, "no row is no answer")
}

func TestAConditionThatIsNoBooleanQueryIsRefusedWhenItIsWritten(t *testing.T) {
	p := newPlace(t)
	for query, because := range map[string]string{
		`SELECT count(*) FROM changes`:                            "return type mismatch",
		`SELECT true, false`:                                      "subquery must return only one column",
		`SELECT true; DROP TABLE connectors`:                      "syntax error",
		`DELETE FROM changes RETURNING true`:                      "syntax error",
		`SELECT frob($1)`:                                         "function frob(jsonb) does not exist",
		`SELECT $2`:                                               "there is no parameter $2",
		`WITH g AS (DELETE FROM changes RETURNING 1) SELECT true`: "must be at the top level",
		`SELECT dblink('host=x', 'SELECT 1') IS NULL`:             "does not exist",
	} {
		_, err := p.asks(query, `{}`)
		require.ErrorContains(t, err, "when it is written", query)
		require.ErrorContains(t, err, because, query)
	}
	require.False(t, p.is(`SELECT EXISTS (SELECT FROM conditions) OR EXISTS (SELECT FROM pg_proc WHERE pronamespace = 'condition_queries'::regnamespace AND proname LIKE 'c_')`))
}

func TestTheTextOfAConditionCannotLeaveItsRoleNorItsBounds(t *testing.T) {
	p := newPlace(t)
	listener, err := pgx.Connect(t.Context(), p.conn.Config().ConnString())
	require.NoError(t, err)
	defer func() { _ = listener.Close(context.Background()) }()
	_, err = listener.Exec(t.Context(), `LISTEN connectors_due`)
	require.NoError(t, err)
	for query, because := range map[string]string{
		`SELECT set_config('role', 'none', true) IS NOT NULL`:                                                                           "within security-definer function",
		`SELECT set_config('session_authorization', current_user, false) IS NOT NULL`:                                                   "within security-definer function",
		`SELECT query_to_xml('SELECT set_config(''role'', ''none'', false)', true, true, '') IS NOT NULL`:                               "within security-definer function",
		`SELECT true); RESET ROLE; SELECT (true`:                                                                                        "is not allowed in",
		`SELECT true); SET SESSION AUTHORIZATION DEFAULT; SELECT (true`:                                                                 "is not allowed in",
		`SELECT true); COMMIT; DROP TABLE connectors; SELECT (true`:                                                                     "is not allowed in",
		`SELECT true); DROP TABLE connectors; SELECT (true`:                                                                             "is not allowed in",
		`SELECT true); CREATE TEMP TABLE mine (); SELECT (true`:                                                                         "is not allowed in",
		`SELECT true); DO $x$ BEGIN END $x$; SELECT (true`:                                                                              "is not allowed in",
		`SELECT true); COPY changes TO PROGRAM 'true'; SELECT (true`:                                                                    "is not allowed in",
		`SELECT count(*) > 0 FROM connectors`:                                                                                           "permission denied for table connectors",
		`SELECT query_to_xml('SELECT * FROM connectors', true, true, '') IS NOT NULL`:                                                   "permission denied for table connectors",
		`SELECT moves.disable(1)`:                                                                                                       "permission denied for schema moves",
		`SELECT nextval('public.connectors_id_seq') > 0`:                                                                                "permission denied for sequence",
		`SELECT pg_read_file('/etc/passwd') <> ''`:                                                                                      "permission denied for function",
		`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() LIMIT 1`: "must be",
		`SELECT set_config('transaction_read_only', 'off', false) IS NOT NULL`:                                                          "transaction read-write mode must be set before any query",
		`SELECT set_config('temp_file_limit', '-1', false) IS NOT NULL`:                                                                 "permission denied to set parameter",
		`SELECT pg_sleep(20) IS NULL`:                                                                                                   "took longer than 500ms",
		`SELECT set_config('statement_timeout', '0', false) IS NULL OR pg_sleep(20) IS NULL`:                                            "took longer than 500ms",
		`SELECT generate_series(1, 1000000000) > 0`:                                                                                     "more than one row",
		`SELECT true UNION ALL SELECT true`:                                                                                             "more than one row",
	} {
		_, err := p.asks(query, `{}`)
		require.ErrorContains(t, err, because, query)
		var failed *conditions.Error
		require.True(t, errors.As(err, &failed) || strings.HasPrefix(err.Error(), "when it is written"), "%s: %v", query, err)
	}
	// What is allowed leaves nothing behind.
	for _, query := range []string{
		`SELECT lo_create(4711) > 0`, `SELECT pg_notify('connectors_due', 'web') IS NOT NULL`, `SELECT pg_try_advisory_lock(42)`,
		`SELECT set_config('search_path', 'pg_temp', false) IS NOT NULL`, `SELECT set_config('echomind.moving', 'on', false) = 'on'`,
	} {
		_, err := p.asks(query, `{}`)
		var failed *conditions.Error
		require.True(t, err == nil || errors.As(err, &failed), "%s: %v", query, err)
	}
	require.True(t, p.is(`SELECT pg_try_advisory_lock(42)`))
	require.False(t, p.is(`SELECT EXISTS (SELECT FROM pg_largeobject_metadata)`))
	require.True(t, p.is(`SELECT count(*) = 1 AND bool_and(status = 'ACTIVE') FROM connectors`))
	_, err = p.asks(`SELECT current_setting('echomind.moving', true) IS DISTINCT FROM 'on' AND current_setting('statement_timeout') <> '0'`, `{}`)
	require.NoError(t, err)
	p.exec(`NOTIFY connectors_due, 'last'`)
	told, err := listener.WaitForNotification(t.Context())
	require.NoError(t, err)
	require.Equal(t, "last", told.Payload)
}

func TestAConditionMayNotFillTheDisk(t *testing.T) {
	p := newPlace(t)
	_, err := p.asks(`SELECT count(*) > 5 FROM (SELECT repeat('x', 1000) || i AS x FROM generate_series(1, 10000000) i ORDER BY 1 OFFSET 1) s`, `{}`)
	require.ErrorContains(t, err, "condition `c1` ")
	require.Regexp(t, "temporary file size exceeds|took longer", err.Error())
}

func TestPostgresAwayIsNoFailureOfACondition(t *testing.T) {
	t.Parallel()
	session := conditions.New("postgres://127.0.0.1:1/none", "test")
	_, err := session.Ask(t.Context(), "x", time.Second, []json.RawMessage{json.RawMessage(`{}`)})
	var failed *conditions.Error
	require.Error(t, err)
	require.NotErrorAs(t, err, &failed)
}
