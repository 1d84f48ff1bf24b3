package semantic

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/contract/wire"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

// progress says what a run can do after a store.
type progress struct {
	complete        bool // everything is stored
	checkpointWaits bool // a checkpoint waits
}

// note is a message without a document: a checkpoint, or documents that were only seen.
type note struct {
	checkpoint *internalpb.SyncCheckpoint
	seen       *internalpb.DocumentsSeen
}

// unnamed says whether the item was given up and its document is unknown. A checkpoint has no document.
func (it *item) unnamed() bool {
	return it.poison != "" && it.sourceID == "" && (it.note == nil || it.note.checkpoint == nil)
}

// givenUp is how run_messages records an item: "" for one that is stored. A part that was given up never completes its document,
// and a checkpoint that was given up is never reached. No cursor moves past an unnamed item.
func (it *item) givenUp() string {
	switch {
	case it.unnamed():
		return "unnamed"
	case it.poison != "":
		return "named"
	}
	return ""
}

// writeNotes stores the checkpoints among the items, and records which documents their listings have shown. It returns the number
// of notes. A note that was given up is only counted; a document that was given up still counts as shown.
func (t *storeTx) writeNotes(ctx context.Context, items []*item) (written int64, err error) {
	sightings := dbgen.SightParams{ConnectorID: t.run.ConnectorID, TryID: t.try.ID}
	sight := func(listing int32, sourceID string, no int64) {
		if listing > 0 {
			sightings.Listings = append(sightings.Listings, listing)
			sightings.SourceIds = append(sightings.SourceIds, sourceID)
			sightings.Nos = append(sightings.Nos, no)
		}
	}
	for _, it := range items {
		switch {
		case it.part != nil:
			sight(it.part.Listing, it.sourceID, it.no)
			continue
		case it.note == nil:
			continue
		}
		written++
		switch {
		case it.poison != "":
		case it.note.checkpoint != nil:
			if err := t.keepCheckpoint(ctx, it.no, it.note.checkpoint); err != nil {
				return written, fmt.Errorf("keep checkpoint %d: %w", it.no, err)
			}
		default:
			for _, id := range it.note.seen.SourceIds {
				sight(it.note.seen.Listing, id, it.no)
			}
		}
	}
	if len(sightings.Nos) == 0 {
		return written, nil
	}
	if err := t.q.Sight(ctx, sightings); err != nil {
		return written, fmt.Errorf("write down what was seen: %w", err)
	}
	return written, nil
}

func (t *storeTx) keepCheckpoint(ctx context.Context, no int64, checkpoint *internalpb.SyncCheckpoint) (err error) {
	p := dbgen.KeepCheckpointParams{TryID: t.try.ID, RunID: t.try.Run, No: no}
	if p.State, err = wire.JSON(checkpoint.State); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if checkpoint.Listing != nil {
		listing, err := canonicalListing(checkpoint.Listing)
		if err != nil {
			return err
		}
		if p.Listing, err = wire.JSON(listing); err != nil {
			return fmt.Errorf("listing: %w", err)
		}
	}
	return t.q.KeepCheckpoint(ctx, p)
}

// canonicalListing returns the listing of a checkpoint with its tries spelled as Postgres spells a UUID. The sweep looks for tries
// under that spelling, and removes the sightings of a try that it does not find.
func canonicalListing(listing *structpb.Struct) (*structpb.Struct, error) {
	named, says := listing.GetFields()["seen"]
	if !says {
		return listing, nil
	}
	if named.GetStructValue() == nil {
		return nil, fmt.Errorf("listing: seen is %.100v, must be an object of tries", named.AsInterface())
	}
	seen := make(map[string]*structpb.Value, len(named.GetStructValue().GetFields()))
	for name, part := range named.GetStructValue().GetFields() {
		try, err := uuid.Parse(name)
		if err != nil {
			return nil, fmt.Errorf("listing: seen names %.100q, which is no try: must be a UUID", name)
		}
		if _, twice := seen[try.String()]; twice {
			return nil, fmt.Errorf("listing: seen names the try %s twice, in two spellings", try)
		}
		seen[try.String()] = part
	}
	fields := maps.Clone(listing.GetFields())
	fields["seen"] = structpb.NewStructValue(&structpb.Struct{Fields: seen})
	return &structpb.Struct{Fields: fields}, nil
}

// advance moves the cursor of a run to the last checkpoint that has everything before it stored. Where another transaction holds
// the connector, the look for checkpoints does it later.
func (s *Semantic) advance(ctx context.Context, run uuid.UUID) error {
	ctx, span := s.servers.Tracer.Start(ctx, run, tracing.Checkpoint)
	defer span.End()
	advanced, err := s.lifecycle.Advance(ctx, run)
	if errors.Is(err, lifecycle.ErrHeld) {
		span.Set(tracing.Outcome("held"))
		return nil
	}
	if advanced && err == nil {
		s.metrics.checkpoints.Inc()
	}
	return err
}

func checkSeen(number int64, seen *internalpb.DocumentsSeen) error {
	if number < 1 || seen.GetListing() < 1 {
		return fmt.Errorf("documents seen have number %d and listing %d: both are at least 1", number, seen.GetListing())
	}
	if len(seen.SourceIds) > topology.MaxMessageSeen {
		return fmt.Errorf("%d documents seen: a message says %d at most", len(seen.SourceIds), topology.MaxMessageSeen)
	}
	for _, id := range seen.SourceIds {
		if err := checkSourceID(id); err != nil {
			return err
		}
	}
	return nil
}
