package console_test

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/devstack"
	"github.com/echomind/sync/internal/search/embed"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/internal/version"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

func TestRunsShowsTheLedger(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--refresh", "manual")
	require.Contains(t, u.succeed("runs", "1"), "it has no runs yet")
	require.Empty(t, u.array("runs", "1"))
	u.verdicts()
	narrow := u.succeed("runs", "1")
	require.Regexp(t, `(?m)^.* failed +1m30s .*\n    transient failure: no such folder\n`, narrow)
	require.Regexp(t, `new +completed +6s +7 +0 +0 +0\n`, narrow)
	fits(t, narrow)
	shown := u.succeed("runs", "1", "-o", "wide")
	lines := strings.Split(strings.TrimSpace(shown), "\n")
	require.Len(t, lines, 5)
	require.Contains(t, lines[1], "running")
	require.Contains(t, lines[2], "missed 3")
	require.Contains(t, lines[3], "transient failure: no such folder")
	require.Contains(t, lines[3], "1m30s")
	require.Regexp(t, `new +completed +2s +3s +1s +7/7 +7 `, lines[4])
	require.Len(t, u.array("runs", "1", "--limit", "2"), 2)
	first := u.array("runs", "1")[3]
	require.InDelta(t, 2, first["queued_seconds"], 0.001)
	require.InDelta(t, 3, first["fetching_seconds"], 0.001)
	require.InDelta(t, 1, first["storing_seconds"], 0.001)
	require.Nil(t, u.array("runs", "1")[1]["queued_seconds"])
	require.NotNil(t, u.array("runs", "1")[0]["dispatched_at"], "of an open run")
	require.Nil(t, first["dispatched_at"])
	u.succeed("connectors", "delete", "1", "--yes")
	require.Contains(t, u.succeed("runs", "1"), "no such folder", "the ledger outlives its connector")
}

func TestWhyTellsPeopleAndPrograms(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).withStreams()
	u.add("--refresh", "manual")
	shown := u.succeed("why", "1")
	require.Contains(t, shown, `connector 1 "docs" (file) is ACTIVE, not running: it never runs by itself`)
	require.Contains(t, shown, "\n  - no verdict yet")
	require.Contains(t, shown, "\nnext: nothing, until you run `echomind connectors trigger 1`")
	answer := u.object("why", "1")
	require.Equal(t, "manual_only", answer["cause"])
	require.Equal(t, false, answer["running"])
	require.IsType(t, []any{}, answer["evidence"])
	u.succeed("connectors", "delete", "1", "--yes")
	out := u.run("why", "1")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "connector 1 was deleted")
	u.verdicts()
	u.exec(`DELETE FROM deleted_connectors`)
	require.Contains(t, u.run("why", "1").stderr, "connector 1 was deleted; its ledger: echomind runs 1")
	u.add("--refresh", "manual")
	u.force(`DELETE FROM runs; UPDATE connectors SET run_id = NULL WHERE id = 2; DELETE FROM open_runs`)
	require.NotContains(t, u.succeed("connectors", "delete", "2", "--yes"), "echomind runs")
	for _, command := range []string{"runs", "why"} {
		require.Regexp(t, `connector 2 was deleted .*; it was never due, and has no ledger`, u.run(command, "2").stderr)
	}
}

func TestWhyAnswersWithoutABroker(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add()
	movestest.Claim(t, u.pool(), 1)
	require.Contains(t, u.succeed("why", "1"), "NATS: NATS is not known: not running")
	u.lookup.NATSURL = "nats://ann:hunter2@127.0.0.1:1"
	shown := u.succeed("why", "1")
	require.Contains(t, shown, "connect to NATS")
	require.NotContains(t, shown, "hunter2")
	require.Equal(t, "broker_away", u.object("why", "1")["cause"])
}

