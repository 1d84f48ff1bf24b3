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
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/internal/masks"
	"github.com/echomind/sync/sdk/lifecycle"
)

const (
	// shortest is how much of a run's id has to be given, as tables show it.
	shortest = 8
	// maxFailedShown is how many failed documents of a run are shown.
	maxFailedShown = 100
)

// runDetails is what programs are shown of one run.
type runDetails struct {
	namedRun
	ConfigVersion int64 `json:"config_version"`
	// CheckpointNo is the number of the last checkpoint whose state became the connector's.
	CheckpointNo int64 `json:"checkpoint_no"`
	// InFlight is what is known of an open run alone; null of one that has ended. A server shows neither it nor Resources.
	InFlight *runInFlight `json:"in_flight"`
	// LeftOut are documents that failed in this run, and are failed for that reason still; null where they could not be read in time.
	LeftOut []leftOut `json:"left_out"`
	// Resources are which providers it has used, and which locks were taken from it: the last ten.
	Resources []resource `json:"resources"`
}

type runInFlight struct {
	// Acknowledged is whether the broker has acknowledged the last trigger, as far as that is written down: from the third on.
	Acknowledged bool    `json:"acknowledged"`
	PublishError *string `json:"publish_error"`
	// NotTaken is how many triggers have left the stream, and nobody picked the run up.
	NotTaken       int32      `json:"not_taken"`
	LeaseExpiresAt *time.Time `json:"lease_expires_at"`
	// Cut is why its worker has ended it before the source did.
	Cut *string `json:"cut"`
}

type leftOut struct {
	SourceID string `json:"source_id"`
	Error    string `json:"error"`
}

func showRun(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "show RUN_ID",
		Short: "Show all that the ledger knows of a run",
		Long: `Show all that the ledger knows of a run, open or ended: when it was due and why, each step and how long it took, its session, which
is its id, and its try, the verdict and its reason, what was stored, and which documents were left out because they failed.

The id is that of the table, 8 characters or more of it. Documents that failed are shown as long as no later run has tried them again.

A server does not show its try and its worker, what is in flight, the providers and locks that it has used, nor which documents were left out.
It looks for an id that is not whole among the latest 10,000 runs.`,
		Example: "  echomind runs show 0b6f1c2e\n  echomind runs show 0b6f1c2e-7a51-4c0e-9d4c-2f5f0a3c9b11 -o json",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("%s needs one RUN_ID, as `echomind runs` shows it", c.CommandPath())
			}
			_, _, err := runIDs(args[0])
			return err
		},
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		found, err := either(c.Context(), f, func(pool *pgxpool.Pool) (foundRun, error) { return detailsOfRun(c.Context(), pool, args[0]) },
			func(r *remote) (foundRun, error) { return r.detailsOfRun(c.Context(), args[0]) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), found.details, func(w io.Writer) error { return found.details.print(w, found.run, found.seen, found.problem) })
	}
	return c
}

// foundRun is what is known of a run at a moment.
type foundRun struct {
	details runDetails
	run     dbgen.SchedulerRun
	seen    time.Time
	// problem says why the documents that it left out could not be read.
	problem error
}

// runIDs are the least and the greatest id that begin with a text.
func runIDs(text string) (least, greatest uuid.UUID, err error) {
	digits := strings.ToLower(strings.ReplaceAll(text, "-", ""))
	wrong := usagef("RUN_ID %q: must be 8 characters or more of a run's id, as `echomind runs` shows it", clip(text, 40))
	if len(digits) < shortest || len(digits) > 32 {
		return least, greatest, wrong
	}
	rest := 32 - len(digits)
	least, err = uuid.Parse(digits + strings.Repeat("0", rest))
	if err == nil {
		greatest, err = uuid.Parse(digits + strings.Repeat("f", rest))
	}
	if err != nil {
		return least, greatest, wrong
	}
	return least, greatest, nil
}

// runByID is the run whose id begins so.
func runByID(ctx context.Context, pool *pgxpool.Pool, text string) (r dbgen.SchedulerRun, _ error) {
	least, greatest, err := runIDs(text)
	if err != nil {
		return r, err
	}
	found, err := askBounded(ctx, pool, "run", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.SchedulerRun, error) {
		return q.RunsBetween(ctx, dbgen.RunsBetweenParams{Least: least, Greatest: greatest, Page: sameName})
	})
	switch {
	case err != nil:
		return r, fmt.Errorf("look for run %s: %w", text, err)
	case len(found) == 0:
		return r, noRun(text)
	case len(found) == 1:
		return found[0], nil
	}
	return r, severalRuns(text, found)
}

