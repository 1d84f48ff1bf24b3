package testkit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
)

// databaseTimeout is for a machine that does much else.
const databaseTimeout = 10 * time.Minute

// Postgres is the URL of an empty database of this test's own, on the run's cluster. It is dropped after the test.
func Postgres(t testing.TB) string {
	t.Helper()
	return newDatabase(t, "template1")
}

// Database is the URL of a database of this test's own, in which migrate has run. It is dropped after the test.
//
// A top-level function runs once per run of `go test`, and each test gets a copy of what it made. Any other one
// (a closure, a method value) runs for each test, since the same one may do something else each time.
func Database(t testing.TB, migrate func(ctx context.Context, url string) error) string {
	t.Helper()
	name := functionName(migrate)
	if !topLevel.MatchString(name) {
		u := Postgres(t)
		inTime(t, "migrate", func(ctx context.Context) error { return migrate(ctx, u) })
		return u
	}
	inTime(t, "make the template", func(ctx context.Context) error { return ensureTemplate(ctx, name, migrate) })
	return newDatabase(t, templateName(name))
}

// topLevel excludes "pkg.F.func1", "pkg.glob..func1", "pkg.T.M-fm" and generic functions.
var topLevel = regexp.MustCompile(`^([^/]*/)*[^/.]+(%2e[^/.]+)*\.[A-Za-z_]\w*$`)

func functionName(f any) string {
	return runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
}

func templateName(function string) string {
	sum := sha256.Sum256([]byte(function))
	return "template_" + hex.EncodeToString(sum[:8])
}

var templates struct {
	sync.Mutex
	made map[string]bool
}

// ensureTemplate makes the template where no test binary of the run has. It gets its name when it is whole.
func ensureTemplate(ctx context.Context, function string, migrate func(context.Context, string) error) error {
	templates.Lock()
	defer templates.Unlock()
	if templates.made[function] {
		return nil
	}
	name := templateName(function)
	err := asAdmin(ctx, func(admin *pgx.Conn) error {
		// One of the run's test binaries makes it.
		if _, err := admin.Exec(ctx, `SELECT pg_advisory_lock(hashtext($1))`, name); err != nil {
			return fmt.Errorf("wait for the template: %w", err)
		}
		var there bool
		const query = `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`
		if err := admin.QueryRow(ctx, query, name).Scan(&there); err != nil {
			return fmt.Errorf("look for the template: %w", err)
		}
		if !there {
			if err := makeTemplate(ctx, admin, name, migrate); err != nil {
				return err
			}
		}
		return statements(ctx, admin, `SELECT pg_advisory_unlock_all()`)
	})
	if err != nil {
		return err
	}
	if templates.made == nil {
		templates.made = map[string]bool{}
	}
	templates.made[function] = true
	return nil
}

func makeTemplate(
	ctx context.Context, admin *pgx.Conn, name string, migrate func(context.Context, string) error,
) error {
	making := name + "_making"
	err := statements(ctx, admin, `DROP DATABASE IF EXISTS `+making+` WITH (FORCE)`, `CREATE DATABASE `+making)
	if err != nil {
		return err
	}
	if err := migrate(ctx, databaseURL(admin, making)); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return statements(ctx, admin,
		// A database with a connection (of migrate, or of autovacuum) can be neither renamed nor copied.
		`ALTER DATABASE `+making+` ALLOW_CONNECTIONS false`,
		`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '`+making+`'`,
		`ALTER DATABASE `+making+` RENAME TO `+name,
	)
}

func newDatabase(t testing.TB, template string) (u string) {
	t.Helper()
	name := "t_" + strings.ToLower(rand.Text()[:16])
	inTime(t, "make a database", func(ctx context.Context) error {
		return asAdmin(ctx, func(admin *pgx.Conn) error {
			u = databaseURL(admin, name)
			return statements(ctx, admin, `CREATE DATABASE `+name+` TEMPLATE `+template+` STRATEGY FILE_COPY`)
		})
	})
	t.Cleanup(func() {
		inTime(t, "drop the database", func(ctx context.Context) error {
			return asAdmin(ctx, func(admin *pgx.Conn) error {
				return statements(ctx, admin, `DROP DATABASE `+name+` WITH (FORCE)`)
			})
		})
	})
	return u
}

func statements(ctx context.Context, conn *pgx.Conn, all ...string) error {
	for _, statement := range all {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// admins are the idle connections to the cluster's database postgres: to make one costs as much as to make a database.
var admins = make(chan *pgx.Conn, 4)

// asAdmin works on a connection of its own to the cluster's database postgres.
func asAdmin(ctx context.Context, work func(*pgx.Conn) error) error {
	admin, err := anAdmin(ctx)
	if err != nil {
		return err
	}
	if err := work(admin); err != nil { // what it left, a lock or half a statement, goes with the connection
		return errors.Join(err, admin.Close(context.WithoutCancel(ctx)))
	}
	select {
	case admins <- admin:
		return nil
	default:
		return admin.Close(context.WithoutCancel(ctx))
	}
}

// Closing are the tests of a package that leave nothing once they are over: no connection that waits for the next database. The driver may have a goroutine for each
// that had to wait for its socket once, which goleak sees.
func Closing(m *testing.M) interface{ Run() int } { return closing{m} }

type closing struct{ *testing.M }

func (c closing) Run() int {
	code := c.M.Run()
	for {
		select {
		case admin := <-admins:
			_ = deadline.Do(context.Background(), "testkit.database", databaseTimeout, admin.Close)
		default:
			return code
		}
	}
}

func anAdmin(ctx context.Context) (*pgx.Conn, error) {
	for {
		select {
		case admin := <-admins:
			if admin.Ping(ctx) == nil {
				return admin, nil
			}
		default:
			cluster, err := theCluster()
			if err != nil {
				return nil, fmt.Errorf("start PostgreSQL: %w", err)
			}
			admin, err := pgx.Connect(ctx, cluster)
			if err != nil {
				return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
			}
			return admin, nil
		}
	}
}

// databaseURL is the one of another database of the same cluster.
func databaseURL(admin *pgx.Conn, name string) string {
	u, err := url.Parse(admin.Config().ConnString())
	if err != nil {
		panic(err) // pgx has connected with it
	}
	u.Path = "/" + name
	return u.String()
}

// inTime fails the test where work fails or takes too long.
func inTime(t testing.TB, what string, work func(context.Context) error) {
	t.Helper()
	if err := deadline.Do(context.Background(), "testkit.database", databaseTimeout, work); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
