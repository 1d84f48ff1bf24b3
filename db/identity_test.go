package db_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/internal/identity"
)

// serves begins a transaction of services/api for somebody, which the test takes back.
func (b *base) serves(who identity.Who, work func(tx pgx.Tx)) {
	b.Helper()
	tx, err := b.conn.Begin(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = tx.Rollback(b.Context()) }()
	if _, err := tx.Exec(b.Context(), `SET LOCAL ROLE echomind_api`); err != nil {
		b.Fatal(err)
	}
	request := identity.Request{Who: who, RequestID: "r-1"}
	groups, change, create := request.GroupSettings()
	if _, err := tx.Exec(b.Context(), `SELECT set_config('echomind.request', $1, true), set_config('echomind.groups', $2, true), set_config('echomind.change_groups', $3, true),
		set_config('echomind.create_groups', $4, true)`, request.Setting(), groups, change, create); err != nil {
		b.Fatal(err)
	}
	work(tx)
}

// may says whether a statement changes something, in a savepoint.
func may(b *base, tx pgx.Tx, sql string, args ...any) bool {
	b.Helper()
	nested, err := tx.Begin(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = nested.Rollback(b.Context()) }()
	tag, err := nested.Exec(b.Context(), sql, args...)
	var pg *pgconn.PgError
	if err != nil && (!errors.As(err, &pg) || pg.Code != "44000") { // a view's check option
		b.Fatalf("%s %v: %v", sql, args, err)
	}
	return err == nil && tag.RowsAffected() == 1
}