func noRun(text string) error {
	return fmt.Errorf("there is no run %s, or its week was dropped from the ledger; `echomind runs` shows the latest", text)
}

func severalRuns(text string, found []dbgen.SchedulerRun) error {
	all := make([]string, len(found))
	for i, one := range found {
		all[i] = fmt.Sprintf("%s (connector %d)", one.ID, one.ConnectorID)
	}
	return fmt.Errorf("several runs begin with %s; give the whole id of one: %s", text, strings.Join(all, ", "))
}

// detailsOfRun gathers what is known of a run.
func detailsOfRun(ctx context.Context, pool *pgxpool.Pool, text string) (found foundRun, err error) {
	if found.run, err = runByID(ctx, pool, text); err != nil {
		return found, err
	}
	r, d := found.run, &found.details
	if found.seen, err = ask(ctx, pool, "now", now); err != nil {
		return found, fmt.Errorf("read the time: %w", err)
	}
	called, err := connectorNames(ctx, pool, []int32{r.ConnectorID})
	if err != nil {
		return found, err
	}
	*d = runDetails{
		namedRun: namedRun{run: runView(r, found.seen), ConnectorName: called.of(r.ConnectorID)}, ConfigVersion: r.ConfigVersion, CheckpointNo: r.CheckpointNo,
		LeftOut: []leftOut{}, Resources: resourcesOf(r),
	}
	if r.Status == string(lifecycle.Running) {
		more, err := ask(ctx, pool, "run_in_flight", func(ctx context.Context, q *dbgen.Queries) (dbgen.RunInFlightRow, error) {
			return q.RunInFlight(ctx, r.ID)
		})
		switch {
		case err == nil:
			d.InFlight = &runInFlight{
				Acknowledged: more.Acknowledged, PublishError: more.PublishError, NotTaken: more.NotTaken, LeaseExpiresAt: utc(more.LeaseExpiresAt),
				Cut: more.Cut,
			}
		case !errors.Is(err, pgx.ErrNoRows): // it has ended since
			return found, fmt.Errorf("read what is in flight: %w", err)
		}
	}
	if r.DocumentsFailed == 0 || r.TryID == nil {
		return found, nil
	}
	failed, problem := ask(ctx, pool, "failed_in_run", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.FailedInTryRow, error) {
		return q.FailedInTry(ctx, dbgen.FailedInTryParams{ConnectorID: r.ConnectorID, TryID: *r.TryID, Page: maxFailedShown})
	})
	if found.problem = problem; problem != nil {
		d.LeftOut = nil
	}
	for _, one := range failed {
		d.LeftOut = append(d.LeftOut, leftOut{SourceID: masks.URL(one.SourceID), Error: one.Error})
	}
	return found, ctx.Err()
}

