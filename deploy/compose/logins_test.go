package compose

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/pgserver"
)

// logins are the groups of everybody who logs in.
var logins = map[string]string{
	"scheduler": "echomind_scheduler", "chunker": "echomind_worker", "connector": "echomind_worker",
	"semantic": "echomind_semantic", "api": "echomind_api", "console": "echomind_console", "grafana": "echomind_reader",
}

// cluster is a server of its own: roles belong to a whole cluster.
type cluster struct {
	*testing.T
	url *url.URL
}

func newCluster(t *testing.T) cluster {
	t.Helper()
	server, err := pgserver.Start(t.Context(), pgserver.Config{Dir: t.TempDir(), Volatile: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
	at, err := url.Parse(server.URL())
	require.NoError(t, err)
	return cluster{t, at}
}

// as connects somebody with a password.
func (c cluster) as(login, password string) (*pgx.Conn, error) {
	at := *c.url
	at.User = url.UserPassword(login, password)
	return pgx.Connect(c.Context(), at.String())
}

func (c cluster) owner() *pgx.Conn {
	c.Helper()
	conn, err := pgx.Connect(c.Context(), c.url.String())
	require.NoError(c, err)
	c.Cleanup(func() { _ = conn.Close(context.WithoutCancel(c.Context())) })
	return conn
}

// makeLogins runs the script with one password for all, but for those that are changed.
func (c cluster) makeLogins(changed map[string]string) error {
	c.Helper()
	bin, err := pgserver.Find()
	require.NoError(c, err)
	password, _ := c.url.User.Password()
	command := exec.CommandContext(c.Context(), "sh", "../../helm/echomind/files/logins.sh")
	command.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"),
		"PGHOST="+c.url.Hostname(), "PGPORT="+c.url.Port(), "PGPASSWORD="+password,
		"POSTGRES_USER="+c.url.User.Username(), "POSTGRES_DB="+c.url.Path[1:])
	for _, who := range []string{"SCHEDULER", "CHUNKER", "CONNECTOR", "SEMANTIC", "API", "CONSOLE", "GRAFANA"} {
		password, ok := changed[who]
		if !ok {
			password = "first"
		}
		command.Env = append(command.Env, "POSTGRES_"+who+"_PASSWORD="+password)
	}
	out, err := command.CombinedOutput()
	if err == nil && len(out) > 0 {
		c.Errorf("the script says %s", out)
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func TestEverybodyLogsInAsAMemberOfOneGroupAndMayChangeNoSchema(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	require.NoError(t, c.makeLogins(nil))
	for login, group := range logins {
		conn, err := c.as(login, "first")
		require.NoError(t, err, login)
		var groups, locks, idle string
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT string_agg(roleid::regrole::text, ' '), current_setting('lock_timeout'),
			current_setting('idle_in_transaction_session_timeout') FROM pg_auth_members WHERE member = current_user::regrole`).
			Scan(&groups, &locks, &idle))
		require.Equal(t, []string{group, "5s", "30s"}, []string{groups, locks, idle}, login)
		_, err = conn.Exec(t.Context(), `CREATE TABLE mine ()`)
		require.ErrorContains(t, err, "permission denied for schema public", login)
		require.NoError(t, conn.Close(t.Context()))
	}
	var who string
	require.NoError(t, c.owner().QueryRow(t.Context(), `SELECT string_agg(rolname, ' ' ORDER BY rolname) FROM pg_roles
		WHERE rolname LIKE 'echomind\_%' AND NOT rolcanlogin`).Scan(&who))
	require.Equal(t, "echomind_api echomind_console echomind_reader echomind_scheduler echomind_semantic echomind_subscriber echomind_worker", who)
}

func TestLoginsMadeAgainHaveTheirNewPasswordsAndKeepTheirGroupsRights(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	owner := c.owner()
	// The groups may come from a migration.
	_, err := owner.Exec(t.Context(), `CREATE ROLE echomind_worker NOLOGIN; CREATE TABLE kept (); GRANT SELECT ON kept TO echomind_worker`)
	require.NoError(t, err)
	require.NoError(t, c.makeLogins(nil))
	require.NoError(t, c.makeLogins(map[string]string{"CHUNKER": `it's a "second" \ one`}))
	_, err = c.as("chunker", "first")
	require.ErrorContains(t, err, "password authentication failed")
	conn, err := c.as("chunker", `it's a "second" \ one`)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `SELECT FROM kept`)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
}

func TestAReaderOfEverythingBecomesAGroupWithoutRights(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	owner := c.owner()
	_, err := owner.Exec(t.Context(), `CREATE ROLE echomind_reader LOGIN PASSWORD 'first'; CREATE TABLE old ();
		GRANT SELECT ON old TO echomind_reader; ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO echomind_reader`)
	require.NoError(t, err)
	require.NoError(t, c.makeLogins(nil))
	_, err = c.as("echomind_reader", "first")
	require.Error(t, err)
	_, err = owner.Exec(t.Context(), `CREATE TABLE new (); CREATE TABLE granted (); GRANT SELECT ON granted TO echomind_reader`)
	require.NoError(t, err)
	require.NoError(t, c.makeLogins(nil))
	reads := ""
	require.NoError(t, owner.QueryRow(t.Context(), `SELECT string_agg(relname, ' ') FROM pg_class
		WHERE relnamespace = 'public'::regnamespace AND has_table_privilege('grafana', oid, 'SELECT')`).Scan(&reads))
	require.Equal(t, "granted", reads)
}

func TestALoginWithoutAPasswordIsRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	require.ErrorContains(t, c.makeLogins(map[string]string{"CONSOLE": ""}), "POSTGRES_CONSOLE_PASSWORD is empty")
}
