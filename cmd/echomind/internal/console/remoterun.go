package console

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/sdk/client"
)

// runsSearched is among how many of the latest runs one is looked for whose id is not whole: a server is asked for whole ids alone.
const runsSearched = 10_000

// detailsOfRun is what a server shows of a run.
func (r *remote) detailsOfRun(ctx context.Context, text string) (found foundRun, _ error) {
	of, err := r.runBeginning(ctx, text)
	if err != nil {
		return found, err
	}
	found.run, found.seen = of.row(), time.Now()
	found.details = runDetails{
		namedRun: namedRun{run: runView(found.run, found.seen), ConnectorName: of.ConnectorName}, ConfigVersion: of.ConfigVersion, CheckpointNo: of.CheckpointNo, LeftOut: []leftOut{},
	}
	if of.DocumentsFailed > 0 {
		found.details.LeftOut = nil
		found.problem = fmt.Errorf("a server does not show them; `echomind documents %d --failed` lists what is failed now", of.ConnectorID)
	}
	return found, nil
}

// runBeginning is the run whose id begins so.
func (r *remote) runBeginning(ctx context.Context, text string) (none remoteRun, _ error) {
	least, greatest, err := runIDs(text)
	if err != nil {
		return none, err
	}
	if least == greatest {
		one, err := r.run(ctx, least)
		if notFound(err) {
			return none, noRun(text)
		}
		return one, err
	}
	p := client.RunsListParams{PageSize: new(int32(pageSize))}
	searched := 0
	var found []remoteRun
	_, err = readPages(ctx, "runs", func(token *string) ([]byte, error) {
		p.PageToken = token
		answer, err := r.api.RunsListWithResponse(ctx, &p)
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	}, func(one remoteRun) bool {
		if searched++; begins(one.ID, least, greatest) {
			found = append(found, one)
		}
		return searched == runsSearched || len(found) == sameName
	})
	switch {
	case err != nil:
		return none, fmt.Errorf("look for run %s: %w", text, err)
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		slices.SortFunc(found, func(a, b remoteRun) int { return strings.Compare(a.ID.String(), b.ID.String()) })
		return none, severalRuns(text, rows(found))
	case searched == runsSearched:
		return none, fmt.Errorf("none of the latest %d runs begins with %s; give the whole id, as `echomind runs -o wide` shows it", runsSearched, text)
	}
	return none, noRun(text)
}

// begins says whether an id is one of those between two.
func begins(id, least, greatest uuid.UUID) bool {
	return id.String() >= least.String() && id.String() <= greatest.String()
}
