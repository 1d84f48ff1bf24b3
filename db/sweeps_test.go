package db_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/sdk/lifecycle"
)

// storing is a store of semantic's: its queries, for one try.
type storing struct {
	*base
	queries map[string]string
	id      int32
	try     lifecycle.Try
}

func (b *base) storing(id int32) storing {
	b.Helper()
	return storing{b, queries(b.T, "semantic"), id, b.syncing(id)}
}

func (s storing) version() int64 {
	s.Helper()
	return one[int64](s.base, `SELECT config_version FROM connectors WHERE id = $1`, s.id)
}

// touch locks documents, as the store of any part does.
func (s storing) touch(sources ...string) {
	s.Helper()
	if _, err := s.conn.Exec(s.Context(), s.queries["LockDocuments"], pgx.NamedArgs{"connector_id": s.id, "try_id": s.try.ID,
		"config_version": s.version(), "source_ids": sources}); err != nil {
		s.Fatal(err)
	}
}

// storedDocument is WriteDocuments for one document of one chunk.
func storedDocument(id, version int64, try uuid.UUID, no int64) pgx.NamedArgs {
	return pgx.NamedArgs{
		"written_by": try, "config_version": version, "ids": []int64{id}, "written_nos": []int64{no}, "titles": []string{"t"}, "urls": []string{""},
		"media_types": []string{"text"}, "hashes": []string{"h"}, "tokens": []string{"v"}, "links": []string{"[]"}, "memos": [][]byte{[]byte("1")},
		"chunks": []int32{1}, "text_bytes": []int64{4}, "statuses": []string{"stored"}, "errors": []string{""}, "try_ids": []uuid.UUID{try},
		"first_nos": []int64{no},
	}
}

// write makes documents whole.
func (s storing) write(sources ...string) {
	s.Helper()
	s.touch(sources...)
	for no, source := range sources {
		id := one[int64](s.base, `SELECT id FROM documents WHERE connector_id = $1 AND source_id = $2`, s.id, source)
		if _, err := s.conn.Exec(s.Context(), s.queries["WriteDocuments"], storedDocument(id, s.version(), s.try.ID, int64(no+1))); err != nil {
			s.Fatal(err)
		}
		s.exec(`INSERT INTO chunks (try_id, first_no, document_id, no, text, start_offset, end_offset, embedder, embedding)
			VALUES ($1, $2, $3, 0, 'text', 0, 4, 'hash', '{1}')`, s.try.ID, no+1, id)
	}
}

// sources are the documents of a connector that there are.
func (b *base) sources(id int32) []string {
	b.Helper()
	found, err := b.conn.Query(b.Context(), `SELECT source_id FROM documents WHERE connector_id = $1 ORDER BY 1`, id)
	if err != nil {
		b.Fatal(err)
	}
	all, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		b.Fatal(err)
	}
	return all
}

func (b *base) have(id int32, when string, want ...string) {
	b.Helper()
	if got := b.sources(id); !slices.Equal(got, want) {
		b.Errorf("%s: %v, want %v", when, got, want)
	}
	if n := one[int](b, `SELECT count(*) FROM documents d WHERE try_id IS NOT NULL AND NOT EXISTS (SELECT FROM chunks c
		WHERE c.try_id = d.try_id AND c.first_no = d.first_no AND c.document_id = d.id)`); n != 0 {
		b.Errorf("%s: %d documents without their chunks", when, n)
	}
}

func (b *base) sweeps(id int32, version int64) {
	b.Helper()
	b.moves("nothing", `SELECT moves.sweep_outdated($1, $2, '', 1000)`, id, version)
	b.exec(`SELECT moves.sweep_leftovers($1, 0, 1000)`, id)
	b.exec(`SELECT moves.sweep_chunks(0, 1000, 1000)`)
}

