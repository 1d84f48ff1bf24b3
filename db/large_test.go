package db_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
)

const (
	// inOneRun is how many messages of one run are stored, and span how many of them a call looks at.
	inOneRun, span = 400_000, 10_000
	// spanBuffers is what a call may read that looks at a whole span, the catalogue included, and stillBuffers one that has nothing to look at.
	spanBuffers, stillBuffers = 600, 60
)

// calls makes one call and returns its answer, which must have read no more than that.
func (w *watched) calls(most int, sql string, args ...any) (answer string) {
	w.Helper()
	clear(w.reads)
	w.on = true
	answer = one[string](w.base, sql, args...)
	w.on = false
	for query, r := range w.reads {
		if strings.HasPrefix(query, strings.Fields(sql)[0]+" ") && strings.Contains(query, "moves.") && r.most > most {
			w.Errorf("%s has read %d buffers, want %d at most: %s", query, r.most, most, answer)
		}
	}
	if len(w.reads) == 0 {
		w.Errorf("nothing told what it has read: %s", sql)
	}
	return answer
}

func TestACheckpointThatIsFarBehindCostsEachCallABoundedNumberOfBuffers(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	try := b.syncing(id)
	b.exec(`ALTER TABLE run_messages SET (autovacuum_enabled = off)`)
	b.exec(`ANALYZE run_messages`) // statistics of a quiet time
	const late = inOneRun / 2
	b.exec(`INSERT INTO run_messages (try_id, no) SELECT $1, n FROM generate_series(1, $2::bigint) n WHERE n <> $3`, try.ID, inOneRun, late)
	b.exec(`INSERT INTO run_checkpoints (try_id, run_id, no, state) SELECT $1, $2, n, jsonb_build_object('page', n)
		FROM unnest(ARRAY[$3::bigint - 10, $4::bigint]) n`, try.ID, try.Run, late, inOneRun)
	b.exec(`UPDATE open_runs SET stored = $2 - 1 WHERE id = $1`, try.Run, inOneRun)
	w := b.watched()
	const advance = `SELECT a::text FROM moves.advance($1) a`
	w.exec(`BEGIN`)
	w.exec(advance, try.Run) // the first ones read the catalogue
	w.exec(`SELECT set_config('echomind.moving', 'on', true)`)
	w.exec(`UPDATE connectors SET state = '{"page": 0}' WHERE id = $1`, id)
	w.exec(`ROLLBACK`)
	const stands = `SELECT (counted_through, checkpoint_no)::text FROM open_runs WHERE id = $1`
	// count asks until there is no more to look at, and says how often a checkpoint was passed.
	count := func(run uuid.UUID) (passed int) {
		for calls := 1; ; calls++ {
			switch answer := w.calls(spanBuffers, advance, run); {
			case calls > inOneRun/span+2:
				t.Fatalf("%d calls", calls)
			case strings.HasPrefix(answer, "(t,"):
				passed++
				fallthrough
			default:
				if strings.HasSuffix(answer, ",f)") {
					return passed
				}
			}
		}
	}
	if n := count(try.Run); n != 1 {
		t.Errorf("%d checkpoints were passed", n)
	}
	if got, want := one[string](b, stands, try.Run), fmt.Sprintf("(%d,%d)", late-1, late-10); got != want {
		t.Errorf("it is counted through, and its checkpoint, %s, want %s", got, want)
	}
	if answer := w.calls(stillBuffers, advance, try.Run); answer != "(f,f)" { // as every store asks while the message is late
		t.Error(answer)
	}

	// Everything is stored, and the last checkpoint is as far behind: a completion asks for no count.
	b.exec(`INSERT INTO run_messages (try_id, no) VALUES ($1, $2)`, try.ID, late)
	b.exec(`UPDATE open_runs SET stored = $2, total = $2, whole = true WHERE id = $1`, try.Run, inOneRun)
	w.exec(`BEGIN`)
	w.exec(`SELECT FROM moves.complete($1)`, try.Run) // a session's first reads the catalog, too
	w.exec(`ROLLBACK`)
	w.exec(`BEGIN`)
	if verdict := w.calls(stillBuffers, `SELECT verdict FROM moves.complete($1)`, try.Run); verdict != "completed" {
		t.Error(verdict)
	}
	w.holds(id, fmt.Sprintf(`c.status = 'ACTIVE' AND c.state = '{"page": %[1]d}' AND r.checkpoint_no = %[1]d`, inOneRun))
	w.exec(`ROLLBACK`)

	// One of them waits for another part: what is before it has to be counted first.
	b.exec(`UPDATE run_messages SET waits_for = try_id WHERE try_id = $1 AND no = $2`, try.ID, inOneRun-1)
	b.exec(`UPDATE open_runs SET waiting = 1, new_state = '{"end": true}' WHERE id = $1`, try.Run)
	const complete = `SELECT count(*)::text FROM moves.complete($1)`
	if n := w.calls(spanBuffers, complete, try.Run); n != "0" {
		t.Errorf("it was completed before it was counted")
	}
	if n := count(try.Run); n != 0 {
		t.Errorf("%d checkpoints were passed over a part that waits", n)
	}
	if n := w.calls(spanBuffers, complete, try.Run); n != "1" {
		t.Errorf("it was not completed")
	}
	b.holds(id, fmt.Sprintf(`c.status = 'ACTIVE' AND c.state = '{"page": %[1]d}' AND r.checkpoint_no = %[1]d`, late-10))
}
