package audit_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/chaos/source"
	"github.com/echomind/sync/testonly/movestest"
)

const (
	cursor    = "the cursor moves with its run"
	ahead     = "no checkpoint runs ahead"
	whole     = "complete means all stored"
	documents = "documents are the source's"
	left      = "nothing is left behind"
)

// store writes what a source must have stored, in the place of whatever there is.
func (l *lab) store(id int32, try uuid.UUID, held map[string]source.Document) {
	l.t.Helper()
	l.do(`DELETE FROM chunks WHERE document_id IN (SELECT id FROM documents WHERE connector_id = $1)`, id)
	l.do(`DELETE FROM documents WHERE connector_id = $1`, id)
	for sourceID, d := range held {
		status, failure, chunks := "stored", (*string)(nil), source.Chunks(d.Text)
		if d.Err != "" {
			status, failure = "failed", &d.Err
		}
		var document int64
		l.ask(&document, `
			INSERT INTO documents (connector_id, source_id, title, status, error, version_token, chunk_count, try_id, first_no,
				config_version)
			SELECT id, $2, $3, $4, $5, $6, $7, $8, 1, config_version FROM connectors WHERE id = $1 RETURNING id`,
			id, sourceID, d.Title, status, failure, d.Token, len(chunks), try)
		for no, c := range chunks {
			l.do(`INSERT INTO chunks (try_id, first_no, document_id, no, text, start_offset, end_offset, embedder, embedding)
				VALUES ($1, 1, $2, $3, $4, 0, 0, 'test', '{}')`, try, document, no, c.Text)
		}
	}
}

// synced makes a connector whose documents are stored as they are at version 2, by a run that has completed.
func (l *lab) synced(cfg source.Config) (id int32, try uuid.UUID) {
	l.t.Helper()
	id = l.add("synthetic", cfg)
	l.finish(id, l.claim(id), 1)
	l.do(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, id)
	run := l.claim(id)
	try = l.pickUp(id, time.Hour)
	l.store(id, try, source.At(cfg, 2))
	l.finish(id, run, 2)
	l.do(`DELETE FROM unswept_runs`)
	return id, try
}

// aSource has a document that is edited, one that is renamed and one that is deleted on the way to version 2, and keeps some.
func aSource() source.Config {
	for cfg := (source.Config{Documents: 10, Changes: 5, Mode: source.Delta}); ; cfg.Seed++ {
		kinds := map[source.Kind]bool{}
		for _, change := range source.Step(cfg, 1) {
			kinds[change.Kind] = true
		}
		if len(kinds) == 3 {
			return cfg
		}
	}
}

func ofKind(cfg source.Config, v int, kind source.Kind) string {
	for _, change := range source.Step(cfg, v) {
		_, before := source.At(cfg, v)[change.SourceID]
		if change.Kind == kind && before {
			return change.SourceID
		}
	}
	return ""
}

