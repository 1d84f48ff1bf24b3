package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
)

const (
	// carriedWhole and carriedSeen are the keys of the listing in a checkpoint.
	carriedWhole = "whole"
	carriedSeen  = "seen"
	// maxListingParts bounds how many runs contribute to a listing, so that a checkpoint stays well below its 65,536 bytes. A run
	// that continues a listing of more parts takes them over as its own.
	maxListingParts = 100
	// seenBytes bounds the ids in one message of seen documents, besides topology.MaxMessageSeen.
	seenBytes = 256 << 10
)

// listing is the listing of everything that a run continues or has begun, and what earlier runs have shown in it.
type listing struct {
	begun   int32 // how many listings this try has begun or continued
	current int32 // the number of the current one; 0 = none
	whole   bool  // nothing is left out so far
	// handedOn says that a checkpoint of an earlier run has handed it on as whole.
	handedOn bool
	// earlier are the parts that earlier runs have listed, each up to that run's last checkpoint: what a run showed later is listed
	// again.
	earlier []listingPart
	// merged says that this try has marked the documents of earlier, too, by its number upTo, and that no checkpoint names the
	// earlier parts any more. Sent marks are not stored yet, and stored parts may be swept, so Known asks for both.
	merged bool
	upTo   int64
}

// listingPart is the part of a listing that one try has listed, up to a checkpoint.
type listingPart struct {
	try     uuid.UUID
	listing int32 // the number of the try's listing
	no      int64 // the number of the checkpoint
}

// BeginListing says that this run lists its whole source from the beginning. Documents are marked from here on as shown
// by this listing (Put and Touch mark theirs, Seen the rest), and a run that continues from one of its checkpoints finds
// the marks in Known.Seen. Such a run does not begin a listing: it goes on with it, unless it calls BeginListing to
// start all over. A listing ends with EndListing, or with SetState in a run that completes. A run that completes without
// either leaves the state of its last checkpoint, and with it the listing: the next run goes on with both.
func (r *Run) BeginListing() {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.listingState()
	l.begun++
	*l = listing{begun: l.begun, current: l.begun, whole: true}
}

// EndListing says that the listing is over, and that what was not shown is deleted: a checkpoint from here on is no
// part of it. The state that the run leaves (SetState, or its last checkpoint) must not say that the listing goes on.
func (r *Run) EndListing() {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.listingState()
	l.current, l.earlier = 0, nil
}

// Seen marks documents that the listing has shown and that stand as they are stored. Call it before the checkpoint that
// covers their page, with many at once: they travel a thousand to a message. Outside a listing it does nothing.
func (r *Run) Seen(ctx context.Context, sourceIDs ...string) error {
	for _, id := range sourceIDs {
		if err := checkIdentity(Document{SourceID: id}); err != nil {
			return err
		}
	}
	current := r.currentListing()
	if current == 0 {
		return nil
	}
	_, err := r.mark(ctx, current, sourceIDs)
	return err
}

// mark sends which documents a listing of the try has shown, and returns the number of the last message.
func (r *Run) mark(ctx context.Context, current int32, sourceIDs []string) (last int64, err error) {
	for len(sourceIDs) > 0 {
		n, size := 0, 0
		for n < len(sourceIDs) && n < topology.MaxMessageSeen && size < seenBytes {
			size += len(sourceIDs[n])
			n++
		}
		if last, err = r.sendSeen(ctx, sourceIDs[:n], current); err != nil {
			return 0, err
		}
		sourceIDs = sourceIDs[n:]
	}
	return last, nil
}

func (r *Run) sendSeen(ctx context.Context, ids []string, listing int32) (no int64, err error) {
	err = r.sendWeighted(ctx, weightOf(0, len(ids)), func(m *internalpb.DocumentProcessRequest) {
		r.notes.Add(1)
		no = m.Number
		m.Body = &internalpb.DocumentProcessRequest_Seen{Seen: &internalpb.DocumentsSeen{SourceIds: ids, Listing: listing}}
	})
	if err != nil {
		return 0, fmt.Errorf("mark %d documents as seen: %w", len(ids), err)
	}
	return no, nil
}

