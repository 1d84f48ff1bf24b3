package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/broker"
	"github.com/echomind/sync/internal/deadletter"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

const (
	// manyLetters is how many letters one request replays or removes, and looks at, at most; manyTime after how long it begins no more.
	manyLetters = 2000
	manyTime    = 3 * time.Second
	// manyPortion is how many letters are looked at between two looks at the time. The audit has an entry for each of so many of one connector.
	manyPortion = 100
	// manyTold is behind how many bytes of names a request that says what came of each looks at no more letters: JSON has up to six for one, and a client reads 8 MiB.
	manyTold = 512 << 10
)

// everySubject is the subject of all letters.
const everySubject = ">"

// mayBeAnew says in the document that a page token may be of a stream that is gone.
func mayBeAnew(of *huma.Operation) { of.Errors = append(of.Errors, http.StatusPreconditionFailed) }

// ManyLetters says which letters are meant.
type ManyLetters struct {
	Body struct {
		Reason      *string `json:"reason,omitempty" maxLength:"400" doc:"Of this group, by its reason as /deadletters/groups says it; empty: those for which none was given."`
		Subject     string  `json:"subject,omitempty" maxLength:"200" doc:"Of this original subject, as of /deadletters; > is all."`
		ConnectorID int64   `json:"connector_id,omitempty" minimum:"1" maximum:"2147483647" format:"int32"`
		Each        bool    `json:"each,omitempty" doc:"Says in letters what came of each."`
		PageToken   string  `json:"page_token,omitempty" maxLength:"500" doc:"The next_page_token of the request before, with the same filter: goes on behind what that has looked at."`
	}
}

// LettersLeft are letters that cannot be replayed, and why.
type LettersLeft struct {
	Letters int64  `json:"letters"`
	Example int64  `json:"example" doc:"The id of one."`
	Why     string `json:"why" doc:"Of that one."`
	Fix     string `json:"fix" doc:"What to do."`

	reason string
}

// ManyDone is what came of them.
type ManyDone struct {
	Body struct {
		Done          int64         `json:"done" doc:"How many are replayed, or dropped, and removed."`
		Left          []LettersLeft `json:"left" nullable:"false" doc:"Those that cannot be replayed, or dropped, now, by why. They stay."`
		Looked        int64         `json:"looked"`
		Letters       []LetterDone  `json:"letters,omitempty" doc:"Where each is asked for: what came of each, those of one connector together."`
		NextPageToken *string       `json:"next_page_token" doc:"Null where all were looked at that there were at the first request; else send it in the next one, until it is null."`
	}

	// asked is which sync was asked for, of each connector.
	asked map[int32]time.Time
	// told is how many bytes of names the letters of the answer have.
	told int
}

// manyPlace is how far such requests have come, and where they end: they chase no letters that come meanwhile. MadeAt is of which stream the numbers are.
type manyPlace struct {
	After, Last uint64
	MadeAt      time.Time
}

// goesOn says whether a place is one of a stream, which was not made anew and has not lost its end.
func (p manyPlace) goesOn(stream *broker.Letters) bool {
	return p.MadeAt.Equal(stream.MadeAt) && p.Last <= stream.Last
}

// LetterDone is what came of one letter.
type LetterDone struct {
	ID                 int64      `json:"id"`
	ConnectorID        *int32     `json:"connector_id"`
	SourceID           *string    `json:"source_id"`
	Session            *string    `json:"session"`
	TriggerRequestedAt *time.Time `json:"trigger_requested_at" doc:"Which sync of its connector fetches it again; null where it is not replayed."`
	Why                *string    `json:"why" enum:"nobodys,gone,disabled,parameters,other" doc:"Null: it is done. Why it stays: it names no connector, its connector was deleted or is disabled, its run was asked for with parameters; other: left says what."`
}

// whyLeft are the words for why letters stay.
var whyLeft = []struct {
	why  error
	word string
}{
	{deadletter.ErrNobodys, "nobodys"}, {deadletter.ErrGone, "gone"}, {deadletter.ErrDisabled, "disabled"}, {deadletter.ErrParameters, "parameters"},
}

