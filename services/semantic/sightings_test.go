//go:build !race

package semantic

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/movestest"
)

// covering is a checkpoint that speaks of its session's first listing, as the worker kit makes it.
func (c trip) covering(no int64) *internalpb.DocumentProcessRequest {
	m := c.checkpoint(no, 1)
	listing, err := structpb.NewStruct(map[string]any{"seen": map[string]any{
		c.try.String(): map[string]any{"listing": 1, "no": no},
	}})
	require.NoError(c.f.t, err)
	m.GetCheckpoint().Listing = listing
	return m
}

func (c trip) sightings() []string {
	c.f.t.Helper()
	return many[string](c.f, `SELECT concat_ws(' ', listing, source_id, no) FROM sightings
		WHERE connector_id = $1 AND try_id = $2 ORDER BY 1`, c.connector, c.try)
}

func TestWhatAListingShowsIsWrittenDownWithTheMessageThatShowedItFirst(t *testing.T) {
	f := newFixture(t)
	c := f.synced(map[string]string{"old": "x"}).again()
	c.stores(c.seen(5, 1, "a", "b", "old"), c.doc(6, "a", "again", inListing(1)))
	c.stores(c.doc(1, "a", "apple", inListing(1)), c.doc(2, "b", "one", inListing(1), part(0, 2)))
	c.stores(c.doc(3, "b", "two", inListing(1), part(1, 2)), c.seen(3, 1, "b")) // one of the two is a duplicate
	c.stores(c.doc(4, "unlisted", "x"), c.seen(7, 2, "a"))
	require.Equal(t, []string{"1 a 1", "1 b 2", "1 old 5", "2 a 7"}, c.sightings())
}

func TestADocumentThatWasGivenUpHasBeenShown(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	d := delivery{request: c.doc(1, "a", "apple", inListing(1)), try: c.of()}
	require.NoError(t, f.countPoison(ctx, d, errors.New("it kills its readers")))
	require.Equal(t, []string{"1 a 1"}, c.sightings())
}

func TestSightingsStayWhileACheckpointSpeaksOfThem(t *testing.T) {
	f := newFixture(t)
	first := f.syncing()
	first.stores(first.doc(1, "a", "apple", inListing(1)), first.covering(2), first.doc(3, "b", "banana", inListing(1)))
	require.NoError(t, inTime(f.Sweep))
	require.Len(t, first.sightings(), 2, "of a run that is open")
	require.NoError(t, f.lifecycle.Fail(ctx, first.of(), lifecycle.Transient, "no"))
	require.NoError(t, inTime(f.Sweep))
	require.Len(t, first.sightings(), 2, "of a run that another goes on from")

	second := first.again()
	second.stores(second.doc(1, "c", "cherry", inListing(1)))
	require.NoError(t, f.lifecycle.Fail(ctx, second.of(), lifecycle.Transient, "no"))
	require.NoError(t, inTime(f.Sweep))
	require.Empty(t, second.sightings(), "of a run without a checkpoint")
	require.Len(t, first.sightings(), 2)

	third := first.again()
	third.stores(third.completed(0))
	require.NoError(t, inTime(f.Sweep))
	require.Empty(t, first.sightings(), "of a listing that is over")
}

func TestSightingsOfADeletedOrChangedConnectorAreSwept(t *testing.T) {
	f := newFixture(t)
	for _, change := range []string{`DELETE FROM connectors WHERE id = $1`, `UPDATE connectors SET config = '{"x": 1}' WHERE id = $1`} {
		c := f.syncing()
		c.stores(c.doc(1, "a", "apple", inListing(1)), c.covering(2))
		require.NoError(t, f.lifecycle.Fail(ctx, c.of(), lifecycle.Transient, "no"))
		require.NoError(t, inTime(f.Sweep))
		f.exec(change, c.connector)
		f.sweeps()
		require.Zero(t, f.count("sightings"), change)
	}
}

func TestSightingsOfAConnectorThatIsChangedBeforeItsNextRunIsPickedUpAreSwept(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.doc(1, "a", "apple", inListing(1)), c.covering(2))
	require.NoError(t, f.lifecycle.Fail(ctx, c.of(), lifecycle.Transient, "no"))
	f.sweeps()
	require.Len(t, c.sightings(), 1)
	movestest.Claim(t, f.pool, c.connector)
	f.exec(`UPDATE connectors SET config = '{"x": 1}' WHERE id = $1`, c.connector)
	f.sweeps()
	require.Zero(t, f.count("sightings"))
}

func TestARunThatIsOverHasSeenNothing(t *testing.T) {
	f := newFixture(t)
	for name, end := range overs {
		c := f.syncing()
		end(c)
		c.stores(c.doc(1, "a", "late", inListing(1)), c.seen(2, 1, uuid.NewString()))
		require.Zero(t, f.count("sightings"), name)
	}
}

// A subscriber that writes its UUIDs in capitals, as Swift, Delphi and .NET's registry form do. Everything takes them, but the sweep.
func TestAListingMaySpellItsTriesInAnyWay(t *testing.T) {
	for name, spell := range map[string]func(string) string{"small": strings.ToLower, "capitals": strings.ToUpper,
		"without dashes": func(s string) string { return strings.ReplaceAll(s, "-", "") }} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c := f.synced(map[string]string{"a": "old", "b": "old"}).again()
			try := spell(c.try.String())
			seen := c.seen(1, 1, "a", "b")
			checkpoint := c.checkpoint(2, 7)
			checkpoint.GetCheckpoint().Listing, _ = structpb.NewStruct(map[string]any{"seen": map[string]any{try: map[string]any{"listing": 1, "no": 2}}})
			completed := c.message(0)
			completed.Body = c.completed(2).Body
			completed.GetCompleted().NewState, completed.GetCompleted().ListingWhole = nil, false
			seen.Try, checkpoint.Try, completed.Try = try, try, try // also on the wire
			c.stores(seen, checkpoint, completed)
			require.Equal(t, "skipped", c.verdict())
			f.sweeps()
			next := c.again()
			rows := many[string](f, `SELECT source_id || ' ' || seen FROM moves.known($1, $2, '', 100,
				ARRAY(SELECT k::uuid FROM connectors, jsonb_object_keys(listing->'seen') k WHERE id = $3), ARRAY[1], ARRAY[2::bigint])`,
				next.session, next.try, next.connector)
			require.Equal(t, []string{"a true", "b true"}, rows)
		})
	}
}

func TestAListingThatNamesWhatIsNoTryIsRefused(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	try := c.try.String()
	for why, seen := range map[string]any{
		`listing: seen names "mine", which is no try: must be a UUID`: map[string]any{"mine": map[string]any{}},
		`listing: seen is [1], must be an object of tries`:            []any{1},
		`listing: seen names the try ` + try + ` twice, in two spellings`: map[string]any{
			try: map[string]any{}, strings.ToUpper(try): map[string]any{}},
	} {
		m := c.checkpoint(1, 7)
		m.GetCheckpoint().Listing, _ = structpb.NewStruct(map[string]any{"seen": seen})
		require.EqualError(t, check(m), why)
	}
	other := c.checkpoint(1, 7)
	other.GetCheckpoint().Listing, _ = structpb.NewStruct(map[string]any{"mine": map[string]any{"seen": 1}})
	require.NoError(t, check(other), "other keys are the sender's")
}
