package api

import (
	"context"
	"errors"
	"time"

	"github.com/echomind/sync/internal/broker"
	"github.com/echomind/sync/internal/deadletter"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

const (
	// manyLetters is how many letters one request replays or removes, and looks at, at most; manyTime after how long it begins no more.
	manyLetters = 2000
	manyTime    = 3 * time.Second
)

// ManyLetters says which letters are meant.
type ManyLetters struct {
	Body struct {
		Reason      *string `json:"reason,omitempty" maxLength:"400" doc:"Of this group, by its reason as /deadletters/groups says it; empty: those for which none was given."`
		Subject     string  `json:"subject,omitempty" maxLength:"200" doc:"Of this original subject, as of /deadletters."`
		ConnectorID int64   `json:"connector_id,omitempty" minimum:"1" maximum:"2147483647" format:"int32"`
		PageToken   string  `json:"page_token,omitempty" maxLength:"500" doc:"The next_page_token of the request before, with the same filter: goes on behind what that has looked at."`
	}
}

// LettersLeft are letters that cannot be replayed, and why.
type LettersLeft struct {
	Letters int64  `json:"letters"`
	Example int64  `json:"example" doc:"The id of one."`
	Why     string `json:"why" doc:"Of that one."`
	Fix     string `json:"fix" doc:"What to do."`

	reason error
}

// ManyDone is what came of them.
type ManyDone struct {
	Body struct {
		Done          int64         `json:"done" doc:"How many are replayed, or dropped, and removed."`
		Left          []LettersLeft `json:"left" nullable:"false" doc:"Those that cannot be replayed, by why. They stay."`
		Looked        int64         `json:"looked"`
		NextPageToken *string       `json:"next_page_token" doc:"Null where all were looked at that there were at the first request; else send it in the next one, until it is null."`
	}
}

// manyPlace is how far such requests have come, and where they end: they chase no letters that come meanwhile.
type manyPlace struct{ After, Last uint64 }

func (a *API) replayDeadLetters(ctx context.Context, in *ManyLetters) (*ManyDone, error) {
	return a.manyLetters(ctx, "replay", in, a.replayTogether)
}

func (a *API) dropDeadLetters(ctx context.Context, in *ManyLetters) (*ManyDone, error) {
	return a.manyLetters(ctx, "drop", in, a.dropTogether)
}

// manyLetters does something with the letters of a filter: those of one connector together, and a portion after the other, until it has looked at enough.
func (a *API) manyLetters(ctx context.Context, what string, in *ManyLetters, do func(context.Context, *broker.Letters, []deadletter.Letter, *ManyDone) error) (*ManyDone, error) {
	f, err := letterFilter(in.Body.Subject, in.Body.ConnectorID)
	if err != nil {
		return nil, err
	}
	switch {
	case in.Body.Reason != nil:
		f.Is = ofGroup(*in.Body.Reason)
	case in.Body.Subject == "" && in.Body.ConnectorID == 0:
		return nil, problem.Invalid("body", "names no letters; give reason, subject or connector_id (subject > is all)")
	}
	var at manyPlace
	next, err := a.place(ctx, in.Body.PageToken, []any{"deadletters." + what, in.Body.Reason, in.Body.Subject, in.Body.ConnectorID}, &at)
	if err != nil {
		return nil, err
	}
	stream, err := a.letters(ctx)
	if err != nil {
		return nil, err
	}
	if in.Body.PageToken != "" {
		stream.Last = min(stream.Last, at.Last)
	}
	out := &ManyDone{}
	out.Body.Left = []LettersLeft{}
	for until := time.Now().Add(manyTime); ; {
		f.After = at.After
		found, err := deadletter.Some(ctx, stream, a.letterRuns, f, groupPortion, until)
		if err != nil {
			return nil, lettersUnread(err)
		}
		if err := together(found.Letters, func(letters []deadletter.Letter) error { return do(ctx, stream, letters, out) }); err != nil {
			return nil, err
		}
		at.After = found.After
		out.Body.Looked += int64(found.Looked)
		if found.IsLast {
			return out, nil
		}
		if out.Body.Looked >= manyLetters || !time.Now().Before(until) {
			out.Body.NextPageToken = next(manyPlace{at.After, stream.Last})
			return out, nil
		}
	}
}

// together does something with letters of one connector at a time, in the order of the first of each. Triggers whose run had parameters are apart.
func together(letters []deadletter.Letter, do func([]deadletter.Letter) error) error {
	type key struct {
		connector     int32
		hasParameters bool
	}
	var order []key
	groups := map[key][]deadletter.Letter{}
	for _, l := range letters {
		of := key{l.ConnectorID, l.HasParameters}
		if groups[of] == nil {
			order = append(order, of)
		}
		groups[of] = append(groups[of], l)
	}
	for _, of := range order {
		if err := do(groups[of]); err != nil {
			return err
		}
	}
	return nil
}

// replayTogether commits that the connector of letters is synced, with their documents, then removes them. Those that are not removed are replayed once more some day, which is harmless.
func (a *API) replayTogether(ctx context.Context, stream *broker.Letters, letters []deadletter.Letter, out *ManyDone) error {
	ids, subjects, sources := notedLetters(letters)
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		_, err := deadletter.Replay(ctx, func(ctx context.Context, connectorID int32, _ []string) (time.Time, error) {
			return q.ReplayLetters(ctx, dbgen.ReplayLettersParams{Letters: ids, Subjects: subjects, SourceIds: sources, ConnectorID: connectorID})
		}, letters[0].ConnectorID, letters)
		return err
	})
	for _, why := range []error{deadletter.ErrNobodys, deadletter.ErrGone, deadletter.ErrDisabled, deadletter.ErrParameters} {
		if errors.Is(err, why) {
			out.left(letters, why)
			return nil
		}
	}
	if err != nil {
		return err
	}
	return out.removed(ctx, stream, letters, "They are fetched again, but not all of the dead letters are removed: the broker does not answer. Replaying them once more is harmless.")
}

