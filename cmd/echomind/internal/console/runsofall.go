package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/sdk/lifecycle"
)

// maxRunsBack is how many ended runs one command looks through; few of them may match.
const maxRunsBack = 1_000_000

// lookback is how many ended runs are looked through: by one statement, and in all.
type lookback struct{ atOnce, most int64 }

var asFarAsOneMay = lookback{atOnce: 100_000, most: maxRunsBack}

// place is where a page of runs begins: behind the run that was at a moment. Open runs come before ended ones.
type place struct {
	ended bool
	at    time.Time
	id    uuid.UUID
}

const (
	placeOpen, placeEnded = "open", "ended"
	placeTime             = "2006-01-02T15:04:05.000000Z"
)

func (p *place) String() string {
	kind := placeOpen
	if p.ended {
		kind = placeEnded
	}
	return kind + "/" + p.at.UTC().Format(placeTime) + "/" + p.id.String()
}

// parsePlace reads what String has written; "" is the beginning.
func parsePlace(text string) (place, error) {
	if text == "" {
		return place{at: endOfTime}, nil
	}
	parts := strings.Split(text, "/")
	if len(parts) == 3 && (parts[0] == placeOpen || parts[0] == placeEnded) {
		at, wrong := time.Parse(placeTime, parts[1])
		id, mistyped := uuid.Parse(parts[2])
		if wrong == nil && mistyped == nil && !at.After(endOfTime) {
			return place{ended: parts[0] == placeEnded, at: at, id: id}, nil
		}
	}
	return place{}, wrongCursor(text)
}

func wrongCursor(text string) error {
	return usagef("--cursor %q: must be the `next` of an earlier answer", clip(text, 80))
}

// runsPage is what programs are shown of the runs of all connectors.
type runsPage struct {
	Runs []namedRun `json:"runs"`
	// Next is the --cursor of the next page; null where there is none.
	Next *string `json:"next"`
	// LookedBackTo is how far back it has looked for runs that match, where it has not looked at all of them.
	LookedBackTo *time.Time `json:"looked_back_to"`
}

// namedRun is a run with what its connector is called now; null where it is gone.
type namedRun struct {
	run
	ConnectorName *string `json:"connector_name"`
}

// allRuns are runs of all connectors at a moment, what these are called, and where to go on.
type allRuns struct {
	runs         []dbgen.SchedulerRun
	called       connectorsNamed
	next         *string
	lookedBackTo *time.Time
	seen         time.Time
}

func runsOfAll(ctx context.Context, pool *pgxpool.Pool, chosen *runFilter, cursor string, limit int) (found allRuns, err error) {
	from, err := parsePlace(cursor)
	if err != nil {
		return found, err
	}
	if found.seen, err = chosen.fix(ctx, pool); err != nil {
		return found, err
	}
	var next *place
	if found.runs, next, found.lookedBackTo, err = pageOfRuns(ctx, pool, chosen, from, limit, asFarAsOneMay); err != nil {
		return found, fmt.Errorf("read the ledger: %w", err)
	}
	if next != nil {
		found.next = new(next.String())
	}
	of := make([]int32, len(found.runs))
	for i, r := range found.runs {
		of[i] = r.ConnectorID
	}
	found.called, err = connectorNames(ctx, pool, of)
	return found, err
}

func (f allRuns) show(w io.Writer, out output, chosen *runFilter) error {
	page := runsPage{Runs: make([]namedRun, len(f.runs)), Next: f.next, LookedBackTo: utc(f.lookedBackTo)}
	for i, r := range f.runs {
		page.Runs[i] = namedRun{run: runView(r, f.seen), ConnectorName: f.called.of(r.ConnectorID)}
	}
	return out.show(w, page, func(w io.Writer) error { return page.print(w, out, f.runs, f.called, chosen, f.seen) })
}

