package audit_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/chaos/source"
)

// checkpoint does what semantic does when everything before a checkpoint is stored.
func (l *lab) checkpoint(id int32, state source.State) {
	l.t.Helper()
	text, err := json.Marshal(state)
	require.NoError(l.t, err)
	l.force(`UPDATE connectors SET state = $2 WHERE id = $1`, id, text)
}

// pass stores what the fetch after version v has gone past with n documents, beside what is there from before.
func (l *lab) pass(id int32, try uuid.UUID, cfg source.Config, v, n int) {
	l.t.Helper()
	held, next := source.At(cfg, v), source.At(cfg, v+1)
	ids, ok := source.Passed(cfg, v, n)
	require.True(l.t, ok)
	for _, sourceID := range ids {
		if d, exists := next[sourceID]; exists {
			held[sourceID] = d
		} else {
			delete(held, sourceID)
		}
	}
	l.store(id, try, held)
}

// aSourceWithCheckpoints begins its way to version 3 with a document that is edited and one that is deleted.
func aSourceWithCheckpoints(mode, trouble string) source.Config {
	for cfg := (source.Config{Documents: 8, Changes: 4, Mode: mode, Trouble: trouble, Checkpoint: 1}); ; cfg.Seed++ {
		step := source.Step(cfg, 2)
		if len(step) < 3 || len(source.List(cfg, 3)) < 3 {
			continue
		}
		before := source.At(cfg, 2)[step[0].SourceID]
		if step[0].Kind == source.Written && before.Token != "" && step[1].Kind == source.Deleted {
			return cfg
		}
	}
}

func TestACheckpointMayMoveTheStateWithinItsRun(t *testing.T) {
	for _, mode := range []string{source.Delta, source.Listing} {
		for _, trouble := range []string{"", source.Unreadable} {
			t.Run(mode+trouble, func(t *testing.T) {
				l := newLab(t)
				cfg := aSourceWithCheckpoints(mode, trouble)
				id, _ := l.synced(cfg)
				var run, try uuid.UUID
				for done := 1; done <= 3; done++ {
					if done != 2 { // the second run goes on from the first one's checkpoint
						l.do(`SELECT moves.release(id, try_id) FROM open_runs`)
						l.trigger()
						run = l.claim(id)
						try = l.pickUp(id, time.Hour)
					}
					l.pass(id, try, cfg, 2, done)
					l.checkpoint(id, source.State{Version: 2, Done: done})
				}
				require.Empty(t, l.audit(documents).Violations, "of documents that a checkpoint has passed")
				f := l.audit(ahead)
				require.Empty(t, f.Violations)
				require.Equal(t, 3, f.Checked)
				l.finish(id, run, 3)
				require.Empty(t, l.audit(cursor).Violations)
				require.Empty(t, l.audit(ahead).Violations)
			})
		}
	}
}

