package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/sdk/deadline"
)

// ErrPooledRole says that a role was asked for through a pooler. SET ROLE belongs to a session, and a pooler in
// transaction mode lends one session to many: the role would be somebody else's, and ours would be missing.
var ErrPooledRole = errors.New("DATABASE_ROLE is set, but the connection leads through a pooler, which would give the role to others: " +
	"leave it empty and run ALTER ROLE <the login> SET role = '<the role>', or connect without the pooler")

// setUp sets a session up in one round trip. These are statements, not startup parameters, because PgBouncer refuses
// startup parameters that it does not know.
//
// The keepalives have the server find a client whose machine or network is gone, within 25 s of its last word, or 30 s
// after what it was sent. The other two bound what is no transaction of Tx's. A migration and a caller's own SET come
// later and win.
//
// The role is only taken where the server that answers is the one that we logged in to: $1 is the process that the
// server named at the login, and a pooler names one of its own.
const setUp = `SELECT pg_backend_pid() = $1, concat(
	set_config('tcp_keepalives_idle', '10s', false),
	set_config('tcp_keepalives_interval', '5s', false),
	set_config('tcp_keepalives_count', '3', false),
	set_config('tcp_user_timeout', '30s', false),
	set_config('idle_in_transaction_session_timeout', '30s', false),
	set_config('lock_timeout', '5s', false),
	CASE WHEN $2 <> '' AND pg_backend_pid() = $1 THEN set_config('role', $2, false) END)`

// session sets a new connection up and takes a role, unless role is empty. It has a deadline of its own, because the
// pool's attempt to connect has none after the login.
func session(ctx context.Context, conn *pgx.Conn, role string) error {
	var isDirect bool
	err := deadline.Do(ctx, "postgres.session", connectTimeout, func(ctx context.Context) error {
		// The mode exec leaves no prepared statement behind. A value of set_config needs no quotes.
		return conn.QueryRow(ctx, setUp, pgx.QueryExecModeExec, int64(conn.PgConn().PID()), role).Scan(&isDirect, nil)
	})
	var pg *pgconn.PgError
	switch {
	case role != "" && errors.As(err, &pg) && (pg.Code == "22023" || pg.Code == "42501"): // no such role, or no member of it
		return fmt.Errorf("DATABASE_ROLE=%q: grant it to the login, or leave it empty: %w", role, err)
	case err != nil:
		return fmt.Errorf("set the session up: %w", err)
	case role != "" && !isDirect:
		return ErrPooledRole
	}
	return nil
}

// Option changes how connections are opened.
type Option func(*options)

type options struct{ role string }

// As has every connection take a role by SET ROLE after it has logged in; "" = the login's own rights. The login must
// be a member of the role. It cannot be used behind a pooler: see ErrPooledRole.
func As(role string) Option { return func(o *options) { o.role = role } }

func chosen(all []Option) (o options) {
	for _, option := range all {
		option(&o)
	}
	return o
}
