package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

const (
	// lettersTimeout bounds one turn of an operation on dead letters, and lettersLease is how long nobody else takes its next one: longer, or two would be at it.
	lettersTimeout = 20 * time.Second
	lettersLease   = 30 * time.Second
	// lettersPause is how long such an operation waits for its next turn, and lettersRest where NATS does not answer, or a request is at the letters.
	lettersPause = 250 * time.Millisecond
	lettersRest  = 3 * time.Second
)

// storedFilter is what an operation is for, as it is written down.
type storedFilter struct {
	OperationFilter
	Letters *LettersFilter `json:"letters,omitempty"`
}

// request is a request for some of the letters; the answer tells of each.
func (f LettersFilter) request(token string) *ManyLetters {
	in := &ManyLetters{}
	in.Body.LettersFilter, in.Body.Each, in.Body.PageToken = f, true, token
	return in
}

// CreateLettersOperation is what to do, and with which letters.
type CreateLettersOperation struct {
	Once
	Body struct {
		Action string `json:"action" enum:"replay,drop"`
		LettersFilter
	}
}

// singleLetter is the operation on one letter that is done to each.
var singleLetter = map[string]identity.Operation{"replay": identity.ReplayDeadLetter, "drop": identity.DropDeadLetter}

func (a *API) createLettersOperation(ctx context.Context, in *CreateLettersOperation) (out *OneOperation, err error) {
	if scope := identity.RuleOf(singleLetter[in.Body.Action]).Scope; !requestOf(ctx).Has(scope) {
		return nil, problem.InsufficientScope(string(scope))
	}
	f := in.Body.LettersFilter
	if _, err := f.filter(); err != nil {
		return nil, err
	}
	p, wrong := a.lettersOperation(ctx, in.Body.Action, f) // a repeat is answered whatever became of the letters
	err = a.once(ctx, func(ctx context.Context, q *dbgen.Queries) (string, error) {
		if wrong != nil {
			return "", wrong
		}
		id, err := q.CreateLettersOperation(ctx, p)
		return strconv.Itoa(int(id)), err
	}, func(ctx context.Context, q *dbgen.Queries, done string) error {
		id, err := number(done)
		if err == nil {
			out, err = seenOperation(ctx, q, id)
		}
		return err
	})
	a.bulk.wake()
	return out, err
}

// lettersOperation is an operation on the letters that there are now.
func (a *API) lettersOperation(ctx context.Context, action string, f LettersFilter) (p dbgen.CreateLettersOperationParams, err error) {
	stream, err := a.letters(ctx)
	if err != nil {
		return p, err
	}
	if stream.Count == 0 {
		return p, problem.Conflict("There are no dead letters.", "Look at GET /deadletters.")
	}
	next, err := a.lettersPlace(ctx, action, f, "", nil)
	if err != nil {
		return p, err
	}
	filter, err := json.Marshal(storedFilter{Letters: &f})
	if err != nil {
		return p, err
	}
	who := requestOf(ctx).Who // the groups that are written down are looked up with each turn
	return dbgen.CreateLettersOperationParams{
		Action: action, Filter: filter, Place: *next(manyPlace{0, stream.Last, stream.MadeAt}), Letters: int32(min(stream.Count, math.MaxInt32)),
		Groups: append([]string{}, who.SaidGroups...), Leads: append([]string{}, who.SaidLeads...),
	}, nil
}

