package worker

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/proto/gen/internalpb"
	"github.com/echomind/sync/sdk/failpoint"
)

// Checkpoint says what State is to return if this run dies: v, a JSON object within the limits of SetState, becomes the
// connector's state as soon as everything that was sent before it is stored, while the run goes on. It does not wait for
// that, and of several the last that is reached counts. So call it once everything up to the cursor v has been sent:
// what is sent later is sent again by the run that continues.
//
// A document that failed (Document.Err) is stored with its error and holds no checkpoint up; see Known for how it is
// fetched again. A run that completes without SetState leaves the state of its last checkpoint.
func (r *Run) Checkpoint(ctx context.Context, v any) error {
	state, err := handlersState(v)
	if err != nil {
		return err
	}
	// Before a number is taken: a number that is never sent ends the run.
	if err := checkStateSize(r.withCarried(state, maxNumber)); err != nil {
		return err
	}
	no, err := r.outbox.number(1)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	r.notes.Add(1)
	m := r.envelope(no)
	m.Body = &internalpb.DocumentProcessRequest_Checkpoint{
		Checkpoint: &internalpb.SyncCheckpoint{State: r.withCarried(state, no)},
	}
	if err := r.outbox.send(ctx, m); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	failpoint.At("worker.checkpoint")
	return nil
}

// withCarried is a state with what the kit hands, beside the handler's, to the run that continues from checkpoint no.
func (r *Run) withCarried(state *structpb.Struct, no int64) *structpb.Struct {
	r.mu.Lock()
	defer r.mu.Unlock()
	kit := map[string]*structpb.Value{}
	if r.partial || r.carried().partial {
		kit[carriedPartial] = structpb.NewBoolValue(true)
	}
	if seen := r.carried().covers(r.try.ID, no); len(seen) > 0 {
		kit[carriedSeen] = structpb.NewStructValue(&structpb.Struct{Fields: seen})
	}
	fields := make(map[string]*structpb.Value, len(state.Fields)+1)
	for key, value := range state.Fields {
		fields[key] = value
	}
	if len(kit) > 0 {
		fields[kitKey] = structpb.NewStructValue(&structpb.Struct{Fields: kit})
	}
	return &structpb.Struct{Fields: fields}
}