func TestNoSweepRemovesADocumentBetweenItsParts(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	before := b.storing(id)
	before.write("big", "old")
	b.whole(before.try.Run, 2, "")
	b.moves("completed", `SELECT verdict FROM moves.complete($1)`, before.try.Run)
	b.exec(`UPDATE connectors SET config = '{"url":"https://example.org"}' WHERE id = $1`, id)

	open := b.storing(id)
	open.touch("big", "new") // part 1 of each is stored
	b.sweeps(id, open.version())
	b.have(id, "between the parts", "big", "new")
	open.write("big", "new") // part 2
	b.sweeps(id, open.version())
	b.have(id, "after them", "big", "new")

	b.exec(`UPDATE connectors SET config = '{"url":"https://example.net"}' WHERE id = $1`, id)
	next := b.storing(id)
	next.touch("big", "newer")
	b.moves("true", `SELECT moves.fail($1, $2, 'transient', 'no')`, next.try.Run, next.try.ID)
	b.sweeps(id, next.version())
	b.have(id, "after a run that ended between the parts")
}

func TestWhatComesBackUnderTheSameIDKeepsItsOwnDocumentsOnly(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	before := b.storing(id)
	before.write("both", "large", "old")
	version := before.version()
	b.exec(`DELETE FROM connectors WHERE id = $1`, id)
	b.exec(`INSERT INTO connectors (id, name, type, user_id, refresh_freq_minutes) VALUES ($1, 'docs', 'web', 2, 60)`, id)
	if now := before.version(); now <= version {
		t.Fatalf("version %d after %d", now, version)
	}
	after := b.storing(id)
	after.write("both", "new")
	after.touch("large") // its second part is not there yet
	b.sweeps(id, version+1)
	b.have(id, "while it is fetched", "both", "large", "new")
	after.write("large")
	b.whole(after.try.Run, 3, "")
	b.moves("completed", `SELECT verdict FROM moves.complete($1)`, after.try.Run)
	b.sweeps(id, version+1)
	b.have(id, "after it", "both", "large", "new")
	if n := one[int](b, `SELECT count(*) FROM connectors c, deleted_connectors d WHERE c.id = d.id AND d.config_version < c.config_version`); n != 1 {
		t.Errorf("%d deletions are to be swept", n)
	}
}

func TestASweepAndAStoreOfOneDocumentTakeTurns(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	old := b.storing(id)
	old.write("doc")
	b.exec(`UPDATE connectors SET config = '{"url":"https://example.org"}' WHERE id = $1`, id)
	open := b.storing(id)

	b.exec(`BEGIN`)
	open.touch("doc")
	answer := b.other().waits(`SELECT moves.sweep_outdated($1, $2, '', 10)`, id, open.version())
	b.exec(`COMMIT`)
	if got := answer(); got != "nothing" {
		t.Fatal(got)
	}
	b.have(id, "a sweep behind a store", "doc")
	if !one[bool](b, `SELECT try_id IS NULL AND title = '' AND memo IS NULL AND status = 'partial' FROM documents WHERE connector_id = $1`, id) {
		t.Error("a document that is being written keeps what an earlier configuration has left in it")
	}

	b.exec(`UPDATE documents SET touched_by = $2, config_version = 0 WHERE connector_id = $1`, id, old.try.ID)
	b.exec(`BEGIN`)
	b.moves("nothing", `SELECT moves.sweep_outdated($1, $2, '', 10)`, id, open.version())
	again := open
	again.base = b.other()
	stored := again.waitsPlain(`INSERT INTO documents (connector_id, source_id, config_version, touched_by) VALUES ($1, 'doc', $2, $3)
		ON CONFLICT (connector_id, source_id) DO UPDATE SET touched_by = EXCLUDED.touched_by`, id, open.version(), open.try.ID)
	b.exec(`COMMIT`)
	if err := stored(); err != nil {
		t.Fatal(err)
	}
	if !one[bool](b, `SELECT try_id IS NULL AND touched_by = $2 FROM documents WHERE connector_id = $1`, id, open.try.ID) {
		t.Error("a store behind a sweep goes on with a document that is gone")
	}
	b.sweeps(id, open.version())
	b.have(id, "a store behind a sweep", "doc")
}