// workLetters does the next turn of an operation on dead letters, if there is one: what one request does, for who asked, with what they may now. What has become of each letter is committed before
// it is removed, and its place after that, so that a turn whose process dies is done again with those that are left.
func (a *API) workLetters(ctx context.Context) (worked bool, err error) {
	taken, err := deadline.Get(ctx, "api.take_letters", queryTimeout, func(ctx context.Context) (dbgen.TakeLettersRow, error) {
		return dbgen.New(a.pool).TakeLetters(ctx, lettersLease)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	request := identity.Request{
		Who: identity.Who{
			UserID: taken.UserID, TokenID: taken.TokenID, Issuer: taken.Issuer, Subject: taken.Subject, Role: identity.Role(taken.Role), Groups: taken.Groups, Leads: taken.Leads,
			Scopes: []identity.Scope{identity.RuleOf(singleLetter[taken.Action]).Scope},
		},
		RequestID: fmt.Sprintf("operation/%d", taken.Operation), Note: taken.Note,
	}
	note := dbgen.NoteLettersParams{Operation: taken.Operation, Turn: taken.Turn, NextPlace: &taken.Place, Connectors: []int32{}, Reasons: []string{}, Pause: lettersPause}
	var filter storedFilter
	if err := json.Unmarshal(taken.Filter, &filter); err != nil || filter.Letters == nil {
		note.Fails = new("its filter cannot be read by the service that took it") // one of another version: the others wait for this one
		return false, a.noteLetters(ctx, note)
	}
	var done *ManyDone
	err = deadline.Do(context.WithValue(ctx, requestKey, request), "api.letters_operation", lettersTimeout, func(ctx context.Context) (err error) {
		do := map[string]func(context.Context, *ManyLetters) (*ManyDone, error){"replay": a.replayDeadLetters, "drop": a.dropDeadLetters}[taken.Action]
		done, err = do(ctx, filter.Letters.request(taken.Place))
		return err
	})
	if done != nil {
		note.Done = int32(done.Body.Done)
		a.metrics.operations.WithLabelValues(taken.Action, "changed").Add(float64(done.Body.Done))
	}
	switch {
	case err == nil:
		note.NextPlace = done.Body.NextPageToken
		done.stay(&note)
		a.metrics.operations.WithLabelValues(taken.Action, "failed").Add(float64(note.Stay))
	case ctx.Err() != nil:
		return false, ctx.Err()
	case problem.Of(err).Status == http.StatusPreconditionFailed:
		note.Fails = new("the stream of dead letters was made anew since: its numbers are those of other letters")
	case problem.Of(err).Status == http.StatusUnprocessableEntity: // another service has the filter, or the place, in another form
		note.Fails = new(reasonOf(problem.Of(err)))
	default:
		note.Pause = lettersRest
		if problem.Of(err).Status != http.StatusConflict { // a request is at the letters
			a.log.Warn("an operation on dead letters does not go on, and is tried again", "operation", taken.Operation, "err", err)
		}
	}
	return err == nil, a.noteLetters(ctx, note)
}

// noteLetters writes down what came of a turn, also in a service that stops: nobody counts those letters later.
func (a *API) noteLetters(ctx context.Context, note dbgen.NoteLettersParams) error {
	_, err := deadline.Get(context.WithoutCancel(ctx), "api.note_letters", queryTimeout, func(ctx context.Context) (bool, error) { return dbgen.New(a.pool).NoteLetters(ctx, note) })
	return err
}

// stay writes down which letters stay, and why, by their connectors; 0 is no connector.
func (d *ManyDone) stay(note *dbgen.NoteLettersParams) {
	why := map[int32]string{}
	for _, l := range d.Body.Letters {
		if l.Why == nil {
			continue
		}
		note.Stay++
		id := int32(0)
		if l.ConnectorID != nil {
			id = *l.ConnectorID
		}
		if _, said := why[id]; !said {
			why[id] = d.whyStays(l)
		}
	}
	for id, reason := range why {
		note.Connectors, note.Reasons = append(note.Connectors, id), append(note.Reasons, reason)
	}
	note.Others = int32(max(0, d.Body.Looked-d.Body.Done-int64(note.Stay)))
}

// whyStays says why a letter stays.
func (d *ManyDone) whyStays(l LetterDone) string {
	switch *l.Why {
	case "nobodys":
		return "The letters name no connector, nor a run that the ledger knows."
	case "gone":
		return "The connector was deleted."
	case "disabled":
		return "The connector is disabled."
	case "parameters":
		return "The run was asked for with parameters."
	}
	for _, left := range d.Body.Left {
		if left.Example == l.ID {
			return left.Why + " " + left.Fix
		}
	}
	return fmt.Sprintf("Dead letter %d cannot be replayed or removed now. Do that with this one alone to see why.", l.ID)
}
