package contract

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

const repository = "../../../.."

// section is the text of the document behind a heading, up to the next one of its rank.
func section(t *testing.T, heading string) string {
	t.Helper()
	page, err := os.ReadFile(document)
	require.NoError(t, err)
	_, after, there := strings.Cut(string(page), "\n"+heading+"\n")
	require.True(t, there, heading)
	rank := strings.Repeat("#", strings.Index(heading, " ")) + " "
	text, _, _ := strings.Cut(after, "\n"+rank)
	return text
}

func column(t *testing.T, conn *pgx.Conn, sql string, args ...any) []string {
	t.Helper()
	rows, err := conn.Query(ctx, sql, args...)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}

func TestTheDocumentNamesEachMoveOfASubscribersAndNoOther(t *testing.T) {
	d := newDatabase(t)
	granted := column(t, d.member(subscriber), `SELECT DISTINCT p.proname::text FROM pg_proc p
		WHERE p.pronamespace = 'moves'::regnamespace AND has_function_privilege(p.oid, 'EXECUTE') ORDER BY 1`)
	var named []string
	for _, match := range regexp.MustCompile("(?m)^\\| `moves\\.([a-z_]+)\\(").FindAllStringSubmatch(section(t, "### The moves"), -1) {
		named = append(named, match[1])
	}
	slices.Sort(named)
	require.Equal(t, granted, slices.Compact(named))
}

func TestTheDocumentSaysWhatASubscriberMayRead(t *testing.T) {
	d := newDatabase(t)
	readable := column(t, d.member(subscriber), `SELECT c.relname || ' (' || string_agg(a.attname, ', ' ORDER BY a.attnum) || ')'
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'v', 'p')
			AND has_column_privilege(c.oid, a.attnum, 'SELECT') GROUP BY c.relname ORDER BY c.relname`)
	text := strings.Join(strings.Fields(section(t, "## Before you start")), " ")
	for _, table := range readable {
		name, _, _ := strings.Cut(table, " ")
		switch name {
		case "connector_types": // all of it
			require.Contains(t, text, "`connector_types`")
		case "goose_db_version": // which schema it is
		default:
			require.Contains(t, text, "`"+table+"`")
		}
	}
	require.Len(t, readable, 3)
}

// values are other values for the columns of connectors.
var values = map[string]string{
	"name": `'other'`, "type": `'web'`, "user_id": `2`, "scope": `'org'`, "scope_id": `'g'`, "config": `'{"a": 1}'`,
	"refresh_freq_minutes": `7`, "schedule_cron": `'0 0 * * *', refresh_freq_minutes = NULL`, "run_at_once": `true`, "time_zone": `'Europe/Berlin'`, "dst_gap": `'before'`, "dst_overlap": `'both'`, "max_retries": `9`,
	"concurrency_keys": `'{a}'`, "waits_for_key": `'a'`, "spread_percent": `50`, "deadline_minutes": `5`, "overlap": `'queue'`, "once_per": `'day'`, "catch_up": `'all'`, "catch_up_most": `5`, "catch_up_minutes": `60`, "fresh_within_minutes": `60`, "calendar": `NULL`, "calendar_use": `'only'`, "condition": `NULL`,
	"claimed_at": `now()`, "over_at": `now()`, "claimed_for": `now()`, "wanted": `true`, "synced_for": `now()`, "deletion_guard": `false`,
	"trigger_requested_at": `now()`, "created_by": `'me'`, "updated_by": `'me'`, "updated_at": `'2001-01-01'`,
	"id": `id + 1000`, "created_at": `'2001-01-01'`,
	"status": `'DISABLED'`, "status_message": `'x'`, "config_version": `config_version + 1`, "synced_version": `1`, "added_version": `99`, "listed_version": `99`, "state": `'{"a": 1}'`, "listing": `'{"a": 1}'`,
	"last_sync_at": `now()`, "next_sync_at": `now()`, "due_reason": `'retry'`, "slot_at": `now()`, "slots_through": `now()`,
	"planned_through": `now()`, "needs_plan": `true`, "deletions_allowed_at": `now()`, "next_parameters": `'{}'`, "parameters_due_at": `now()`, "kept_plan": `'{}'`, "run_id": `gen_random_uuid()`, "failure_count": `1`, "docs_analyzed": `1`, "put_off_since": `now()`, "condition_met_at": `now()`,
	"follows": `true`, "followed": `true`, "upstreams_met_at": `now()`,
}

func TestTheDocumentSaysWhichColumnsAreRefused(t *testing.T) {
	d := newDatabase(t)
	console := d.member(people)
	id := d.connector()
	conn, err := d.pool.Acquire(ctx)
	require.NoError(t, err)
	defer conn.Release()
	var moved, fixed []string
	for _, name := range column(t, conn.Conn(), `SELECT attname::text FROM pg_attribute WHERE attrelid = 'connectors'::regclass
			AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum`) {
		require.Contains(t, values, name, "a new column: may users write it?")
		sql := fmt.Sprintf(`UPDATE connectors SET %s = %s WHERE id = %d`, name, values[name], id)
		_, err := conn.Exec(ctx, sql)
		_, theirs := console.Exec(ctx, sql)
		switch said := code(err); said {
		case "":
			if name != "created_by" {
				require.NoError(t, theirs, sql)
			}
			continue
		case "23514 connectors_moved_only":
			moved = append(moved, "`"+name+"`")
		case "23514 connectors_id_stays":
			fixed = append(fixed, "`"+name+"`")
		default:
			t.Errorf("%s: %s", sql, said)
		}
		require.Equal(t, "42501", code(theirs), sql)
	}
	_, after, found := strings.Cut(section(t, "## Plain SQL on connectors"), "All other columns are moved")
	require.True(t, found)
	list, after, found := strings.Cut(after, "; and never changed are ")
	require.True(t, found)
	listed := regexp.MustCompile("`[a-z_]+`").FindAllString(list, -1)
	slices.Sort(listed)
	slices.Sort(moved)
	require.Equal(t, moved, listed)
	list, _, _ = strings.Cut(after, ".")
	require.ElementsMatch(t, fixed, regexp.MustCompile("`(?:id|created_at)`").FindAllString(list, -1))
}

