package db_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// The look for checkpoints that wait is taken every few seconds: it reads as much as tries are on its page, whatever number of
// checkpoints they have left, and whether their runs are open or over.
func TestTheLookForCheckpointsReadsAPageOfTriesWhateverNumberOfCheckpointsWaits(t *testing.T) {
	b := newBase(t)
	look, args := queries(t, "lifecycle")["CheckpointedRuns"], pgx.NamedArgs{"after": uuid.UUID{}, "page": 100}
	b.exec(`SET plan_cache_mode = force_custom_plan`) // as internal/postgres has it
	b.exec(`ALTER TABLE run_checkpoints SET (autovacuum_enabled = off)`)
	open := b.syncing(b.connector())
	const tries = 5 // one of them is open
	for from, to := 1, 3_000; to <= 30_000; from, to = to+1, to+27_000 {
		b.exec(`INSERT INTO run_checkpoints SELECT $1, $2, n, '{}' FROM generate_series($3::integer, $4::integer) n`, open.ID, open.Run, from, to)
		b.exec(`INSERT INTO run_checkpoints SELECT md5(t::text)::uuid, md5(t::text)::uuid, n, '{}'
			FROM generate_series(2, $1::integer) t, generate_series($2::integer, $3::integer) n`, tries, from, to)
		for _, analysed := range []bool{false, true} {
			if analysed {
				b.exec(`ANALYZE run_checkpoints`)
			}
			_, _ = b.explained(look, args) // what a session reads once of the catalogue
			if reads, plan := b.explained(look, args); reads > 12*tries {
				t.Errorf("%d buffers are read where each of %d tries has %d checkpoints, analysed %v:\n%s", reads, tries, to, analysed, plan)
			}
		}
		var found, isOpen int
		if err := b.conn.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE is_open) FROM (`+look+`) l`, args).
			Scan(&found, &isOpen); err != nil || found != tries || isOpen != 1 {
			t.Errorf("%d tries found, %d open: %v", found, isOpen, err)
		}
	}
}