func TestAStoredDocumentThatIsNotTheSourcesIsFound(t *testing.T) {
	l := newLab(t)
	cfg := aSource()
	for cfg.Seed++; ofKind(cfg, 1, source.Written) == "" || ofKind(cfg, 1, source.Renamed) == "" || ofKind(cfg, 1, source.Deleted) == "" ||
		len(source.Chunks(source.At(cfg, 2)["doc/0"].Text)) < 3; cfg.Seed++ {
	}
	id, try := l.synced(cfg)
	earlier := func(kind source.Kind) map[string]source.Document {
		held := source.At(cfg, 2)
		of := ofKind(cfg, 1, kind)
		held[of] = source.At(cfg, 1)[of]
		return held
	}
	pass := func() {
		l.t.Helper()
		f := l.audit(documents)
		require.Empty(t, f.Violations)
		require.Equal(t, len(source.At(cfg, 2)), f.Checked)
	}
	pass()
	for part, tamper := range map[string]func(){
		"text is":                 func() { l.store(id, try, earlier(source.Written)) },
		"title is":                func() { l.store(id, try, earlier(source.Renamed)) },
		"does not have it":        func() { l.store(id, try, earlier(source.Deleted)) },
		"is missing":              func() { l.do(`DELETE FROM documents WHERE source_id = 'doc/0'`) },
		"status is":               func() { l.do(`UPDATE documents SET status = 'failed', error = 'no', version_token = ''`) },
		"token is":                func() { l.do(`UPDATE documents SET version_token = 'another'`) },
		"number of chunks is":     func() { l.do(`DELETE FROM chunks WHERE no = 1`) },
		"number of chunks by its": func() { l.do(`UPDATE documents SET chunk_count = chunk_count + 1`) },
		"order of chunks":         func() { l.do(`UPDATE chunks SET no = no + 1 WHERE no = (SELECT max(no) FROM chunks)`) },
		"text is \"":              func() { l.do(`UPDATE documents SET try_id = gen_random_uuid()`) },
	} {
		tamper()
		l.finds(documents, part)
		l.store(id, try, source.At(cfg, 2))
		pass()
	}
}

func TestADocumentThatFailedOtherwiseThanItsSourceSaysIsFound(t *testing.T) {
	for _, trouble := range []string{source.Unreadable, source.Poison} {
		t.Run(trouble, func(t *testing.T) {
			l := newLab(t)
			cfg := source.Config{Seed: 3, Documents: 6, Changes: 2, Mode: source.Delta, Trouble: trouble}
			id, try := l.synced(cfg)
			require.Empty(t, l.audit(documents).Violations)
			l.do(`UPDATE documents SET error = 'another error' WHERE status = 'failed'`)
			l.finds(documents, "error is")
			l.store(id, try, source.At(cfg, 2))
			l.do(`UPDATE documents SET status = 'stored', error = NULL WHERE status = 'failed'`)
			l.finds(documents, "status is")
		})
	}
}

func TestWhileARunHasNotCompletedDocumentsMayBeOfTheNextVersionAndNoOther(t *testing.T) {
	l := newLab(t)
	cfg := aSource()
	id, try := l.synced(cfg)
	l.do(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, id)
	l.claim(id)
	l.disable(id)
	require.Empty(t, l.audit(documents).Violations)
	next := source.At(cfg, 2)
	for _, change := range source.Step(cfg, 2) {
		next[change.SourceID] = change.Document
		if change.Kind == source.Deleted {
			delete(next, change.SourceID)
		}
		l.store(id, try, next)
		require.Empty(t, l.audit(documents).Violations)
	}
	stale := source.At(cfg, 2)
	of := ofKind(cfg, 1, source.Renamed)
	stale[of] = source.Document{Title: "of long ago", Text: stale[of].Text, Token: stale[of].Token}
	l.store(id, try, stale)
	l.finds(documents, "of long ago")
	l.store(id, try, nil)
	l.finds(documents, "is missing")
}

func TestWhatAnEarlierConfigurationLeftMayStayUntilARunCompletesUnderTheNewOne(t *testing.T) {
	l := newLab(t)
	cfg := aSource()
	id, try := l.synced(cfg)
	l.do(`UPDATE connectors SET config = config || '{"seed": 1000}'`)
	require.Empty(t, l.audit(documents).Violations)
	l.finish(id, l.claim(id), 1)
	l.finds(documents, "does not have it")
	cfg.Seed = 1000
	l.store(id, try, source.At(cfg, 1))
	require.Empty(t, l.audit(documents).Violations)
}

