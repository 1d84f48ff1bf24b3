package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/testonly/testkit"
)

// The URLs of tests lead through TCP: on a Unix socket the server has no keepalives and shows 0.
func TestTheServerFindsAClientThatIsGone(t *testing.T) {
	u := testkit.Database(t, accounts)
	want := map[string]string{
		"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3", "tcp_user_timeout": "30000",
		"idle_in_transaction_session_timeout": "30s", "lock_timeout": "5s", "statement_timeout": "0", "application_name": "test",
	}
	isSet(t, open(t, u), want)
	conn, err := Connect(t.Context(), u, "test")
	do(t, err)
	defer func() { do(t, conn.Close(t.Context())) }()
	isSet(t, conn, want)
}

// login makes a role that may read accounts, and a login that is its member but has none of its rights until it takes the role.
// It returns the login's URL.
func login(t *testing.T, u string) (role, asLogin string) {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), u)
	do(t, err)
	suffix := rand.Text()[:12]
	role, user := `Readers of "`+suffix+`"; --`, "login_"+suffix // a name that must be quoted, in its own letters
	run := func(sql string) {
		t.Helper()
		_, err := admin.Exec(context.Background(), strings.NewReplacer(
			"<role>", pgx.Identifier{role}.Sanitize(), "<user>", pgx.Identifier{user}.Sanitize()).Replace(sql))
		do(t, err)
	}
	run(`CREATE ROLE <role> NOLOGIN; CREATE ROLE <user> LOGIN NOINHERIT PASSWORD 'x'; GRANT <role> TO <user>; GRANT SELECT ON accounts TO <role>`)
	t.Cleanup(func() {
		run(`DROP OWNED BY <role>; DROP ROLE <user>; DROP ROLE <role>`)
		do(t, admin.Close(context.Background()))
	})
	parsed, err := url.Parse(u)
	do(t, err)
	parsed.User = url.UserPassword(user, "x")
	return role, parsed.String()
}

func TestAConnectionTakesItsRole(t *testing.T) {
	role, u := login(t, testkit.Database(t, accounts))
	const read = `SELECT current_user || ' ' || count(*) FROM accounts`
	var got string

	pool, err := Open(t.Context(), u, "test", 2, As(role))
	do(t, err)
	defer pool.Close()
	do(t, pool.QueryRow(t.Context(), read).Scan(&got))
	if got != role+" 2" {
		t.Errorf("the pool reads as %s", got)
	}
	do(t, Tx(t.Context(), pool, func(tx pgx.Tx) error { return tx.QueryRow(t.Context(), read).Scan(&got) }))

	conn, err := Connect(t.Context(), u, "test", As(role))
	do(t, err)
	defer func() { do(t, conn.Close(t.Context())) }()
	do(t, conn.QueryRow(t.Context(), read).Scan(&got))
	if got != role+" 2" {
		t.Errorf("the connection reads as %s", got)
	}

	own, err := Connect(t.Context(), u, "test", As(""))
	do(t, err)
	defer func() { do(t, own.Close(t.Context())) }()
	if err := own.QueryRow(t.Context(), read).Scan(&got); err == nil || !strings.Contains(err.Error(), "42501") {
		t.Errorf("the login's own rights: %v", err)
	}
}

func TestARoleThatCannotBeTakenIsNamedAndIsNoWait(t *testing.T) {
	_, u := login(t, testkit.Database(t, accounts))
	for role, why := range map[string]string{"nobody's": "does not exist", "pg_write_all_data": "permission denied"} {
		conn, err := Connect(t.Context(), u, "test", As(role))
		if conn != nil || err == nil || Unavailable(err) || !strings.Contains(err.Error(), `DATABASE_ROLE="`+role+`"`) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", role, err)
		}
		pool, err := Open(t.Context(), u, "test", 2, As(role))
		do(t, err)
		defer pool.Close()
		if err := pool.Ping(t.Context()); err == nil || Unavailable(err) || !strings.Contains(err.Error(), "DATABASE_ROLE") {
			t.Errorf("%s: %v", role, err)
		}
	}
}

// A server that accepts the login and then never answers would hold a place in the pool for ever.
func TestASessionThatIsNotSetUpInTimeIsGivenUp(t *testing.T) {
	t.Parallel()
	template, proxy := through(t)
	cfg := template.Config()
	setUp := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		proxy.Silence(both...)
		return setUp(ctx, conn)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	do(t, err)
	defer pool.Close()
	if err := ask(pool, 500*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent server: %v", err)
	}
	testkit.Eventually(t, 2*connectTimeout, func() error {
		if n := pool.Stat().TotalConns(); n > 0 {
			return fmt.Errorf("%d places are taken", n)
		}
		return nil
	})
}
