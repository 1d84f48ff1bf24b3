package search

import (
	"context"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// counted counts what statements have read, the lesser of two tries: when other databases of the cluster change their catalogues, a connection may
// have to read its own again.
type counted struct {
	t    *testing.T
	tx   pgx.Tx
	read int64
	plan string
}

func (c *counted) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if strings.HasPrefix(sql, "FETCH") || strings.HasPrefix(sql, "CLOSE") { // they are counted with their cursor
		return c.tx.Query(ctx, sql, args...)
	}
	least, plan := int64(math.MaxInt64), ""
	for range 2 {
		var text string
		require.NoError(c.t, c.tx.QueryRow(ctx, `EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) `+sql, args...).Scan(&text))
		_, hit, _ := strings.Cut(text, `"Shared Hit Blocks": `)
		_, read, _ := strings.Cut(text, `"Shared Read Blocks": `)
		if n := leading(hit) + leading(read); n < least {
			least, plan = n, text
		}
	}
	c.read, c.plan = c.read+least, plan
	return c.tx.Query(ctx, sql, args...)
}

func leading(text string) (n int64) {
	for _, r := range text {
		if r < '0' || r > '9' {
			return n
		}
		n = n*10 + int64(r-'0')
	}
	return n
}

// What a search reads depends on how many chunks it compares, and on nothing that others have, whatever the statistics say.
func TestASearchReadsAsMuchAsItComparesWhateverThereIs(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), testkit.Database(t, db.Up))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	exec := func(sql string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	exec(`ALTER TABLE connectors SET (autovacuum_enabled = false)`)
	exec(`ALTER TABLE documents SET (autovacuum_enabled = false)`)
	exec(`ALTER TABLE chunks SET (autovacuum_enabled = false)`)
	exec(`ANALYZE connectors, documents, chunks`)    // of a time when there was nothing
	exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at
	exec(`INSERT INTO connectors (id, name, type, user_id, scope) SELECT n, 'c', 'web', CASE WHEN n <= 3 THEN 7 ELSE 10 + n / 20 END, 'user' FROM generate_series(1, 50000) n`)
	exec(`WITH made AS (INSERT INTO documents (connector_id, source_id, status, try_id, first_no, config_version)
			SELECT CASE WHEN n <= 30000 THEN 1 + n % 3 ELSE 4 + n % 40000 END, n, 'stored', gen_random_uuid(), 1, 1 FROM generate_series(1, 100000) n RETURNING id, try_id)
		INSERT INTO chunks (try_id, first_no, document_id, no, text, start_offset, end_offset, embedder, embedding)
		SELECT m.try_id, 1, m.id, 0, 'the zebra runs', 0, 14, 'e', '{1,0}' FROM made m`)
	exec(`SET session_replication_role = 'origin'`)
	// most is how many chunks are compared: each costs its document, its key, and itself.
	const most, each = 1000, 12
	for _, statistics := range []string{"of a time when there was nothing", "of now"} {
		if statistics == "of now" {
			exec(`VACUUM ANALYZE connectors, documents, chunks`)
		}
		for name, who := range map[string]identity.Who{
			"a user": {UserID: 7, Role: identity.User}, "an administrator": {UserID: 7, Role: identity.Admin}, "a superadmin": {UserID: 1, Role: identity.Superadmin},
		} {
			tx, err := conn.Begin(t.Context())
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), `SET LOCAL ROLE echomind_api`)
			require.NoError(t, err)
			request := identity.Request{Who: who}
			_, err = tx.Exec(t.Context(), `SELECT set_config('echomind.request', $1, true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
				set_config('enable_seqscan', 'off', true)`, request.Setting())
			require.NoError(t, err)
			c := &counted{t: t, tx: tx}
			ask := func(ctx context.Context, work func(context.Context, Querier) error) error { return work(ctx, c) }
			sight := OfViewer(ask, nil, []int32{1, 2, 3}, most, time.Hour)
			q := query{Question: Question{Text: "zebra", Limit: 20}, embedder: "e", vector: []float32{1, 0}, words: []string{"zebra"}}
			near, isPartial, err := sight.nearest(t.Context(), q)
			require.NoError(t, err)
			require.Len(t, near, shortlist)
			require.True(t, isPartial)
			t.Logf("%s, statistics %s: %d buffers for %d chunks", name, statistics, c.read, most)
			require.LessOrEqual(t, c.read, int64(most*each), "%s, statistics %s: %s", name, statistics, c.plan)
			_, isPartial, err = OfViewer(func(ctx context.Context, work func(context.Context, Querier) error) error {
				return pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error { return work(ctx, inner) })
			}, nil, []int32{1, 2, 3}, 100*most, -1).nearest(t.Context(), q)
			require.NoError(t, err)
			require.True(t, isPartial, "its time was over after a portion")
			c.read = 0
			hits, err := sight.read(t.Context(), q, near)
			require.NoError(t, err)
			require.Len(t, hits, shortlist)
			t.Logf("%s, statistics %s: %d buffers for %d hits", name, statistics, c.read, len(hits))
			require.LessOrEqual(t, c.read, int64(shortlist*20), "%s, statistics %s: %s", name, statistics, c.plan)
			require.NoError(t, tx.Rollback(t.Context()))
		}
	}
}

// A point that is not there any more, or not for who asks, is no hit.
func TestWhatIsReadOfAKeyThatNamesNothingIsNothing(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), testkit.Database(t, db.Up))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	ask := func(ctx context.Context, work func(context.Context, Querier) error) error { return work(ctx, conn) }
	for _, near := range [][]candidate{nil, {{try: uuid.New(), firstNo: 1, documentID: 1}}} {
		hits, err := OfViewer(ask, nil, nil, 10, time.Hour).read(t.Context(), query{}, near)
		require.NoError(t, err)
		require.Empty(t, hits)
	}
}

// In most collations to lower a text takes longer than to look for a word in it.
func TestATextIsLoweredOnceForAllWords(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), testkit.Database(t, db.Up))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for name, in := range map[string]Sight{"a reader": OfReader(nil, Reader{UserID: 7}), "a viewer": OfViewer(nil, nil, []int32{1}, 10, time.Hour)} {
		sql, args := in.vectorsSQL(query{embedder: "e", words: []string{"a", "b"}})
		rows, err := conn.Query(t.Context(), `EXPLAIN (VERBOSE, COSTS OFF) `+sql, args)
		require.NoError(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.NotContains(t, strings.Join(plan, "\n"), "strpos(lower(", name)
	}
}

// For a document without parts, such as one that failed, none are looked for: a source may have a million of these.
func TestForADocumentWithoutPartsNoneAreLookedFor(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), testkit.Database(t, db.Up))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for name, in := range map[string]Sight{"a reader": OfReader(nil, Reader{UserID: 7}), "a viewer": OfViewer(nil, nil, []int32{1}, 10, time.Hour)} {
		sql, args := in.vectorsSQL(query{embedder: "e", words: []string{"a"}})
		rows, err := conn.Query(t.Context(), `EXPLAIN (COSTS OFF) `+sql, args)
		require.NoError(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.Contains(t, strings.Join(plan, "\n"), "try_id IS NOT NULL", name)
	}
}
