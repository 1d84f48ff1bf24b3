package endtoend

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

// A listing of a hundred runs is taken over by the next: what was shown is known before its checkpoint is passed, when it is, and
// when the sightings of the runs before are swept.
func TestWhatAListingHasShownIsKnownWhileARunTakesItOverWhateverIsSwept(t *testing.T) {
	l := newLine(t, "file", `{}`)
	doc := func(id string) worker.Document {
		return worker.Document{SourceID: id, Title: id, VersionToken: "v1", ContentHash: "aa",
			Chunks: []chunk.Chunk{{Text: "text of " + id, End: 5}}}
	}
	one := func(sql string) (text string) {
		require.NoError(t, l.pool.QueryRow(t.Context(), sql, l.id).Scan(&text))
		return text
	}
	becomes := func(want, sql string) {
		t.Helper()
		testkit.Eventually(t, soon, func() error {
			if now := one(sql); now != want {
				return errors.New(now)
			}
			return nil
		})
	}
	const parts = `SELECT count(*)::text FROM connectors c, jsonb_object_keys(c.listing->'seen') WHERE c.id = $1`
	const unswept = `SELECT count(*)::text FROM unswept_runs WHERE connector_id = $1`
	require.Equal(t, "completed", l.sync(func(ctx context.Context, run *worker.Run) error {
		run.BeginListing()
		for _, id := range []string{"a", "b"} {
			if err := run.Put(ctx, doc(id)); err != nil {
				return err
			}
		}
		return run.Checkpoint(ctx, map[string]any{"page": 1})
	}))
	// Its sweep is late, as where somebody holds one of its documents; and 99 runs before it have shown other pages.
	becomes("0", unswept)
	l.exec(`INSERT INTO unswept_runs (run_id, connector_id, try_id, config_version, outdated, place, next_at, attempts)
		SELECT id, connector_id, try_id, config_version, false, '{"step": 4}', now() + interval '1 hour', 1 FROM runs WHERE connector_id = $1`, l.id)
	for range 99 {
		movestest.Force(t, l.pool, `UPDATE connectors SET listing = jsonb_set(listing, ARRAY['seen', $2], '{"listing": 1, "no": 4}')
			WHERE id = $1`, l.id, uuid.NewString())
	}
	require.Equal(t, "100", one(parts))
	l.sync(func(ctx context.Context, run *worker.Run) error {
		knows := func(when string) {
			known, err := run.Known(ctx)
			require.NoError(t, err, when)
			require.True(t, known["a"].Seen && known["b"].Seen, when)
			require.False(t, known["lost"].Seen, when)
		}
		knows("at the beginning")
		if err := run.Put(ctx, doc("c")); err != nil {
			return err
		}
		if err := run.Checkpoint(ctx, map[string]any{"page": 2}); err != nil {
			return err
		}
		knows("while the checkpoint is under way")
		becomes("1", parts)
		knows("once it is passed")
		l.exec(`UPDATE unswept_runs SET next_at = now()`)
		becomes("0", unswept)
		knows("once the runs before are swept")
		return run.SetState(map[string]any{"done": true})
	})
	becomes("a stored, b stored, c stored", `SELECT string_agg(source_id || ' ' || status, ', ' ORDER BY source_id)
		FROM documents WHERE connector_id = $1`)
}
