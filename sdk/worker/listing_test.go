//go:build !race

package worker_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/wire"
	"github.com/echomind/sync/sdk/worker"
)

// after is a trigger with a state and with what a checkpoint has handed on of a listing; nil = nothing.
func after(state, listing map[string]any) func(*internalpb.ConnectorSyncRequest) {
	return func(r *internalpb.ConnectorSyncRequest) {
		r.State, _ = structpb.NewStruct(state)
		if listing != nil {
			r.Listing, _ = structpb.NewStruct(listing)
		}
	}
}

// legs is what a checkpoint hands on of a listing that n runs have shown up to their fourth message.
func legs(n int) map[string]any {
	seen := map[string]any{}
	for range n {
		seen[uuid.NewString()] = map[string]any{"listing": 1, "no": 4}
	}
	return seen
}

func TestARunIsWholeOnlyWhereItListedEverything(t *testing.T) {
	f := newFixture(t)
	whole, cursor := map[string]any{"whole": true}, map[string]any{"page": 1}
	put := func(ctx context.Context, run *worker.Run) error { return run.Put(ctx, note(1)) }
	begins := func(ctx context.Context, run *worker.Run) error {
		run.BeginListing()
		return put(ctx, run)
	}
	partly := func(ctx context.Context, run *worker.Run) error {
		run.ListingPartial()
		return put(ctx, run)
	}
	sliced := func(ctx context.Context, run *worker.Run) error {
		run.BeginListing()
		if err := put(ctx, run); err != nil {
			return err
		}
		return run.Checkpoint(ctx, page{1})
	}
	for name, c := range map[string]struct {
		handle  worker.Handler
		request func(*internalpb.ConnectorSyncRequest)
		want    bool
	}{
		"without a cursor":                             {put, after(nil, nil), true},
		"a list of changes":                            {put, after(cursor, nil), false},
		"a list of changes, and all anew":              {begins, after(cursor, nil), true},
		"from a checkpoint of a whole run":             {put, after(cursor, whole), true},
		"from a checkpoint of a run that was partial":  {put, after(cursor, map[string]any{"seen": legs(1)}), false},
		"part of it":                                   {partly, after(nil, nil), false},
		"part of it, from a checkpoint of a whole run": {partly, after(cursor, whole), false},
		"a listing that goes on in the next run":       {sliced, after(nil, nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, f.sent(f.inside(c.handle, c.request))[0].GetCompleted().ListingWhole)
		})
	}
}

// A source that shows nothing may be closed: its documents stay.
func TestARunThatShowedNothingIsNotWhole(t *testing.T) {
	f := newFixture(t)
	for name, c := range map[string]struct {
		end     error
		request func(*internalpb.ConnectorSyncRequest)
	}{
		"skipped, from a checkpoint of a whole run": {worker.Skipped("closed"), after(map[string]any{"page": 1}, map[string]any{"whole": true})},
		"skipped, without a cursor":                 {worker.Skipped("closed"), after(nil, nil)},
		"empty":                                     {nil, after(nil, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			trip := f.inside(func(_ context.Context, run *worker.Run) error {
				run.BeginListing()
				return c.end
			}, c.request)
			f.is(trip, `status = 'ACTIVE' AND verdict = 'skipped' AND listed_version IS NULL`)
			require.Equal(t, "false", f.one(`SELECT listing_whole::text FROM runs WHERE id = $1`, trip.session))
		})
	}
}

// The run before it was ended behind its last checkpoint: what its listing did not show is looked for all the same.
func TestARunThatFindsNothingLeftOfAWholeListingIsWhole(t *testing.T) {
	f := newFixture(t)
	trip := f.inside(func(context.Context, *worker.Run) error { return nil }, after(map[string]any{"page": 9}, map[string]any{"whole": true}))
	require.True(t, f.sent(trip)[0].GetCompleted().ListingWhole)
}

