package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/deadletter"
	"github.com/echomind/sync/sdk/client"
)

// remoteLetter is a dead letter as a server shows it.
type remoteLetter struct {
	letterView
	// Version tells it from another with its number, where the stream was made anew.
	Version string `json:"version"`
}

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

// letters are the first dead letters that match, at most so many; 0 = all.
func (r *remote) letters(ctx context.Context, filter deadletter.Filter, most int) (found []remoteLetter, _ error) {
	p := client.DeadlettersListParams{Subject: textOr(filter.Subject), ConnectorID: unlessZero(filter.ConnectorID), PageSize: new(int32(pageSize))}
	_, err := readPages(ctx, "dead_letters", func(token *string) ([]byte, error) {
		p.PageToken = token
		answer, err := r.api.DeadlettersListWithResponse(ctx, &p)
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	}, func(l remoteLetter) bool {
		if l.ID > filter.After { // a server is asked for no place in the middle of the list
			found = append(found, l)
		}
		return most > 0 && len(found) == most
	})
	if err != nil {
		return nil, fmt.Errorf("list the dead letters: %w", err)
	}
	return found, nil
}

func (r *remote) listLetters(ctx context.Context, filter deadletter.Filter, most int) ([]letterView, error) {
	found, err := r.letters(ctx, filter, most)
	views := make([]letterView, len(found))
	for i, l := range found {
		views[i] = l.letterView
	}
	return views, err
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

// pickedLetters are all letters that the filter matches, or the letter of the given number.
func (r *remote) pickedLetters(ctx context.Context, chosen *selection, args []string) ([]remoteLetter, error) {
	if chosen.all {
		return r.letters(ctx, chosen.Filter, 0)
	}
	id, err := letterID(args[0])
	return []remoteLetter{{letterView: letterView{ID: id}}}, err
}

// match is the If-Match of a change.
func (l remoteLetter) match() *string {
	if l.Version == "" {
		return new("*")
	}
	return new(strconv.Quote(l.Version))
}

// isGone says that somebody else has removed a letter since it was listed.
func isGone(err error) bool {
	var refused *client.Error
	return notFound(err) || errors.As(err, &refused) && refused.Status == http.StatusPreconditionFailed
}

// dropLetters removes letters for good, and says how many.
func (r *remote) dropLetters(ctx context.Context, chosen *selection, args []string) (n int, _ error) {
	picked, err := r.pickedLetters(ctx, chosen, args)
	if err != nil {
		return 0, err
	}
	for _, l := range picked {
		answer, err := patiently(ctx, func() (*client.DeadlettersDropResponse, error) {
			return r.api.DeadlettersDropWithResponse(ctx, sequence(l.ID), &client.DeadlettersDropParams{IfMatch: l.match()})
		})
		switch {
		case isGone(err) && chosen.all:
			continue
		case notFound(err):
			return n, noLetter(l.ID)
		case err != nil:
			return n, fmt.Errorf("remove dead letter %d: %w", l.ID, err)
		}
		if err := r.is(answer.StatusCode() == http.StatusNoContent); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// replayLetters has what letters are about fetched again, one after the other.
func (r *remote) replayLetters(ctx context.Context, chosen *selection, args []string, told *replaying) error {
	picked, err := r.pickedLetters(ctx, chosen, args)
	if err != nil {
		return err
	}
	for _, l := range picked {
		if !chosen.all { // the list has said what the others are about
			details, err := r.letter(ctx, l.ID)
			if err != nil {
				return err
			}
			l.letterView = details.letterView
		}
		answer, err := patiently(ctx, func() (*client.DeadlettersReplayResponse, error) {
			return r.api.DeadlettersReplayWithResponse(ctx, sequence(l.ID), &client.DeadlettersReplayParams{IfMatch: l.match()})
		})
		var done client.ReplayedBody
		var why error
		switch {
		case isGone(err) && chosen.all:
			continue
		case notFound(err):
			return noLetter(l.ID)
		case err != nil:
			if why, err = r.whyNotReplayed(ctx, l, err); err != nil {
				return err
			}
		default:
			if done, err = readAs[client.ReplayedBody](answer.Body); err == nil {
				err = r.is(!done.TriggerRequestedAt.IsZero())
			}
			if err != nil {
				return err
			}
		}
		if err := told.tell(l.of(), done.TriggerRequestedAt, why); err != nil {
			return err
		}
	}
	return nil
}

// whyNotReplayed finds out why a server does not replay a letter, as the letter stands; another error ends the command.
func (r *remote) whyNotReplayed(ctx context.Context, l remoteLetter, refusal error) (why, err error) {
	other := fmt.Errorf("replay dead letter %d: %w", l.ID, refusal)
	var refused *client.Error
	if !errors.As(refusal, &refused) || refused.Status != http.StatusConflict || refused.RetryAfter > 0 {
		return nil, other
	}
	d, err := r.letter(ctx, l.ID)
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
