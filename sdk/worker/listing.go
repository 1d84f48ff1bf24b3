package worker

import (
	"context"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/proto/gen/internalpb"
	"github.com/echomind/sync/sdk/wire"
)

const (
	// kitKey is the key of a state that the kit keeps for itself; handlers neither see nor set it.
	kitKey = "$kit"
	// carriedPartial and carriedSeen are the keys under it.
	carriedPartial = "partial"
	carriedSeen    = "seen"
	// maxNumber is the longest that a number is written.
	maxNumber = 1<<40 - 1
	// seenBatch and seenBytes bound how many documents one message says are there.
	seenBatch = 1000
	seenBytes = 256 << 10
)

// listing is the listing of everything that a run is in, and what earlier runs of it have shown.
type listing struct {
	begun   int32 // how many this session has begun, or gone on with
	current int32 // which of them it is in; 0 = none
	partial bool  // of an earlier run
	// earlier says, by session, from which mark on a document counts as shown (see wire.SeenMark). The marks end at that
	// session's last checkpoint: what it showed later, this run lists again.
	earlier map[string]int64
	// shown are the documents that earlier runs showed. They are not marked again: their mark would be worth less.
	shown map[string]struct{}
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
	l.current, l.earlier, l.shown = 0, nil, nil
}

// Seen marks documents that the listing has shown and that stand as they are stored. Call it before the checkpoint that
// covers their page, with many at once: they travel a thousand to a message. Outside a listing it does nothing.
func (r *Run) Seen(ctx context.Context, sourceIDs ...string) error {
	var batch []string
	size := 0
	current := int32(0)
	for _, id := range sourceIDs {
		if err := checkIdentity(Document{SourceID: id}); err != nil {
			return err
		}
		mark, err := r.mark(ctx, id)
		if err != nil {
			return err
		}
		if mark == 0 {
			continue
		}
		current = mark
		if len(batch) == seenBatch || size+len(id) > seenBytes {
			if err := r.sendSeen(ctx, batch, current); err != nil {
				return err
			}
			batch, size = nil, 0
		}
		batch, size = append(batch, id), size+len(id)+8
	}
	if len(batch) == 0 {
		return nil
	}
	return r.sendSeen(ctx, batch, current)
}

func (r *Run) sendSeen(ctx context.Context, ids []string, mark int32) error {
	no, err := r.outbox.number(1)
	if err != nil {
		return fmt.Errorf("mark %d documents as seen: %w", len(ids), err)
	}
	r.notes.Add(1)
	m := r.envelope(no)
	m.Body = &internalpb.DocumentProcessRequest_Seen{Seen: &internalpb.DocumentsSeen{SourceIds: ids, Listing: mark}}
	if err := r.outbox.send(ctx, m); err != nil {
		return fmt.Errorf("mark %d documents as seen: %w", len(ids), err)
	}
	return nil
}

// mark is which listing of the session shows a document; 0 outside one, and for a document that an earlier run of the
// listing has shown.
func (r *Run) mark(ctx context.Context, sourceID string) (int32, error) {
	r.mu.Lock()
	l := r.carried()
	current, unread := l.current, len(l.earlier) > 0 && l.shown == nil
	r.mu.Unlock()
	if current == 0 {
		return 0, nil
	}
	if unread {
		if _, err := r.Known(ctx); err != nil {
			return 0, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, before := l.shown[sourceID]; before {
		return 0, nil
	}
	return l.current, nil
}

// seenBefore is what Known asks for: which sessions have shown documents of this listing, from which marks on.
func (r *Run) seenBefore() (sessions []uuid.UUID, marks []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, mark := range r.carried().earlier {
		session, err := uuid.Parse(name)
		if err != nil {
			continue // somebody wrote the state by hand: what it does not say was not shown
		}
		sessions, marks = append(sessions, session), append(marks, mark)
	}
	return sessions, marks
}

// remember keeps what earlier runs of the listing have shown.
func (r *Run) remember(known map[string]Known) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.carried()
	if len(l.earlier) == 0 {
		return
	}
	l.shown = map[string]struct{}{}
	for id, k := range known {
		if k.Seen {
			l.shown[id] = struct{}{}
		}
	}
}

// carried is what the checkpoint that the run continues from has handed on. r.mu is held.
func (r *Run) carried() *listing {
	if r.inListing != nil {
		return r.inListing
	}
	r.inListing = &listing{}
	kit := r.request.GetState().GetFields()[kitKey].GetStructValue().GetFields()
	r.inListing.partial = kit[carriedPartial].GetBoolValue()
	for session, value := range kit[carriedSeen].GetStructValue().GetFields() {
		mark, err := strconv.ParseInt(value.GetStringValue(), 10, 64)
		if err != nil {
			continue
		}
		if r.inListing.earlier == nil {
			r.inListing.earlier = map[string]int64{}
		}
		r.inListing.earlier[session] = mark
		r.inListing.begun, r.inListing.current = 1, 1
	}
	return r.inListing
}

// covers is what a checkpoint says of the listing: what was shown up to it, by earlier runs and by this session. Marks
// travel as text, because a Struct does not hold them exactly.
func (l *listing) covers(session string, no int64) map[string]*structpb.Value {
	if l.current == 0 {
		return nil
	}
	seen := map[string]*structpb.Value{}
	for earlier, mark := range l.earlier {
		seen[earlier] = structpb.NewStringValue(strconv.FormatInt(mark, 10))
	}
	seen[session] = structpb.NewStringValue(strconv.FormatInt(wire.SeenMark(l.current, no), 10))
	return seen
}
