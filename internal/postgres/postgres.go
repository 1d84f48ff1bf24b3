// Package postgres opens pools, runs transactions, and is the only place that interprets driver errors.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/internal/deadline"
)

// connectTimeout bounds each attempt to open a connection.
const connectTimeout = 5 * time.Second

// Open makes a pool for a service. It does not connect yet: where Postgres is away at the start, that is a wait like any other.
func Open(ctx context.Context, url, application string, maxConns int32, how ...Option) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read DATABASE_URL: %w", err)
	}
	cfg.MaxConns = maxConns
	cfg.ConnConfig.ConnectTimeout = deadline.Of(connectTimeout)
	cfg.PingTimeout = deadline.Of(pingTimeout)
	cfg.BeforeConnect = bound
	o := chosen(how)
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error { return session(ctx, conn, o.role) }
	cfg.ConnConfig.RuntimeParams["application_name"] = application
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the pool: %w", err)
	}
	return pool, nil
}

// Connect opens one connection outside any pool, for state that belongs to a session.
func Connect(ctx context.Context, url, application string, how ...Option) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database's URL: %w", err)
	}
	cfg.ConnectTimeout = deadline.Of(connectTimeout)
	cfg.RuntimeParams["application_name"] = application
	if err := bound(ctx, cfg); err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := session(ctx, conn, chosen(how).role); err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	return conn, nil
}

// Unavailable says whether err means that Postgres did not answer the question: it is away, starting, stopping, out of
// connections or too slow. Such an error is a wait, never a failure of a connector. A lock of another transaction is none: see
// Locked.
func Unavailable(err error) bool {
	if err == nil {
		return false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "57P01", "57P02", "57P03", "57P05", // stopping, crashed, starting, idle session ended
			"57014",          // statement timeout
			"40P01", "40001", // still in deadlock after the repeats
			"25P03",                   // idle in transaction ended
			"25006",                   // read-only: a standby, or a primary that is being replaced
			"58000", "58030", "53100", // its disk
			"53200", "53300", "53400": // its memory, its connections, its limits
			return true
		}
		return len(pg.Code) == 5 && pg.Code[:2] == "08"
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) ||
		pgconn.SafeToRetry(err) || pgconn.Timeout(err) || connectionLost(err)
}

// Lost says whether err means that the server, or the connection to it, is gone, whatever was asked. It is the part of Unavailable that says
// nothing about the statement.
func Lost(err error) bool {
	var connect *pgconn.ConnectError
	var pg *pgconn.PgError
	switch {
	case !Unavailable(err):
		return false
	case errors.As(err, &connect):
		return true // nothing was asked yet
	case errors.As(err, &pg):
		return strings.HasPrefix(pg.Code, "57P") || strings.HasPrefix(pg.Code, "08") || pg.Code == "25006" || pg.Code == "53300"
	}
	return !errors.Is(err, context.DeadlineExceeded) && !pgconn.Timeout(err)
}

// Locked says whether err means that another transaction held a lock for longer than the statement was to wait for it
// (lock_timeout, NOWAIT). Postgres answers, and nothing was changed: the transaction may be repeated, but its caller decides
// whether to wait.
func Locked(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "55P03"
}

// Refused says whether Postgres refused a write, and nothing else is wrong: a value, a constraint, a function's own refusal.
// One row is at fault, and not the rows that are written with it.
func Refused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23") || pg.Code == "P0001")
}

// Constraint returns the name of the constraint that refused a write, or "".
func Constraint(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.ConstraintName
	}
	return ""
}
