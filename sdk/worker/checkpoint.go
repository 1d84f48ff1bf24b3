package worker

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/internal/failpoint"
)

// Checkpoint says what State is to return if this run dies: v, a JSON object within the limits of SetState, becomes the
// connector's state as soon as everything that was sent before it is stored, while the run goes on. It does not wait for that. The
// last checkpoint that is reached counts. So call it once everything up to the cursor v has been sent: the run that continues sends
// again what was sent later.
//
// A document that failed (Document.Err) is stored with its error and holds no checkpoint up; see Known for how it is
// fetched again. A run that completes without SetState leaves the state of its last checkpoint.
func (r *Run) Checkpoint(ctx context.Context, v any) error {
	state, err := handlersState(v)
	if err != nil {
		return err
	}
	// Before a number is taken: a number that is never sent ends the run.
	if err := checkObject("state", state, MaxStateBytes); err != nil {
		return err
	}
	if err := r.mergeListingParts(ctx); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	err = r.sendOne(ctx, func(m *internalpb.DocumentProcessRequest) {
		r.notes.Add(1)
		m.Body = &internalpb.DocumentProcessRequest_Checkpoint{
			Checkpoint: &internalpb.SyncCheckpoint{State: state, Listing: r.listingToHandOn(m.Number, state)},
		}
	})
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	failpoint.At("worker.checkpoint")
	return nil
}

// checkpoint is a checkpoint that the run has set.
type checkpoint struct {
	no    int64 // 0 = none
	state *structpb.Struct
}

// listingToHandOn is what the run that continues from checkpoint no must know of the listing; nil outside a listing.
func (r *Run) listingToHandOn(no int64, state *structpb.Struct) *structpb.Struct {
	r.mu.Lock()
	defer r.mu.Unlock()
	if no > r.lastCheckpoint.no {
		r.lastCheckpoint = checkpoint{no: no, state: state}
	}
	fields := map[string]*structpb.Value{}
	if r.isWhole() {
		fields[carriedWhole] = structpb.NewBoolValue(true)
	}
	if seen := r.listingState().asFields(r.try.ID, no); len(seen) > 0 {
		fields[carriedSeen] = structpb.NewStructValue(&structpb.Struct{Fields: seen})
	}
	if len(fields) == 0 {
		return nil
	}
	return &structpb.Struct{Fields: fields}
}
