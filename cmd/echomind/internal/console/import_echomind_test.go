package console_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/testkit"
)

// The tables as gen-mind/EchoMind's src/db-schema/schema.sql and its later models have them, as far as they matter here.
const echoMindSchema = `
CREATE TABLE users (id serial PRIMARY KEY, user_name varchar(255) NOT NULL UNIQUE);
CREATE TABLE connectors (id smallserial PRIMARY KEY, name varchar(255) NOT NULL, type varchar(50) NOT NULL, config jsonb NOT NULL,
	state jsonb NOT NULL DEFAULT '{}', refresh_freq_minutes integer, user_id integer NOT NULL REFERENCES users (id),
	scope varchar(20) NOT NULL DEFAULT 'user', scope_id text, status varchar(50) NOT NULL DEFAULT 'pending', status_message text,
	last_sync_at timestamp, docs_analyzed bigint NOT NULL DEFAULT 0, creation_date timestamp NOT NULL DEFAULT now(), last_update timestamp,
	user_id_last_update integer REFERENCES users (id), deleted_date timestamp);
INSERT INTO users (user_name) VALUES ('ada'), ('grace');
INSERT INTO connectors (name, type, config, refresh_freq_minutes, user_id, scope, scope_id, status, deleted_date) VALUES
	('site', 'web', '{"url":"https://example.org"}', 60, 1, 'user', '', 'active', NULL),
	('drive', 'CONNECTOR_TYPE_GOOGLE_DRIVE', '{"access_token":"at-secret","refresh_token":"rt-secret","client_id":"app","client_secret":"cs-secret",
		"token_expires_at":"2026-01-01T00:00:00+00:00","folder_id":"1AbCdEfGhIjKlMnOpQrStUvWxYz"}', NULL, 2, 'group', 'sales', 'disabled', NULL),
	('one', 'onedrive', '{"tenant_id":"8b5f3b6e-0d0f-4a0c-9b55-1d6f0b6b8f10","client_id":"0b5f3b6e-0d0f-4a0c-9b55-1d6f0b6b8f10","client_secret":"cs2-secret","refresh_token":"rt2-secret",
		"folder_path":"/Projects/2026/"}', 10080, 1, 'org', NULL, 'error', NULL),
	('old', 'web', '{"url":"https://example.org"}', 60, 1, 'user', NULL, 'active', now()),
	('team', 'web', '{"url":"https://example.org"}', 60, 1, 'team', NULL, 'active', NULL),
	('uploads', 'file', '{}', NULL, 1, 'user', NULL, 'active', NULL),
	('mail', 'gmail', '{}', 60, 1, 'user', NULL, 'active', NULL),
	('busy', 'web', '{"url":"https://example.org"}', 0, 1, 'user', NULL, 'active', NULL),
	('odd', 'web', '{"url":"https://example.org"}', 60, 1, 'user', NULL, 'asleep', NULL),
	('depth', 'web', '{"url":"https://example.org","depth":3}', 60, 1, 'user', NULL, 'active', NULL)`

