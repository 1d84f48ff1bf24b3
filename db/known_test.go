package db_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestATryKnowsTheDocumentsOfItsOwnConnectorAndNoOther(t *testing.T) {
	b := newBase(t)
	mine, others := b.synced(), b.synced()
	b.exec(`UPDATE connectors SET config = '{"a": 1}'`)
	try := b.syncing(mine)
	b.exec(`INSERT INTO documents (connector_id, source_id, status, version_token, content_hash, links, error, memo, config_version)
		SELECT c.id, d.id, d.status, 'v1', 'h', ARRAY[d.id || c.id], CASE d.status WHEN 'failed' THEN 'no' END, CASE d.status WHEN 'deleted' THEN NULL ELSE '{"n":1e999, "n":"\\u0000"}'::json END, CASE d.age WHEN 0 THEN c.config_version WHEN 1 THEN c.added_version ELSE c.added_version - 1 END
		FROM connectors c, (VALUES ('a', 'stored', 0), ('b', 'failed', 0), ('c', 'stored', 1), ('d', 'deleted', 0), ('e', 'stored', 0), ('f', 'stored', 2)) d(id, status, age)`)
	b.exec(`INSERT INTO sightings (connector_id, try_id, listing, source_id, no) VALUES ($1, $2, 1, 'a', 3), ($1, $2, 1, 'e', 9)`, mine, try.ID)

	const known = `SELECT string_agg(concat_ws(' ', source_id, '<' || version_token || content_hash || '>', seen, nullif(refused_token, '')), ', ')
		FROM moves.known($1, $2, $3, $4, ARRAY[$2::uuid], ARRAY[1], ARRAY[3::bigint])`
	b.moves("a <v1h> t, b <h> f v1, c <> f, e <v1h> f", known, try.Run, try.ID, "", 10)
	b.moves("a <v1h> t, b <h> f v1", known, try.Run, try.ID, "", 2)
	b.moves("c <> f, e <v1h> f", known, try.Run, try.ID, "b", 2)
	b.moves(`a {"n":1e999, "n":"\\u0000"}, b {"n":1e999, "n":"\\u0000"}, c , e {"n":1e999, "n":"\\u0000"}`,
		`SELECT string_agg(source_id || ' ' || coalesce(memo::text, ''), ', ') FROM moves.known($1, $2)`, try.Run, try.ID)
	b.moves(fmt.Sprintf("{a%d}", mine), `SELECT l FROM moves.links($1, $2, 'a') l`, try.Run, try.ID)
	b.moves("nothing", `SELECT l FROM moves.links($1, $2, 'x') l`, try.Run, try.ID)
	b.moves("nothing", `SELECT l FROM moves.links($1, $2, 'f') l`, try.Run, try.ID) // of a deleted connector of the same id

	other := b.syncing(others)
	for name, of := range map[string][2]uuid.UUID{
		"another try": {try.Run, uuid.New()}, "another run": {uuid.New(), try.ID}, "another's try": {try.Run, other.ID},
	} {
		for _, sql := range []string{`SELECT count(*) FROM moves.known($1, $2)`, `SELECT count(*) FROM moves.links($1, $2, 'a')`} {
			if got := b.asked(sql, of[0], of[1]); !strings.Contains(got, "P0002") {
				t.Errorf("%s, %s: %s", name, sql, got)
			}
		}
	}
	b.moves("true", `SELECT moves.disable($1)`, mine)
	if got := b.asked(`SELECT count(*) FROM moves.known($1, $2)`, try.Run, try.ID); !strings.Contains(got, "P0002") {
		t.Errorf("a run that is over: %s", got)
	}
	if got := b.asked(`SELECT count(*) FROM moves.known($1, $2, NULL)`, other.Run, other.ID); !strings.Contains(got, "22023") {
		t.Errorf("behind null: %s", got)
	}
	for _, page := range []any{0, 10_001, nil} {
		if got := b.asked(`SELECT count(*) FROM moves.known($1, $2, '', $3)`, other.Run, other.ID, page); !strings.Contains(got, "22023") {
			t.Errorf("a page of %v: %s", page, got)
		}
	}
}
