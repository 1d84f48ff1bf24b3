package console

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/evidence/failures"
	"github.com/echomind/sync/sdk/client"
	"github.com/echomind/sync/sdk/lifecycle"
)

// pagesLooked is in how many pages of runs those that match are looked for.
const pagesLooked = 400

// remoteRun is a run as a server shows it.
type remoteRun struct {
	run
	ConnectorName *string `json:"connector_name"`
	ProgressDone  *int64  `json:"progress_done"`
	ProgressTotal *int64  `json:"progress_total"`
	ProgressText  *string `json:"progress_text"`
	CheckpointNo  int64   `json:"checkpoint_no"`
	ConfigVersion int64   `json:"config_version"`
}

// remoteRuns is a page of runs.
type remoteRuns struct {
	Runs []remoteRun
	Next *string `json:"next_page_token"`
}

// row is the run as the ledger has it, but for what a server does not show: its try, and what only open runs have.
func (r remoteRun) row() dbgen.SchedulerRun {
	warnings := r.Warnings
	if len(warnings) == 0 {
		warnings = nil
	}
	return dbgen.SchedulerRun{
		ID: r.ID, ConnectorID: r.ConnectorID, Type: r.Type, Trigger: r.Trigger, Slot: r.Slot, SlotLast: r.SlotLast, MissedCount: r.MissedCount,
		DueAt: r.DueAt, StartedAt: r.StartedAt, Dispatches: r.Dispatches, TriggerRequestedAt: r.TriggerRequestedAt, DeletionsAllowedAt: r.DeletionsAllowedAt,
		Parameters: absent(r.Parameters), PickedUpAt: r.PickedUpAt, FetchedAt: r.FetchedAt, CompletedAt: r.CompletedAt, Status: r.Status, Reason: r.Reason,
		ErrorMessage: r.ErrorMessage, Total: r.Total, Stored: r.Stored, DocumentsProcessed: r.DocumentsProcessed, DocumentsFailed: r.DocumentsFailed,
		DocumentsDeleted: r.DocumentsDeleted, DocumentsUnchanged: r.DocumentsUnchanged, ChunksStored: r.ChunksStored, CheckpointNo: r.CheckpointNo, ListingWhole: r.ListingWhole,
		WaitsUntil: r.WaitsUntil, WaitMessage: r.WaitMessage, ProgressDone: r.ProgressDone, ProgressTotal: r.ProgressTotal, ProgressText: r.ProgressText,
		Warnings: warnings, Result: absent(r.Result), ConfigVersion: r.ConfigVersion,
	}
}

func rows(runs []remoteRun) []dbgen.SchedulerRun {
	all := make([]dbgen.SchedulerRun, len(runs))
	for i, r := range runs {
		all[i] = r.row()
	}
	return all
}

func (r *remote) run(ctx context.Context, id uuid.UUID) (none remoteRun, _ error) {
	answer, err := r.api.RunsGetWithResponse(ctx, id.String())
	if err != nil {
		return none, fmt.Errorf("read run %s: %w", shortID(id), err)
	}
	found, err := readAs[remoteRun](answer.Body)
	if err == nil {
		err = r.is(found.ID == id)
	}
	return found, err
}

func (r *remote) openRuns(ctx context.Context) ([]remoteRun, error) {
	p := client.RunsListParams{Status: new(client.RunsListParamsStatus(lifecycle.Running)), PageSize: new(int32(pageSize))}
	open, err := readPages(ctx, "runs", func(token *string) ([]byte, error) {
		p.PageToken = token
		answer, err := r.api.RunsListWithResponse(ctx, &p)
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	}, never[remoteRun])
	if err != nil {
		return nil, fmt.Errorf("list the open runs: %w", err)
	}
	return open, nil
}

// fixed finds what since and until are by this machine's clock, and refuses what a server cannot be asked for.
func (r *remote) fixed(ctx context.Context, chosen *runFilter) (time.Time, error) {
	seen := time.Now()
	if err := chosen.at(seen); err != nil || len(chosen.types) == 0 {
		return seen, err
	}
	answer, err := r.api.TypesListWithResponse(ctx)
	if err != nil {
		return seen, fmt.Errorf("list the connector types: %w", err)
	}
	list, err := readAs[struct{ Types []struct{ Name string } }](answer.Body)
	if err != nil {
		return seen, err
	}
	known := make([]string, len(list.Types))
	for i, t := range list.Types {
		known[i] = t.Name
	}
	return seen, chosen.checkTypes(known)
}

// one is what is asked for where it is one; a server is asked for one verdict and one type.
func one(of []string) *string {
	if len(of) != 1 {
		return nil
	}
	return &of[0]
}