func echoMind(t *testing.T) (url string, exec func(string)) {
	t.Helper()
	url = testkit.Database(t, func(context.Context, string) error { return nil })
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	exec = func(sql string) {
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec(echoMindSchema)
	return url, exec
}

func TestEchoMindsConnectorsAreImported(t *testing.T) {
	url, exec := echoMind(t)
	u := newTerminal(t).as(consoleRole)
	from := u.written("url", url+"\n")
	noKey := u.imports("echomind", "--from", "@"+from)
	require.Contains(t, noKey.Rows[1].Reason, "its secrets cannot be sealed")
	ring := u.keys(u.key())

	before := u.everything()
	dry := u.imports("echomind", "--from", "@"+from)
	require.Equal(t, "created created created refused refused refused refused refused refused refused", dry.actions())
	require.Equal(t, before, u.everything())
	for i, says := range map[int]string{3: "deleted there", 4: "scope is team (none)", 5: "MinIO", 6: `no type "gmail" here`, 7: "without a pause", 8: `"asleep"`, 9: "depth: there is no such field"} {
		require.Contains(t, dry.Rows[i].Reason, says)
	}
	out := u.run("import", "echomind", "--from", "@"+from, "--apply")
	require.NotContains(t, out.stdout+out.stderr, "-secret")
	require.Contains(t, out.stdout, "3 created, 7 refused")

	drive := u.object("connectors", "get", "drive")
	require.Equal(t, []any{"google_drive", 2.0, "group", "sales", "DISABLED", nil},
		[]any{drive["type"], drive["user_id"], drive["scope"], drive["scope_id"], drive["status"], drive["refresh_freq_minutes"]})
	stored := u.row(`SELECT config::text FROM connectors WHERE name = 'drive'`)
	require.NotContains(t, stored, "-secret")
	require.NotContains(t, stored, "access_token")
	opened, err := ring.OpenConfig(2, []string{"refresh_token", "client_secret"}, []byte(stored))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"refresh_token": "rt-secret", "client_secret": "cs-secret"}, opened)
	require.Equal(t, "Projects/2026", u.row(`SELECT config ->> 'folder' FROM connectors WHERE name = 'one'`))
	require.Equal(t, "new", u.row(`SELECT due_reason FROM connectors WHERE name = 'site'`), "a source is synced at once")

	after := u.everything()
	require.Equal(t, 3, u.imports("echomind", "--from", "@"+from, "--apply").Counts["unchanged"])
	require.Equal(t, after, u.everything(), "what is sealed already is not sealed anew")

	exec(`UPDATE connectors SET refresh_freq_minutes = 120, name = 'home' WHERE name = 'site';
		UPDATE connectors SET config = config || '{"refresh_token":"rt3-secret"}', status = 'active' WHERE name = 'drive';
		DELETE FROM connectors WHERE name = 'one'`)
	changed := u.imports("echomind", "--from", "@"+from, "--apply")
	require.Equal(t, []string{"name: home, was site", "schedule: 2h, was 1h"}, changed.Rows[0].Changes)
	require.Equal(t, []string{"config", "switched on"}, changed.Rows[1].Changes)
	require.Equal(t, 1, changed.Counts["gone"])
	opened, err = ring.OpenConfig(2, []string{"refresh_token", "client_secret"}, []byte(u.row(`SELECT config::text FROM connectors WHERE name = 'drive'`)))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"refresh_token": "rt3-secret", "client_secret": "cs-secret"}, opened)
	require.Equal(t, "3", u.row(`SELECT count(*)::text FROM connectors`))
}

func TestALaterEchoMindHasTeamsAndSharedCredentials(t *testing.T) {
	url, exec := echoMind(t)
	u := newTerminal(t)
	u.keys(u.key())
	exec(`ALTER TABLE connectors ADD COLUMN team_id smallint;
		ALTER TABLE connectors ALTER COLUMN deleted_date TYPE timestamptz;
		CREATE TABLE google_credentials (id serial PRIMARY KEY, user_id integer NOT NULL UNIQUE, access_token text NOT NULL, refresh_token text NOT NULL,
			client_id text NOT NULL, client_secret text NOT NULL);
		INSERT INTO google_credentials (user_id, access_token, refresh_token, client_id, client_secret) VALUES (1, 'a', 'shared-secret', 'app', 'cs-secret');
		DELETE FROM connectors WHERE name NOT IN ('team', 'site');
		UPDATE connectors SET team_id = 7 WHERE name = 'team';
		UPDATE connectors SET type = 'google_drive', config = '{"folder_id":"1AbCdEfGhIjKlMnOpQrStUvWxYz","include_shared":true}' WHERE name = 'site'`)
	done := u.imports("echomind", "--from", "postgresql+asyncpg"+url[len("postgres"):], "--apply", "--origin", "prod")
	require.Equal(t, "created refused", done.actions())
	require.Contains(t, done.Rows[1].Reason, "team (7)")
	require.Len(t, done.Rows[0].Notes, 2)
	require.Equal(t, "app t", u.row(`SELECT concat_ws(' ', config ->> 'client_id', left((config ->> 'refresh_token' LIKE 'enc:v1:%')::text, 1)) FROM connectors`))
}

func TestADatabaseThatIsNotEchoMindsIsLeftAlone(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add()
	out := u.run("import", "echomind", "--from", u.lookup.DatabaseURL) // our own
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "this is no database of the Python EchoMind: its table connectors has no column deleted_date")
	out = u.run("import", "echomind", "--from", "postgres://ada:hunter2@127.0.0.1:1/x")
	require.Equal(t, 1, out.code)
	require.NotContains(t, out.stderr, "hunter2")
}
