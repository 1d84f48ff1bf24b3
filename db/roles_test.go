package db_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/sdk/lifecycle"
)

// roles are the columns of the page's table of tables.
var roles = []string{"scheduler", "worker", "semantic", "console", "subscriber", "reader", "api"}

// someColumns says of each star on the page which columns it means; "all but" turns the list round.
var someColumns = map[string]string{
	"worker r connectors": "id type status", "subscriber r connectors": "id type status",
	"semantic u open_runs": "total stored whole waiting notes unnamed documents_processed documents_failed documents_deleted " +
		"documents_unchanged chunks_stored listing_whole new_state reason",
	"semantic u deleted_connectors": "attempts next_at place",
	"scheduler u refresh_defaults":  "minutes",
	"console i connectors": "id name type user_id scope scope_id config refresh_freq_minutes schedule_cron run_at_once time_zone dst_gap dst_overlap spread_percent " +
		"deadline_minutes overlap once_per catch_up catch_up_most catch_up_minutes fresh_within_minutes calendar calendar_use condition concurrency_keys max_retries " +
		"deletion_guard trigger_requested_at created_by updated_by status",
	"console u run_after": "accepts max_age_minutes timeout_minutes",
	"console u connectors": "name type user_id scope scope_id config refresh_freq_minutes schedule_cron run_at_once time_zone dst_gap dst_overlap spread_percent " +
		"deadline_minutes overlap once_per catch_up catch_up_most catch_up_minutes fresh_within_minutes calendar calendar_use condition concurrency_keys max_retries " +
		"deletion_guard trigger_requested_at updated_at updated_by",
	"console i connector_types":       "name kind default_refresh_minutes max_concurrent_syncs concurrency_keys",
	"console u connector_types":       "default_refresh_minutes max_concurrent_syncs concurrency_keys",
	"administrator u connector_types": "provider",
	"console u documents":             "version_token",
	"console u connector_secrets":     "envelope",
	"console r access_tokens":         "all but secret_sha256",
	"console i access_tokens":         "user_id name role scopes secret_sha256 created_by expires_at",
	"console u access_tokens":         "revoked_at",
	"console u users":                 "role",
	"console i identities":            "issuer subject user_id",
	"console u identities":            "user_id made_at",
	"console u group_members":         "leads",
	"reader r connectors":             "all but config state listing run_id next_parameters kept_plan",
	"reader r scheduler_runs":         "all but try_id worker_id checkpoint_no notes new_state parameters progress_text warnings result",
	"reader r connector_evidence":     "all but run_id try_id worker_id drain_seq lock_run_id progress_text",
	"reader r documents":              "id connector_id status chunk_count text_bytes config_version updated_at deleted_at",
}

// page is docs/states.md.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var code = regexp.MustCompile("`([a-z_]+)`")

// rows are the cells of a table of the page, by its first column's names.
func rows(t *testing.T, header string) map[string][]string {
	t.Helper()
	_, table, found := strings.Cut(page(t), "\n| "+header+" |")
	if !found {
		t.Fatalf("docs/states.md has no table %q", header)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	all := map[string][]string{}
	for _, line := range strings.Split(table, "\n")[2:] {
		var cells []string
		for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		for _, name := range code.FindAllStringSubmatch(cells[0], -1) {
			all[name[1]] = cells[1:]
		}
	}
	return all
}

// tries runs a statement as a role and takes it back; it says whether the role may. Any other error is no refusal.
func (b *base) tries(role, sql string) bool {
	b.Helper()
	tx, err := b.conn.Begin(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = tx.Rollback(b.Context()) }()
	if _, err := tx.Exec(b.Context(), `SET LOCAL ROLE echomind_`+role); err != nil {
		b.Fatal(err)
	}
	_, err = tx.Exec(b.Context(), sql, pgx.QueryExecModeExec)
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return true
	case !errors.As(err, &pg):
		b.Fatalf("%s: %v", sql, err)
	case strings.HasPrefix(pg.Code, "42") && pg.Code != "42501": // not a statement at all
		b.Fatalf("%s: %v", sql, err)
	}
	return pg.Code != "42501"
}

// functions are those of schema moves, each with a call that has no arguments worth the name.
func (b *base) functions() map[string]string {
	b.Helper()
	found, err := b.conn.Query(b.Context(), `SELECT proname::text, format('SELECT * FROM moves.%I(%s) f', proname,
		(SELECT string_agg(format('NULL::%s', format_type(t, NULL)), ', ') FROM unnest(proargtypes) t))
		FROM pg_proc WHERE pronamespace = 'moves'::regnamespace`)
	if err != nil {
		b.Fatal(err)
	}
	all := map[string]string{}
	var name, call string
	if _, err := pgx.ForEachRow(found, []any{&name, &call}, func() error { all[name] = call; return nil }); err != nil {
		b.Fatal(err)
	}
	return all
}