// dropTogether commits the entries of the audit, then removes the letters: none is removed without an entry.
func (a *API) dropTogether(ctx context.Context, stream *broker.Letters, letters []deadletter.Letter, out *ManyDone) error {
	ids, subjects, sources := notedLetters(letters)
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		return q.NoteDrops(ctx, dbgen.NoteDropsParams{Letters: ids, Subjects: subjects, SourceIds: sources, ConnectorID: letters[0].ConnectorID})
	})
	if err != nil {
		return err
	}
	return out.removed(ctx, stream, letters, "Not all of the dead letters are removed: the broker does not answer.")
}

// removed takes letters out of the stream.
func (d *ManyDone) removed(ctx context.Context, stream *broker.Letters, letters []deadletter.Letter, otherwise string) error {
	for _, l := range letters {
		if err := stream.Remove(ctx, l.ID); err != nil {
			return problem.LettersAway(otherwise, err)
		}
		d.Body.Done++
	}
	return nil
}

// left counts letters that stay, by why.
func (d *ManyDone) left(letters []deadletter.Letter, why error) {
	said := problem.Of(cannotReplay(letters[0], why))
	for i := range d.Body.Left {
		if l := &d.Body.Left[i]; errors.Is(l.reason, why) {
			l.Letters += int64(len(letters))
			return
		}
	}
	d.Body.Left = append(d.Body.Left, LettersLeft{int64(len(letters)), int64(letters[0].ID), said.Detail, said.Fix, why})
}

// notedLetters are letters as the audit takes them. One that names no document, or what can be none, has none.
func notedLetters(letters []deadletter.Letter) (ids []int64, subjects, sources []string) {
	for _, l := range letters {
		ids, subjects, sources = append(ids, int64(l.ID)), append(subjects, noted(l.Subject)), append(sources, deadletter.DocumentOf(l))
	}
	return ids, subjects, sources
}
