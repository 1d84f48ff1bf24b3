package db_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
)

// internal/masks hides the same in answers.
func TestASecretThatHasAFormOfItsOwnIsNotInTheAudit(t *testing.T) {
	b := newBase(t)
	for _, config := range []string{
		`{"headers":["Authorization: Bearer S3CRET.abcDEF"]}`, `{"headers":["Authorization: Basic S3CRETUzND"]}`, `{"a":"Bearer S3CRETabc"}`, `{"a":["Authorization","Bearer S3CRET"]}`,
		`{"a":[["X-Api-Key","S3CRET"],["Accept","*"]]}`, `{"a":["run","--password","S3CRET"]}`, `{"a":{"name":"password","value":"S3CRET"}}`, `{"name":"password","value":"S3CRET"}`,
		`{"a":[{"header":"X-Api-Key","values":["S3CRET"]}]}`, `{"a":"run --password S3CRET"}`, `{"a":"curl -u bob:S3CRET https://h.example"}`, `{"a":"curl --user=bob:S3CRET"}`,
		`{"a":"ghp_S3CRET0123456789"}`, `{"a":"ems_7_S3CRET0123456789"}`, `{"a":"-----BEGIN PRIVATE KEY-----\\nS3CRET\\n-----END PRIVATE KEY-----"}`, `{"privatekey":"S3CRET"}`,
		`{"accessKey":"S3CRET"}`, `{"accesskey":"S3CRET"}`, `{"a":"https://maps.example/api?key=S3CRET;v=2"}`, `{"a":"https://x/cb?code=S3CRET%zz"}`, `{"a":" https://x/?key=S3CRET"}`,
		`{"a":"{\"password\":\"S3CRET\"}"}`, `{"a":"https://h/p;jsessionid=S3CRET?x=1"}`, `{"a":"//u:S3CRET@host"}`, `{"a":"https://a.example/?q=https://u:S3CRET@h"}`,
	} {
		id := one[int32](b, `INSERT INTO connectors (name, type, user_id, config) VALUES ('x', 'web', 1, $1) RETURNING id`, config)
		if found := one[string](b, `SELECT string_agg(a::text, ' ') FROM audit a WHERE connector_id = $1`, id); strings.Contains(found, "S3CRE") {
			t.Errorf("%s is in the audit: %s", config, found)
		}
	}
	const plain = `{"a": ["title", "author"], "b": ["name", "key", "value"], "c": {"name": "docs", "value": "x"}, "d": "curl -u https"}`
	if got := one[string](b, `SELECT moves.fingerprinted($1)::text`, plain); got != plain {
		t.Errorf("what is no secret is shown as %s", got)
	}
}