func TestEachRoleMayCallExactlyTheMovesThatThePageGivesIt(t *testing.T) {
	b := newBase(t)
	public, private := rows(t, "function | who | from → to | what it means; verdict of the run | answers"), rows(t, "function | what it does")
	functions := b.functions()
	for name := range functions {
		if (public[name] == nil) == (private[name] == nil) {
			t.Errorf("moves.%s must stand once in docs/states.md", name)
		}
	}
	for _, listed := range []map[string][]string{public, private} {
		for name := range listed {
			if functions[name] == "" {
				t.Errorf("docs/states.md lists moves.%s, which does not exist", name)
			}
		}
	}
	for name, call := range functions {
		for _, role := range roles {
			want := public[name] != nil && slices.Contains(strings.Split(public[name][0], ", "), role)
			if may := b.tries(role, call); may != want {
				t.Errorf("%s calls moves.%s: %v, the page says %v", role, name, may, want)
			}
		}
	}
}

func TestThePageSaysWhereEachMoveLeads(t *testing.T) {
	tested := map[string]map[string]bool{}
	for name, m := range moveTable {
		name, _, _ = strings.Cut(name, ",")
		if tested[name] == nil {
			tested[name] = map[string]bool{}
		}
		for from, to := range m.to {
			tested[name][string(from+" → "+to)] = true
		}
	}
	for name, cells := range rows(t, "function | who | from → to | what it means; verdict of the run | answers") {
		said := map[string]bool{}
		for _, arrow := range strings.Split(cells[1], ", ") {
			if arrow != "" {
				said[arrow] = true
			}
		}
		if !maps.Equal(said, tested[name]) {
			t.Errorf("the page says of %s %v, it was seen to do %v", name, said, tested[name])
		}
		for _, word := range code.FindAllStringSubmatch(cells[2], -1) {
			if !slices.Contains(lifecycle.Verdicts, lifecycle.Verdict(word[1])) && word[1] != "max_retries" {
				t.Errorf("%s: %s is no verdict", name, word[1])
			}
		}
	}
}

func TestEveryFunctionOfTheSchemaIsShortAndSaysWhatItIsFor(t *testing.T) {
	b := newBase(t)
	files, err := os.ReadDir("migrations")
	if err != nil {
		t.Fatal(err)
	}
	var sql strings.Builder
	for _, file := range files {
		text, err := os.ReadFile("migrations/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		sql.Write(text)
	}
	for name := range b.functions() {
		comment := regexp.MustCompile(`(?m)^-- .*\n(-- \+goose StatementBegin\n)?CREATE (OR REPLACE )?FUNCTION moves\.` + name + `\(`)
		if found := comment.FindString(sql.String()); found == "" || strings.HasPrefix(found, "-- +goose") {
			t.Errorf("moves.%s has no comment above it", name)
		}
		if lines := one[int](b, `SELECT max(regexp_count(prosrc, '\n')) FROM pg_proc WHERE pronamespace = 'moves'::regnamespace
			AND proname = $1`, name); lines > 60 {
			t.Errorf("moves.%s has %d lines", name, lines)
		}
	}
}

// tables are those of schema public but the ledger's weeks, each with its columns that may be written, in order.
func (b *base) tables() map[string][]string {
	b.Helper()
	found, err := b.conn.Query(b.Context(), `SELECT c.relname::text, array_agg(a.attname::text ORDER BY a.attnum)
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition GROUP BY 1`)
	if err != nil {
		b.Fatal(err)
	}
	all := map[string][]string{}
	var name string
	var columns []string
	if _, err := pgx.ForEachRow(found, []any{&name, &columns}, func() error { all[name] = slices.Clone(columns); return nil }); err != nil {
		b.Fatal(err)
	}
	return all
}

// cell is what a role may do with a table, as the page says it; each star is looked up.
func (b *base) cell(role, table string, columns []string) string {
	b.Helper()
	var cell string
	isView := one[bool](b, `SELECT relkind = 'v' FROM pg_class WHERE oid = $1::text::regclass`, table)
	for _, right := range []struct{ letter, sql string }{
		{"r", `SELECT "%[2]s" FROM %[1]s LIMIT 0`},
		{"i", `INSERT INTO %[1]s ("%[2]s") OVERRIDING SYSTEM VALUE SELECT (NULL::%[1]s)."%[2]s" WHERE false`},
		{"u", `UPDATE %[1]s SET "%[2]s" = DEFAULT WHERE false`},
	} {
		if isView && right.letter != "r" {
			continue // a view of several tables
		}
		var may, writable []string
		for _, column := range columns {
			if (column == "at_fault" || column == "asks_condition" || column == "asks_upstreams" || column == "due_at") && right.letter != "r" {
				continue // generated
			}
			writable = append(writable, column)
			if b.tries(role, fmt.Sprintf(right.sql, table, column)) {
				may = append(may, column)
			}
		}
		if len(may) == 0 {
			continue
		}
		cell += right.letter
		if len(may) < len(writable) {
			cell += "*"
			key := strings.Join([]string{role, right.letter, table}, " ")
			want := strings.Fields(someColumns[key])
			if hidden, allBut := strings.CutPrefix(someColumns[key], "all but "); allBut {
				want = slices.DeleteFunc(slices.Clone(writable), func(c string) bool { return slices.Contains(strings.Fields(hidden), c) })
			}
			slices.Sort(want)
			if slices.Sort(may); !slices.Equal(may, want) {
				b.Errorf("%s: %v, want %v", key, may, want)
			}
		}
	}
	if !isView && b.tries(role, `DELETE FROM `+table+` WHERE false`) {
		cell += "d"
	}
	return cell
}

func TestEachRoleMayDoWithEachTableExactlyWhatThePageSays(t *testing.T) {
	b := newBase(t)
	said := rows(t, "table | "+strings.Join(roles, " | "))
	tables := b.tables()
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		var cells []string
		for _, role := range roles {
			cells = append(cells, b.cell(role, table, tables[table]))
		}
		if !slices.Equal(cells, said[table]) {
			t.Errorf("the page says %q, it should be\n| `%s` | %s |", said[table], table, strings.Join(cells, " | "))
		}
	}
	for table := range said {
		if tables[table] == nil {
			t.Errorf("the page lists %s, which does not exist", table)
		}
	}
}

