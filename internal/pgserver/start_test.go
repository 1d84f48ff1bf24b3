package pgserver_test

import (
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/pgserver"
)

func TestAFreshStartAnswersWithAPassword(t *testing.T) {
	dir := folder(t)
	server := startConfig(t, pgserver.Config{Dir: dir, Volatile: true, Database: "words"})

	require.Equal(t, "words", ask(t, server.URL(), `SELECT current_database()`))
	require.Equal(t, "UTF8", ask(t, server.URL(), `SHOW server_encoding`))
	require.Equal(t, "127.0.0.1", ask(t, server.URL(), `SHOW listen_addresses`))
	require.Empty(t, ask(t, server.URL(), `SHOW unix_socket_directories`))
	require.Equal(t, "postgres", ask(t, server.DatabaseURL("postgres"), `SELECT current_database()`))

	wrong, err := url.Parse(server.URL())
	require.NoError(t, err)
	wrong.User = url.UserPassword(wrong.User.Username(), "guessed")
	_, err = pgx.Connect(timeout(t), wrong.String())
	var refused *pgconn.PgError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "28P01", refused.Code)

	secrets, err := os.Stat(filepath.Join(dir, "cluster.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), secrets.Mode().Perm())
}

func TestOnlyAVolatileServerGivesDurabilityUp(t *testing.T) {
	durable := startConfig(t, pgserver.Config{Dir: folder(t)})
	volatile := start(t, folder(t))
	for _, setting := range []string{"fsync", "full_page_writes"} {
		require.Equal(t, "on", ask(t, durable.URL(), `SHOW `+setting), setting)
		require.Equal(t, "off", ask(t, volatile.URL(), `SHOW `+setting), setting)
	}
	require.Equal(t, "on", ask(t, volatile.URL(), `SHOW synchronous_commit`))
}

func TestARestartKeepsDataAndPort(t *testing.T) {
	dir := folder(t)
	first := start(t, dir)
	execute(t, first.URL(), `CREATE TABLE kept AS SELECT 'here'::text AS word`)
	require.NoError(t, first.Stop(timeout(t)))
	require.NoError(t, first.Err())

	second := start(t, dir)
	require.Equal(t, first.URL(), second.URL())
	require.Equal(t, "here", ask(t, second.URL(), `SELECT word FROM kept`))
	require.NoError(t, second.Restart(timeout(t)))
	require.Equal(t, first.URL(), second.URL())
	require.Equal(t, "here", ask(t, second.URL(), `SELECT word FROM kept`))
}

func TestATakenPortIsReplaced(t *testing.T) {
	dir := folder(t)
	first := start(t, dir)
	u, err := url.Parse(first.URL())
	require.NoError(t, err)
	require.NoError(t, first.Stop(timeout(t)))
	squatter, err := net.Listen("tcp", u.Host)
	require.NoError(t, err)
	defer func() { require.NoError(t, squatter.Close()) }()

	second := start(t, dir)
	require.NotEqual(t, first.URL(), second.URL())
	require.Equal(t, "on", ask(t, second.URL(), `SELECT 'on'`))
}

func TestASecondStartOnTheSameFolderIsRefused(t *testing.T) {
	dir := folder(t)
	first := start(t, dir)
	_, err := pgserver.Start(timeout(t), pgserver.Config{Dir: dir, Volatile: true})
	require.ErrorIs(t, err, pgserver.ErrInUse)
	require.ErrorIs(t, pgserver.Remove(timeout(t), dir), pgserver.ErrInUse)
	require.Equal(t, "on", ask(t, first.URL(), `SELECT 'on'`))
}

func TestAStartThatIsCancelledLeavesNothingRunning(t *testing.T) {
	dir := folder(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := pgserver.Start(ctx, pgserver.Config{Dir: dir, Volatile: true})
	require.ErrorIs(t, err, context.Canceled)
	require.NoDirExists(t, filepath.Join(dir, "cluster"))
	require.Equal(t, "on", ask(t, start(t, dir).URL(), `SELECT 'on'`))
}

func TestAServerThatCannotStartSaysWhyFromItsLog(t *testing.T) {
	_, err := pgserver.Start(timeout(t), pgserver.Config{Dir: folder(t), Volatile: true, MaxConnections: -1})
	require.ErrorContains(t, err, "-1 is outside the valid range")
}

func TestALostClusterIsNotReplacedByAnEmptyOne(t *testing.T) {
	dir := folder(t)
	first := start(t, dir)
	require.NoError(t, first.Stop(timeout(t)))
	require.NoError(t, os.RemoveAll(first.Dir()))
	_, err := pgserver.Start(timeout(t), pgserver.Config{Dir: dir, Volatile: true})
	require.ErrorIs(t, err, pgserver.ErrClusterGone)
}

func TestRemoveLeavesNothing(t *testing.T) {
	dir := folder(t)
	server := start(t, dir)
	require.NoError(t, server.Stop(timeout(t)))
	require.NoError(t, pgserver.Remove(timeout(t), dir))
	require.NoDirExists(t, dir)
	require.NoDirExists(t, server.Dir())
	require.NoError(t, pgserver.Remove(timeout(t), dir))
}
