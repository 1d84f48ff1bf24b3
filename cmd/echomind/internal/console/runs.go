package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/internal/evidence/failures"
	"github.com/echomind/sync/internal/masks"
)

const maxRuns = 10000

func runs(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "runs [ID]",
		Short: "Show the ledger: what came of each time connectors were due",
		Long: `Show the ledger of a connector, or of all connectors, the latest first: when it was due and why, the verdict and its reason, what was
stored, and how long it was queued (due until picked up), fetched and stored. A connector's runs are in the order in which they began; those
of all connectors, where no ID is given, in the order in which they ended, open ones first.

Verdicts: completed; skipped, nothing had changed; failed; superseded, handed back by a clean stop, put off because the
source asked to wait, or cancelled, changed, disabled or deleted in flight; missed, the slot passed before it could be claimed; running, no verdict yet.

--since and --until are about when runs ended. Open runs are always since, and never until. A connector has the type that it had when it ran,
and the owner that it has now: a deleted one has none.

Runs that match are looked for among the latest 1,000,000; where there are more, and where there are more than --limit, the answer
has a cursor to go on with: "next" in JSON, which is an object with "runs" then. A connector that is called show, stats or cancel is named by its number.`,
		Example: `  echomind runs 3 --limit 5
  echomind runs 3 -o json
  echomind runs --since 1h --verdict failed,missed --type web,file --owner 7 -o json
  echomind runs --since 2026-11-01T00:00:00Z --until 2026-11-02T00:00:00Z --limit 1000
  echomind runs show 0b6f1c2e
  echomind runs stats --since 7d
  echomind runs cancel 0b6f1c2e`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return oneConnector(c, args)
		},
	}
	chosen := runFilterFlags(c)
	cursor := c.Flags().String("cursor", "", "go on where an earlier answer ended, with its `next`")
	limit := c.Flags().Int("limit", 20, "how many runs, the latest first")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if *limit < 1 || *limit > maxRuns {
			return usagef("--limit %d: must be 1 to %d", *limit, maxRuns)
		}
		if err := chosen.check(c, len(args) > 0); err != nil {
			return err
		}
		if len(args) > 0 && *cursor != "" {
			return usagef("--cursor: goes on with the runs of all connectors; those of one are paged with --until")
		}
		if len(args) == 0 {
			found, err := either(c.Context(), f, func(pool *pgxpool.Pool) (allRuns, error) {
				return runsOfAll(c.Context(), pool, chosen, *cursor, *limit)
			}, func(r *remote) (allRuns, error) { return r.runsOfAll(c.Context(), chosen, *cursor, *limit) })
			if err != nil {
				return err
			}
			return found.show(c.OutOrStdout(), *out, chosen)
		}
		found, err := either(c.Context(), f, func(pool *pgxpool.Pool) (oneLedger, error) {
			return runsOfOne(c.Context(), pool, args[0], chosen, *limit, *out != forPrograms)
		}, func(r *remote) (oneLedger, error) {
			return r.runsOf(c.Context(), args[0], chosen, *limit, *out != forPrograms)
		})
		if err != nil {
			return err
		}
		return found.show(c.OutOrStdout(), *out, chosen)
	}
	c.AddCommand(showRun(f), runStats(f), cancelRun(f))
	return c
}

// oneLedger are runs of a connector at a moment, and what its table says below them.
type oneLedger struct {
	id   int32
	runs []dbgen.SchedulerRun
	seen time.Time
	// unmet is what its condition has passed over since; nil where there is nothing, and through a server, which does not show it.
	unmet *dbgen.UnmetSlot
	// failed is what is failed of it now, or uncounted says why that could not be counted.
	failed    failures.Summary
	uncounted error
}

// runsOfOne reads the ledger of a connector; whole: with what the table says below it.
func runsOfOne(ctx context.Context, pool *pgxpool.Pool, named string, chosen *runFilter, limit int, whole bool) (found oneLedger, err error) {
	id, err := connectorID(ctx, pool, named)
	if err != nil {
		return found, err
	}
	found.id = id
	if found.runs, found.seen, err = ledger(ctx, pool, id, chosen, limit); err != nil {
		return found, err
	}
	if len(found.runs) == 0 && !chosen.narrows() {
		if err := neverDue(ctx, pool, id); err != nil {
			return found, err
		}
	}
	if !whole {
		return found, nil
	}
	if found.unmet, err = unmetSlots(ctx, pool, id); err != nil {
		return found, err
	}
	found.failed, found.uncounted = failures.Of(ctx, pool, id)
	return found, ctx.Err()
}

