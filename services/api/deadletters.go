package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/broker"
	"github.com/echomind/sync/internal/deadletter"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

const lettersAway = "The broker that has the dead letters does not answer. Nothing was changed."

func (a *API) deadLetterRoutes() {
	a.letterGroupRoutes()
	register(a, identity.ListDeadLetters, http.MethodGet, "/deadletters", "List dead letters, in the order in which they were given up", http.StatusOK, a.listDeadLetters)
	register(a, identity.GetDeadLetter, http.MethodGet, "/deadletters/{seq}", "Show a dead letter and what it carries, with secrets masked", http.StatusOK, a.getDeadLetter, mayBeMissing)
	register(a, identity.ReplayDeadLetter, http.MethodPost, "/deadletters/{seq}/replay",
		"Have what a dead letter is about fetched again, and remove it", http.StatusAccepted, a.replayDeadLetter, mayBeMissing, hasVersions)
	register(a, identity.DropDeadLetter, http.MethodDelete, "/deadletters/{seq}", "Remove a dead letter for good", http.StatusNoContent, a.dropDeadLetter, mayBeMissing)
}

// hasVersions says in the document that an operation takes If-Match.
func hasVersions(of *huma.Operation) {
	of.Errors = append(of.Errors, http.StatusPreconditionFailed, http.StatusPreconditionRequired)
}

// BySequence names one dead letter.
type BySequence struct {
	Sequence string `path:"seq" maxLength:"19" pattern:"^[1-9][0-9]*$" doc:"The dead letter's id, its sequence in the stream."`
}

// LetterVersion names one dead letter for a change. A stream that was made anew, or has lost its end, gives its numbers to other letters.
type LetterVersion struct {
	BySequence
	Matching
}

func (b BySequence) number() (uint64, error) {
	id, err := strconv.ParseUint(b.Sequence, 10, 63)
	if err != nil {
		return 0, problem.Invalid("path.seq", "must be a dead letter's id, 1 or more")
	}
	return id, nil
}

// letters opens the stream of dead letters.
func (a *API) letters(ctx context.Context) (*broker.Letters, error) {
	asked, err := a.streams.get(time.Now())
	if err != nil {
		return nil, problem.LettersAway(lettersAway, err)
	}
	stream, err := asked.Letters(ctx)
	if err != nil {
		return nil, problem.LettersAway(lettersAway, err)
	}
	return stream, nil
}

// letterRuns says which runs sessions are.
func (a *API) letterRuns(ctx context.Context, sessions []uuid.UUID) (runs map[uuid.UUID]deadletter.Run, err error) {
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		rows, err := q.LetterRuns(ctx, sessions)
		runs = make(map[uuid.UUID]deadletter.Run, len(rows))
		for _, row := range rows {
			runs[row.ID] = deadletter.Run{ConnectorID: row.ConnectorID, HasParameters: row.HasParameters}
		}
		return err
	})
	return runs, err
}

// read is a dead letter with its connector, and what it carries.
type read struct {
	deadletter.Letter
	content deadletter.Content
	payload []byte
}

// readLetter reads one. Where there is none the answer is 404, an error that is broker.ErrNoLetter as well, and the letter has its number alone.
func (a *API) readLetter(ctx context.Context, by BySequence) (of read, stream *broker.Letters, err error) {
	if of.ID, err = by.number(); err != nil {
		return of, nil, err
	}
	if stream, err = a.letters(ctx); err != nil {
		return of, nil, err
	}
	raw, err := stream.Get(ctx, of.ID)
	if errors.Is(err, broker.ErrNoLetter) {
		return of, stream, errors.Join(problem.NotFound(fmt.Sprintf("dead letter %d", of.ID)), err)
	}
	if err != nil {
		return of, nil, problem.LettersAway(lettersAway, err)
	}
	letter, content := deadletter.Read(raw)
	one := []deadletter.Letter{letter}
	err = deadletter.Resolve(ctx, a.letterRuns, one)
	return read{one[0], content, raw.Data}, stream, err
}

// DeadLetterFilter is what may be asked of a list of dead letters.
type DeadLetterFilter struct {
	Subject     string `query:"subject" maxLength:"200" doc:"Of this original subject: document.process, connector.sync.web, connector.sync.*, connector.>"`
	ConnectorID int64  `query:"connector_id" minimum:"1" maximum:"2147483647" format:"int32"`
	Reason      string `query:"reason" maxLength:"400" doc:"Of this group, by its reason as /deadletters/groups says it."`
}

