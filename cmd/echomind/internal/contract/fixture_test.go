package contract

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

const (
	soon       = 60 * time.Second
	subscriber = "echomind_subscriber"
	people     = "echomind_console"
)

var ctx = context.Background()

// database is one of a test's own. Its owner looks at everything; who is tested logs in as a member of a group.
type database struct {
	*testing.T
	url  string
	pool *pgxpool.Pool
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	u := testkit.Database(t, db.Up)
	pool, err := pgxpool.New(ctx, u)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d := &database{t, u, pool}
	d.exec(`INSERT INTO connector_types (name, max_concurrent_syncs) VALUES ('shelf', 0)`)
	return d
}

func (d *database) exec(sql string, args ...any) {
	d.Helper()
	_, err := d.pool.Exec(ctx, sql, args...)
	require.NoError(d, err)
}

func ask[T any](d *database, sql string, args ...any) (answer T) {
	d.Helper()
	require.NoError(d, d.pool.QueryRow(ctx, sql, args...).Scan(&answer), sql)
	return answer
}

// login makes a user of the server's that is a member of a group and has no other rights.
func (d *database) login(group string) (u string) {
	d.Helper()
	name, password := "u_"+strings.ReplaceAll(uuid.NewString(), "-", ""), uuid.NewString()
	d.exec(fmt.Sprintf(`CREATE ROLE %s LOGIN PASSWORD '%s' IN ROLE %s`, name, password, group))
	d.Cleanup(func() {
		testkit.Eventually(d, soon, func() error { // a session that has just ended may still drop its temporary tables
			_, err := d.pool.Exec(ctx, `DROP ROLE `+name)
			return err
		})
	})
	parsed, err := url.Parse(d.url)
	require.NoError(d, err)
	parsed.User = url.UserPassword(name, password)
	return parsed.String()
}

// member is a connection of a login's.
func (d *database) member(group string) *pgx.Conn {
	d.Helper()
	conn, err := pgx.Connect(ctx, d.login(group))
	require.NoError(d, err)
	d.Cleanup(func() { _ = conn.Close(ctx) })
	return conn
}

// connector adds one that is due every hour.
func (d *database) connector() (id int32) {
	d.Helper()
	return ask[int32](d, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) VALUES ('mine', 'shelf', 1, 60) RETURNING id`)
}

func (d *database) pending() (id int32, run uuid.UUID) {
	d.Helper()
	id = d.connector()
	return id, movestest.Claim(d, d.pool, id)
}

// stands is where a connector is, and what came of its last run.
func (d *database) stands(id int32) string {
	d.Helper()
	return ask[string](d, `SELECT concat_ws(' ', status, due_reason, '|', (SELECT concat_ws(': ', r.status, r.reason) FROM scheduler_runs r
		WHERE r.connector_id = c.id ORDER BY r.started_at DESC LIMIT 1)) FROM connectors c WHERE id = $1`, id)
}

// code is the SQLSTATE of an error, with the constraint's name where it has one; "" = no error.
func code(err error) string {
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &pg):
		return strings.TrimSpace(pg.Code + " " + pg.ConstraintName)
	}
	return err.Error()
}
