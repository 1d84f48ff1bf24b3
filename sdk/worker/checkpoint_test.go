//go:build !race

package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/wire"
	"github.com/echomind/sync/sdk/worker"
)

// continuing is a trigger with the state that a checkpoint left.
func continuing(m *internalpb.DocumentProcessRequest) func(*internalpb.ConnectorSyncRequest) {
	return func(r *internalpb.ConnectorSyncRequest) {
		r.State, r.Listing = m.GetCheckpoint().GetState(), m.GetCheckpoint().GetListing()
	}
}

// handedOn is a checkpoint's state as JSON, with what it says of the listing.
func handedOn(t *testing.T, m *internalpb.DocumentProcessRequest) string {
	t.Helper()
	require.NotNil(t, m.GetCheckpoint())
	state, err := wire.JSON(m.GetCheckpoint().State)
	require.NoError(t, err)
	if m.GetCheckpoint().Listing == nil {
		return string(state)
	}
	listing, err := wire.JSON(m.GetCheckpoint().Listing)
	require.NoError(t, err)
	return fmt.Sprintf(`[%s, %s]`, state, listing)
}

// stores keeps documents as if a run had put them.
func (f *fixture) stores(connector int32, ids ...string) {
	f.t.Helper()
	f.exec(`INSERT INTO documents (connector_id, source_id, status, version_token, config_version)
		SELECT c.id, s.id, 'stored', 'v1', c.config_version FROM connectors c, unnest($2::text[]) s (id) WHERE c.id = $1`, connector, ids)
}

// sighted writes down that a try's listing showed a document with a message.
func (f *fixture) sighted(connector int32, id, try string, listing, no int) {
	f.t.Helper()
	f.exec(`INSERT INTO sightings (connector_id, try_id, listing, source_id, no) VALUES ($1, $2, $3, $4, $5)`,
		connector, try, listing, id, no)
}

// listingPart is what a checkpoint says of one try's part of a listing.
func listingPart(try string, listing, no int) string {
	return fmt.Sprintf(`"%s": {"listing": %d, "no": %d}`, try, listing, no)
}

func TestACheckpointIsNumberedWithTheDocumentsAndIsNoState(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		for i := 1; i <= 2; i++ {
			if err := run.Put(ctx, note(i)); err != nil {
				return err
			}
			if err := run.Checkpoint(ctx, page{i}); err != nil {
				return err
			}
		}
		return nil
	})
	sent := f.whole(c, 4)
	require.JSONEq(t, `[{"page": 1}, {"whole": true}]`, handedOn(t, sent[2]))
	require.JSONEq(t, `[{"page": 2}, {"whole": true}]`, handedOn(t, sent[4]))
	require.Zero(t, sent[1].GetPart().Listing, "without a listing nothing is marked")
}

func TestACheckpointThatPostgresWouldRefuseIsRefusedAtOnceAndTakesNoNumber(t *testing.T) {
	f := newFixture(t)
	for name, state := range map[string]any{
		"too long":  map[string]string{"x": strings.Repeat("x", worker.MaxStateBytes)},
		"NUL":       map[string]string{"x": "a\x00"},
		"no object": []int{1},
	} {
		var err error
		c := f.inside(func(ctx context.Context, run *worker.Run) error {
			run.BeginListing()
			err = run.Checkpoint(ctx, state)
			return run.Checkpoint(ctx, page{1})
		})
		require.Error(t, err, name)
		f.whole(c, 1)
	}
}

func TestARunOfNothingButNotesKeepsItsReason(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		run.BeginListing()
		if err := run.Seen(ctx, "a", "b"); err != nil {
			return err
		}
		return run.Checkpoint(ctx, page{1})
	})
	require.Equal(t, "nothing had changed", f.whole(c, 2)[0].GetCompleted().Reason)
}

func TestAListingMarksWhatItShows(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		if err := run.Seen(ctx, "before"); err != nil { // no listing: nothing to say
			return err
		}
		run.BeginListing()
		if err := run.Put(ctx, note(1)); err != nil {
			return err
		}
		if err := run.Touch(ctx, note(2)); err != nil {
			return err
		}
		if err := run.Seen(ctx, "a", "b"); err != nil {
			return err
		}
		if err := run.Checkpoint(ctx, page{1}); err != nil {
			return err
		}
		run.BeginListing()
		if err := run.Put(ctx, note(1)); err != nil {
			return err
		}
		run.EndListing()
		if err := run.Put(ctx, note(3)); err != nil {
			return err
		}
		return run.Checkpoint(ctx, page{2})
	})
	sent := f.whole(c, 7)
	require.Equal(t, []int32{1, 1, 1, 2, 0}, []int32{
		sent[1].GetPart().Listing, sent[2].GetPart().Listing, sent[3].GetSeen().Listing, sent[5].GetPart().Listing, sent[6].GetPart().Listing,
	})
	require.Equal(t, []string{"a", "b"}, sent[3].GetSeen().SourceIds)
	require.JSONEq(t, `[{"page": 1}, {"whole": true, "seen": {`+listingPart(sent[4].Try, 1, 4)+`}}]`, handedOn(t, sent[4]))
	require.JSONEq(t, `[{"page": 2}, {"whole": true}]`, handedOn(t, sent[7]))
}

