//go:build !race

// What Postgres decides is the same under the race detector.

package semantic

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

func TestAReasonThatIsNotUTF8IsWritten(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	require.NoError(t, f.countPoison(ctx, delivery{request: c.doc(1, "a", "x"), try: c.of(), msg: silentMessage{}}, fmt.Errorf("a \xff byte")))
	require.Equal(t, "running", c.verdict())
	require.Contains(t, c.documents(), "given up: a \ufffd byte")
}

// Most tries bring little: a new one that brings much is not in the statistics yet.
func TestAWriteReadsNoOtherChunksOfItsTry(t *testing.T) {
	const stored, most = 30_000, 40
	f := newFixture(t)
	c := f.syncing()
	f.exec(`ALTER TABLE chunks SET (autovacuum_enabled = off)`)
	f.exec(`INSERT INTO chunks (try_id, first_no, document_id, no, text, start_offset, end_offset, embedder, embedding)
		SELECT gen_random_uuid(), 1, n, 0, 't', 0, 1, 'e', '{}' FROM generate_series(1, 20000) n`)
	f.exec(`ANALYZE chunks`)
	f.exec(`INSERT INTO documents (connector_id, source_id, status, config_version) SELECT $1, n::text, 'partial', $2 FROM generate_series(1, $3::bigint) n`,
		c.connector, c.version, stored)
	f.exec(`INSERT INTO chunks (try_id, first_no, document_id, no, text, start_offset, end_offset, embedder, embedding)
		SELECT $1, d.id, d.id, 0, 't', 0, 1, 'e', '{}' FROM documents d`, c.try)
	for _, n := range []int{1, 64, 1000} {
		var rows []write
		for _, id := range many[int64](f, `SELECT id FROM documents ORDER BY id OFFSET 1000 LIMIT $1`, n) {
			w := newWrite(&item{no: id, firstNo: id, part: c.doc(id, "a", "x").GetPart()}, id)
			w.status, w.shown, w.chunks = "stored", Key{c.try, id, id}, 1
			rows = append(rows, w)
		}
		tx, err := f.pool.Begin(ctx)
		require.NoError(t, err)
		e := &explaining{Tx: tx}
		tr := &storeTx{tx: e, q: dbgen.New(e), try: c.of()}
		tr.run.ConfigVersion = c.version
		err = tr.writeDocuments(ctx, rows)
		require.NoError(t, tx.Rollback(ctx))
		require.NoError(t, err)
		require.Positive(t, e.buffers())
		require.LessOrEqual(t, e.buffers(), most*n, e.plan)
	}
}

func TestTheEndOfPartsThatWaitReadsNoOtherMessagesOfItsTry(t *testing.T) {
	const most = 40
	f := newFixture(t)
	c := f.syncing()
	f.exec(`ALTER TABLE run_messages SET (autovacuum_enabled = off)`)
	f.exec(`INSERT INTO run_messages (try_id, no, first_no) SELECT gen_random_uuid(), 1, 1 FROM generate_series(1, 20000)`)
	f.exec(`ANALYZE run_messages`)
	f.exec(`INSERT INTO run_messages (try_id, no, first_no, waits_for) SELECT $1, n, n - n % 2, $1 FROM generate_series(1, 30000) n`, c.try)
	for _, n := range []int{1, 64} {
		p := dbgen.PartsWaitNoLongerParams{TryID: c.try}
		for i := range n {
			p.FirstNos, p.Parts, p.Claims = append(p.FirstNos, int64(1000+2*i)), append(p.Parts, 2), append(p.Claims, c.try)
		}
		tx, err := f.pool.Begin(ctx)
		require.NoError(t, err)
		e := &explaining{Tx: tx}
		_, err = dbgen.New(e).PartsWaitNoLonger(ctx, p)
		require.NoError(t, tx.Rollback(ctx))
		require.NoError(t, err)
		require.Positive(t, e.buffers())
		require.LessOrEqual(t, e.buffers(), most*n, e.plan)
	}
}

// buffers is how many the most reading node has read, with what is below it: a CTE that writes is apart from the statement's own node.
func (e *explaining) buffers() (most int) {
	executed, _, _ := strings.Cut(e.plan, "\nPlanning:")
	for _, line := range strings.Split(executed, "Buffers: shared ")[1:] {
		sum := 0
		for _, count := range strings.Fields(strings.Split(line, "\n")[0]) {
			var n int
			if _, err := fmt.Sscanf(count, "hit=%d", &n); err == nil {
				sum += n
			}
			if _, err := fmt.Sscanf(count, "read=%d", &n); err == nil {
				sum += n
			}
		}
		most = max(most, sum)
	}
	return most
}

type explaining struct {
	pgx.Tx
	plan string
}

func (e *explaining) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	rows, err := e.Query(ctx, `EXPLAIN (ANALYZE, BUFFERS, COSTS, SUMMARY) `+sql, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	e.plan = strings.Join(lines, "\n")
	return pgconn.CommandTag{}, err
}