func (l oneLedger) show(w io.Writer, out output, chosen *runFilter) error {
	views := make([]run, len(l.runs))
	for i, r := range l.runs {
		views[i] = runView(r, l.seen)
	}
	return out.show(w, views, func(w io.Writer) error {
		if len(l.runs) == 0 && chosen.narrows() {
			_, err := fmt.Fprintln(w, "no runs match")
			return err
		}
		if err := printRuns(w, out, l.runs, l.seen); err != nil {
			return err
		}
		if u := l.unmet; u != nil {
			if _, err := fmt.Fprintf(w, "skipped since: %d slots, %s … %s: %s\n", u.Count, clock.At(u.FirstSlot, l.seen), clock.At(u.LastSlot, l.seen), u.Reason); err != nil {
				return err
			}
		}
		return printFailures(w, l.id, l.failed, l.uncounted)
	})
}

// neverDue is nil for a connector that is there and has no ledger yet.
func neverDue(ctx context.Context, pool *pgxpool.Pool, id int32) error {
	_, err := ask(ctx, pool, "get", func(ctx context.Context, q *dbgen.Queries) (dbgen.Connector, error) {
		return q.GetConnector(ctx, id)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return gone(ctx, pool, id)
	}
	return err
}

// PrintRuns writes runs as a table, as `echomind runs` does.
func PrintRuns(w io.Writer, found []dbgen.SchedulerRun) error {
	return printRuns(w, forPeople, found, time.Now())
}

func ledger(ctx context.Context, pool *pgxpool.Pool, id int32, chosen *runFilter, limit int) ([]dbgen.SchedulerRun, time.Time, error) {
	moment, err := chosen.fix(ctx, pool)
	if err != nil {
		return nil, moment, err
	}
	found, err := askBounded(ctx, pool, "runs", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.SchedulerRun, error) {
		return q.RunsOf(ctx, dbgen.RunsOfParams{
			ConnectorID: id, Open: chosen.until.IsZero(), Since: chosen.from, Until: chosen.to, Verdicts: chosen.verdicts, Page: int32(limit),
		})
	})
	if err != nil {
		return nil, moment, fmt.Errorf("read the ledger of connector %d: %w", id, err)
	}
	return found, moment, nil
}

// run is a run as programs are shown it. When it was dispatched, and who has its lease, is known of an open one. Durations of
// what has not begun are null; of what has not ended, so far.
type run struct {
	ID                 uuid.UUID  `json:"id"`
	ConnectorID        int32      `json:"connector_id"`
	Type               string     `json:"type"`
	Trigger            string     `json:"trigger"`
	Slot               *time.Time `json:"slot"`
	SlotLast           *time.Time `json:"slot_last"`
	MissedCount        *int32     `json:"missed_count"`
	DueAt              time.Time  `json:"due_at"`
	StartedAt          time.Time  `json:"started_at"`
	DispatchedAt       *time.Time `json:"dispatched_at"`
	Dispatches         int32      `json:"dispatches"`
	TriggerRequestedAt *time.Time `json:"trigger_requested_at"`
	// DeletionsAllowedAt is when the run was allowed to delete many documents at once; null where it was not.
	DeletionsAllowedAt *time.Time `json:"deletions_allowed_at"`
	// Parameters are what the run has over the configuration; null where its trigger gave none.
	Parameters   json.RawMessage `json:"parameters"`
	PickedUpAt   *time.Time      `json:"picked_up_at"`
	TryID        *uuid.UUID      `json:"try_id"`
	WorkerID     *uuid.UUID      `json:"worker_id"`
	FetchedAt    *time.Time      `json:"fetched_at"`
	CompletedAt  *time.Time      `json:"completed_at"`
	Status       string          `json:"status"`
	Reason       *string         `json:"reason"`
	ErrorMessage *string         `json:"error_message"`
	// WaitsUntil is until when an open run waits, or last waited, because its source asked for it, and WaitMessage who asked; of one that was
	// postponed, when the next try was to be.
	WaitsUntil  *time.Time `json:"waits_until"`
	WaitMessage *string    `json:"wait_message"`
	// Progress and Result are what a job says of itself; null of a run that stores documents. Warnings are of both.
	Progress           *jobProgress    `json:"progress"`
	Warnings           []string        `json:"warnings"`
	Result             json.RawMessage `json:"result"`
	Total              *int64          `json:"total"`
	Stored             int64           `json:"stored"`
	DocumentsProcessed int64           `json:"documents_processed"`
	DocumentsFailed    int64           `json:"documents_failed"`
	DocumentsDeleted   int64           `json:"documents_deleted"`
	DocumentsUnchanged int64           `json:"documents_unchanged"`
	ChunksStored       int64           `json:"chunks_stored"`
	ListingWhole       *bool           `json:"listing_whole"`
	QueuedSeconds      *seconds        `json:"queued_seconds"`
	FetchingSeconds    *seconds        `json:"fetching_seconds"`
	StoringSeconds     *seconds        `json:"storing_seconds"`
}