func TestTypesAreListedAddedAndChanged(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	require.Contains(t, u.succeed("types", "list"), "google_drive")
	require.Contains(t, u.succeed("types", "add", "wiki", "--default-refresh", "24h"), "type wiki, a source: default refresh 1d, most in flight default")
	changed := u.object("types", "add", "wiki", "--max-concurrent", "0")
	require.InDelta(t, 1440, changed["default_refresh_minutes"], 0)
	require.InDelta(t, 0, changed["max_concurrent_syncs"], 0)
	require.Regexp(t, `wiki +source +1d +no cap`, u.succeed("types", "list"))
	require.Len(t, u.array("types", "list"), 6)
}

// storedPart is a document of connector 1 with one part.
func (u terminal) storedPart(text string) {
	u.t.Helper()
	vectors, err := (&embed.Hash{}).Embed(context.Background(), []string{text})
	require.NoError(u.t, err)
	u.exec(`INSERT INTO documents (connector_id, source_id, title, url, status, try_id, first_no, chunk_count, config_version) VALUES
		(1, 'lens.md', 'Lamps', 'file:///srv/lens.md', 'stored', '00000000-0000-0000-0000-000000000001', 1, 1, 1)`)
	u.exec(`INSERT INTO chunks (try_id, first_no, document_id, no, text, heading_path, start_offset, end_offset, embedder,
		embedding) VALUES ('00000000-0000-0000-0000-000000000001', 1, 1, 0, $3, '{Lamps,Care}', 0, length($3), $1, $2)`, (&embed.Hash{}).Name(), vectors[0], text)
}

func TestSearchFindsWhatAUserMayRead(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--scope", "group", "--scope-id", "sales")
	u.storedPart("Polish the Fresnel lens\nevery week.")
	require.Equal(t, "nothing found\n", u.succeed("search", "--user", "1", "lens"))
	require.Empty(t, u.array("search", "--user", "1", "lens"))
	shown := u.succeed("search", "--user", "7", "--group", "hr", "--group", "sales", "Fresnel", "lens")
	require.Regexp(t, `docs +Lamps › Care +Polish the Fresnel lens every week. +file:///srv/lens.md`, shown)
	hits := u.array("search", "--user", "7", "--group", "sales", "Fresnel lens")
	require.Len(t, hits, 1)
	require.Equal(t, "lens.md", hits[0]["source_id"])
	require.Equal(t, 1, u.run("search", "--user", "1", "?!").code)
}

func TestDocumentsAreListedWithWhyTheyFailed(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--refresh", "manual")
	require.Equal(t, "no documents\n", u.succeed("documents", "1"))
	require.Empty(t, u.array("documents", "1"))
	u.exec(`INSERT INTO documents (connector_id, source_id, title, status, error, chunk_count, updated_at, config_version)
		SELECT 1, 'page ' || to_char(i, 'FM000'), 'Title', CASE WHEN i % 50 = 0 THEN 'failed' ELSE 'stored' END,
			CASE WHEN i % 50 = 0 THEN 'not a PDF' || E'\x1b' END, 3, now(), 1 FROM generate_series(1, 150) i`)
	u.exec(`INSERT INTO documents (connector_id, source_id, status, error, config_version) VALUES (2, 'of another', 'failed', 'x', 1)`)
	narrow := u.succeed("documents", "1", "--failed")
	require.Regexp(t, `(?m)^Title +page 050 +failed +3 +\d\d:\d\d:\d\d\n    not a PDF$`, narrow)
	fits(t, narrow)
	shown := u.succeed("documents", "1", "--failed", "-o", "wide")
	require.Len(t, strings.Split(strings.TrimSpace(shown), "\n"), 4)
	require.Regexp(t, `(?m)^page 050 +Title +- +failed +3 +\d\d:\d\d:\d\d +not a PDF$`, shown)
	failed := u.array("documents", "1", "--failed", "--after", "page 050")
	require.Len(t, failed, 2)
	require.Equal(t, "page 100", failed[0]["source_id"])
	require.Equal(t, "not a PDF\x1b", failed[0]["error"])
	require.Len(t, u.array("documents", "1"), 100)
	require.Len(t, u.array("documents", "1", "--limit", "150"), 150)
	require.Contains(t, u.succeed("documents", "1", "--limit", "2"), "and more: --after 'page 002'")
	require.NotContains(t, u.succeed("documents", "1", "--limit", "150"), "and more")
	require.Nil(t, u.array("documents", "1", "--limit", "1")[0]["error"])
}

