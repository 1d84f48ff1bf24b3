package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/broker"
	"github.com/echomind/sync/internal/deadletter"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/repeat"
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
	// onePatience is how long a request that drops one letter waits for others that drop, onePause how long between two looks.
	onePatience = 2 * time.Second
	onePause    = 50 * time.Millisecond
	// removeTimeout bounds how long letters of one connector, of a portion, are removed.
	removeTimeout = 5 * time.Second
)

// everySubject is the subject of all letters.
const everySubject = ">"

// mayBeAnew says in the document that a page token may be of a stream that is gone.
func mayBeAnew(of *huma.Operation) { of.Errors = append(of.Errors, http.StatusPreconditionFailed) }

// LettersFilter says which dead letters are meant.
type LettersFilter struct {
	Reason      *string `json:"reason,omitempty" maxLength:"400" doc:"Of this group, by its reason as /deadletters/groups says it; empty: those for which none was given."`
	Subject     string  `json:"subject,omitempty" maxLength:"200" doc:"Of this original subject, as of /deadletters; > is all."`
	ConnectorID int64   `json:"connector_id,omitempty" minimum:"1" maximum:"2147483647" format:"int32"`
}

func (f LettersFilter) filter() (deadletter.Filter, error) {
	subject := f.Subject
	if subject == everySubject {
		subject = ""
	}
	found, err := letterFilter("body.subject", subject, f.ConnectorID)
	switch {
	case err != nil:
		return found, err
	case f.Reason != nil:
		found.Is = ofGroup(*f.Reason)
	case f.Subject == "" && f.ConnectorID == 0:
		return found, problem.Invalid("body", "names no letters; give reason, subject or connector_id (subject > is all)")
	}
	return found, nil
}

// lettersPlace is place for requests for many letters.
func (a *API) lettersPlace(ctx context.Context, action string, f LettersFilter, token string, at *manyPlace) (func(any) *string, error) {
	return a.place(ctx, token, []any{"deadletters." + action, f.Reason, f.Subject, f.ConnectorID}, at)
}

// ManyLetters says which letters are meant, and from where on.
type ManyLetters struct {
	Body struct {
		LettersFilter
		Each      bool   `json:"each,omitempty" doc:"Says in letters what came of each."`
		PageToken string `json:"page_token,omitempty" maxLength:"500" doc:"The next_page_token of the request before, with the same filter: goes on behind what that has looked at."`
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

// manyPlace is how far such requests have come, and where they end: they chase no letters that come meanwhile. MadeAt is when the stream was made that the numbers belong to.
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
	f, err := in.Body.filter()
	if err != nil {
		return nil, err
	}
	var at manyPlace
	next, err := a.lettersPlace(ctx, what, in.Body.LettersFilter, in.Body.PageToken, &at)
	if err != nil {
		return nil, err
	}
	out := &ManyDone{asked: map[int32]time.Time{}}
	out.Body.Left = []LettersLeft{}
	return out, a.lettersAlone(ctx, 0, func() error {
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
				err = lettersUnread(err)
			} else {
				at.After, err = a.portion(ctx, found, until, out, in.Body.Each, func(letters []deadletter.Letter) error { return do(ctx, stream, letters, out) })
			}
			if err != nil && out.Body.Looked == 0 {
				return err
			}
			if err != nil { // what is done is said, and the next request says what is wrong
				a.log.Warn("a request for many dead letters ends early: the broker or PostgreSQL does not answer", "done", out.Body.Done, "looked", out.Body.Looked, "err", err)
			}
			if err == nil && found.IsLast && at.After == found.After {
				return nil
			}
			if err != nil || at.After < found.After || out.Body.Looked >= manyLetters || out.told >= manyTold || !time.Now().Before(until) {
				out.Body.NextPageToken = next(at)
				return nil
			}
		}
	})
}