// DeadLetterList is how dead letters are asked for.
type DeadLetterList struct {
	DeadLetterFilter
	Paging
}

// DeadLetterPage is one page of dead letters.
type DeadLetterPage struct {
	Body struct {
		DeadLetters   []DeadLetter `json:"dead_letters"`
		NextPageToken *string      `json:"next_page_token" doc:"Null where there are no more. A page may have fewer letters than asked for, and a next one."`
	}
}

func (a *API) listDeadLetters(ctx context.Context, in *DeadLetterList) (*DeadLetterPage, error) {
	f, err := letterFilter("query.subject", in.Subject, in.ConnectorID)
	if err != nil {
		return nil, err
	}
	if in.Reason != "" {
		f.Is = ofGroup(in.Reason)
	}
	next, err := a.place(ctx, in.PageToken, []any{"deadletters", in.DeadLetterFilter}, &f.After)
	if err != nil {
		return nil, err
	}
	stream, err := a.letters(ctx)
	if err != nil {
		return nil, err
	}
	found, after, err := deadletter.Page(ctx, stream, a.letterRuns, f, int(in.most()))
	if errors.Is(err, deadletter.ErrStream) {
		return nil, problem.LettersAway(lettersAway, err)
	}
	if err != nil {
		return nil, err
	}
	out := &DeadLetterPage{}
	out.Body.DeadLetters = make([]DeadLetter, len(found))
	for i, l := range found {
		out.Body.DeadLetters[i] = viewLetter(l)
	}
	if after > 0 {
		out.Body.NextPageToken = next(after)
	}
	return out, nil
}

func (a *API) getDeadLetter(ctx context.Context, in *BySequence) (*OneDeadLetter, error) {
	letter, _, err := a.readLetter(ctx, *in)
	if err != nil {
		return nil, err
	}
	out := &OneDeadLetter{ETag: letterETag(letter.Letter), Body: viewCarried(letter)}
	return out, a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error { return out.Body.present(ctx, q, letter.Letter) })
}

// OnceBySequence is a change of a dead letter that is done once.
type OnceBySequence struct {
	LetterVersion
	Once
}

// Replayed is what came of a dead letter.
type Replayed struct {
	Body struct {
		ID                 int64     `json:"id"`
		ConnectorID        int32     `json:"connector_id"`
		TriggerRequestedAt time.Time `json:"trigger_requested_at"`
	}
}

// replayDeadLetter commits that the letter's connector is synced, then removes the letter. A letter that is not removed, because the process or the broker ends
// here, is replayed once more some day, which is harmless; with its key the request is not done again, and removes the letter.
func (a *API) replayDeadLetter(ctx context.Context, in *OnceBySequence) (*Replayed, error) {
	letter, stream, err := a.readLetter(ctx, in.BySequence)
	gone := err
	if err != nil && !errors.Is(err, broker.ErrNoLetter) {
		return nil, err
	}
	if gone == nil {
		gone = in.matches(letterETag(letter.Letter))
	}
	out := &Replayed{}
	out.Body.ID = int64(letter.ID)
	var replayed string // the letter's version: a stream that is made anew gives its number to another
	err = a.once(ctx, func(ctx context.Context, q *dbgen.Queries) (string, error) {
		if gone != nil {
			return "", gone
		}
		at, err := deadletter.Replay(ctx, fetchAgain(q, letter.Letter), letter.ConnectorID, []deadletter.Letter{letter.Letter})
		return fmt.Sprint(letter.ConnectorID, " ", at.UTC().Format(time.RFC3339Nano), " ", letterVersion(letter.Letter)), cannotReplay(letter.Letter, err)
	}, func(_ context.Context, _ *dbgen.Queries, done string) (err error) {
		var at string
		if _, err = fmt.Sscan(done, &out.Body.ConnectorID, &at, &replayed); err == nil {
			out.Body.TriggerRequestedAt, err = time.Parse(time.RFC3339Nano, at)
		}
		return err
	})
	if err != nil || gone != nil || replayed != letterVersion(letter.Letter) {
		return out, err
	}
	if err := stream.Remove(ctx, letter.ID); err != nil {
		return nil, problem.LettersAway("It is fetched again, but the dead letter is not removed: the broker does not answer. Replaying it once more is harmless.", err)
	}
	return out, nil
}