func TestWhatIsLeftBehindIsFound(t *testing.T) {
	for part, leave := range map[string]func(l *lab, id int32, try uuid.UUID){
		"chunks that no document": func(l *lab, _ int32, _ uuid.UUID) { l.do(`DELETE FROM documents WHERE source_id = 'doc/0'`) },
		"chunks that no document names": func(l *lab, _ int32, _ uuid.UUID) { // of another version of it
			l.do(`UPDATE documents SET first_no = 2 WHERE source_id = 'doc/0'`)
		},
		"never whole": func(l *lab, id int32, _ uuid.UUID) {
			l.do(`INSERT INTO documents (connector_id, source_id, config_version) VALUES ($1, 'part', 0)`, id)
		},
		"deleted or": func(l *lab, id int32, _ uuid.UUID) {
			l.do(`INSERT INTO documents (connector_id, source_id, status, deleted_at, config_version) VALUES ($1, 'd', 'deleted', clock_timestamp(), 0)`, id)
		},
		"connectors that are gone": func(l *lab, _ int32, _ uuid.UUID) {
			l.do(`INSERT INTO documents (connector_id, source_id, status, config_version) VALUES (99, 'doc/0', 'stored', 0)`)
		},
		"counted messages": func(l *lab, _ int32, try uuid.UUID) {
			l.do(`INSERT INTO run_messages VALUES ($1, 1)`, try)
		},
		"checkpoints of": func(l *lab, _ int32, try uuid.UUID) {
			l.do(`INSERT INTO run_checkpoints VALUES ($1, $1, 1, '{}')`, try)
		},
		"sightings that": func(l *lab, id int32, try uuid.UUID) {
			l.do(`INSERT INTO sightings VALUES ($1, $2, 1, 'doc/0', 1)`, id, try)
		},
		"tries of messages": func(l *lab, _ int32, _ uuid.UUID) {
			l.do(`INSERT INTO message_tries VALUES (gen_random_uuid(), 1, 1)`)
		},
		"places of connectors in lists": func(l *lab, id int32, _ uuid.UUID) {
			l.do(`UPDATE connector_freshness SET seen_by = 'group:others' WHERE connector_id = $1`, id)
		},
		"in lists that are wrong": func(l *lab, id int32, _ uuid.UUID) { // it has none
			l.do(`DELETE FROM connector_freshness WHERE connector_id = $1`, id)
		},
		"runs that nobody has swept": func(l *lab, id int32, _ uuid.UUID) {
			l.do(`INSERT INTO unswept_runs (run_id, connector_id, config_version, outdated) VALUES (gen_random_uuid(), $1, 1, false)`, id)
		},
	} {
		t.Run(part, func(t *testing.T) {
			l := newLab(t)
			cfg := aSource()
			for len(source.At(cfg, 2)["doc/0"].Text) == 0 {
				cfg.Seed++
			}
			id, try := l.synced(cfg)
			f := l.audit(left)
			require.Empty(t, f.Violations)
			require.Greater(t, f.Checked, len(source.At(cfg, 2)))
			leave(l, id, try)
			l.finds(left, part)
		})
	}
}

func TestWhatIsNotSweptYetIsNotLeftBehind(t *testing.T) {
	l := newLab(t)
	id, try := l.synced(aSource())
	l.do(`INSERT INTO unswept_runs (run_id, connector_id, try_id, config_version, outdated)
		SELECT id, connector_id, try_id, config_version, false FROM runs`)
	l.do(`DELETE FROM documents WHERE source_id = 'doc/0'`)
	l.do(`INSERT INTO documents (connector_id, source_id, config_version) VALUES ($1, 'part', 0)`, id)
	l.do(`INSERT INTO run_messages VALUES ($1, 1)`, try)
	require.Empty(t, l.audit(left).Violations)
}