func TestAListingThatIsOverDoesNotOutliveItsRun(t *testing.T) {
	f := newFixture(t)
	for name, c := range map[string]struct {
		ends func(*worker.Run) error
		want string // the state that sync completed brings, which ends the listing
	}{
		"it ended":               {func(run *worker.Run) error { run.EndListing(); return nil }, `{"page": 1}`},
		"a state was set":        {func(run *worker.Run) error { return run.SetState(page{2}) }, `{"page": 2}`},
		"both":                   {func(run *worker.Run) error { run.EndListing(); return run.SetState(page{2}) }, `{"page": 2}`},
		"neither, so it goes on": {func(*worker.Run) error { return nil }, ``},
		"skipped, so it goes on": {func(*worker.Run) error { return worker.Skipped("no more today") }, ``},
	} {
		t.Run(name, func(t *testing.T) {
			trip := f.inside(func(ctx context.Context, run *worker.Run) error {
				run.BeginListing()
				if err := run.Put(ctx, note(1)); err != nil {
					return err
				}
				if err := run.Checkpoint(ctx, page{1}); err != nil {
					return err
				}
				return c.ends(run)
			})
			state, err := wire.JSON(f.whole(trip, 2)[0].GetCompleted().NewState)
			require.NoError(t, err)
			if c.want == "" {
				require.Empty(t, state)
				return
			}
			require.JSONEq(t, c.want, string(state))
		})
	}
}

// What is left of the legs stays below what a checkpoint may hold, and nothing that they have shown is forgotten.
func TestAListingGoesOnOverAnyNumberOfRuns(t *testing.T) {
	f := newFixture(t)
	for _, n := range []int{worker.MaxLegs, 5 * worker.MaxLegs} {
		c, seen := f.pending(), legs(n)
		f.stores(c.id, "shown", "shown behind the checkpoint", "not shown")
		for try := range seen {
			f.sighted(c.id, "shown", try, 1, 4)
			f.sighted(c.id, "shown behind the checkpoint", try, 1, 5)
		}
		var known []map[string]worker.Known
		f.publish(c, after(map[string]any{"page": 6}, map[string]any{"whole": true, "seen": seen}))
		r := f.work(func(ctx context.Context, run *worker.Run) error {
			for i := 7; i <= 8; i++ {
				if err := run.Put(ctx, note(i)); err != nil {
					return err
				}
				if err := run.Checkpoint(ctx, page{i}); err != nil {
					return err
				}
				k, err := run.Known(ctx)
				if err != nil {
					return err
				}
				known = append(known, k)
			}
			return nil
		})
		f.settled(c)
		require.NoError(t, r.stop())
		sent := f.whole(c, 5)
		require.Equal(t, []string{"shown"}, sent[2].GetSeen().SourceIds)
		require.Equal(t, int32(1), sent[2].GetSeen().Listing)
		require.JSONEq(t, `[{"page": 7}, {"whole": true, "seen": {`+listingPart(sent[3].Try, 1, 3)+`}}]`, handedOn(t, sent[3]))
		require.JSONEq(t, `[{"page": 8}, {"whole": true, "seen": {`+listingPart(sent[5].Try, 1, 5)+`}}]`, handedOn(t, sent[5]))
		require.Len(t, known, 2)
		for _, k := range known {
			require.True(t, k["shown"].Seen)
			require.False(t, k["shown behind the checkpoint"].Seen)
		}
	}
}

func TestTheLargestCheckpointOfAListingFits(t *testing.T) {
	f := newFixture(t)
	seen := map[string]any{}
	for range worker.MaxLegs {
		seen[uuid.NewString()] = map[string]any{"listing": 2147483647, "no": 1 << 40}
	}
	listing, err := structpb.NewStruct(map[string]any{"whole": true, "seen": seen})
	require.NoError(t, err)
	data, err := wire.JSON(listing)
	require.NoError(t, err)
	f.exec(`INSERT INTO run_checkpoints (try_id, run_id, no, state, listing) VALUES (gen_random_uuid(), gen_random_uuid(), 1, '{}', $1)`, data)
}