// letterVersion tells a letter from another with its number: when it was given up, by the broker's clock, in nanoseconds.
func letterVersion(l deadletter.Letter) string { return strconv.FormatInt(l.LastAt.UnixNano(), 10) }

func letterETag(l deadletter.Letter) string { return strconv.Quote(letterVersion(l)) }

// fetchAgain has documents of a letter's connector fetched again, in the transaction of the request.
func fetchAgain(q *dbgen.Queries, l deadletter.Letter) deadletter.FetchAgain {
	return func(ctx context.Context, connectorID int32, sourceIDs []string) (time.Time, error) {
		return q.ReplayLetter(ctx, dbgen.ReplayLetterParams{Letter: int64(l.ID), Subject: noted(l.Subject), ConnectorID: connectorID, SourceIds: sourceIDs})
	}
}

// cannotReplay says why a letter is not replayed, and what to do.
func cannotReplay(l deadletter.Letter, why error) error {
	switch {
	case errors.Is(why, deadletter.ErrNobodys):
		return problem.Conflict("The dead letter names no connector, nor a session that the ledger knows: there is nothing to fetch again.", "GET it to see what it holds, DELETE it to remove it.")
	case errors.Is(why, deadletter.ErrGone):
		return problem.Conflict(fmt.Sprintf("Connector %d of the dead letter was deleted: there is nothing to fetch again.", l.ConnectorID), "DELETE it to remove it.")
	case errors.Is(why, deadletter.ErrDisabled):
		return problem.Conflict(fmt.Sprintf("Connector %d of the dead letter is disabled.", l.ConnectorID), "Enable the connector first, then replay.")
	case errors.Is(why, deadletter.ErrParameters):
		return problem.Conflict(fmt.Sprintf("The run of the dead letter was asked for with parameters; another of connector %d would be of all that it is configured for.", l.ConnectorID),
			fmt.Sprintf("POST /connectors/%d/sync with the parameters that GET /runs/%s has, then DELETE the letter.", l.ConnectorID, l.Session))
	}
	return why
}

// dropDeadLetter commits the entry of the audit, then removes the letter: nothing is removed without an entry.
func (a *API) dropDeadLetter(ctx context.Context, in *LetterVersion) (*struct{}, error) {
	return nil, a.lettersAlone(ctx, onePatience, func() error {
		letter, stream, err := a.readLetter(ctx, in.BySequence)
		if err == nil {
			err = in.matches(letterETag(letter.Letter))
		}
		if err != nil {
			return err
		}
		p := dbgen.NoteDropParams{Letter: int64(letter.ID), Subject: noted(letter.Subject), ConnectorID: letter.ConnectorID, SourceIds: []string{}}
		if letter.SourceID != "" {
			p.SourceIds = append(p.SourceIds, noted(letter.SourceID))
		}
		if err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error { return q.NoteDrop(ctx, p) }); err != nil {
			return err
		}
		if err := stream.Remove(ctx, letter.ID); err != nil {
			return problem.LettersAway("The dead letter is not removed: the broker does not answer.", err)
		}
		return nil
	})
}

// noted is a text of a letter's as the audit takes it.
func noted(text string) string {
	return strings.ReplaceAll(clipped(text, maxSourceID, nil), "\x00", "")
}

// present asks what has become of connector and document.
func (d *DeadLetterDetails) present(ctx context.Context, q *dbgen.Queries, l deadletter.Letter) error {
	if l.ConnectorID == 0 {
		return nil
	}
	owner, err := q.GetConnector(ctx, l.ConnectorID)
	switch {
	case err == nil:
		d.Connector = &LetterConnector{Name: owner.Name, Type: owner.Type, Status: owner.Status}
	case !errors.Is(err, pgx.ErrNoRows):
		return err
	}
	if l.SourceID == "" || strings.Contains(l.SourceID, "\x00") {
		return nil
	}
	doc, err := q.LetterDocument(ctx, dbgen.LetterDocumentParams{ConnectorID: l.ConnectorID, SourceID: l.SourceID})
	switch {
	case err == nil:
		d.Document = &LetterDocument{Status: doc.Status, Error: shownText(doc.Error), UpdatedAt: doc.UpdatedAt.UTC()}
	case !errors.Is(err, pgx.ErrNoRows):
		return err
	}
	return nil
}
