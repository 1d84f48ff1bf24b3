//go:build !race

// What Postgres decides is the same under the race detector.

package semantic

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
	"github.com/echomind/sync/testonly/movestest"
)

// large adds stored documents of many chunks each, and the messages that brought them, to what a run has stored.
func (c trip) large(documents, chunks int) {
	c.f.t.Helper()
	c.f.exec(`INSERT INTO documents (connector_id, source_id, status, try_id, first_no, config_version, chunk_count, written_by,
			written_no, touched_by)
		SELECT $1, 'large ' || lpad(n::text, 6, '0'), 'stored', $2, n, $3, $4, $2, n, $2 FROM generate_series(101, 100 + $5::integer) n`,
		c.connector, c.try, c.version, chunks, documents)
	c.f.exec(`INSERT INTO chunks (try_id, first_no, document_id, no, text, start_offset, end_offset, embedder, embedding)
		SELECT d.try_id, d.first_no, d.id, k, 'words', 0, 5, 'hash-512-v1', '{1}'
		FROM documents d, generate_series(0, d.chunk_count - 1) k WHERE d.connector_id = $1 AND d.source_id LIKE 'large %'`, c.connector)
	c.f.exec(`INSERT INTO run_messages (try_id, no, first_no) SELECT $1, n, n FROM generate_series(101, 100 + $2::integer) n`, c.try, documents)
}

// counts has every statement that deletes of a table write down how many rows.
func (f *fixture) counts(table string) (most func() int64) {
	f.t.Helper()
	f.exec(fmt.Sprintf(`CREATE TABLE gone_%[1]s (n bigint);
		CREATE FUNCTION count_%[1]s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
			INSERT INTO gone_%[1]s SELECT count(*) FROM gone; RETURN NULL; END $$;
		CREATE TRIGGER count AFTER DELETE ON %[1]s REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION count_%[1]s()`, table))
	return func() int64 { return one[int64](f, `SELECT max(n) FROM gone_`+table) }
}