func TestAClaimClosesWhatStandsOpenAndTakesNoSlotTwice(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	stray := uuid.New()
	b.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, config_version, dispatched_at)
		VALUES ($1, $2, 1, 'web', 'new', now(), now(), 1, now())`, stray, id)
	const slot, earlier = `date_trunc('hour', now()) - interval '1 hour'`, `date_trunc('hour', now()) - interval '9 hours'`
	b.force(`UPDATE connectors SET next_sync_at = `+slot+`, slot_at = `+slot+`, due_reason = 'schedule', slots_through = `+slot+` WHERE id = $1`, id)
	b.force(`INSERT INTO runs (id, connector_id, type, trigger, slot, due_at, started_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), $1, 'web', 'schedule', s, s, s, s, 'failed', 1
		FROM generate_series(`+earlier+`, `+slot+`, interval '1 hour') s`, id)
	run := uuid.New()
	b.moves("1", `SELECT moves.claim(jsonb_build_array(jsonb_build_object('id', $1::int, 'run_id', $2::uuid, 'slot', `+slot+`,
		'passed', jsonb_build_array(jsonb_build_object('verdict', 'missed', 'reason', 'late', 'first', `+earlier+`, 'last', `+slot+`, 'count', 8)))), now())`, id, run)
	b.holds(id, `c.status = 'PENDING' AND c.run_id = '`+run.String()+`' AND r.slot IS NULL AND c.slots_through = `+slot)
	if got := b.asked(`SELECT status || ', ' || reason FROM runs WHERE id = $1`, stray); got != "superseded, claimed again" {
		t.Errorf("the stray run: %s", got)
	}
	if n := one[int](b, `SELECT count(*) FROM runs WHERE connector_id = $1 AND status = 'missed'`, id); n != 0 {
		t.Errorf("%d slots are missed that had their verdict", n)
	}
}

func TestTheLedgerKeepsWhatTheOpenRunHad(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	try := b.syncing(id)
	b.exec(`UPDATE open_runs SET trigger = 'schedule', slot = now(), dispatches = 3, trigger_requested_at = now(), fetched_at = now(), drain_seq = 5,
		worker_id = NULL, total = 20, stored = 9, checkpoint_no = 2, notes = 3, unnamed = 1, documents_processed = 4, documents_failed = 5,
		documents_deleted = 6, documents_unchanged = 7, chunks_stored = 8, listing_whole = true, new_state = '{}', reason = 'of the worker',
		parameters = '{"depth": 1}', progress_done = 10, progress_total = 11, progress_text = 'half', warnings = '{slow}', result = '{"n": 1}'`)
	const all = `SELECT (to_jsonb(r) - ARRAY['worker_id', 'fails_if_lost', 'new_state', 'reason', 'drain_seq', 'dispatched_at', 'whole', 'unnamed', 'waiting',
		'counted_through', 'cut', 'cut_kind', 'advanced', 'user_id', 'acknowledged', 'publish_error', 'not_taken', 'wait_message', 'has_locks', 'has_keys', 'freed_asks'])::text FROM open_runs r WHERE id = $1`
	before := one[string](b, all, try.Run)
	for key, value := range one[map[string]any](b, `SELECT jsonb_strip_nulls($1::jsonb)`, before) {
		if value == 0.0 {
			t.Errorf("%s has no value to be kept", key)
		}
	}
	b.moves("true", `SELECT moves.fail($1, $2, 'transient', 'no')`, try.Run, try.ID)
	after := one[string](b, `SELECT (to_jsonb(r) - ARRAY['completed_at', 'status', 'reason', 'error_message', 'slot_last', 'missed_count'])::text FROM runs r WHERE id = $1`, try.Run)
	if after != before {
		t.Errorf("the run was\n%s\nand its line is\n%s", before, after)
	}
	if n := one[int](b, `SELECT count(*) FROM unswept_runs WHERE run_id = $1 AND try_id = $2`, try.Run, try.ID); n != 1 {
		t.Errorf("it is to be swept %d times", n)
	}
}