// tries is the code of the error of a statement, in a savepoint.
func tries(b *base, tx pgx.Tx, sql string, args ...any) string {
	b.Helper()
	nested, err := tx.Begin(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = nested.Rollback(b.Context()) }()
	_, err = nested.Exec(b.Context(), sql, args...)
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// viewers are one of each role and standing in group g, as user 7.
func viewers() map[string]identity.Who {
	all := map[string]identity.Who{}
	for _, role := range identity.Roles {
		for standing, who := range map[string]identity.Who{
			"in no group": {}, "in g": {Groups: []string{"g"}}, "leads g": {Groups: []string{"g"}, Leads: []string{"g"}},
		} {
			who.UserID, who.Role, who.Scopes = 7, role, identity.Scopes
			all[fmt.Sprintf("%s, %s", role, standing)] = who
		}
	}
	return all
}

// The rules are written twice, in Go and in the views that services/api has instead of tables.
func TestTheViewsShowAndChangeWhatTheRulesSay(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	owned := map[int32]identity.Ownership{}
	for _, user := range []int32{7, 8} {
		for _, scope := range []string{"user", "group g", "group h", "org"} {
			for _, kind := range []string{"web", "word_count"} {
				name, group, _ := strings.Cut(scope, " ")
				id := one[int32](b, `INSERT INTO connectors (name, type, user_id, scope, scope_id) VALUES ('x', $1, $2, $3, nullif($4, '')) RETURNING id`, kind, user, name, group)
				b.exec(`INSERT INTO documents (connector_id, source_id, status, error, config_version) VALUES ($1, 'a', 'failed', 'x', 1)`, id)
				b.exec(`WITH shown AS (INSERT INTO documents (connector_id, source_id, status, try_id, first_no, config_version)
						SELECT c.id, 'b', 'stored', gen_random_uuid(), 1, c.config_version FROM connectors c WHERE c.id = $1 RETURNING id, try_id)
					INSERT INTO chunks (try_id, first_no, document_id, no, text, start_offset, end_offset, embedder, embedding) SELECT s.try_id, 1, s.id, 0, 'x', 0, 1, 'e', '{1}' FROM shown s`, id)
				owned[id] = identity.Ownership{UserID: user, Scope: name, GroupID: group, System: kind == "word_count"}
			}
		}
	}
	for name, who := range viewers() {
		b.serves(who, func(tx pgx.Tx) {
			for id, of := range owned {
				if sees := may(b, tx, `SELECT FROM api.connectors WHERE id = $1`, id); sees != who.Sees(of) {
					t.Errorf("%s sees %+v: %v", name, of, sees)
				}
				if sees := may(b, tx, `SELECT FROM api.evidence WHERE id = $1`, id); sees != who.Sees(of) {
					t.Errorf("%s is told why of %+v: %v", name, of, sees)
				}
				if sees := may(b, tx, `SELECT FROM api.documents WHERE connector_id = $1 AND source_id = 'a'`, id); sees != who.Sees(of) {
					t.Errorf("%s sees documents of %+v: %v", name, of, sees)
				}
				if finds := may(b, tx, `SELECT FROM api.sources WHERE id = $1`, id); finds != (who.Sees(of) && !of.System) {
					t.Errorf("%s searches in %+v: %v", name, of, finds)
				}
				if finds := may(b, tx, `SELECT FROM api.chunks WHERE connector_id = $1`, id); finds != (who.Sees(of) && !of.System) {
					t.Errorf("%s finds something of %+v: %v", name, of, finds)
				}
				if locks := may(b, tx, `SELECT FROM api.changeable WHERE id = $1 FOR UPDATE`, id); locks != who.Changes(of) {
					t.Errorf("%s locks %+v: %v", name, of, locks)
				}
				if changes := may(b, tx, `UPDATE api.changeable SET name = 'y' WHERE id = $1`, id); changes != who.Changes(of) {
					t.Errorf("%s changes %+v: %v", name, of, changes)
				}
				if deletes := may(b, tx, `DELETE FROM api.changeable WHERE id = $1`, id); deletes != who.Changes(of) {
					t.Errorf("%s deletes %+v: %v", name, of, deletes)
				}
				kind := map[bool]string{true: "word_count", false: "web"}[of.System]
				if creates := may(b, tx, `INSERT INTO api.creatable (name, type, user_id, scope, scope_id) VALUES ('x', $1, $2, $3, nullif($4, ''))`,
					kind, of.UserID, of.Scope, of.GroupID); creates != who.Creates(of) {
					t.Errorf("%s creates %+v: %v", name, of, creates)
				}
				for column, value := range map[string]string{"type": "'file'", "user_id": "7", "scope": "'user'", "scope_id": "'g'"} {
					if given := tries(b, tx, `UPDATE api.changeable SET `+column+` = `+value+` WHERE id = $1`, id); given != "42501" {
						t.Errorf("%s gives by api.changeable another %s: %s", name, column, given)
					}
				}
				for other, to := range owned {
					if to.System != of.System { // nothing becomes a job
						continue
					}
					given := may(b, tx, `UPDATE api.givable c SET type = o.type, user_id = o.user_id, scope = o.scope, scope_id = o.scope_id
						FROM (SELECT $2::text AS type, $3::integer AS user_id, $4::text AS scope, nullif($5, '') AS scope_id) o WHERE c.id = $1`,
						id, map[bool]string{true: "word_count", false: "web"}[to.System], to.UserID, to.Scope, to.GroupID)
					if want := who.Gives(of) && who.Creates(to); other != id && given != want {
						t.Errorf("%s makes %+v to %+v: %v", name, of, to, given)
					}
				}
			}
		})
	}
}

func TestWhoeverIsServedForNobodySeesNothing(t *testing.T) {
	b := newBase(t)
	id := one[int32](b, `INSERT INTO connectors (name, type, user_id, scope) VALUES ('x', 'web', 1, 'org') RETURNING id`)
	b.exec(`INSERT INTO documents (connector_id, source_id, status, error, config_version) VALUES ($1, 'a', 'failed', 'x', 1)`, id)
	try := b.syncing(id)
	b.exec(`SELECT FROM moves.acquire_lock($1, $2, 'gpu', '1 hour')`, try.Run, try.ID)
	b.exec(`INSERT INTO conditions (name, query) VALUES ('never', 'SELECT false')`)
	b.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('x', 'UTC', '[]')`)
	b.exec(`INSERT INTO blackouts (name, calendar, mode) VALUES ('x', 'x', 'skip')`)
	b.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	b.exec(`INSERT INTO connectors (name, type, user_id, calendar) VALUES ('j', 'word_count', 1, 'x')`)
	b.exec(`INSERT INTO concurrency_limits (key, most) VALUES ('x', 1)`)
	b.exec(aWebhook)
	b.exec(aDelivery("msg_aaaaaaaaaaaaaaaaaaaa", "webhook.test", "'{}'", "'pending', now(), NULL, NULL"))
	for _, view := range []string{"api.connectors", "api.runs", "api.audit", "api.tokens", "api.evidence", "api.documents", "api.sources", "api.chunks", "api.locks", "api.limits", "api.chained", "api.blackouts", "api.conditions", "api.scheduled_jobs",
		"api.calendar_users", "api.changeable_calendars", "api.changeable_blackouts", "api.webhooks", "api.webhook_deliveries", "api.changeable_webhooks",
		"api.changeable_limits", "api.key_limits", "api.changeable_key_limits", "api.by_freshness"} {
		b.exec(`BEGIN`)
		b.exec(`SET LOCAL ROLE echomind_api`)
		if n := one[int](b, `SELECT count(*) FROM `+view); n != 0 {
			t.Errorf("%s shows %d rows", view, n)
		}
		if n := one[int](b, `SELECT (SELECT count(*) FROM api.failed_documents($1, 5)) + (SELECT count(api.documents_through($1, '', 0)))
			+ (SELECT count(*) FROM api.documents_of(ARRAY[$1::integer], '', NULL, NULL, 5, 1000, 1000))
			+ (SELECT count(*) FROM api.waiting('0001-01-01Z', 0, 5, 1000))`, id); n != 0 {
			t.Errorf("documents are counted: %d", n)
		}
		b.exec(`ROLLBACK`)
	}
}

// Without a table there is no query that leaves the rules out.
func TestTheRoleOfServicesAPIReadsNoTableOfUsers(t *testing.T) {
	b := newBase(t)
	b.in("SYNCING")
	tables := b.tables()
	for table := range tables {
		if table != "connector_types" && table != "calendars" && table != "blackout_windows" && table != "goose_db_version" && b.tries("api", `SELECT FROM `+table) {
			t.Errorf("it reads %s", table)
		}
	}
}

type entry struct {
	Source, Login, Person, Action string
	Before, After                 map[string]any
}

// audited are the entries since a moment, and takes them as seen.
func (b *base) audited() (all []entry) {
	b.Helper()
	text := one[string](b, `SELECT coalesce(json_agg(json_build_object('source', source, 'login', login, 'person', person, 'action', action,
		'before', before, 'after', after) ORDER BY id), '[]')::text FROM audit`)
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		b.Fatal(err)
	}
	return all
}

func actions(of []entry) (all []string) {
	for _, e := range of {
		all = append(all, e.Action)
	}
	return all
}

func TestWhatPlainSQLChangesIsInTheAuditWithItsLogin(t *testing.T) {
	b := newBase(t)
	login := one[string](b, `SELECT session_user`)
	id := b.connector()
	b.exec(`UPDATE connectors SET name = 'papers', refresh_freq_minutes = 120 WHERE id = $1`, id)
	b.exec(`UPDATE connectors SET name = 'papers' WHERE id = $1`, id) // changes nothing
	b.exec(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, id)
	b.moves("true", `SELECT moves.disable($1, 'not now')`, id)
	b.moves("true", `SELECT moves.enable($1)`, id)
	b.exec(`SELECT moves.trigger_sync($1, true)`, id)
	b.exec(`DELETE FROM connectors WHERE id = $1`, id)
	b.exec(`UPDATE connector_types SET max_concurrent_syncs = 3 WHERE name = 'web'`)
	found := b.audited()
	want := []string{"connectors.create", "connectors.update", "connectors.sync", "connectors.disable", "connectors.enable", "connectors.sync", "connectors.delete", "types.update"}
	if !slices.Equal(actions(found), want) {
		t.Fatalf("%v, want %v", actions(found), want)
	}
	for _, e := range found {
		if e.Source != "sql" || e.Login != login || e.Person != "login "+login {
			t.Errorf("%s is %s's, %s, %s", e.Action, e.Source, e.Login, e.Person)
		}
	}
	if before, after := fmt.Sprint(found[1].Before), fmt.Sprint(found[1].After); before != "map[name:docs refresh_freq_minutes:60]" || after != "map[name:papers refresh_freq_minutes:120]" {
		t.Errorf("%s, then %s", before, after)
	}
	if found[0].After["name"] != "docs" || found[6].Before["name"] != "papers" || found[3].After["message"] != "not now" || found[5].After["allow_deletions"] != true {
		t.Errorf("%+v", found)
	}
}

func TestWhoWroteAConnectorIsTrueHoweverItWasWritten(t *testing.T) {
	b := newBase(t)
	login := "login " + one[string](b, `SELECT session_user`)
	id := b.connector()
	b.holds(id, fmt.Sprintf(`(created_by, updated_by) = ('%[1]s', '%[1]s')`, login))
	b.exec(`UPDATE connectors SET updated_by = 'alice', created_by = 'ben' WHERE id = $1`, id)
	b.holds(id, fmt.Sprintf(`(created_by, updated_by) = ('%[1]s', '%[1]s')`, login))
	said := one[int32](b, `INSERT INTO connectors (name, type, user_id, created_by, updated_by) VALUES ('said', 'web', 1, 'user 8', 'user 9') RETURNING id`)
	b.holds(said, fmt.Sprintf(`(created_by, updated_by) = ('%[1]s', '%[1]s')`, login))
	b.exec(`SET application_name = 'echomind/alice'`)
	b.exec(`UPDATE connectors SET name = 'y' WHERE id = $1`, id)
	b.holds(id, `updated_by = 'alice'`)
	if last := b.audited(); last[len(last)-1].Source != "console" || last[len(last)-1].Person != "alice" {
		t.Errorf("%+v", last)
	}
	b.exec(`RESET application_name`)
	b.exec(`SELECT set_config('echomind.resealing', 'on', false)`)
	b.exec(`UPDATE connectors SET name = 'of a reseal', updated_by = 'ben', created_by = 'ben' WHERE id = $1`, id)
	b.holds(id, fmt.Sprintf(`(created_by, updated_by) = ('%[1]s', '%[1]s')`, login))
	b.exec(`RESET echomind.resealing`)
	b.serves(identity.Who{UserID: 1, TokenID: 3, Role: identity.User}, func(tx pgx.Tx) {
		if !may(b, tx, `UPDATE api.changeable SET name = 'z' WHERE id = $1 RETURNING 1/(updated_by = 'user 1')::integer`, id) {
			t.Error("updated_by is not user 1")
		}
	})
}

// No setting of a login that may not move keeps a change out of the audit.
func TestNoSettingKeepsAChangeOutOfTheAudit(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	b.exec(`INSERT INTO conditions (name, query) VALUES ('c1', 'SELECT true'), ('c2', 'SELECT false')`)
	b.exec(`UPDATE conditions SET query = 'SELECT 1 = 1' WHERE name = 'c1'`)
	id := one[int32](b, `INSERT INTO connectors (name, type, user_id, config, condition, updated_by)
		VALUES ('x', 'word_count', 1, '{"refresh_token": "`+sealedOld+`"}', 'c1', 'alice') RETURNING id`)
	b.exec(`INSERT INTO connector_secrets (connector_id, name, envelope) VALUES ($1, 'rotated.x', '`+sealedOld+`')`, id)
	login := "login " + one[string](b, `SELECT session_user`)
	b.exec(`SET ROLE echomind_console`)
	b.exec(`UPDATE connectors SET condition = 'c2' WHERE id = $1`, id)
	for _, moving := range []string{"off", "on", "x"} {
		b.exec(`SELECT set_config('echomind.moving', $1, false)`, moving)
		b.exec(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, id)
	}
	b.exec(`UPDATE connector_secrets SET envelope = '`+sealedNew+`' WHERE connector_id = $1`, id)
	b.exec(`SELECT set_config('echomind.resealing', 'on', false)`)
	b.exec(`UPDATE connectors SET config = '{"refresh_token": "`+sealedNew+`"}' WHERE id = $1`, id)
	b.exec(`RESET ROLE`)
	b.holds(id, `c.updated_by = '`+login+`'`)
	found := b.audited()
	want := []string{"types.create", "conditions.create", "conditions.create", "conditions.update", "connectors.create", "connectors.update", "connectors.sync", "connectors.sync", "connectors.sync", "connectors.reseal", "connectors.reseal"}
	if !slices.Equal(actions(found), want) {
		t.Fatalf("%v, want %v", actions(found), want)
	}
	if found[5].Before["condition"] != "c1" || found[5].After["condition"] != "c2" || found[3].Before["query"] != "SELECT true" || found[9].Before["rotated.x"] == found[9].After["rotated.x"] ||
		found[10].Before["config"] == found[10].After["config"] {
		t.Errorf("%+v", found)
	}
}

// What moves do in each cycle is no change of a person's.
func TestACycleLeavesNothingInTheAudit(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	b.complete(id)
	b.fail(id, "transient")
	if found := b.audited(); len(found) != 1 {
		t.Errorf("%+v", found)
	}
}

func TestASecretIsAFingerprintInTheAudit(t *testing.T) {
	b := newBase(t)
	const secret = "hunter2secret"
	var id int32
	for _, config := range []string{
		`{"password": "hunter2secret"}`, `{"apiKey": "hunter2secret"}`, `{"auth": {"user": "hunter2secret"}}`, `{"tokens": ["hunter2secret"]}`,
		`{"url": "https://me:hunter2secret@example.org/a"}`, `{"url": "https://hunter2secret@example.org"}`, `{"url": "https://example.org/?token=hunter2secret"}`,
		`{"url": "https://example.org/#access_token=hunter2secret"}`, `{"dsn": "host=db password=hunter2secret"}`, `{"dsn": "password='a hunter2secret' user=x"}`, `{"x": "enc:v1:hunter2secret"}`,
		`{"deep": [{"client_secret": {"a": ["hunter2secret"]}}]}`,
	} {
		id = one[int32](b, `INSERT INTO connectors (name, type, user_id, config) VALUES ('x', 'web', 1, $1) RETURNING id`, config)
		b.exec(`UPDATE connectors SET config = '{}' WHERE id = $1`, id)
		if found := one[string](b, `SELECT string_agg(a::text, ' ') FROM audit a`); strings.Contains(found, secret) {
			t.Errorf("%s is in the audit: %s", config, found)
		}
	}
	for text, want := range map[string]string{
		"https://u:first@a.example, https://u:second@b.example":  "https://secret:#@a.example, https://secret:#@b.example",
		"nats://u:one@a:4222,nats://u:two@b:4222/x":              "nats://secret:#@a:4222,nats://secret:#@b:4222/x",
		"https://token:abc@host.example/path":                    "https://secret:#@host.example/path",
		"https://x.example/#/docs":                               "https://x.example/#secret:#",
		"see https://x.example/a?b=c and //u:pw@host/p":          "see https://x.example/a?secret:# and //secret:#@host/p",
		"postgres://u:p#q@host/db":                               "postgres://secret:#secret:#",
		"postgres://u:p/q@host/db":                               "postgres://secret:#",
		"https://a.example/?next=https://u:p@b.example/&sid=abc": "https://a.example/?secret:#",
		"http://[::1]:8080/a//b nats://a:4222,b:4222":            "http://[::1]:8080/a//b nats://a:4222,b:4222",
		"password=https://u:p@h and token: x":                    "secret:#",
		"host=db password=it is long; x=1":                       "secret:#",
		"smtp bob:pw@mail.example:25":                            "secret:#",
		"ftp://u:p w@h/x":                                        "secret:#",
		"https://h.example:8080/@me and bob@h.example":           "https://h.example:8080/@me and bob@h.example",
	} {
		got := one[string](b, `SELECT regexp_replace(moves.fingerprinted(to_jsonb($1::text)) #>> '{}', 'secret:[0-9a-f]{12}', 'secret:#', 'g')`, text)
		if got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	same := one[bool](b, `SELECT moves.fingerprinted('{"password": "a"}') = moves.fingerprinted('{"password": "a"}')
		AND moves.fingerprinted('{"password": "a"}') <> moves.fingerprinted('{"password": "b"}')`)
	if !same {
		t.Error("equal secrets have no equal fingerprints, or others do")
	}
	if plain := one[string](b, `SELECT moves.fingerprinted('{"url": "https://example.org/a", "max_pages": 5, "deep": {"on": true, "no": null}}')::text`); plain !=
		`{"url": "https://example.org/a", "deep": {"no": null, "on": true}, "max_pages": 5}` {
		t.Errorf("what is no secret is shown as %s", plain)
	}
}

func TestNobodyEditsTheAudit(t *testing.T) {
	b := newBase(t)
	b.connector()
	for _, sql := range []string{`UPDATE audit SET person = 'x'`, `DELETE FROM audit`, `TRUNCATE audit`} {
		b.refused("audit_appended_only", sql)
		for _, role := range roles {
			if b.tries(role, sql) || b.tries(role, `SET LOCAL echomind.keeping = 'on'; `+sql) {
				t.Errorf("%s may %s", role, sql)
			}
		}
	}
	for _, role := range roles {
		if b.tries(role, `INSERT INTO audit (source, login, person, action, object_id) VALUES ('sql', 'x', 'x', 'x', '1')`) {
			t.Errorf("%s writes the audit", role)
		}
	}
}

func TestATokenHasAtMostTheRightsOfItsOwner(t *testing.T) {
	b := newBase(t)
	token := one[int32](b, `INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by) VALUES (7, 'admin', '{read,write}', sha256('s'), 'x') RETURNING id`)
	is := func(want string) {
		t.Helper()
		if got := one[string](b, `SELECT coalesce((SELECT concat_ws(' ', a.role, a.groups, a.leads) FROM api.authenticate($1, sha256('s')) a), 'nobody')`, token); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	is("admin {} {}") // nobody has said what user 7 is
	b.exec(`INSERT INTO users VALUES (7, 'user')`)
	b.exec(`INSERT INTO group_members VALUES (7, 'g', false), (7, 'h', true), (8, 'i', true)`)
	is("user {g,h} {h}")
	b.exec(`UPDATE users SET role = 'superadmin'`)
	is("admin {g,h} {h}")
	if one[int](b, `SELECT count(*) FROM api.authenticate($1, sha256('t'))`, token) != 0 {
		t.Error("another secret is taken")
	}
	b.exec(`UPDATE access_tokens SET expires_at = clock_timestamp()`)
	is("nobody")
	b.exec(`UPDATE access_tokens SET expires_at = NULL`)
	is("admin {g,h} {h}")
	b.exec(`DELETE FROM users WHERE user_id = 7`)
	is("nobody") // nothing that was said of them is left, and no token that counted by it
}
