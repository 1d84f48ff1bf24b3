package console_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/search/embed"
)

const consoleRole = "echomind_console"

// as takes a role in place of the login's own rights.
func (u terminal) as(role string) terminal {
	u.lookup.DatabaseRole = role
	return u
}

func (u terminal) poolAs(role string) *pgxpool.Pool {
	u.t.Helper()
	pool, err := postgres.Open(context.Background(), u.lookup.DatabaseURL, "echomind-test", 2, postgres.As(role))
	require.NoError(u.t, err)
	u.t.Cleanup(pool.Close)
	return pool
}

func TestEveryCommandWorksInTheConsolesRole(t *testing.T) {
	u := newTerminal(t).withStreams().as(consoleRole)
	js := u.jetstream()
	u.keys(u.key())
	u.service("echomind-scheduler") // under a login of its own: this role may see little of it

	u.succeed("types", "add", "wiki", "--default-refresh", "24h")
	u.succeed("types", "add", "wiki", "--max-concurrent", "3")
	require.Len(t, u.array("types", "list"), 6)

	require.Equal(t, "1", u.add("--refresh", "60m"))
	require.Equal(t, "2", u.drive(`{"client_id":"app","refresh_token":"`+refreshToken+`"}`))
	require.Len(t, u.array("connectors", "list"), 2)
	u.succeed("connectors", "update", "1", "--name", "papers", "--config", `{"url":"file:///srv/papers"}`)
	u.succeed("connectors", "disable", "1")
	require.Contains(t, u.run("connectors", "trigger", "1").stderr, "is disabled")
	u.succeed("connectors", "enable", "1")
	require.Equal(t, "ACTIVE", u.object("connectors", "get", "1")["status"])
	require.Equal(t, "due_now", u.object("why", "1")["cause"], "the scheduler's connection is seen")

	wait := u.services(completes)
	require.Contains(t, u.succeed("connectors", "trigger", "1", "--wait", "--timeout", "30s"), "completed: 3 documents")
	wait()
	require.Equal(t, "completed", u.array("runs", "1")[0]["status"])
	require.Equal(t, "waits_for_slot", u.object("why", "1")["cause"])

	vectors, err := (&embed.Hash{}).Embed(context.Background(), []string{"Polish the lens."})
	require.NoError(t, err)
	u.exec(`INSERT INTO documents (connector_id, source_id, status, version_token, try_id, first_no, chunk_count, config_version)
		VALUES (1, 'a.md', 'stored', 'v1', '00000000-0000-0000-0000-000000000001', 1, 1, 1)`)
	u.exec(`INSERT INTO chunks (try_id, first_no, document_id, no, text, start_offset, end_offset, embedder, embedding)
		VALUES ('00000000-0000-0000-0000-000000000001', 1, 1, 0, 'Polish the lens.', 0, 16, $1, $2)`, (&embed.Hash{}).Name(), vectors[0])
	require.Len(t, u.array("documents", "1"), 1)
	require.Len(t, u.array("search", "--user", "1", "lens"), 1)

	u.letter(js, topology.DocumentSubject, part(1, 1, "a.md"))
	u.letter(js, topology.DocumentSubject, "\xff", topology.HeaderSession, u.row(`SELECT id FROM scheduler_runs`))
	require.InDelta(t, 1, u.array("dlq", "list")[1]["connector_id"], 0)
	u.succeed("dlq", "show", "1")
	u.succeed("dlq", "replay", "1")
	require.Equal(t, map[string]string{"1 a.md": ""}, u.tokens())
	u.succeed("dlq", "drop", "2")

	require.EqualValues(t, 1, u.object("secrets", "rotate")["current"])
	status := u.object("status")
	require.Empty(t, status["problems"])
	require.Regexp(t, `scheduler +1 +- +-`, u.succeed("status"), "since when, and when last, is not for this role to see")
	require.Contains(t, u.succeed("streams", "show"), "CONNECTOR_SYNC")
	u.succeed("connectors", "delete", "1", "--yes")
	require.Contains(t, u.run("why", "1").stderr, "connector 1 was deleted")
	require.NotEmpty(t, u.array("runs", "1"))
}