// tellEach says what came of each of one connector's letters.
func (d *ManyDone) tellEach(letters []deadletter.Letter, why error) {
	var word *string
	if why != nil {
		word = new("other")
		for _, w := range whyLeft {
			if errors.Is(why, w.why) {
				word = new(w.word)
			}
		}
	}
	for _, l := range letters {
		seen := viewLetter(l)
		one := LetterDone{ID: seen.ID, ConnectorID: seen.ConnectorID, SourceID: seen.SourceID, Why: word}
		if seen.Session != nil {
			one.Session = new(seen.Session.String())
		}
		if seen.SourceID != nil {
			d.told += len(*seen.SourceID)
		}
		if at, asked := d.asked[l.ConnectorID]; asked && why == nil {
			one.TriggerRequestedAt = utc(&at)
		}
		d.Body.Letters = append(d.Body.Letters, one)
	}
}

func (a *API) replayDeadLetters(ctx context.Context, in *ManyLetters) (*ManyDone, error) {
	return a.manyLetters(ctx, "replay", in, a.replayTogether)
}

func (a *API) dropDeadLetters(ctx context.Context, in *ManyLetters) (*ManyDone, error) {
	return a.manyLetters(ctx, "drop", in, a.dropTogether)
}

// manyLetters does something with the letters of a filter: those of one connector together, and a portion after the other, until it has looked at enough.
func (a *API) manyLetters(ctx context.Context, what string, in *ManyLetters, do func(context.Context, *broker.Letters, []deadletter.Letter, *ManyDone) error) (*ManyDone, error) {
	subject := in.Body.Subject
	if subject == everySubject {
		subject = ""
	}
	f, err := letterFilter(subject, in.Body.ConnectorID)
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
	out := &ManyDone{asked: map[int32]time.Time{}}
	out.Body.Left = []LettersLeft{}
	return out, a.lettersAlone(ctx, func() error {
		stream, err := a.letters(ctx)
		if err != nil {
			return err
		}
		if in.Body.PageToken == "" {
			at = manyPlace{0, stream.Last, stream.MadeAt}
		}
		if !at.goesOn(stream) {
			return problem.LettersAnew()
		}
		stream.Last = at.Last
		for until := time.Now().Add(manyTime); ; {
			f.After = at.After
			found, err := deadletter.Some(ctx, stream, a.letterRuns, f, manyPortion, until)
			if err != nil {
				return lettersUnread(err)
			}
			rest, err := together(found.Letters, until, func(letters []deadletter.Letter) error {
				why := do(ctx, stream, letters, out)
				err := a.leave(ctx, out, letters, why)
				if err == nil && in.Body.Each {
					out.tellEach(letters, why)
				}
				return err
			})
			if err != nil {
				return err
			}
			out.Body.Looked += int64(found.Looked)
			if at.After = found.After; rest > 0 {
				at.After = rest - 1
			} else if found.IsLast {
				return nil
			}
			if rest > 0 || out.Body.Looked >= manyLetters || out.told >= manyTold || !time.Now().Before(until) {
				out.Body.NextPageToken = next(at)
				return nil
			}
		}
	})
}

// lettersAlone does work while no other request, of any process of the service, replays or drops many letters: two would write the same ones into the audit, and count them, twice. The connection that has the lock is idle meanwhile.
func (a *API) lettersAlone(ctx context.Context, work func() error) error {
	var worked bool
	var done error
	err := postgres.TxBounded(ctx, a.pool, postgres.Bounds{Idle: a.config.requestTimeout() + statementTimeout}, func(tx pgx.Tx) error {
		mine, err := deadline.Get(ctx, "api.lock_letters", queryTimeout, dbgen.New(tx).LockLetters)
		if err != nil {
			return err
		}
		if !mine {
			return problem.LettersBusy()
		}
		worked, done = true, work()
		return nil
	})
	if worked { // the lock ends with its transaction, however that ends
		return done
	}
	return err
}