func TestACheckpointThatRunsAheadIsFound(t *testing.T) {
	for part, tamper := range map[string]func(l *lab, id int32, try uuid.UUID, cfg source.Config){
		"which is not stored": func(l *lab, id int32, _ uuid.UUID, cfg source.Config) {
			l.do(`DELETE FROM documents WHERE source_id = $1`, source.Step(cfg, 2)[0].SourceID)
			l.checkpoint(id, source.State{Version: 2, Done: 1})
		},
		"whose token is": func(l *lab, id int32, _ uuid.UUID, _ source.Config) { // it is that of version 2
			l.checkpoint(id, source.State{Version: 2, Done: 1})
		},
		"whose token is none": func(l *lab, id int32, try uuid.UUID, cfg source.Config) {
			l.pass(id, try, cfg, 2, 1)
			l.do(`UPDATE documents SET status = 'failed', error = 'no' WHERE source_id = $1`, source.Step(cfg, 2)[0].SourceID)
			l.checkpoint(id, source.State{Version: 2, Done: 1})
		},
		"is deleted, and it is not": func(l *lab, id int32, try uuid.UUID, cfg source.Config) {
			l.pass(id, try, cfg, 2, 1)
			l.checkpoint(id, source.State{Version: 2, Done: 2})
		},
		"stored later, which is not stored": func(l *lab, id int32, try uuid.UUID, cfg source.Config) {
			l.do(`DELETE FROM documents WHERE source_id = $1`, source.Step(cfg, 2)[0].SourceID)
			l.checkpoint(id, source.State{Version: 2, Done: 1})
			l.pass(id, try, cfg, 2, 1)
		},
		"its source has only": func(l *lab, id int32, try uuid.UUID, cfg source.Config) {
			n := len(source.Step(cfg, 2))
			l.pass(id, try, cfg, 2, n)
			l.checkpoint(id, source.State{Version: 2, Done: n + 1})
		},
		"moved version 2 to 3": func(l *lab, id int32, _ uuid.UUID, _ source.Config) {
			l.checkpoint(id, source.State{Version: 3})
		},
		"of 1 documents came after one of 2": func(l *lab, id int32, try uuid.UUID, cfg source.Config) {
			l.pass(id, try, cfg, 2, 2)
			l.checkpoint(id, source.State{Version: 2, Done: 2})
			l.checkpoint(id, source.State{Version: 2, Done: 1})
		},
		"sets no checkpoints": func(l *lab, _ int32, _ uuid.UUID, cfg source.Config) {
			cfg.Checkpoint = 0
			other := l.add("synthetic", cfg)
			l.claim(other)
			l.pickUp(other, time.Hour)
			l.checkpoint(other, source.State{Done: 1})
		},
	} {
		t.Run(part, func(t *testing.T) {
			l := newLab(t)
			cfg := aSourceWithCheckpoints(source.Delta, "")
			id, _ := l.synced(cfg)
			l.trigger()
			l.claim(id)
			try := l.pickUp(id, time.Hour)
			require.Empty(t, l.audit(ahead).Violations)
			tamper(l, id, try, cfg)
			l.finds(ahead, strings.TrimPrefix(part, "stored later, "))
		})
	}
}

func TestACheckpointOutsideItsRunIsFound(t *testing.T) {
	l := newLab(t)
	cfg := aSourceWithCheckpoints(source.Delta, "")
	id, try := l.synced(cfg)
	l.pass(id, try, cfg, 2, 1)
	l.checkpoint(id, source.State{Version: 2, Done: 1})
	l.finds(cursor, "no run completed")
}

func TestACompletedVersionOfWhichOnlyAPartIsDoneIsFound(t *testing.T) {
	l := newLab(t)
	id, _ := l.synced(aSourceWithCheckpoints(source.Delta, ""))
	l.trigger()
	run := l.claim(id)
	l.pickUp(id, time.Hour)
	l.do(`UPDATE open_runs SET total = 0, whole = true, reason = 'nothing had changed', new_state = '{"version": 3, "done": 2}'`)
	l.do(`SELECT * FROM moves.complete($1)`, run)
	l.finds(cursor, "its state says that 2 documents")
}

func TestARunOfWhichAMessageWasForgedMayEndWithItsLastCheckpoint(t *testing.T) {
	l := newLab(t)
	cfg := aSourceWithCheckpoints(source.Delta, "")
	id, _ := l.synced(cfg)
	l.trigger()
	run := l.claim(id)
	try := l.pickUp(id, time.Hour)
	l.pass(id, try, cfg, 2, 1)
	l.do(`INSERT INTO run_checkpoints VALUES ($1, $2, 1, '{"version": 2, "done": 1}')`, try, run)
	l.do(`INSERT INTO run_messages VALUES ($1, 1), ($1, 2)`, try)
	l.do(`UPDATE open_runs SET total = 2, stored = 2, whole = true, unnamed = 1, new_state = '{"version": 3}'`)
	l.do(`SELECT * FROM moves.complete($1)`, run)
	require.Equal(t, 1, l.audit(ahead).Checked)
	require.Empty(t, l.audit(ahead).Violations)
	require.Equal(t, 1, l.audit(cursor).Violated, "nobody has forged a message")
	l.opts.Forged = true
	require.Empty(t, l.audit(cursor).Violations)
	require.Empty(t, l.audit(documents).Violations)
}

func TestADocumentThatACheckpointHasPassedMayNotFallBack(t *testing.T) {
	l := newLab(t)
	cfg := aSourceWithCheckpoints(source.Delta, "")
	id, _ := l.synced(cfg)
	l.trigger()
	l.claim(id)
	try := l.pickUp(id, time.Hour)
	l.pass(id, try, cfg, 2, 1)
	l.checkpoint(id, source.State{Version: 2, Done: 1})
	require.Empty(t, l.audit(documents).Violations)
	l.store(id, try, source.At(cfg, 2))
	l.finds(documents, source.Step(cfg, 2)[0].SourceID)
}