func TestARotationInTheConsolesRoleChangesEnvelopesOnly(t *testing.T) {
	u := newTerminal(t).as(consoleRole)
	old := u.key()
	ring := u.keys(old)
	u.drive(`{"client_id":"app","refresh_token":"` + refreshToken + `"}`)
	rotated, err := ring.Seal(1, "rotated.refresh_token", "another")
	require.NoError(t, err)
	u.exec(`INSERT INTO connector_secrets (connector_id, name, envelope) VALUES (1, 'rotated.refresh_token', $1)`, rotated)
	version := u.row(`SELECT config_version::text FROM connectors`)
	u.keys(u.key(), old)
	require.EqualValues(t, 2, u.object("secrets", "rotate")["envelopes"])
	require.Equal(t, version, u.row(`SELECT config_version::text FROM connectors`))
}

func TestTheConsolesRoleWritesNothingThatIsMoved(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add()
	pool := u.poolAs(consoleRole)
	for _, sql := range []string{
		`UPDATE connectors SET status = 'DISABLED'`,
		`UPDATE connectors SET status_message = 'x'`,
		`UPDATE connectors SET next_sync_at = now()`,
		`UPDATE connectors SET state = '{}'`,
		`UPDATE connectors SET failure_count = 0`,
		`UPDATE connectors SET run_id = NULL`,
		`UPDATE connectors SET id = 9`,
		`INSERT INTO connectors (name, type, user_id, state) VALUES ('x', 'file', 1, '{}')`,
		`UPDATE open_runs SET stored = 1`,
		`DELETE FROM open_runs`,
		`INSERT INTO workers (id, expires_at) VALUES (gen_random_uuid(), now())`,
		`DELETE FROM runs`,
		`UPDATE documents SET status = 'stored'`,
		`DELETE FROM documents`,
		`SELECT moves.claim('[]', now())`,
		`SELECT moves.pick_up(1, gen_random_uuid(), gen_random_uuid())`,
		`SELECT moves.complete(gen_random_uuid())`,
		`SELECT moves.end_runs('{}', 'completed', NULL)`,
		`ALTER TABLE connectors DISABLE TRIGGER ALL`,
		`UPDATE waiting_types SET waits = true`,
		`UPDATE goose_db_version SET is_applied = false`,
	} {
		for _, moving := range []string{"", "on"} {
			err := pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
				if _, err := conn.Exec(t.Context(), `SELECT set_config('echomind.moving', $1, false)`, moving); err != nil {
					return err
				}
				_, err := conn.Exec(t.Context(), sql)
				return err
			})
			var pg *pgconn.PgError
			require.ErrorAs(t, err, &pg, sql)
			require.Equal(t, "42501", pg.Code, sql) // insufficient privilege
		}
	}
}

func TestARoleThatMayNotIsToldWhichOneMay(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add()
	for _, command := range [][]string{{"disable", "1"}, {"trigger", "1"}, {"delete", "1", "--yes"}} {
		out := u.as("echomind_reader").run(append([]string{"connectors"}, command...)...)
		require.Equal(t, 1, out.code)
		require.Contains(t, out.stderr, "permission denied")
		require.Contains(t, out.stderr, "must be a member of role echomind_console")
	}
	out := u.as("nobody_of_that_name").run("connectors", "list")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, `DATABASE_ROLE="nobody_of_that_name"`)
	require.Equal(t, "ACTIVE", u.object("connectors", "get", "1")["status"])
}

func TestAHeldRowIsSaidToBeHeld(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add()
	tx, err := u.pool().Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	_, err = tx.Exec(t.Context(), `SELECT FROM connectors FOR UPDATE`)
	require.NoError(t, err)
	for _, command := range []string{"trigger 1", "disable 1"} {
		out := u.run(append([]string{"connectors"}, strings.Fields(command)...)...)
		require.Equal(t, 1, out.code)
		require.Contains(t, out.stderr, "somebody else holds the row, and nothing was changed; try again", command)
	}
}