// together does something with letters of one connector at a time, in the order of the first of each, and with those of one connector at least. When its time is over, rest is the first letter with which nothing was done. Triggers whose run had parameters are apart.
func together(letters []deadletter.Letter, until time.Time, do func([]deadletter.Letter) error) (rest uint64, err error) {
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
	for i, of := range order {
		if i > 0 && !time.Now().Before(until) {
			return groups[of][0].ID, nil
		}
		if err := do(groups[of]); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// leave takes what is wrong with one connector's letters into the answer: it stops no others. An error that would be that of the others too is returned.
func (a *API) leave(ctx context.Context, out *ManyDone, letters []deadletter.Letter, err error) error {
	if err == nil || ctx.Err() != nil || postgres.Lost(err) || errors.Is(err, errRemoval) {
		return err
	}
	said := problem.Of(cannotReplay(letters[0], err))
	reason := said.Detail
	for _, w := range whyLeft {
		if errors.Is(err, w.why) {
			reason = w.word // the detail names the connector
		}
	}
	switch {
	case postgres.Locked(err):
		reason = "locked"
		said = problem.Conflict(fmt.Sprintf("Somebody else holds connector %d of the dead letter, or one of its documents.", letters[0].ConnectorID), "Send the request again.")
	case len(said.Errors) > 0: // no value of the request is wrong
		reason = said.Errors[0].Detail
		said = problem.Conflict(fmt.Sprintf("PostgreSQL refuses it for connector %d of the dead letter: %s.", letters[0].ConnectorID, reason), "Mend the connector, then send the request again.")
	case said.Status >= http.StatusInternalServerError:
		said = a.failed(ctx, err)
	}
	out.left(letters, reason, said)
	return nil
}

// replayTogether commits that the connector of letters is synced, with their documents, then removes them. Those that are not removed are replayed once more some day, which is harmless.
func (a *API) replayTogether(ctx context.Context, stream *broker.Letters, letters []deadletter.Letter, out *ManyDone) error {
	ids, subjects, sources := notedLetters(letters)
	var at time.Time
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
		p := dbgen.ReplayLettersParams{Letters: ids, Subjects: subjects, SourceIds: sources, ConnectorID: letters[0].ConnectorID}
		if before, ok := out.asked[p.ConnectorID]; ok {
			p.AskedBefore = &before
		}
		at, err = deadletter.Replay(ctx, func(ctx context.Context, _ int32, _ []string) (time.Time, error) { return q.ReplayLetters(ctx, p) }, p.ConnectorID, letters)
		return err
	})
	if err != nil {
		return err
	}
	out.asked[letters[0].ConnectorID] = at
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

// errRemoval says that it is the broker that did not remove a letter.
var errRemoval = errors.New("the dead letter is not removed")

// removed takes letters out of the stream.
func (d *ManyDone) removed(ctx context.Context, stream *broker.Letters, letters []deadletter.Letter, otherwise string) error {
	for _, l := range letters {
		if err := stream.Remove(ctx, l.ID); err != nil {
			return problem.LettersAway(otherwise, errors.Join(errRemoval, err))
		}
		d.Body.Done++
	}
	return nil
}

// left counts letters that stay, by why.
func (d *ManyDone) left(letters []deadletter.Letter, reason string, said *problem.Problem) {
	for i := range d.Body.Left {
		if l := &d.Body.Left[i]; l.reason == reason {
			l.Letters += int64(len(letters))
			return
		}
	}
	d.Body.Left = append(d.Body.Left, LettersLeft{int64(len(letters)), int64(letters[0].ID), said.Detail, said.Fix, reason})
}

// notedLetters are letters as the audit takes them. One that names no document, or what can be none, has none.
func notedLetters(letters []deadletter.Letter) (ids []int64, subjects, sources []string) {
	for _, l := range letters {
		ids, subjects, sources = append(ids, int64(l.ID)), append(subjects, noted(l.Subject)), append(sources, deadletter.DocumentOf(l))
	}
	return ids, subjects, sources
}