func TestTheVersionIsThatOfTheBuild(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	require.Equal(t, "echomind version "+version.String()+"\n", u.succeed("--version"))
	require.Equal(t, u.succeed("connectors", "add", "--help"), u.succeed("help", "connectors", "add"))
	require.Equal(t, u.succeed("--help"), u.succeed("help"))
}

func TestMigrateUpDownAndStatus(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	applied := func(args ...string) (n int) {
		for _, m := range u.object(args...)["migrations"].([]any) {
			if m.(map[string]any)["applied"] == true {
				n++
			}
		}
		return n
	}
	all := applied("migrate", "status")
	require.Positive(t, all)
	require.Equal(t, all-1, applied("migrate", "down", "--yes"))
	out := u.run("connectors", "list")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "echomind migrate up")
	require.Zero(t, applied("migrate", "down", "--all", "--yes"))
	require.Zero(t, applied("migrate", "down", "--yes"))
	require.Regexp(t, `0001_connector_types.sql +no`, u.succeed("migrate", "status"))
	require.Equal(t, all, applied("migrate", "up"))
	require.Regexp(t, `0001_connector_types.sql +\d{4}-`, u.succeed("migrate", "up"))
}

func TestMigrateStatusSaysWhichProgramsWorkOnTheSchema(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	require.Contains(t, u.succeed("migrate", "status"), "this program works on it")
	u.exec(`CREATE OR REPLACE FUNCTION schema_compatible_from() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 9000::bigint'`)
	u.exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (9001, true)`)
	schema := u.object("migrate", "status")
	require.Equal(t, []any{float64(9001), float64(9000), false}, []any{schema["database"], schema["compatible_from"], schema["works"]})
	require.Contains(t, u.succeed("migrate", "status"), "use the newer program")
	for _, command := range [][]string{{"migrate", "up"}, {"connectors", "list"}} {
		out := u.run(command...)
		require.Equal(t, 1, out.code)
		require.Contains(t, out.stderr, "use the newer program")
	}
}

func TestMigrateUpWaitsForTheDatabaseToAppear(t *testing.T) {
	t.Parallel()
	there := testkit.Postgres(t)
	missing, err := url.Parse(there)
	require.NoError(t, err)
	missing.Path += "_later"
	name := strings.TrimPrefix(missing.Path, "/")
	u := terminal{t, config.Lookup{DataDir: t.TempDir(), DatabaseURL: missing.String()}}
	require.Equal(t, 1, u.run("migrate", "up").code, "without --wait it says so at once")

	ended := make(chan output, 1)
	go func() { ended <- u.run("migrate", "up", "--wait", "1m") }()
	admin := terminal{t, config.Lookup{DatabaseURL: there}}
	admin.exec(`CREATE DATABASE ` + name)
	t.Cleanup(func() { admin.exec(`DROP DATABASE ` + name + ` WITH (FORCE)`) })
	out := <-ended
	require.Zero(t, out.code, out.stderr)
	require.Contains(t, u.succeed("migrate", "status"), "this program works on it")
}

func TestStatusShowsTheStack(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).withStreams()
	u.add()
	u.add("--type", "web", "--config", site)
	u.succeed("connectors", "disable", "2")
	u.service("echomind-scheduler")
	u.queue()
	shown := u.succeed("status")
	require.NotContains(t, shown, u.password(), "a URL from the environment is masked")
	require.Regexp(t, `psql +postgres://\w+:REDACTED@127`, shown)
	require.Regexp(t, `scheduler +1 `, shown)
	require.Regexp(t, `CONNECTOR_SYNC +1 +\d+ B +\d`, shown)
	require.Regexp(t, `sync_file +CONNECTOR_SYNC +0 +1 +0`, shown)
	require.Regexp(t, `web +0 +0 +0 +0 +1`, shown)

	s := u.object("status")
	require.Equal(t, []any{}, s["problems"])
	require.Contains(t, s["events"], "waiting")
	require.Nil(t, s["ready"])
	streams, ok := s["streams"].([]any)
	require.True(t, ok)
	require.Len(t, streams, 4)
	first, ok := streams[0].(map[string]any)
	require.True(t, ok)
	require.InDelta(t, 1, first["messages"], 0)
	require.NotEmpty(t, first["oldest_at"])
}