func TestConnectorsOfOneStatementAreInTheAuditEachAsIfItWereAddedAlone(t *testing.T) {
	b := newBase(t)
	const insert = `INSERT INTO connectors (name, type, user_id, scope, scope_id, config)
		SELECT 'c', 'web', n.n, 'group', 'g' || n.n, jsonb_build_object('token', 'S3CRET' || n.n, 'depth', n.n) FROM generate_series(%d, %d) n`
	b.exec(fmt.Sprintf(insert, 1, 3))
	for n := range 3 {
		b.exec(fmt.Sprintf(insert, n+1, n+1))
	}
	b.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'none', 'web', 1 WHERE false`)
	if found := one[int](b, `SELECT count(*)::int FROM audit WHERE action = 'connectors.create'`); found != 6 {
		t.Fatalf("%d entries", found)
	}
	if plain := one[int](b, `SELECT count(*)::int FROM audit a WHERE a::text LIKE '%S3CRET%'`); plain != 0 {
		t.Errorf("%d entries say a secret", plain)
	}
	if different := one[int](b, `SELECT count(*)::int FROM audit a JOIN audit z ON z.id = a.id + 3 JOIN connectors c ON c.id = a.connector_id
		WHERE a.object_id <> c.id::text OR (a.owner_id, a.scope, a.scope_id) IS DISTINCT FROM (c.user_id, c.scope, c.scope_id) OR a.after -> 'config' -> 'depth' <> c.config -> 'depth'
			OR (a.source, a.login, a.person, a.action, a.type, a.owner_id, a.scope_id, a.after - 'id') IS DISTINCT FROM (z.source, z.login, z.person, z.action, z.type, z.owner_id, z.scope_id, z.after - 'id')`); different != 0 {
		t.Errorf("%d entries are not as if each had been alone", different)
	}
	if same := one[int](b, `SELECT count(*)::int FROM audit a JOIN audit z ON z.id = a.id + 3`); same != 3 {
		t.Errorf("%d pairs were compared", same)
	}
}

// A connector may have 64 KiB of configuration, and be changed 50 times a second.
func TestTheAuditKeepsOfAConfigurationWhatHasChangedAndLittleOfThat(t *testing.T) {
	b := newBase(t)
	long := strings.Repeat("x", 3000)
	id := one[int32](b, `INSERT INTO connectors (name, type, user_id, config) VALUES ('x', 'web', 1, jsonb_build_object('url', 'https://a.example', 'depth', 3, 'text', $1::text)) RETURNING id`, long)
	b.exec(`UPDATE connectors SET config = config || '{"depth": 4}' WHERE id = $1`, id)
	b.exec(`UPDATE connectors SET config = config || jsonb_build_object('text', $2::text) WHERE id = $1`, id, long+"y")
	b.exec(`UPDATE connectors SET config = (SELECT jsonb_object_agg('f' || n, repeat('z', 100)) FROM generate_series(1, 500) n) WHERE id = $1`, id)
	b.exec(`UPDATE connectors SET config = config || '{"f7": "changed"}' WHERE id = $1`, id)
	found := b.audited()
	shown := func(n int) string { return fmt.Sprint(found[n].Before["config"], " ", found[n].After["config"]) }
	if got := shown(1); got != "map[depth:3] map[depth:4]" {
		t.Error(got)
	}
	if got := shown(2); strings.Contains(got, long) || !strings.Contains(got, "3002 bytes") || !strings.Contains(got, "3003 bytes") || strings.Contains(got, "url") {
		t.Error(got)
	}
	if got := fmt.Sprint(found[3].After["config"]); !strings.HasPrefix(got, "secret:") || !strings.Contains(got, " bytes") {
		t.Error(got)
	}
	if got := shown(4); got != fmt.Sprintf("map[f7:%s] map[f7:changed]", strings.Repeat("z", 100)) {
		t.Error(got)
	}
	if most := one[int](b, `SELECT max(pg_column_size(a)) FROM audit a`); most > 20_000 {
		t.Errorf("an entry has %d bytes", most)
	}
}

// What is hostile is not read: no more texts than 8 KiB have, before and after.
func TestALargeConfigurationIsNotReadForItsFingerprints(t *testing.T) {
	b := newBase(t)
	calls := func(sql string, args ...any) int {
		b.exec(`BEGIN`)
		b.exec(`SET LOCAL track_functions = 'all'`)
		const counted = `SELECT coalesce(sum(calls), 0) FROM pg_stat_xact_user_functions WHERE funcname LIKE 'fingerprint%'` // those of before, too, until they are written down
		before := one[int](b, counted)
		b.exec(sql, args...)
		n := one[int](b, counted) - before
		b.exec(`COMMIT`)
		return n
	}
	for _, config := range []string{
		`SELECT jsonb_build_object('l', (SELECT jsonb_agg('//?a'::text) FROM generate_series(1, 8000)))`, `SELECT jsonb_build_object('t', repeat('//a@b ', 10000))`,
		`SELECT jsonb_object_agg(n, '//a@'::text) FROM generate_series(1, 3500) n`,
	} {
		insert := `INSERT INTO connectors (name, type, user_id, config) VALUES ('x', 'web', 1, (` + config + `))`
		for _, sql := range []string{
			insert, `UPDATE connectors SET config = config || '{"l": ["//?b"], "t": "//a@b", "5": "x"}'`, `DELETE FROM connectors`,
			insert, `UPDATE connectors SET config = '{}'`,
		} {
			if n := calls(sql); n < 1 || n > 100 {
				t.Errorf("%s, then %s: %d calls", config, sql, n)
			}
		}
	}
}

func TestATokenThatWasRevokedStaysSo(t *testing.T) {
	b := newBase(t)
	id := one[int32](b, `INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by) VALUES (7, 'user', '{read}', sha256('s'), 'x') RETURNING id`)
	b.exec(`UPDATE access_tokens SET revoked_at = clock_timestamp() WHERE id = $1`, id)
	for _, when := range []string{"NULL", "'2999-01-01'", "clock_timestamp()"} {
		b.refused("access_tokens_revoked_once", `UPDATE access_tokens SET revoked_at = `+when+` WHERE id = $1`, id)
	}
	b.exec(`UPDATE access_tokens SET revoked_at = revoked_at, name = 'y' WHERE id = $1`, id)
}

// Of the audit, of tokens that are over, and of keys of requests.
func TestWhatIsTooOldGoesABatchAtATimeAndTheRestStays(t *testing.T) {
	b := newBase(t)
	b.exec(`TRUNCATE request_keys`)
	b.exec(`INSERT INTO audit (at, source, login, person, action, object_id) SELECT clock_timestamp() - make_interval(days => 40 - n, hours => -12), 'sql', 'x', 'x', 'x', n::text FROM generate_series(1, 20) n`)
	b.exec(`INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by, expires_at, revoked_at, made_through) VALUES
		(7, 'user', '{read}', sha256('1'), 'x', NULL, clock_timestamp() - interval '31 days', '{}'), (7, 'user', '{read}', sha256('2'), 'x', NULL, NULL, '{1}'),
		(7, 'user', '{read}', sha256('3'), 'x', NULL, NULL, '{}'), (7, 'user', '{read}', sha256('4'), 'x', clock_timestamp() - interval '1 day', NULL, '{}')`)
	b.exec(`INSERT INTO request_keys (user_id, key, at, asked) SELECT 7, n::text, clock_timestamp() - make_interval(hours => n), '' FROM generate_series(20, 27) n`)
	entries := one[int](b, `SELECT count(*) FROM audit`)
	b.moves("10", `SELECT moves.keep_audit('30 days', 4)`) // of the first there is one that was made through another
	for one[int](b, `SELECT moves.keep_audit('30 days', 4)`) > 0 {
	}
	if left := one[string](b, `SELECT concat_ws(' ', (SELECT count(*) FROM audit), (SELECT string_agg(id::text, ',' ORDER BY id) FROM access_tokens), (SELECT string_agg(key, ',' ORDER BY key) FROM request_keys))`); left !=
		fmt.Sprint(entries-9, " 3,4 20,21,22,23") {
		t.Errorf("%s are left of %d entries", left, entries)
	}
	for _, retention := range []string{"NULL", "'23 hours'"} {
		if got := b.asked(`SELECT moves.keep_audit(` + retention + `, 1)`); !strings.Contains(got, "at least 1 day") {
			t.Errorf("%s: %s", retention, got)
		}
	}
}

// The same key is the same request, for a day.
func TestWhatWasAskedWithAKeyIsDoneOnce(t *testing.T) {
	b := newBase(t)
	begin := func(user int32, key, asked string) (answer string) {
		b.serves(identity.Who{UserID: user, Role: identity.User}, func(tx pgx.Tx) {
			if code := tries(b, tx, `SELECT FROM api.begin_request($1, $2)`, key, []byte(asked)); code != "" {
				answer = code
				return
			}
			if err := tx.QueryRow(t.Context(), `SELECT concat_ws(' ', again, done) FROM api.begin_request($1, $2)`, key, []byte(asked)).Scan(&answer); err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), `SELECT api.end_request($1, $2)`, key, "made by "+asked); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
		return answer
	}
	for i, c := range []struct {
		user       int32
		key, asked string
		want       string
	}{
		{7, "k", "x", "f"}, {7, "k", "x", "t made by x"}, {7, "k", "y", "23514"}, {8, "k", "y", "f"}, {7, "l", "y", "f"}, {7, "k", "x", "t made by x"},
	} {
		if got := begin(c.user, c.key, c.asked); got != c.want {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
	}
	b.exec(`UPDATE request_keys SET at = clock_timestamp() - interval '25 hours'`)
	if got := begin(7, "k", "y"); got != "f" {
		t.Errorf("a day later: %q", got)
	}
}