func TestAContinuedListingKnowsWhatEarlierRunsHaveShown(t *testing.T) {
	f := newFixture(t)
	first := f.inside(func(ctx context.Context, run *worker.Run) error {
		run.BeginListing()
		return run.Checkpoint(ctx, page{1})
	})
	checkpoint := f.whole(first, 1)[1]

	c := f.pending()
	old, other := checkpoint.Try, uuid.NewString()
	f.stores(c.id, "shown", "shown after the checkpoint", "shown by another listing", "shown by another run", "not shown")
	f.sighted(c.id, "shown", old, 1, 1)
	f.sighted(c.id, "shown", old, 2, 3) // by a later listing, which reached no checkpoint
	f.sighted(c.id, "shown after the checkpoint", old, 1, 2)
	f.sighted(c.id, "shown by another listing", old, 2, 1)
	f.sighted(c.id, "shown by another run", other, 1, 1)
	f.sighted(c.id+1, "not shown", old, 1, 1) // of another connector
	var seen []string
	var state map[string]any
	f.publish(c, continuing(checkpoint))
	r := f.work(func(ctx context.Context, run *worker.Run) error {
		if err := run.State(&state); err != nil {
			return err
		}
		if err := run.Put(ctx, worker.Document{SourceID: "not shown", VersionToken: "v2"}); err != nil {
			return err
		}
		if err := run.Seen(ctx, "shown after the checkpoint"); err != nil {
			return err
		}
		known, err := run.Known(ctx)
		if err != nil {
			return err
		}
		for id, k := range known {
			if k.Seen {
				seen = append(seen, id)
			}
		}
		return run.Checkpoint(ctx, page{2})
	})
	f.settled(c)
	require.NoError(t, r.stop())
	require.Equal(t, []string{"shown"}, seen)
	require.Equal(t, map[string]any{"page": 1.0}, state)
	sent := f.whole(c, 3)
	require.Equal(t, []int32{1, 1}, []int32{sent[1].GetPart().Listing, sent[2].GetSeen().Listing})
	require.JSONEq(t, `[{"page": 2}, {"whole": true, "seen": {`+listingPart(old, 1, 1)+`, `+listingPart(sent[3].Try, 1, 3)+`}}]`, handedOn(t, sent[3]))
}

func TestARunThatBeginsAllOverForgetsWhatEarlierRunsHaveShown(t *testing.T) {
	f := newFixture(t)
	first := f.inside(func(ctx context.Context, run *worker.Run) error {
		run.BeginListing()
		run.ListingPartial()
		return run.Checkpoint(ctx, page{1})
	})
	checkpoint := f.whole(first, 1)[1]
	c := f.pending()
	f.stores(c.id, "shown")
	f.sighted(c.id, "shown", checkpoint.Try, 1, 1)
	var known map[string]worker.Known
	f.publish(c, continuing(checkpoint))
	r := f.work(func(ctx context.Context, run *worker.Run) (err error) {
		run.BeginListing()
		if known, err = run.Known(ctx); err != nil {
			return err
		}
		if err := run.Seen(ctx, "shown"); err != nil {
			return err
		}
		if err := run.Checkpoint(ctx, page{2}); err != nil {
			return err
		}
		run.EndListing()
		return nil
	})
	f.settled(c)
	require.NoError(t, r.stop())
	require.False(t, known["shown"].Seen)
	sent := f.whole(c, 2)
	require.Equal(t, []string{"shown"}, sent[1].GetSeen().SourceIds)
	require.JSONEq(t, `[{"page": 2}, {"whole": true, "seen": {`+listingPart(sent[2].Try, 2, 2)+`}}]`, handedOn(t, sent[2]))
	require.False(t, sent[0].GetCompleted().ListingWhole, "it has brought nothing, and began all over: its source may be closed")
}

func TestAListingThatWasPartialStaysSoInTheRunThatContinues(t *testing.T) {
	f := newFixture(t)
	first := f.inside(func(ctx context.Context, run *worker.Run) error {
		run.ListingPartial()
		return run.Checkpoint(ctx, page{1})
	})
	second := f.inside(func(ctx context.Context, run *worker.Run) error { return run.Checkpoint(ctx, page{2}) },
		continuing(f.whole(first, 1)[1]))
	sent := f.whole(second, 1)
	require.False(t, sent[0].GetCompleted().ListingWhole)
	require.JSONEq(t, `{"page": 2}`, handedOn(t, sent[1]))
}

func TestManySeenDocumentsTravelInMessagesThatFit(t *testing.T) {
	f := newFixture(t)
	var ids []string
	for i := range 2500 {
		ids = append(ids, fmt.Sprintf("%04d/%s", i, strings.Repeat("x", 1000)))
	}
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		run.BeginListing()
		return run.Seen(ctx, ids...)
	})
	sent := f.sent(c)
	var got []string
	for no := int64(1); no <= sent[0].GetCompleted().Total; no++ {
		require.LessOrEqual(t, len(sent[no].GetSeen().SourceIds), 1000)
		got = append(got, sent[no].GetSeen().SourceIds...)
	}
	require.Equal(t, ids, got)
}