func TestStatusSaysWhatIsAway(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.lookup.NATSURL = "nats://hunter2@127.0.0.1:1"
	out := u.run("status", "-o", "json")
	require.Equal(t, 1, out.code)
	require.NotContains(t, out.stdout+out.stderr, "hunter2", "a token is a secret too")
	var s map[string]any
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &s))
	require.Len(t, s["problems"], 1)
	require.Equal(t, []any{}, s["connectors"])

	u.lookup.DatabaseURL = "postgres://ann:hunter2@127.0.0.1:1/x"
	out = u.run("status")
	require.Equal(t, 1, out.code)
	require.NotContains(t, out.stdout+out.stderr, "hunter2")
	require.Contains(t, out.stdout, "postgres: ")
	require.Contains(t, out.stderr, "not everything answers")
}

func TestTheRunningStackIsFoundByItsDataFolder(t *testing.T) {
	t.Parallel()
	elsewhere := newTerminal(t).withStreams()
	dir := t.TempDir()
	u := terminal{t, config.Lookup{DataDir: dir}}
	for _, command := range []string{"connectors list", "status", "why 1", "migrate status", "search --user 1 x"} {
		out := u.run(strings.Fields(command)...)
		require.Equal(t, 1, out.code)
		require.Contains(t, out.stderr, "not running", command)
		require.Contains(t, out.stderr, dir, command)
	}
	stack, err := devstack.Start(context.Background(), devstack.Config{
		DataDir: dir, DatabaseURL: elsewhere.lookup.DatabaseURL, NATSURL: elsewhere.lookup.NATSURL,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stack.Stop(context.Background())) })
	require.Empty(t, u.array("connectors", "list"))
	require.Contains(t, u.succeed("status"), elsewhere.lookup.DatabaseURL, "whole, for copy and paste")
	u.lookup.DatabaseURL = elsewhere.lookup.DatabaseURL
	shown := u.succeed("status")
	require.NotContains(t, shown, elsewhere.password())
	require.Contains(t, shown, elsewhere.lookup.NATSURL, "each server is looked up on its own")
}

func TestTheEnvironmentNamesTheServers(t *testing.T) {
	u := newTerminal(t)
	u.add()
	t.Setenv("DATABASE_URL", u.lookup.DatabaseURL)
	u.lookup = config.Lookup{}
	require.NoError(t, config.Load(&u.lookup))
	require.Len(t, u.array("connectors", "list"), 1)
}

func (u terminal) password() string {
	u.t.Helper()
	parsed, err := url.Parse(u.lookup.DatabaseURL)
	require.NoError(u.t, err)
	password, set := parsed.User.Password()
	require.True(u.t, set)
	return password
}

// service connects to Postgres under a service's name.
func (u terminal) service(name string) {
	u.t.Helper()
	ctx := context.Background()
	cfg, err := pgx.ParseConfig(u.lookup.DatabaseURL)
	require.NoError(u.t, err)
	cfg.RuntimeParams["application_name"] = name
	conn, err := pgx.ConnectConfig(ctx, cfg)
	require.NoError(u.t, err)
	u.t.Cleanup(func() { _ = conn.Close(ctx) })
}

// queue puts a message into the stream, for a consumer that nobody pulls from.
func (u terminal) queue() {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	js := testkit.JetStream(u.t, u.lookup.NATSURL)
	declared, err := topology.SyncConsumer("file")
	require.NoError(u.t, err)
	_, err = streams.EnsureConsumer(ctx, js, topology.SyncStream, declared)
	require.NoError(u.t, err)
	_, err = js.Publish(ctx, "connector.sync.file", []byte("x"))
	require.NoError(u.t, err)
}
