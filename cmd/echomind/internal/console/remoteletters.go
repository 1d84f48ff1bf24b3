package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/deadletter"
	"github.com/echomind/sync/sdk/client"
)

// of is the letter as the broker has it, as far as errors name it.
func (l letterView) of() deadletter.Letter {
	d := deadletter.Letter{ID: l.ID}
	if l.ConnectorID != nil {
		d.ConnectorID = *l.ConnectorID
	}
	if l.SourceID != nil {
		d.SourceID = *l.SourceID
	}
	if l.Session != nil {
		d.Session = *l.Session
	}
	return d
}

// listLetters are the first dead letters that match, at most so many.
func (r *remote) listLetters(ctx context.Context, filter deadletter.Filter, most int) ([]letterView, error) {
	found := []letterView{}
	p := client.DeadlettersListParams{Subject: textOr(filter.Subject), ConnectorID: unlessZero(filter.ConnectorID), PageSize: new(int32(pageSize))}
	_, err := readPages(ctx, "dead_letters", func(token *string) ([]byte, error) {
		p.PageToken = token
		answer, err := r.api.DeadlettersListWithResponse(ctx, &p)
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	}, func(l letterView) bool {
		if l.ID > filter.After { // a server is asked for no place in the middle of the list
			found = append(found, l)
		}
		return len(found) == most
	})
	if err != nil {
		return nil, fmt.Errorf("list the dead letters: %w", err)
	}
	return found, nil
}

func (r *remote) letter(ctx context.Context, id uint64) (none letterDetails, _ error) {
	answer, err := r.api.DeadlettersGetWithResponse(ctx, sequence(id))
	if notFound(err) {
		return none, noLetter(id)
	}
	if err != nil {
		return none, fmt.Errorf("read dead letter %d: %w", id, err)
	}
	found, err := readAs[letterDetails](answer.Body)
	if err == nil {
		err = r.is(found.ID == id)
	}
	found.Message = absent(found.Message)
	return found, err
}

func sequence(id uint64) string { return strconv.FormatUint(id, 10) }

// dropLetters removes letters for good, and says how many.
func (r *remote) dropLetters(ctx context.Context, chosen *selection, args []string) (n int, _ error) {
	if chosen.all {
		return r.dropMany(ctx, chosen.Filter)
	}
	id, err := letterID(args[0])
	if err != nil {
		return 0, err
	}
	answer, err := patiently(ctx, func() (*client.DeadlettersDropResponse, error) {
		return r.api.DeadlettersDropWithResponse(ctx, sequence(id), &client.DeadlettersDropParams{IfMatch: new("*")})
	})
	switch {
	case notFound(err):
		return 0, noLetter(id)
	case err != nil:
		return 0, fmt.Errorf("remove dead letter %d: %w", id, err)
	}
	return 1, r.is(answer.StatusCode() == http.StatusNoContent)
}

// replayLetters has what letters are about fetched again.
func (r *remote) replayLetters(ctx context.Context, chosen *selection, args []string, told *replaying) error {
	if chosen.all {
		return r.replayMany(ctx, chosen.Filter, told)
	}
	id, err := letterID(args[0])
	if err != nil {
		return err
	}
	l, err := r.letter(ctx, id)
	if err != nil {
		return err
	}
	answer, err := patiently(ctx, func() (*client.DeadlettersReplayResponse, error) {
		return r.api.DeadlettersReplayWithResponse(ctx, sequence(id), &client.DeadlettersReplayParams{IfMatch: new("*")})
	})
	if notFound(err) {
		return noLetter(id)
	}
	if err != nil {
		why, err := r.whyNotReplayed(ctx, id, err)
		if err != nil {
			return err
		}
		return told.tell(l.of(), time.Time{}, why)
	}
	done, err := readAs[client.ReplayedBody](answer.Body)
	if err == nil {
		err = r.is(!done.TriggerRequestedAt.IsZero())
	}
	if err != nil {
		return err
	}
	return told.tell(l.of(), done.TriggerRequestedAt, nil)
}

// whyNotReplayed finds out why a server does not replay a letter, as the letter stands; another error ends the command.
func (r *remote) whyNotReplayed(ctx context.Context, id uint64, refusal error) (why, err error) {
	other := fmt.Errorf("replay dead letter %d: %w", id, refusal)
	var refused *client.Error
	if !errors.As(refusal, &refused) || refused.Status != http.StatusConflict || refused.RetryAfter > 0 {
		return nil, other
	}
	d, err := r.letter(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case d.ConnectorID == nil:
		return deadletter.ErrNobodys, nil
	case d.Connector == nil:
		return deadletter.ErrGone, nil
	case d.Connector.Status == "DISABLED":
		return deadletter.ErrDisabled, nil
	case d.Session == nil:
		return nil, other
	}
	session, err := uuid.Parse(*d.Session)
	if err != nil {
		return nil, other
	}
	if of, err := r.run(ctx, session); err == nil && absent(of.Parameters) != nil {
		return deadletter.ErrParameters, nil
	}
	return nil, other
}