// currentListing is the number of the try's listing that is under way; 0 = none.
func (r *Run) currentListing() int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.listingState().current
}

// listingParts are the parts that earlier runs have listed, and the part that this try has taken over.
func (r *Run) listingParts() []listingPart {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.listingState()
	if l.current == 0 || !l.merged {
		return l.earlier
	}
	return append(slices.Clone(l.earlier), listingPart{try: r.try.ID, listing: l.current, no: l.upTo})
}

// listingState is the listing of the run; at first what its checkpoint has handed on. r.mu is held.
func (r *Run) listingState() *listing {
	if r.inListing != nil {
		return r.inListing
	}
	handedOn := r.request.GetListing().GetFields()
	// Without a cursor the listing starts at the beginning.
	isWhole := handedOn[carriedWhole].GetBoolValue()
	r.inListing = &listing{whole: len(r.request.GetState().GetFields()) == 0 || isWhole, handedOn: isWhole}
	for name, value := range handedOn[carriedSeen].GetStructValue().GetFields() {
		try, err := uuid.Parse(name)
		if err != nil {
			continue // it was written by hand; the documents of this part do not count as shown
		}
		of := value.GetStructValue().GetFields()
		r.inListing.begun, r.inListing.current = 1, 1
		r.inListing.earlier = append(r.inListing.earlier, listingPart{
			try: try, listing: int32(of["listing"].GetNumberValue()), no: int64(of["no"].GetNumberValue()),
		})
	}
	return r.inListing
}

// isWhole says whether nothing was left out so far. r.mu is held.
func (r *Run) isWhole() bool { return r.listingState().whole && !r.partial }

// leavesListing says whether the completing run leaves its listing to the next run. r.mu is held.
func (r *Run) leavesListing() bool {
	l := r.listingState()
	return l.current > 0 && r.newState == nil && (r.lastCheckpoint.no > 0 || len(l.earlier) > 0)
}

// endsWhole says whether the completing run ends a listing of the whole source. One that brings nothing does where an earlier run has listed what there was
// and did not come to its end; else its source may be closed. r.mu is held.
func (r *Run) endsWhole(end error) bool {
	brings := r.outbox.total() > r.notes.Load()
	return end == nil && r.isWhole() && !r.leavesListing() && (brings || r.listingState().handedOn)
}

// finalState is the state that the completing run leaves; nil leaves that of the last checkpoint, together with its listing. A
// listing that is over does not outlive the run. r.mu is held.
func (r *Run) finalState() *structpb.Struct {
	if r.newState == nil && r.listingState().current == 0 {
		return r.lastCheckpoint.state
	}
	return r.newState
}

// mergeListingParts marks the documents of earlier parts as shown by this try, once there are many parts. So any number of runs may
// continue a listing.
func (r *Run) mergeListingParts(ctx context.Context) error {
	r.mu.Lock()
	l := *r.listingState()
	r.mu.Unlock()
	if len(l.earlier) < maxListingParts || l.merged {
		return nil
	}
	known, err := r.knownOf(ctx, l.earlier)
	if err != nil {
		return err
	}
	var shown []string
	for id, k := range known {
		if k.Seen {
			shown = append(shown, id)
		}
	}
	upTo, err := r.mark(ctx, l.current, shown)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.listingState(); now.current == l.current {
		now.merged, now.upTo = true, upTo
	}
	return nil
}

// asFields is the listing as a checkpoint carries it: what was shown up to it, by earlier runs and by this try.
func (l *listing) asFields(try uuid.UUID, no int64) map[string]*structpb.Value {
	if l.current == 0 {
		return nil
	}
	parts := []listingPart{{try: try, listing: l.current, no: no}}
	if !l.merged {
		parts = append(parts, l.earlier...)
	}
	seen := map[string]*structpb.Value{}
	for _, part := range parts {
		seen[part.try.String()] = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"listing": structpb.NewNumberValue(float64(part.listing)), "no": structpb.NewNumberValue(float64(part.no)),
		}})
	}
	return seen
}