// refuses has a table refuse deletions of rows that a condition is true of, as an SQL state.
func (f *fixture) refuses(table, when, state string) {
	f.t.Helper()
	f.exec(fmt.Sprintf(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
			IF (SELECT %s FROM gone) THEN RAISE EXCEPTION 'refused' USING ERRCODE = '%s'; END IF; RETURN NULL; END $$;
		CREATE TRIGGER refuse AFTER DELETE ON %s REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION refuse()`,
		when, state, table))
}

func TestLargeDocumentsOfADeletedConnectorGoInBatchesOfChunks(t *testing.T) {
	f := newFixture(t)
	kept := f.synced(map[string]string{"a": "avocado"})
	gone := f.synced(map[string]string{"a": "apple"})
	gone.large(20, 3*sweepRows/2)
	most := f.counts("chunks")
	f.exec(`DELETE FROM connectors WHERE id = $1`, gone.connector)
	require.NoError(t, f.sweepDeletedConnectors(ctx))
	require.Equal(t, int64(1), f.count("documents"), "one look takes them, whatever number of chunks they have")
	require.Equal(t, int64(21), f.count("unnamed_chunks"))
	require.NoError(t, inTime(f.SweepChunks))
	require.Equal(t, int64(1), f.count("chunks"))
	require.LessOrEqual(t, most(), int64(sweepRows))
	require.Zero(t, f.count("unnamed_chunks"))
	require.Equal(t, line("a", "avocado"), kept.documents())
}

func TestWhatAnEarlierConfigurationLeftIsFoundNoMoreBeforeItsChunksAreRemoved(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "old zebra", "b": "old zebra"}).reconfigured()
	f.sweeps()
	c = c.again()
	c.stores(c.doc(1, "b", "new"), c.completed(1))
	require.NoError(t, inTime(f.Sweep))
	require.Empty(t, f.finds(Reader{UserID: 1}, "zebra"))
	require.Equal(t, int64(2), f.count("chunks"))
	f.sweeps()
	require.Equal(t, int64(1), f.count("chunks"))
}

func TestOfALargeRunTheMessagesGoBeforeItsChunksAreLookedAt(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "apple"})
	c.large(2*sweepPage+10, 3)
	f.exec(`UPDATE documents SET try_id = NULL, first_no = NULL WHERE source_id = 'large 001500'`) // its chunks are nobody's
	f.exec(`INSERT INTO message_tries SELECT $1, n, 1 FROM generate_series(0, 5000) n`, c.try)
	most := f.counts("message_tries")
	f.holds(`LOCK TABLE chunks IN ACCESS EXCLUSIVE MODE`)
	require.Error(t, f.Sweep(ctx))
	for _, table := range []string{"run_messages", "run_checkpoints", "message_tries"} {
		require.Zero(t, f.count(table), table)
	}
	require.LessOrEqual(t, most(), int64(sweepRows))
	require.Equal(t, fmt.Sprint(stepOrphans), one[string](f, `SELECT place->>'step' FROM unswept_runs`), "nothing is looked at twice")
}

func TestChunksThatNoDocumentNamesAreFoundFromAPlace(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "apple"})
	c.large(2*sweepPage+10, 3)
	f.exec(`UPDATE documents SET try_id = NULL, first_no = NULL WHERE source_id IN ('large 000150', 'large 001500', 'large 002110')`)
	step, at := orphans(c.try), sweepPlace{}
	for page, want := range []int64{1, 2, 3} {
		var more bool
		require.NoError(t, f.sweeping(ctx, stepping(step, &at, &more)))
		require.Equal(t, want, f.count("unnamed_chunks"))
		require.Equal(t, page < 2, more)
	}
	f.sweeps()
	require.Equal(t, int64(1+3*(2*sweepPage+10-3)), f.count("chunks"))
}

func TestEndedRunsAreSweptBesideALongListing(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(1, "a", "apple"), c.doc(2, "b", "banana", part(0, 2)))
	legs := many[uuid.UUID](f, `SELECT gen_random_uuid() FROM generate_series(1, $1)`, 3*sweepListings)
	var seen []string
	for i, try := range legs {
		if i%2 == 0 {
			seen = append(seen, fmt.Sprintf(`%q: {"listing": 1, "no": 9}`, try))
		}
	}
	f.exec(`INSERT INTO sightings SELECT $1, t, 1 + n % 2, md5(n::text), 5 FROM unnest($2::uuid[]) t, generate_series(1, 50) n`, c.connector, legs)
	f.exec(`INSERT INTO sightings SELECT $1, $2, 1 + n % 2, md5(n::text), 5 FROM generate_series(51, 3 * $3::integer) n`, c.connector, legs[1], sweepRows)
	movestest.Force(t, f.pool, `UPDATE connectors SET listing = $2 WHERE id = $1`, c.connector, `{"seen": {`+strings.Join(seen, ",")+`}}`)
	require.NoError(t, f.lifecycle.Fail(ctx, c.of(), lifecycle.Transient, "the source is away"))
	most := f.counts("sightings")
	for looks := 0; f.count("unswept_runs") > 0; looks++ {
		require.Less(t, looks, 20)
		f.sweeps()
	}
	require.Zero(t, f.count("run_messages"))
	require.Equal(t, int64(1), f.count("documents"))
	require.Equal(t, int64(50*len(seen)), f.count("sightings"), "those that a checkpoint speaks of stay")
	require.LessOrEqual(t, most(), int64(sweepRows))
}

func TestAPageThatTakesTooLongIsHalvedUntilItGoes(t *testing.T) {
	f := newFixture(t)
	c := f.narrowed(500)
	f.refuses("documents", "count(*) > 100", "57014") // as a statement that takes too long
	for looks := 0; f.count("unswept_runs") > 0; looks++ {
		require.Less(t, looks, 6)
		_ = f.Sweep(ctx)
		f.due()
	}
	require.Equal(t, line("a", "new"), c.documents())

	gone := f.synced(map[string]string{"a": "old"})
	gone.pages(500)
	f.exec(`DELETE FROM connectors WHERE id = $1`, gone.connector)
	for looks := 0; f.count("deleted_connectors") > 0; looks++ {
		require.Less(t, looks, 6)
		_ = f.sweepDeletedConnectors(ctx)
	}
}

func TestDocumentsThatAnOpenRunIsWritingAreReadOnce(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "apple"}).again()
	f.exec(`INSERT INTO documents (connector_id, source_id, config_version, touched_by)
		SELECT $1, 'part ' || n, $2, $3 FROM generate_series(1, 2 * $4::integer) n`, c.connector, c.version, c.try, sweepPage)
	f.exec(`INSERT INTO documents (connector_id, source_id, config_version) VALUES ($1, 'left', $2)`, c.connector, c.version)
	for looks := 0; f.count("unswept_runs") > 0; looks++ { // a page that takes too long is halved, and left to the next
		require.Less(t, looks, 6)
		f.sweeps()
		f.due()
	}
	require.Equal(t, int64(2*sweepPage+1), f.count("documents"), "only the one that nobody writes is gone")
}

func TestAChunkThatSomebodyHoldsHoldsUpNoOther(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "apple"})
	c.large(3, sweepRows+10)
	f.exec(`DELETE FROM connectors WHERE id = $1`, c.connector)
	release := f.holds(`SELECT FROM chunks WHERE first_no = $1 AND no IN (5, 2005) FOR UPDATE`, 102)
	f.sweeps()
	require.Equal(t, int64(2), f.count("chunks"))
	require.Equal(t, int64(1), f.count("unnamed_chunks"))
	release()
	f.sweeps()
	require.Zero(t, f.count("chunks")+f.count("unnamed_chunks"))
}

func TestAKeyThatCannotBeSweptHoldsUpNoOther(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"a": "apple"})
	c.large(3*sweepKeys, 2)
	f.refuses("chunks", "bool_or(first_no = 150)", "57014")
	f.exec(`DELETE FROM connectors WHERE id = $1`, c.connector)
	require.NoError(t, f.sweepDeletedConnectors(ctx))
	require.ErrorContains(t, f.SweepChunks(ctx), "refused")
	require.Equal(t, int64(1), f.count("unnamed_chunks"))
	require.Equal(t, int64(2), f.count("chunks"))
}

// stepping is one transaction of a step.
func stepping(step sweepStep, at *sweepPlace, more *bool) func(context.Context, *dbgen.Queries) error {
	return func(ctx context.Context, q *dbgen.Queries) (err error) {
		*more, err = step(ctx, q, at)
		return err
	}
}