// runsOfAll are the runs of all connectors that a server shows, behind the place that it named. It reads a bounded number of pages: few of their runs may match.
func (r *remote) runsOfAll(ctx context.Context, chosen *runFilter, cursor string, limit int) (found allRuns, err error) {
	if found.seen, err = r.fixed(ctx, chosen); err != nil {
		return found, err
	}
	p := client.RunsListParams{
		Status: (*client.RunsListParamsStatus)(one(chosen.verdicts)), Type: one(chosen.types), UserID: chosen.owner, Since: chosen.givenSince(), Until: chosen.givenUntil(),
	}
	if cursor != "" {
		p.PageToken = &cursor
	}
	found.called = connectorsNamed{}
	for range pagesLooked {
		p.PageSize = new(int32(min(limit-len(found.runs), pageSize)))
		answer, err := patiently(ctx, func() (*client.RunsListResponse, error) { return r.api.RunsListWithResponse(ctx, &p) })
		if p.PageToken == &cursor && slices.ContainsFunc(wrongFields(err), func(f client.Field) bool { return f.Field == "query.page_token" }) {
			return found, wrongCursor(cursor)
		}
		if err != nil {
			return found, fmt.Errorf("read the ledger: %w", err)
		}
		page, err := readAs[remoteRuns](answer.Body)
		if err != nil {
			return found, err
		}
		for _, one := range page.Runs {
			if !chosen.takes(one.run) {
				continue
			}
			if found.runs = append(found.runs, one.row()); one.ConnectorName != nil {
				found.called[one.ConnectorID] = dbgen.ConnectorNamesRow{ID: one.ConnectorID, Name: *one.ConnectorName}
			}
		}
		if p.PageToken, found.next = page.Next, page.Next; page.Next == nil || len(found.runs) >= limit {
			break
		}
	}
	return found, nil
}

// runsOf are the runs of a connector that match, the latest first, and what of it is failed now.
func (r *remote) runsOf(ctx context.Context, named string, chosen *runFilter, limit int, whole bool) (found oneLedger, err error) {
	id, err := r.connectorID(ctx, named)
	if err != nil {
		return found, err
	}
	if found.seen, err = r.fixed(ctx, chosen); err != nil {
		return found, err
	}
	p := client.ConnectorsRunsParams{
		Status: (*client.ConnectorsRunsParamsStatus)(one(chosen.verdicts)), Since: chosen.givenSince(), Until: chosen.givenUntil(), PageSize: new(int32(min(limit, pageSize))),
	}
	var list []remoteRun
	pages := 0
	for pages < pagesLooked && len(list) < limit {
		answer, err := patiently(ctx, func() (*client.ConnectorsRunsResponse, error) { return r.api.ConnectorsRunsWithResponse(ctx, id, &p) })
		if err != nil {
			return found, connectorError(id, fmt.Sprintf("read the ledger of connector %d", id), err)
		}
		page, err := readAs[remoteRuns](answer.Body)
		if err != nil {
			return found, err
		}
		for _, one := range page.Runs {
			if chosen.takes(one.run) && len(list) < limit {
				list = append(list, one)
			}
		}
		if pages++; page.Next == nil {
			break
		}
		if p.PageToken, p.PageSize = page.Next, new(int32(pageSize)); pages == pagesLooked && r.finder.say != nil {
			_, _ = fmt.Fprintf(r.finder.say, "looked for them in the latest %d pages of its runs; there are more\n", pages)
		}
	}
	if found.id, found.runs = id, rows(list); !whole {
		return found, nil
	}
	found.failed, found.uncounted = r.failed(ctx, id)
	return found, ctx.Err()
}

// failed counts the failed documents of a connector, by reason; one that is gone has none.
func (r *remote) failed(ctx context.Context, id int32) (none failures.Summary, _ error) {
	answer, err := r.api.DocumentsFailedWithResponse(ctx, id)
	if notFound(err) {
		return none, nil
	}
	if err != nil {
		return none, connectorError(id, fmt.Sprintf("count the failed documents of connector %d", id), err)
	}
	return readAs[failures.Summary](answer.Body)
}

// cancelled ends the run whose id begins so; again: it was cancelled before. Of the ledger a server is asked for whole ids alone.
func (r *remote) cancelled(ctx context.Context, text string) (c dbgen.SchedulerRun, again bool, err error) {
	least, greatest, err := runIDs(text)
	if err != nil {
		return c, false, err
	}
	if least != greatest {
		if least, err = r.openRun(ctx, text, least, greatest); err != nil {
			return c, false, err
		}
	}
	before, err := r.run(ctx, least)
	if notFound(err) {
		return c, false, noRun(text)
	}
	if err != nil {
		return c, false, err
	}
	answer, err := r.api.RunsCancelWithResponse(ctx, least.String(), &client.RunsCancelParams{})
	if err != nil {
		return c, false, fmt.Errorf("cancel run %s: %w", shortID(least), err)
	}
	after, err := readAs[remoteRun](answer.Body)
	if err == nil {
		err = r.is(after.ID == least)
	}
	return after.row(), before.Status != string(lifecycle.Running), err
}

// openRun is the open run whose id begins so.
func (r *remote) openRun(ctx context.Context, text string, least, greatest uuid.UUID) (uuid.UUID, error) {
	open, err := r.openRuns(ctx)
	if err != nil {
		return uuid.Nil, err
	}
	var found []dbgen.SchedulerRun
	for _, one := range open {
		if begins(one.ID, least, greatest) {
			found = append(found, one.row())
		}
	}
	switch len(found) {
	case 0:
		return uuid.Nil, fmt.Errorf("no open run begins with %s; one that has ended is named to a server by its whole id", text)
	case 1:
		return found[0].ID, nil
	}
	return uuid.Nil, severalRuns(text, found)
}
