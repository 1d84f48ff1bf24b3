package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/internal/deadline"
)

// ErrPooler says that a connection leads through a pooler that cannot be used in this mode. Waiting does not help.
var ErrPooler = errors.New("the connection to Postgres leads through a pooler")

// setUp sets up a session in one round trip. These are statements, not startup parameters, because PgBouncer refuses startup
// parameters that it does not know.
//
// With the keepalives the server detects a client whose machine or network is gone, within 25 s of its last message, or 30 s
// after the server sent something. The next two settings bound statements outside of Tx, which are READ COMMITTED as those
// within it are, whatever the database's default is. A migration and a caller's own SET come later and win.
//
// Plans are made for each call: a plan that was made while nothing was in flight reads all of open_runs, and a connection would
// keep it until the table is analysed. The moves keep their plans, see 0014_housekeeping.sql. None is compiled: a statement takes
// milliseconds, and one that is forbidden what it may need is thought to take for ever.
//
// The role is taken only where the server that answers is the one that we logged in to: $1 is the process id that the server
// named at the login, and a pooler names its own number, which may be larger than any process id.
const setUp = `SELECT pg_backend_pid() = $1::bigint, concat(
	set_config('tcp_keepalives_idle', '10s', false),
	set_config('tcp_keepalives_interval', '5s', false),
	set_config('tcp_keepalives_count', '3', false),
	set_config('tcp_user_timeout', '30s', false),
	set_config('idle_in_transaction_session_timeout', '30s', false),
	set_config('lock_timeout', '5s', false),
	set_config('default_transaction_isolation', 'read committed', false),
	set_config('plan_cache_mode', 'force_custom_plan', false),
	set_config('jit', 'off', false),
	CASE WHEN $2 <> '' AND pg_backend_pid() = $1::bigint THEN set_config('role', $2, false) END)`

// session sets up a new connection and takes a role, unless role is empty. It has a deadline of its own, because the pool's
// attempt to connect has none after the login.
func session(ctx context.Context, conn *pgx.Conn, role string) error {
	return deadline.Do(ctx, "postgres.session", connectTimeout, func(ctx context.Context) error {
		var isDirect bool
		// The mode exec leaves no prepared statement behind. The value for set_config needs no quotes.
		err := conn.QueryRow(ctx, setUp, pgx.QueryExecModeExec, int64(conn.PgConn().PID()), role).Scan(&isDirect, nil)
		var pg *pgconn.PgError
		switch {
		case role != "" && errors.As(err, &pg) && (pg.Code == "22023" || pg.Code == "42501"): // no such role, or not a member of it
			return fmt.Errorf("DATABASE_ROLE=%q: grant it to the login, or leave it empty: %w", role, err)
		case err != nil:
			return fmt.Errorf("set the session up: %w", err)
		case isDirect:
			return nil
		case role != "":
			// SET ROLE belongs to the session, and a pooler shares one session among many clients: others would get our role,
			// and we would be without it.
			return fmt.Errorf("%w, and DATABASE_ROLE is set, which others would get there: leave it empty, and run "+
				"ALTER ROLE … SET role = '%s' for the login", ErrPooler, role)
		}
		return pooled(ctx, conn)
	})
}

// pooled refuses a pooler behind which the driver's prepared statements would be another client's, or missing: every query
// could fail at any time, or get another's answer.
func pooled(ctx context.Context, conn *pgx.Conn) error {
	switch conn.Config().DefaultQueryExecMode {
	case pgx.QueryExecModeCacheStatement:
	case pgx.QueryExecModeDescribeExec:
		return errStatements
	default: // these modes need no statement that outlives its message
		return nil
	}
	// A pooler that supports prepared statements renames them. Within a transaction the same server answers.
	name := "echomind_" + rand.Text()
	var isShared bool
	err := Tx(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Prepare(ctx, name, "SELECT 1"); err != nil {
			return err
		}
		const query = "SELECT EXISTS (SELECT FROM pg_prepared_statements WHERE name = $1)"
		if err := tx.QueryRow(ctx, query, pgx.QueryExecModeExec, name).Scan(&isShared); err != nil {
			return err
		}
		return conn.Deallocate(ctx, name)
	})
	switch {
	case err != nil:
		return fmt.Errorf("ask whether the pooler keeps prepared statements: %w", err)
	case isShared:
		return errStatements
	}
	return nil
}

var errStatements = fmt.Errorf("%w that does not look after prepared statements: add default_query_exec_mode=cache_describe "+
	"to the URL's parameters, or use PgBouncer 1.21 or later with max_prepared_statements above 0", ErrPooler)

// Option changes how connections are opened.
type Option func(*options)

type options struct{ role string }

// As has every connection take a role by SET ROLE after its login; "" = the login's own rights. The login must be a member of
// the role. Behind a pooler it fails with ErrPooler.
func As(role string) Option { return func(o *options) { o.role = role } }

func chosen(all []Option) (o options) {
	for _, option := range all {
		option(&o)
	}
	return o
}