// jobProgress is how far a job has come: how much is done, of how much, and in words; null where it does not say.
type jobProgress struct {
	Done  *int64  `json:"done"`
	Total *int64  `json:"total"`
	Text  *string `json:"text"`
}

func progressOf(r dbgen.SchedulerRun) *jobProgress {
	if r.ProgressDone == nil && r.ProgressText == nil {
		return nil
	}
	return &jobProgress{Done: r.ProgressDone, Total: r.ProgressTotal, Text: r.ProgressText}
}

// seconds is a duration that programs read as a number.
type seconds time.Duration

// MarshalJSON is part of json.Marshaler.
func (s seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

func runView(r dbgen.SchedulerRun, now time.Time) run {
	queued, fetching, storing := durations(r, now)
	return run{
		ID: r.ID, ConnectorID: r.ConnectorID, Type: r.Type, Trigger: r.Trigger, Slot: utc(r.Slot), SlotLast: utc(r.SlotLast),
		MissedCount: r.MissedCount, DueAt: r.DueAt.UTC(), StartedAt: r.StartedAt.UTC(),
		DispatchedAt: utc(r.DispatchedAt), Dispatches: r.Dispatches, TriggerRequestedAt: utc(r.TriggerRequestedAt),
		DeletionsAllowedAt: utc(r.DeletionsAllowedAt), Parameters: parametersOf(r.Parameters), PickedUpAt: utc(r.PickedUpAt), TryID: r.TryID, WorkerID: r.WorkerID, FetchedAt: utc(r.FetchedAt),
		CompletedAt: utc(r.CompletedAt), Status: r.Status, Reason: r.Reason, ErrorMessage: r.ErrorMessage,
		WaitsUntil: utc(r.WaitsUntil), WaitMessage: r.WaitMessage,
		Progress: progressOf(r), Warnings: r.Warnings, Result: parametersOf(r.Result),
		Total: r.Total, Stored: r.Stored, DocumentsProcessed: r.DocumentsProcessed, DocumentsFailed: r.DocumentsFailed,
		DocumentsDeleted: r.DocumentsDeleted, DocumentsUnchanged: r.DocumentsUnchanged, ChunksStored: r.ChunksStored,
		ListingWhole: r.ListingWhole, QueuedSeconds: (*seconds)(queued), FetchingSeconds: (*seconds)(fetching),
		StoringSeconds: (*seconds)(storing),
	}
}

// parametersOf is what is shown of the parameters of a run; nil where it has none.
func parametersOf(stored []byte) json.RawMessage {
	if stored == nil {
		return nil
	}
	return masks.WithoutSecrets(stored, false)
}

// durations splits a run into due until picked up, until fetched, and until its verdict.
func durations(r dbgen.SchedulerRun, now time.Time) (queued, fetching, storing *time.Duration) {
	if r.MissedCount != nil {
		return nil, nil, nil
	}
	end := now
	if r.CompletedAt != nil {
		end = *r.CompletedAt
	}
	between := func(from, to time.Time) *time.Duration {
		d := max(to.Sub(from), 0)
		return &d
	}
	if r.PickedUpAt == nil {
		return between(r.DueAt, end), nil, nil
	}
	queued = between(r.DueAt, *r.PickedUpAt)
	if r.FetchedAt == nil {
		return queued, between(*r.PickedUpAt, end), nil
	}
	return queued, between(*r.PickedUpAt, *r.FetchedAt), between(*r.FetchedAt, end)
}
