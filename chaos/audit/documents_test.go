package audit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/chaos/source"
)

const (
	cursor    = "the cursor moves with its run"
	ahead     = "no checkpoint runs ahead"
	whole     = "complete means all stored"
	documents = "documents are the source's"
	left      = "nothing is left behind"
)

// store writes what a source must have stored, in the place of whatever there is.
func (l *lab) store(id int32, session uuid.UUID, held map[string]source.Document) {
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
			INSERT INTO documents (connector_id, source_id, title, status, error, version_token, chunk_count, session, first_no,
				config_version)
			SELECT id, $2, $3, $4, $5, $6, $7, $8, 1, config_version FROM connectors WHERE id = $1 RETURNING id`,
			id, sourceID, d.Title, status, failure, d.Token, len(chunks), session)
		for no, c := range chunks {
			l.do(`INSERT INTO chunks (session, first_no, document_id, no, text, start_offset, end_offset, embedder, embedding)
				VALUES ($1, 1, $2, $3, $4, 0, 0, 'test', '{}')`, session, document, no, c.Text)
		}
	}
}

// synced makes a connector whose documents are stored as they are at version 2, by a run that has completed.
func (l *lab) synced(cfg source.Config) (id int32, session uuid.UUID) {
	l.t.Helper()
	id = l.add("synthetic", cfg)
	session = l.claim(id)
	l.pickUp(id, time.Hour)
	l.finish(id, session, 1)
	l.do(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, id)
	session = l.claim(id)
	l.pickUp(id, time.Hour)
	l.store(id, session, source.At(cfg, 2))
	l.finish(id, session, 2)
	l.do(`UPDATE scheduler_runs SET swept_at = clock_timestamp() WHERE status <> 'running'`)
	return id, session
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
	id, session := l.synced(cfg)
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
		"text is":                 func() { l.store(id, session, earlier(source.Written)) },
		"title is":                func() { l.store(id, session, earlier(source.Renamed)) },
		"does not have it":        func() { l.store(id, session, earlier(source.Deleted)) },
		"is missing":              func() { l.do(`DELETE FROM documents WHERE source_id = 'doc/0'`) },
		"status is":               func() { l.do(`UPDATE documents SET status = 'failed', error = 'no', version_token = ''`) },
		"token is":                func() { l.do(`UPDATE documents SET version_token = 'another'`) },
		"number of chunks is":     func() { l.do(`DELETE FROM chunks WHERE no = 1`) },
		"number of chunks by its": func() { l.do(`UPDATE documents SET chunk_count = chunk_count + 1`) },
		"order of chunks":         func() { l.do(`UPDATE chunks SET no = no + 1 WHERE no = (SELECT max(no) FROM chunks)`) },
		"text is \"":              func() { l.do(`UPDATE documents SET session = gen_random_uuid()`) },
	} {
		tamper()
		l.finds(documents, part)
		l.store(id, session, source.At(cfg, 2))
		pass()
	}
}

func TestADocumentThatFailedOtherwiseThanItsSourceSaysIsFound(t *testing.T) {
	for _, trouble := range []string{source.Unreadable, source.Poison} {
		t.Run(trouble, func(t *testing.T) {
			l := newLab(t)
			cfg := source.Config{Seed: 3, Documents: 6, Changes: 2, Mode: source.Delta, Trouble: trouble}
			id, session := l.synced(cfg)
			require.Empty(t, l.audit(documents).Violations)
			l.do(`UPDATE documents SET error = 'another error' WHERE status = 'failed'`)
			l.finds(documents, "error is")
			l.store(id, session, source.At(cfg, 2))
			l.do(`UPDATE documents SET status = 'stored', error = NULL WHERE status = 'failed'`)
			l.finds(documents, "status is")
		})
	}
}

func TestWhileARunHasNotCompletedDocumentsMayBeOfTheNextVersionAndNoOther(t *testing.T) {
	l := newLab(t)
	cfg := aSource()
	id, session := l.synced(cfg)
	l.do(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, id)
	l.claim(id)
	l.do(`UPDATE connectors SET status = 'DISABLED'`)
	require.Empty(t, l.audit(documents).Violations)
	next := source.At(cfg, 2)
	for _, change := range source.Step(cfg, 2) {
		next[change.SourceID] = change.Document
		if change.Kind == source.Deleted {
			delete(next, change.SourceID)
		}
		l.store(id, session, next)
		require.Empty(t, l.audit(documents).Violations)
	}
	stale := source.At(cfg, 2)
	of := ofKind(cfg, 1, source.Renamed)
	stale[of] = source.Document{Title: "of long ago", Text: stale[of].Text, Token: stale[of].Token}
	l.store(id, session, stale)
	l.finds(documents, "of long ago")
	l.store(id, session, nil)
	l.finds(documents, "is missing")
}

func TestWhatAnEarlierConfigurationLeftMayStayUntilARunCompletesUnderTheNewOne(t *testing.T) {
	l := newLab(t)
	cfg := aSource()
	id, session := l.synced(cfg)
	l.do(`UPDATE connectors SET config = config || '{"seed": 1000}'`)
	require.Empty(t, l.audit(documents).Violations)
	l.finish(id, l.claim(id), 1)
	l.finds(documents, "does not have it")
	cfg.Seed = 1000
	l.store(id, session, source.At(cfg, 1))
	require.Empty(t, l.audit(documents).Violations)
}

func TestWhatIsLeftBehindIsFound(t *testing.T) {
	for part, leave := range map[string]func(l *lab, id int32, session uuid.UUID){
		"chunks that no document": func(l *lab, _ int32, _ uuid.UUID) { l.do(`DELETE FROM documents WHERE source_id = 'doc/0'`) },
		"chunks that no document names": func(l *lab, _ int32, _ uuid.UUID) { // of another version of it
			l.do(`UPDATE documents SET first_no = 2 WHERE source_id = 'doc/0'`)
		},
		"never whole": func(l *lab, id int32, _ uuid.UUID) {
			l.do(`INSERT INTO documents (connector_id, source_id) VALUES ($1, 'part')`, id)
		},
		"deleted or": func(l *lab, id int32, _ uuid.UUID) {
			l.do(`INSERT INTO documents (connector_id, source_id, status, deleted_at) VALUES ($1, 'd', 'deleted', clock_timestamp())`, id)
		},
		"connectors that are gone": func(l *lab, _ int32, _ uuid.UUID) {
			l.do(`INSERT INTO documents (connector_id, source_id, status) VALUES (99, 'doc/0', 'stored')`)
		},
		"counted messages": func(l *lab, _ int32, session uuid.UUID) {
			l.do(`INSERT INTO run_messages VALUES ($1, 1, 1)`, session)
		},
		"checkpoints of": func(l *lab, _ int32, session uuid.UUID) {
			l.do(`INSERT INTO run_checkpoints VALUES ($1, 1, '{}')`, session)
		},
		"sightings that": func(l *lab, id int32, session uuid.UUID) {
			l.do(`INSERT INTO sightings VALUES ($1, $2, 1, 'doc/0', 1)`, id, session)
		},
		"tries of messages": func(l *lab, _ int32, _ uuid.UUID) {
			l.do(`INSERT INTO message_tries VALUES (gen_random_uuid(), 1, 1)`)
		},
	} {
		t.Run(part, func(t *testing.T) {
			l := newLab(t)
			cfg := aSource()
			for len(source.At(cfg, 2)["doc/0"].Text) == 0 {
				cfg.Seed++
			}
			id, session := l.synced(cfg)
			f := l.audit(left)
			require.Empty(t, f.Violations)
			require.Greater(t, f.Checked, len(source.At(cfg, 2)))
			leave(l, id, session)
			l.finds(left, part)
		})
	}
}

func TestWhatIsNotSweptYetIsNotLeftBehind(t *testing.T) {
	l := newLab(t)
	id, session := l.synced(aSource())
	l.do(`UPDATE scheduler_runs SET swept_at = NULL`)
	l.do(`DELETE FROM documents WHERE source_id = 'doc/0'`)
	l.do(`INSERT INTO documents (connector_id, source_id) VALUES ($1, 'part')`, id)
	l.do(`INSERT INTO run_messages VALUES ($1, 1, 1)`, session)
	require.Empty(t, l.audit(left).Violations)
}

func TestACursorThatMovesByItselfIsFound(t *testing.T) {
	for part, move := range map[string]func(l *lab, id int32){
		"no run completed": func(l *lab, id int32) { l.do(`UPDATE connectors SET state = '{"version": 3}' WHERE id = $1`, id) },
		"and no run": func(l *lab, id int32) { // its run failed, and its state moved all the same
			l.claim(id)
			l.pickUp(id, time.Hour)
			l.do(`UPDATE connectors SET state = '{"version": 3}', status = 'ERROR', due_reason = 'retry', status_message = 'it failed',
				chunking_session = NULL, lease_owner = NULL, lease_expires_at = NULL WHERE id = $1`, id)
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
			l.do(`ALTER TABLE connectors DISABLE TRIGGER connectors_before_update`)
			l.do(`UPDATE connectors SET config_version = config_version + 1, state = '{"version": 3}'`)
		},
	} {
		t.Run(part, func(t *testing.T) {
			l := newLab(t)
			id := l.add("synthetic", source.Config{})
			for version := range 2 {
				session := l.claim(id)
				l.pickUp(id, time.Hour)
				l.finish(id, session, version+1)
				l.do(`UPDATE connectors SET trigger_requested_at = clock_timestamp()`)
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
	for part, set := range map[string]string{
		"completed with 2 of 3 messages":  `status = 'completed', total = 3, stored = 2`,
		"completed with 2 of -1 messages": `status = 'completed', stored = 2`,
		"skipped with 2 of 2 messages":    `status = 'skipped', total = 2, stored = 2`,
		"completed with 0 of 0 messages":  `status = 'completed', total = 0`,
		"completed with 2 of 2 messages":  `status = 'completed', total = 2, stored = 2, notes = 2`,
	} {
		t.Run(part, func(t *testing.T) {
			l := newLab(t)
			id := l.add("synthetic", source.Config{})
			l.finish(id, l.claim(id), 1)
			other := l.claim(l.add("synthetic", source.Config{}))
			l.do(`UPDATE scheduler_runs SET status = 'completed', completed_at = clock_timestamp(), total = 2, stored = 2 WHERE id = $1`, other)
			other = l.claim(l.add("synthetic", source.Config{}))
			l.do(`UPDATE scheduler_runs SET status = 'skipped', completed_at = clock_timestamp(), total = 2, stored = 2, notes = 2 WHERE id = $1`, other)
			require.Empty(t, l.audit(whole).Violations)
			session := l.claim(l.add("synthetic", source.Config{}))
			l.do(fmt.Sprintf(`UPDATE scheduler_runs SET completed_at = clock_timestamp(), %s WHERE id = $1`, set), session)
			l.finds(whole, part[:len(part)-len(" messages")])
		})
	}
}
