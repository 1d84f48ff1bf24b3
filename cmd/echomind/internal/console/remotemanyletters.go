package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomind/sync/internal/deadletter"
	"github.com/echomind/sync/sdk/client"
)

// everySubject is the filter of all dead letters.
const everySubject = ">"

// manyLetters has a server do something with all dead letters of a filter, some of them with each request, and tells what came of these.
func (r *remote) manyLetters(ctx context.Context, filter deadletter.Filter, each bool, ask func(client.ManyLettersBody) (bodied, error), tell func(client.ManyDoneBody) error) error {
	asked := client.ManyLettersBody{Subject: textOr(filter.Subject), ConnectorID: unlessZero(filter.ConnectorID)}
	if asked.Subject == nil && asked.ConnectorID == nil {
		asked.Subject = new(everySubject)
	}
	if each {
		asked.Each = &each
	}
	for {
		answer, err := patiently(ctx, func() (bodied, error) { // one request at a time does so
			return patientlyWhile(ctx, http.StatusConflict, func() (bodied, error) { return ask(asked) })
		})
		if err != nil {
			return err
		}
		done, err := readAs[client.ManyDoneBody](answer.GetBody())
		if err == nil {
			err = r.is(done.Left != nil)
		}
		if err == nil {
			err = tell(done)
		}
		if asked.PageToken = done.NextPageToken; err != nil || asked.PageToken == nil {
			return err
		}
	}
}

// begin has an operation of the server do something with all that match.
func (s *selection) begin(c *cobra.Command, f *finder, out *output, action client.CreateLettersOperationBodyAction) error {
	return doAndShow(c, f, out, func(r *remote) (none client.Operation, _ error) {
		asked := client.CreateLettersOperationBody{Action: action, Subject: textOr(s.Subject), ConnectorID: unlessZero(s.ConnectorID)}
		if asked.Subject == nil && asked.ConnectorID == nil {
			asked.Subject = new(everySubject)
		}
		answer, err := r.api.DeadlettersOperateWithResponse(c.Context(), &client.DeadlettersOperateParams{}, asked)
		if err != nil {
			return none, fmt.Errorf("begin the operation: %w", err)
		}
		return r.operationOf(answer.Body, 0)
	}, func(w io.Writer, o client.Operation) error {
		_, err := fmt.Fprintf(w, "operation %d has begun; `echomind operations show %[1]d` tells how far it has come\n", o.ID)
		return err
	})
}

// dropMany removes all that match, and says how many.
func (r *remote) dropMany(ctx context.Context, filter deadletter.Filter) (n int, _ error) {
	var stay error
	err := r.manyLetters(ctx, filter, false, func(asked client.ManyLettersBody) (bodied, error) {
		return r.api.DeadlettersDropGroupWithResponse(ctx, asked)
	}, func(done client.ManyDoneBody) error {
		n += int(done.Done)
		for _, left := range done.Left {
			stay = fmt.Errorf("dead letter %d, and %d more, stay: %s %s", left.Example, left.Letters-1, left.Why, left.Fix)
		}
		return nil
	})
	if err != nil {
		return n, fmt.Errorf("remove dead letters: %w", err)
	}
	return n, stay
}

// replayMany has what all that match are about fetched again, and tells of each.
func (r *remote) replayMany(ctx context.Context, filter deadletter.Filter, told *replaying) error {
	err := r.manyLetters(ctx, filter, true, func(asked client.ManyLettersBody) (bodied, error) {
		return r.api.DeadlettersReplayGroupWithResponse(ctx, asked)
	}, func(done client.ManyDoneBody) error {
		if done.Letters == nil {
			return r.is(done.Looked == 0)
		}
		for _, l := range *done.Letters {
			letter := letterView{ID: uint64(l.ID), ConnectorID: l.ConnectorID, SourceID: l.SourceID, Session: l.Session}.of()
			var at time.Time
			if l.TriggerRequestedAt != nil {
				at = *l.TriggerRequestedAt
			}
			if err := told.tell(letter, at, whyLeft(l, done.Left)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("replay dead letters: %w", err)
	}
	return nil
}

// whyLeft is why a letter was not replayed; nil: it was.
func whyLeft(l client.LetterDone, left []client.LettersLeft) error {
	if l.Why == nil {
		return nil
	}
	switch *l.Why {
	case client.LetterDoneWhyNobodys:
		return deadletter.ErrNobodys
	case client.LetterDoneWhyGone:
		return deadletter.ErrGone
	case client.LetterDoneWhyDisabled:
		return deadletter.ErrDisabled
	case client.LetterDoneWhyParameters:
		return deadletter.ErrParameters
	}
	for _, of := range left {
		if of.Example == l.ID {
			return errors.New(of.Why + " " + of.Fix)
		}
	}
	return fmt.Errorf("dead letter %d could not be replayed; replay it alone to see why", l.ID)
}