// pageOfRuns finds runs that match, the latest first, and where to go on. lookedBackTo is where it has given up to look for more.
func pageOfRuns(
	ctx context.Context, pool *pgxpool.Pool, chosen *runFilter, from place, limit int, far lookback,
) (found []dbgen.SchedulerRun, next *place, lookedBackTo *time.Time, err error) {
	most := int32(limit) + 1
	cut := func() ([]dbgen.SchedulerRun, *place, *time.Time, error) {
		last := found[limit-1]
		next := &place{at: last.StartedAt, id: last.ID}
		if last.CompletedAt != nil {
			next.ended, next.at = true, *last.CompletedAt
		}
		return found[:limit], next, nil, nil
	}
	if !from.ended && chosen.until.IsZero() && chosen.wants(lifecycle.Running) {
		found, err = askBounded(ctx, pool, "open_runs", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.SchedulerRun, error) {
			return q.OpenRuns(ctx, dbgen.OpenRunsParams{
				Before: from.at, BeforeID: from.id, Types: chosen.types, Owner: chosen.owner, Page: most,
			})
		})
		if err != nil {
			return nil, nil, nil, err
		}
		if len(found) > limit {
			return cut()
		}
	}
	if !chosen.wantsEnded() {
		return found, nil, nil, nil
	}
	if !from.ended {
		from = place{ended: true, at: endOfTime}
	}
	for looked := int64(0); ; looked += far.atOnce {
		floor, further := chosen.from, false
		if chosen.picks() {
			if looked >= far.most {
				return found, &from, &from.at, nil
			}
			if floor, further, err = runsBack(ctx, pool, chosen.from, earlier(from.at, chosen.to), far.atOnce); err != nil {
				return nil, nil, nil, err
			}
		}
		more, err := askBounded(ctx, pool, "ended_runs", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.SchedulerRun, error) {
			return q.EndedRuns(ctx, dbgen.EndedRunsParams{
				Since: floor, Until: chosen.to, Before: from.at, BeforeID: from.id, Verdicts: chosen.verdicts, Types: chosen.types,
				Owner: chosen.owner, Page: most - int32(len(found)),
			})
		})
		if err != nil {
			return nil, nil, nil, err
		}
		if found = append(found, more...); len(found) > limit {
			return cut()
		}
		if !further {
			return found, nil, nil, nil
		}
		from = place{ended: true, at: floor} // behind all that ended then
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// runsBack is when the run ended that is so many before a moment, and whether there are that many; else how far there is to look.
func runsBack(ctx context.Context, pool *pgxpool.Pool, since, until time.Time, back int64) (time.Time, bool, error) {
	floor, err := askBounded(ctx, pool, "runs_back", func(ctx context.Context, q *dbgen.Queries) (time.Time, error) {
		return q.RunsBack(ctx, dbgen.RunsBackParams{Since: since, Until: until, Back: back})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return since, false, nil
	}
	return floor, err == nil, err
}

// connectorsNamed is what connectors are called, by their numbers.
type connectorsNamed map[int32]dbgen.ConnectorNamesRow

func connectorNames(ctx context.Context, pool *pgxpool.Pool, ids []int32) (connectorsNamed, error) {
	found, err := ask(ctx, pool, "connector_names", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.ConnectorNamesRow, error) {
		return q.ConnectorNames(ctx, ids)
	})
	if err != nil {
		return nil, fmt.Errorf("ask what connectors are called: %w", err)
	}
	called := connectorsNamed{}
	for _, c := range found {
		called[c.ID] = c
	}
	return called, nil
}

// of is a connector's name; nil where it is gone.
func (n connectorsNamed) of(id int32) *string {
	if c, there := n[id]; there {
		return &c.Name
	}
	return nil
}

// say is a connector for people: its number, and its name where it has one.
func (n connectorsNamed) say(id int32) string {
	text := strconv.Itoa(int(id))
	if name := n.of(id); name != nil {
		text += " " + *name
	}
	return text
}

// shortID is so much of a run's id as `runs show` takes.
func shortID(id uuid.UUID) string { return id.String()[:shortest] }

func (p runsPage) print(
	w io.Writer, out output, found []dbgen.SchedulerRun, called connectorsNamed, chosen *runFilter, now time.Time,
) (err error) {
	switch {
	case len(found) == 0 && !chosen.narrows():
		_, err = fmt.Fprintln(w, "no connector was ever due; `echomind connectors list` shows those there are")
	case len(found) == 0:
		_, err = fmt.Fprintln(w, "no runs match")
	default:
		err = printRunsOfAll(w, out, found, called, now)
	}
	switch {
	case err != nil || p.Next == nil:
		return err
	case p.LookedBackTo != nil:
		_, err = fmt.Fprintf(w, "looked at %d runs, back to %s; further back: --cursor %s\n", maxRunsBack, clock.At(*p.LookedBackTo, now), printable(*p.Next))
		return err
	}
	_, err = fmt.Fprintf(w, "and more: --cursor %s\n", printable(*p.Next))
	return err
}

func printRunsOfAll(w io.Writer, out output, found []dbgen.SchedulerRun, called connectorsNamed, now time.Time) error {
	rows, notes := make([][]string, len(found)), make([]string, len(found))
	for i, r := range found {
		queued, fetching, storing := durations(r, now)
		ended := clock.Optional(r.CompletedAt, now)
		notes[i] = noteOf(r, now)
		if out == allColumns {
			rows[i] = []string{
				r.ID.String(), called.say(r.ConnectorID), r.Type, clock.At(r.DueAt, now), ended, r.Trigger, verdictOf(r), span(queued), span(fetching),
				span(storing), messages(r), count(r.DocumentsProcessed), count(r.DocumentsUnchanged), count(r.DocumentsDeleted),
				count(r.DocumentsFailed), count(r.ChunksStored), notes[i],
			}
			continue
		}
		rows[i] = []string{
			shortID(r.ID), called.say(r.ConnectorID), ended, r.Trigger, verdictOf(r), span(sum(queued, fetching, storing)),
			count(r.DocumentsProcessed), count(r.DocumentsFailed),
		}
	}
	if out == allColumns {
		return table(w, []string{
			"RUN", "CONNECTOR", "TYPE", "DUE", "ENDED", "WHY", "VERDICT", "QUEUED", "FETCHING", "STORING", "MESSAGES", "STORED", "UNCHANGED",
			"DELETED", "FAILED", "CHUNKS", "REASON",
		}, rows)
	}
	if err := fitted(w, []string{"RUN", "CONNECTOR", "ENDED", "WHY", "VERDICT", "TOOK", "STORED", "FAILED"}, rows, notes); err != nil {
		return err
	}
	return printWarned(w, found...)
}