func TestEachErrorOfPlainSQLIsWhatTheDocumentSays(t *testing.T) {
	d := newDatabase(t)
	text := section(t, "## Plain SQL on connectors")
	id := d.connector()
	off := ask[int32](d, `INSERT INTO connectors (name, type, user_id, status) VALUES ('off', 'shelf', 1, 'DISABLED') RETURNING id`)
	_, err := d.pool.Exec(ctx, `INSERT INTO owner_quotas (user_id, max_connectors) VALUES (77, 1)`)
	require.NoError(t, err)
	_, err = d.pool.Exec(ctx, `INSERT INTO connector_types (name, kind) VALUES ('census', 'job')`)
	require.NoError(t, err)
	const insert = `INSERT INTO connectors (name, user_id, type, status, refresh_freq_minutes, schedule_cron, scope) VALUES ('x', 1, `
	for constraint, sql := range map[string]string{
		"connectors_moved_only":         fmt.Sprintf(`UPDATE connectors SET status = 'PENDING' WHERE id = %d`, id),
		"connectors_id_stays":           fmt.Sprintf(`UPDATE connectors SET id = 99 WHERE id = %d`, id),
		"connectors_kind_stays":         fmt.Sprintf(`UPDATE connectors SET type = 'census' WHERE id = %d`, id),
		"connectors_trigger_disabled":   fmt.Sprintf(`SELECT moves.trigger_sync(%d)`, off),
		"connectors_status_move":        insert + `'shelf', 'SYNCING', 1, NULL, 'user')`,
		"connectors_per_owner":          `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'shelf', 77), ('y', 'shelf', 77)`,
		"connectors_type_known":         insert + `'shlef', 'ACTIVE', 1, NULL, 'user')`,
		"connectors_one_schedule":       insert + `'shelf', 'ACTIVE', 1, '0 0 * * *', 'user')`,
		"connectors_group_has_scope_id": insert + `'shelf', 'ACTIVE', 1, NULL, 'group')`,
		"connectors_scope_known":        insert + `'shelf', 'ACTIVE', 1, NULL, 'all')`,
		"connectors_dst_gap_known":      fmt.Sprintf(`UPDATE connectors SET dst_gap = 'last' WHERE id = %d`, id),
		"connectors_dst_overlap_known":  fmt.Sprintf(`UPDATE connectors SET dst_overlap = 'last' WHERE id = %d`, id),
		"connectors_policies":           fmt.Sprintf(`UPDATE connectors SET once_per = 'year' WHERE id = %d`, id),
		"connectors_refresh_range":      insert + `'shelf', 'ACTIVE', -1, NULL, 'user')`,
	} {
		require.Contains(t, text, "`"+constraint+"`")
		_, err := d.pool.Exec(ctx, sql)
		require.Contains(t, code(err), " "+constraint, sql)
	}
	for _, constraint := range regexp.MustCompile("`(connectors_[a-z_]+)`").FindAllStringSubmatch(text, -1) {
		require.NotEmpty(t, constraint[1])
	}
}

func TestWhatIsSwitchedTwiceSaysSo(t *testing.T) {
	d := newDatabase(t)
	conn, id := d.member(people), d.connector()
	for _, step := range []struct{ sql, answer string }{
		{`SELECT moves.enable($1)::text`, "false"}, {`SELECT moves.disable($1, 'moving')::text`, "true"},
		{`SELECT moves.disable($1)::text`, "false"}, {`SELECT moves.enable($1)::text`, "true"}, {`SELECT moves.enable($1)::text`, "false"},
	} {
		require.Equal(t, []string{step.answer}, column(t, conn, step.sql, id), step.sql)
	}
	for _, sql := range []string{`SELECT moves.enable($1)::text`, `SELECT moves.disable($1)::text`} {
		require.Equal(t, []string{"false"}, column(t, conn, sql, -1))
	}
	require.Equal(t, []string{"null"}, column(t, conn, `SELECT coalesce(moves.trigger_sync($1)::text, 'null')`, -1))
}

func TestTheExamplesPackagesArePinnedAndNameNoRegistry(t *testing.T) {
	var pinned struct{ Dependencies map[string]string }
	text, err := os.ReadFile(filepath.Join(repository, "examples/node/package.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &pinned))
	require.NotEmpty(t, pinned.Dependencies)
	for name, version := range pinned.Dependencies {
		require.Regexp(t, `^\d+\.\d+\.\d+$`, version, name)
	}
	var lock struct {
		Packages map[string]struct{ Version, Integrity, Resolved string }
	}
	text, err = os.ReadFile(filepath.Join(repository, "examples/node/package-lock.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &lock))
	require.Greater(t, len(lock.Packages), len(pinned.Dependencies))
	for name, p := range lock.Packages {
		require.Empty(t, p.Resolved, name)
		if name != "" {
			require.NotEmpty(t, p.Integrity, name)
		}
	}
}
