package worker

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/proto/gen/internalpb"
)

const (
	// carriedPartial and carriedSeen are the keys of what a checkpoint hands on of a listing.
	carriedPartial = "partial"
	carriedSeen    = "seen"
	// maxLegs bounds over how many runs a listing may go on, so that what a checkpoint hands on stays below its 65,536 bytes.
	maxLegs = 500
	// seenBatch and seenBytes bound how many documents one message says are there.
	seenBatch = 1000
	seenBytes = 256 << 10
)

// listing is the listing of everything that a run is in, and what earlier runs of it have shown.
type listing struct {
	begun   int32 // how many this try has begun, or gone on with
	current int32 // which of them it is in; 0 = none
	partial bool  // of an earlier run
	// earlier are the parts of it that earlier runs have listed, each up to that run's last checkpoint: what it showed
	// later, this run lists again.
	earlier []leg
}

// leg is the part of a listing that one try has listed, up to a checkpoint.
type leg struct {
	try     uuid.UUID
	listing int32 // which of the try's
	no      int64 // of the checkpoint
}

// BeginListing says that this run lists its whole source from the beginning. Documents are marked from here on as shown
// by this listing (Put and Touch mark theirs, Seen the rest), and a run that continues from one of its checkpoints finds
// the marks in Known.Seen. Such a run does not begin a listing: it goes on with it, unless it calls BeginListing to
// start all over. A listing ends with EndListing, or with the run's completion.
func (r *Run) BeginListing() {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.carried()
	l.begun++
	*l = listing{begun: l.begun, current: l.begun}
}

// EndListing says that the listing is over, and that what was not shown is deleted: a checkpoint from here on is no
// part of it.
func (r *Run) EndListing() {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.carried()
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
	current := r.listingNow()
	if current == 0 {
		return nil
	}
	for len(sourceIDs) > 0 {
		n, size := 0, 0
		for n < len(sourceIDs) && n < seenBatch && size < seenBytes {
			size += len(sourceIDs[n])
			n++
		}
		if err := r.sendSeen(ctx, sourceIDs[:n], current); err != nil {
			return err
		}
		sourceIDs = sourceIDs[n:]
	}
	return nil
}

func (r *Run) sendSeen(ctx context.Context, ids []string, listing int32) error {
	err := r.sendOne(ctx, func(m *internalpb.DocumentProcessRequest) {
		r.notes.Add(1)
		m.Body = &internalpb.DocumentProcessRequest_Seen{Seen: &internalpb.DocumentsSeen{SourceIds: ids, Listing: listing}}
	})
	if err != nil {
		return fmt.Errorf("mark %d documents as seen: %w", len(ids), err)
	}
	return nil
}

// listingNow is which of the try's listings is under way; 0 = none.
func (r *Run) listingNow() int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.carried().current
}

// legs are what Known asks for: the parts of the listing that earlier runs have listed.
func (r *Run) legs() (tries []uuid.UUID, listings []int32, nos []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.carried().earlier {
		tries, listings, nos = append(tries, l.try), append(listings, l.listing), append(nos, l.no)
	}
	return tries, listings, nos
}

// carried is what the checkpoint that the run continues from has handed on. r.mu is held.
func (r *Run) carried() *listing {
	if r.inListing != nil {
		return r.inListing
	}
	r.inListing = &listing{}
	handedOn := r.request.GetListing().GetFields()
	r.inListing.partial = handedOn[carriedPartial].GetBoolValue()
	for name, value := range handedOn[carriedSeen].GetStructValue().GetFields() {
		try, err := uuid.Parse(name)
		if err != nil {
			continue // somebody wrote it by hand: what it does not say was not shown
		}
		of := value.GetStructValue().GetFields()
		r.inListing.begun, r.inListing.current = 1, 1
		r.inListing.earlier = append(r.inListing.earlier, leg{
			try: try, listing: int32(of["listing"].GetNumberValue()), no: int64(of["no"].GetNumberValue()),
		})
	}
	return r.inListing
}

// covers is what a checkpoint says of the listing: what was shown up to it, by earlier runs and by this try.
func (l *listing) covers(try uuid.UUID, no int64) map[string]*structpb.Value {
	if l.current == 0 {
		return nil
	}
	seen := map[string]*structpb.Value{}
	for _, part := range append([]leg{{try: try, listing: l.current, no: no}}, l.earlier...) {
		seen[part.try.String()] = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"listing": structpb.NewNumberValue(float64(part.listing)), "no": structpb.NewNumberValue(float64(part.no)),
		}})
	}
	return seen
}
