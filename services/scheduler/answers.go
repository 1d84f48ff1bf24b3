package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/internal/deadline"
)

// notedFrom is the publication of a message from which on it is written down that the broker has taken it. Every sync has a first
// publication, and a second one if a wiped stream has lost it. A connector fails only after the broker has taken its message ten times.
const notedFrom = 3

// answer is what the broker has answered to one publication, as moves.note_published wants it.
type answer struct {
	ID           uuid.UUID `json:"id"`
	DispatchedAt time.Time `json:"dispatched_at"`
	Problem      *string   `json:"problem"`
}

// answered keeps what is to be written down: why a message was not taken, and that a message was taken which was lost before.
func (f *flight) answered(t *Trigger, problem error) {
	if problem == nil && t.dispatches < notedFrom {
		return
	}
	a := answer{ID: t.Session, DispatchedAt: t.DispatchedAt}
	if problem != nil {
		says := inWords(problem)
		a.Problem = &says
	}
	f.answers = append(f.answers, a)
}

// inWords is what a user reads of a publish error.
func inWords(err error) string {
	says := err.Error()
	if refusal := (*jetstream.APIError)(nil); errors.As(err, &refusal) {
		says = refusal.Description
	}
	return strings.ReplaceAll(strings.ToValidUTF8(says, ""), "\x00", "")
}

// note writes down what the broker has answered, in one statement, where there is something out of the ordinary. An answer that could not
// be written down does not count against a connector.
func (d *dispatcher) note(ctx context.Context, answers []answer) {
	if len(answers) == 0 {
		return
	}
	all, err := json.Marshal(answers)
	if err == nil {
		_, err = deadline.Get(ctx, "scheduler.note_published", queryTimeout, func(ctx context.Context) (int32, error) {
			return d.queries.NotePublished(ctx, all)
		})
	}
	if err != nil && ctx.Err() == nil {
		d.log.Warn("it is not written down which triggers NATS has taken; they do not count as taken", "triggers", len(answers), "err", err)
	}
}