func (d runDetails) print(w io.Writer, r dbgen.SchedulerRun, now time.Time, problem error) error {
	queued, fetching, storing := durations(r, now)
	at := func(t *time.Time) string {
		if t == nil {
			return "-"
		}
		return t.Local().Format("2006-01-02 15:04:05")
	}
	step := func(t *time.Time, took *time.Duration, what string) string {
		switch {
		case took == nil:
			return at(t)
		case t == nil:
			return fmt.Sprintf("-, %s so far %s", what, span(took))
		}
		return fmt.Sprintf("%s, %s %s", at(t), what, span(took))
	}
	connector := strconv.Itoa(int(r.ConnectorID)) + ", which was deleted"
	if d.ConnectorName != nil {
		connector = fmt.Sprintf("%d %q", r.ConnectorID, *d.ConnectorName)
	}
	rows := [][]string{{"connector", connector}, {"type", r.Type}, {"verdict", verdictOf(r)}, {"reason", orDash(r.Reason)}, {"error", orDash(r.ErrorMessage)}, {"why", r.Trigger}}
	add := func(name, text string) { rows = append(rows, []string{name, text}) }
	if r.Slot != nil {
		slot := at(r.Slot)
		if r.SlotLast != nil {
			slot += " … " + at(r.SlotLast)
		}
		add("slot", slot)
	}
	add("due", at(&r.DueAt))
	if r.MissedCount == nil {
		add("claimed", at(&r.StartedAt))
		add("triggers sent", d.sent(r, at))
		add("picked up", step(r.PickedUpAt, queued, "queued"))
		if r.PickedUpAt != nil {
			add("fetched", step(r.FetchedAt, fetching, "fetching"))
		}
	}
	if r.FetchedAt != nil || r.CompletedAt != nil {
		add("ended", step(r.CompletedAt, storing, "storing"))
	}
	add("session", r.ID.String())
	if r.TryID != nil {
		add("try", r.TryID.String())
	}
	if r.WorkerID != nil {
		lease := ""
		if d.InFlight != nil && d.InFlight.LeaseExpiresAt != nil {
			lease = ", its lease until " + at(d.InFlight.LeaseExpiresAt)
		}
		add("worker", r.WorkerID.String()+lease)
	}
	if d.InFlight != nil && d.InFlight.Cut != nil {
		add("cut", *d.InFlight.Cut)
	}
	if r.TriggerRequestedAt != nil {
		add("triggered", at(r.TriggerRequestedAt))
	}
	if r.DeletionsAllowedAt != nil {
		add("deletions", "allowed "+at(r.DeletionsAllowedAt))
	}
	if r.Parameters != nil {
		add("with", string(parametersOf(r.Parameters)))
	}
	if line := clock.Progress(r.ProgressDone, r.ProgressTotal, r.ProgressText); line != "" {
		add("progress", line)
	}
	if r.Result != nil {
		add("result", string(parametersOf(r.Result)))
	}
	for _, warning := range r.Warnings {
		add("warning", warning)
	}
	if r.WaitsUntil != nil {
		add("waits", strings.TrimSpace(orDash(r.WaitMessage)+" until "+at(r.WaitsUntil)))
	}
	for _, one := range d.Resources {
		add(one.title(), one.text())
	}
	if r.MissedCount == nil {
		add("messages", fmt.Sprintf("%s, checkpoint %d", messages(r), r.CheckpointNo))
		add("documents", fmt.Sprintf("%d stored, %d unchanged, %d deleted, %d failed", r.DocumentsProcessed, r.DocumentsUnchanged, r.DocumentsDeleted, r.DocumentsFailed))
		add("chunks", count(r.ChunksStored))
		add("listing", listing(r.ListingWhole))
	}
	add("configuration", strconv.FormatInt(r.ConfigVersion, 10))
	if err := table(w, []string{"run", r.ID.String()}, rows); err != nil {
		return err
	}
	return d.printLeftOut(w, r, problem)
}

// sent says how often the run's trigger was published.
func (d runDetails) sent(r dbgen.SchedulerRun, at func(*time.Time) string) string {
	text := strconv.Itoa(int(r.Dispatches))
	if r.DispatchedAt != nil {
		text += ", last " + at(r.DispatchedAt)
	}
	if d.InFlight == nil {
		return text
	}
	if d.InFlight.PublishError != nil {
		text += ", which the broker did not take: " + *d.InFlight.PublishError
	}
	if d.InFlight.NotTaken > 0 {
		text += fmt.Sprintf(", %d left the stream and nobody picked the run up", d.InFlight.NotTaken)
	}
	return text
}

func listing(whole *bool) string {
	switch {
	case whole == nil:
		return "-"
	case *whole:
		return "the whole source"
	}
	return "what had changed"
}

func (d runDetails) printLeftOut(w io.Writer, r dbgen.SchedulerRun, problem error) error {
	switch {
	case problem != nil:
		_, err := fmt.Fprintf(w, "which documents were left out: %v\n", problem)
		return err
	case len(d.LeftOut) == 0 && r.DocumentsFailed > 0:
		_, err := fmt.Fprintln(w, "the documents that failed were stored since, failed for another reason, or are gone")
		return err
	case len(d.LeftOut) == 0:
		return nil
	}
	rows := make([][]string, len(d.LeftOut))
	for i, one := range d.LeftOut {
		rows[i] = []string{one.SourceID, one.Error}
	}
	if _, err := fmt.Fprintln(w, "left out: these failed, and are failed for that reason still:"); err != nil {
		return err
	}
	return table(w, []string{"DOCUMENT", "WHY"}, rows)
}