func TestACursorThatMovesByItselfIsFound(t *testing.T) {
	for part, move := range map[string]func(l *lab, id int32){
		"no run completed": func(l *lab, id int32) { l.force(`UPDATE connectors SET state = '{"version": 3}' WHERE id = $1`, id) },
		"and no run": func(l *lab, id int32) { // its run failed, and its state moved all the same
			l.claim(id)
			l.pickUp(id, time.Hour)
			l.together(func(do func(string, ...any)) {
				do(giveUp, id, "transient failure")
				do(`UPDATE connectors SET state = '{"version": 3}', status = 'ERROR', run_id = NULL WHERE id = $1`, id)
			})
		},
		"version 4 came after version 2": func(l *lab, id int32) {
			session := l.claim(id)
			l.pickUp(id, time.Hour)
			l.finish(id, session, 4)
		},
		"version 1 came after version 2": func(l *lab, id int32) {
			session := l.claim(id)
			l.pickUp(id, time.Hour)
			l.finish(id, session, 1)
		},
		"a state that is not empty": func(l *lab, _ int32) {
			l.force(`UPDATE connectors SET config_version = config_version + 1, state = '{"version": 3}'`)
		},
	} {
		t.Run(part, func(t *testing.T) {
			l := newLab(t)
			id := l.add("synthetic", source.Config{})
			for version := range 2 {
				session := l.claim(id)
				l.pickUp(id, time.Hour)
				l.finish(id, session, version+1)
				l.trigger()
			}
			other := l.add("synthetic", source.Config{})
			session := l.claim(other)
			l.pickUp(other, time.Hour)
			l.finish(other, session, 1)
			l.do(`UPDATE connectors SET config = config || '{"changes": 9}' WHERE id = $1`, other)
			f := l.audit(cursor)
			require.Empty(t, f.Violations)
			require.Equal(t, 4, f.Checked)
			move(l, id)
			l.finds(cursor, part)
		})
	}
}

func TestARunThatCompletedTooEarlyIsFound(t *testing.T) {
	// ended writes a verdict as no move does.
	ended := func(l *lab, verdict string, total any, stored, notes int) {
		id := l.add("synthetic", source.Config{})
		l.claim(id)
		l.pickUp(id, time.Hour)
		l.do(`UPDATE open_runs SET total = greatest($1::bigint, $2), stored = $2, notes = $3, whole = ($2 = greatest($1::bigint, $2))`, total, stored, notes)
		l.together(func(do func(string, ...any)) {
			do(`SELECT moves.end_runs(array_agg(id), $1, 'so it is') FROM open_runs`, verdict)
			do(`UPDATE connectors SET status = 'ACTIVE', run_id = NULL WHERE run_id IS NOT NULL`)
		})
		l.do(`ALTER TABLE runs DISABLE TRIGGER chaos_write`)
		movestest.Force(l.t, l.pool, `UPDATE runs SET total = $1 WHERE connector_id = $2`, total, id)
	}
	for part, c := range map[string]struct {
		verdict       string
		total         any
		stored, notes int
	}{
		"completed with 2 of 3":  {"completed", 3, 2, 0},
		"completed with 2 of -1": {"completed", nil, 2, 0},
		"skipped with 2 of 2":    {"skipped", 2, 2, 0},
		"completed with 0 of 0":  {"completed", 0, 0, 0},
		"completed with 2 of 2":  {"completed", 2, 2, 2},
	} {
		t.Run(part, func(t *testing.T) {
			l := newLab(t)
			l.opts.Foreign = []string{"foreign"}
			id := l.add("synthetic", source.Config{})
			l.finish(id, l.claim(id), 1)
			ended(l, "completed", 2, 2, 0)
			ended(l, "skipped", 2, 2, 2)
			f := l.audit(whole)
			require.Empty(t, f.Violations)
			require.Equal(t, 3, f.Checked)
			ended(l, c.verdict, c.total, c.stored, c.notes)
			l.finds(whole, part)
		})
	}
}

func TestARunThatASubscriberFinishedHasNothingToCount(t *testing.T) {
	l := newLab(t)
	l.do(`INSERT INTO connector_types (name) VALUES ('foreign')`)
	id := l.add("foreign", source.Config{})
	l.claim(id)
	l.pickUp(id, time.Hour)
	l.do(`SELECT moves.finish(id, try_id) FROM open_runs`)
	l.finds(whole, "completed with 0 of -1")
	l.opts.Foreign = []string{"foreign"}
	require.Empty(t, l.audit(whole).Violations)
}