func TestNoRoleMakesChangesOrDropsAnything(t *testing.T) {
	b := newBase(t)
	week := one[string](b, `SELECT max(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'runs'::regclass`)
	for _, role := range roles {
		for _, sql := range []string{
			`CREATE TABLE public.mine (id int)`, `CREATE FUNCTION public.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'`,
			`CREATE SCHEMA mine`, `CREATE TABLE moves.mine (id int)`, `CREATE ROLE mine`,
			`ALTER TABLE connectors DISABLE TRIGGER USER`, `ALTER TABLE connectors ADD COLUMN mine int`, `DROP TABLE runs`,
			`DROP TRIGGER connectors_user_update ON connectors`, `TRUNCATE connectors`, `TRUNCATE runs`,
			`CREATE OR REPLACE FUNCTION schema_compatible_from() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'`,
			`UPDATE goose_db_version SET version_id = 1`, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, true)`,
			`SELECT setval('connector_config_versions', 1)`, `SELECT nextval('connector_config_versions')`,
			`SET session_replication_role = 'replica'`, `SELECT FROM ` + week, `DELETE FROM ` + week, `GRANT SELECT ON chunks TO PUBLIC`,
		} {
			may := b.tries(role, sql)
			if strings.HasPrefix(sql, "GRANT") { // a warning, where some right of another kind is held
				may = one[bool](b, `SELECT has_table_privilege('public', 'chunks', 'SELECT')`)
			}
			if may {
				t.Errorf("%s may %s", role, sql)
			}
		}
	}
}

// A trigger's function runs with its owner's rights, on any table that it is put on.
func TestNoRolePutsATriggerFunctionOnATableOfItsOwn(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	b.exec(`INSERT INTO connector_secrets (connector_id, name, envelope) VALUES ($1, 'a', $2)`, id, sealedOld)
	for _, function := range []string{"connector_secrets_forget", "search_index_note", "connectors_user_insert", "connectors_user_update", "connectors_user_delete"} {
		for _, role := range roles {
			if b.tries(role, `DO $$ BEGIN
				CREATE TEMP TABLE mine AS SELECT `+fmt.Sprint(id)+` AS id;
				CREATE TRIGGER mine AFTER DELETE ON mine FOR EACH ROW EXECUTE FUNCTION `+function+`();
				DELETE FROM mine;
			END $$`) {
				t.Errorf("%s may use %s", role, function)
			}
		}
	}
	if n := one[int](b, `SELECT count(*) FROM pg_proc WHERE prosecdef AND pronamespace IN ('public'::regnamespace, 'moves'::regnamespace)
		AND has_function_privilege('public', oid, 'EXECUTE')`); n != 0 {
		t.Errorf("everybody may call %d functions that run with the owner's rights", n)
	}
}

// Who knows the try of an open run speaks for it.
func TestNobodyWhoOnlyReadsSeesTheTryOfARun(t *testing.T) {
	b := newBase(t)
	b.in("SYNCING")
	try := one[string](b, `SELECT try_id::text FROM open_runs`)
	for _, table := range slices.Sorted(maps.Keys(b.tables())) {
		columns := one[string](b, `SELECT coalesce(string_agg(quote_ident(attname), ', '), '') FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped
			AND has_column_privilege('echomind_reader', attrelid, attnum, 'SELECT')`, table)
		if columns == "" {
			continue
		}
		if n := one[int](b, `SELECT count(*) FROM (SELECT `+columns+` FROM `+table+`) r WHERE r::text LIKE '%' || $1 || '%'`, try); n != 0 {
			t.Errorf("the reader sees the try in %s", table)
		}
	}
}