// portion does something with a portion of letters, and takes what came of them into the answer, also where it ends with an error. The next one begins behind after: of letters that it will look at again nothing is said.
func (a *API) portion(ctx context.Context, found deadletter.Portion, until time.Time, out *ManyDone, each bool, do func([]deadletter.Letter) error) (after uint64, err error) {
	type staying struct {
		letters []deadletter.Letter
		why     error
	}
	var stay []staying
	gone := map[uint64]bool{}
	rest, err := together(found.Letters, until, func(letters []deadletter.Letter) (int, error) {
		before := out.Body.Done
		why := do(letters)
		if why != nil && ctx.Err() == nil && !postgres.Lost(why) && !errors.Is(why, errRemoval) { // it is wrong with these letters, and stops no others
			stay = append(stay, staying{letters, why})
			return len(letters), nil
		}
		done := letters[:out.Body.Done-before]
		for _, l := range done {
			gone[l.ID] = true
		}
		if each {
			out.tellEach(done, nil)
		}
		return len(done), why
	})
	again := func(id uint64) bool { return rest > 0 && id >= rest && !gone[id] }
	for _, s := range stay {
		letters := slices.DeleteFunc(s.letters, func(l deadletter.Letter) bool { return again(l.ID) })
		if len(letters) == 0 {
			continue
		}
		a.leave(ctx, out, letters, s.why)
		if each {
			out.tellEach(letters, s.why)
		}
	}
	for _, id := range found.Looked {
		if !again(id) {
			out.Body.Looked++
		}
	}
	if rest > 0 {
		return rest - 1, err
	}
	return found.After, err
}

// lettersAlone does work while no other request, of any process of the service, replays or drops many letters, or drops one: two would write the same ones into the audit, and count them, twice. It asks for its turn as long as patience lasts, and holds no
// connection meanwhile. The connection that has the lock is idle.
func (a *API) lettersAlone(ctx context.Context, patience time.Duration, work func() error) error {
	for until := time.Now().Add(patience); ; {
		var mine bool
		var done error
		err := postgres.TxBounded(ctx, a.pool, postgres.Bounds{Idle: a.config.requestTimeout() + statementTimeout}, func(tx pgx.Tx) (err error) {
			if mine, err = deadline.Get(ctx, "api.lock_letters", queryTimeout, dbgen.New(tx).LockLetters); mine {
				done = work()
			}
			return err
		})
		switch {
		case mine: // the lock ends with its transaction, however that ends
			return done
		case err != nil:
			return err
		case !time.Now().Before(until) || repeat.Sleep(ctx, onePause) != nil:
			return problem.LettersBusy()
		}
	}
}

// together does something with letters of one connector at a time, in the order of the first of each, and with those of one connector at least. do says with how many of them it has, from the first on. Where its time is over, or do fails, rest is the first
// letter with which nothing was done. Triggers whose run had parameters are apart.
func together(letters []deadletter.Letter, until time.Time, do func([]deadletter.Letter) (int, error)) (rest uint64, err error) {
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
		if done, err := do(groups[of]); err != nil {
			rest = groups[of][done].ID
			if i+1 < len(order) {
				rest = min(rest, groups[order[i+1]][0].ID)
			}
			return rest, err
		}
	}
	return 0, nil
}

// leave takes what is wrong with one connector's letters into the answer.
func (a *API) leave(ctx context.Context, out *ManyDone, letters []deadletter.Letter, err error) {
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

// removed takes letters out of the stream, also for a client that has gone, or in a service that stops: the audit has them already, and would have them twice.
func (d *ManyDone) removed(ctx context.Context, stream *broker.Letters, letters []deadletter.Letter, otherwise string) error {
	err := deadline.Do(context.WithoutCancel(ctx), "api.remove_letters", removeTimeout, func(ctx context.Context) error {
		for _, l := range letters {
			if err := stream.Remove(ctx, l.ID); err != nil {
				return err
			}
			d.Body.Done++
		}
		return nil
	})
	if err != nil {
		return problem.LettersAway(otherwise, errors.Join(errRemoval, err))
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
