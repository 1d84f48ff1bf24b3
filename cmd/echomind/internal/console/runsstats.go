package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/clock"
)

const (
	// maxStatRuns is how many ended runs the statistics of all connectors are of.
	maxStatRuns = 300_000
	// maxStatRunsOf is how many runs of each connector those of named ones are of.
	maxStatRunsOf = 100_000
	// statsSince is how far back they look where nobody says it.
	statsSince = "24h"
)

// runStatistics is what programs are shown.
type runStatistics struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// LookedBackTo is how far back the runs go that were counted, where there are too many since then.
	LookedBackTo *time.Time `json:"looked_back_to"`
	// All is of all runs that were counted, whichever connectors are shown.
	All runCounts `json:"all"`
	// Connectors are those with the most failed runs first.
	Connectors []connectorRuns `json:"connectors"`
	// More is whether there are connectors that are not shown.
	More bool `json:"more"`
}

type connectorRuns struct {
	ConnectorID int32 `json:"connector_id"`
	// Name, type and owner are the connector's as it is now; null where it is gone.
	ConnectorName *string `json:"connector_name"`
	Type          *string `json:"type"`
	UserID        *int32  `json:"user_id"`
	runCounts
}

// runCounts is what came of some runs. Where there are no runs, figures that need one are null.
type runCounts struct {
	Runs       int64 `json:"runs"`
	Completed  int64 `json:"completed"`
	Skipped    int64 `json:"skipped"`
	Failed     int64 `json:"failed"`
	Superseded int64 `json:"superseded"`
	// MissedSlots are no runs.
	MissedSlots int64 `json:"missed_slots"`
	// SuccessRate is the share of completed and skipped runs among those and failed ones, 0 to 1.
	SuccessRate *float64 `json:"success_rate"`
	// Took is from the pick-up to the verdict, of runs that completed, were skipped or failed; queued from the due time to the pick-up.
	TookP50   *seconds `json:"took_p50_seconds"`
	TookP95   *seconds `json:"took_p95_seconds"`
	QueuedP50 *seconds `json:"queued_p50_seconds"`
	QueuedP95 *seconds `json:"queued_p95_seconds"`
}

func countsOf(r dbgen.StatRunsRow) runCounts {
	c := runCounts{
		Runs: r.Runs, Completed: r.Completed, Skipped: r.Skipped, Failed: r.Failed, Superseded: r.Superseded, MissedSlots: r.Missed,
	}
	if judged := r.Completed + r.Skipped + r.Failed; judged > 0 {
		c.SuccessRate = new(float64(r.Completed+r.Skipped) / float64(judged))
	}
	c.TookP50, c.TookP95 = percentiles(r.Took)
	c.QueuedP50, c.QueuedP95 = percentiles(r.Queued)
	return c
}

func percentiles(of []float64) (half, most *seconds) {
	if len(of) != 2 {
		return nil, nil
	}
	as := func(s float64) *seconds { return new(seconds(max(s, 0) * float64(time.Second))) }
	return as(of[0]), as(of[1])
}

func runStats(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "stats [ID...]",
		Short: "Show how the runs of each connector went",
		Long: `Show for each connector how many runs ended and how, the share that succeeded, and how long they took: half of them at most P50, 95 of
100 at most P95. Those with the most failed runs come first. Without ID it is of all connectors, of the last 24 hours unless --since says another time.

RATE is the share of completed and skipped runs among those and failed ones. P50 and P95 are from the pick-up to the verdict, of these runs;
-o wide has also how long runs were queued, from the due time to the pick-up. Slots that were missed are no runs.

Of all connectors at most the latest 300,000 runs are counted, and the answer says how far back they go; of each that is named the latest
100,000. Through a server it is the latest 100,000 of all, and what you see. A connector has the type that it had when it ran, and the owner that it has now.`,
		Example: "  echomind runs stats --since 7d\n  echomind runs stats docs 3 --since 30d\n  echomind runs stats --type web --owner 7 -o json",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return someConnectors(c, args)
		},
	}
	chosen := spanFlags(c)
	limit := c.Flags().Int("limit", 50, "how many connectors, those with the most failed runs first")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if *limit < 1 || *limit > maxRuns {
			return usagef("--limit %d: must be 1 to %d", *limit, maxRuns)
		}
		if err := chosen.check(c, len(args) > 0); err != nil {
			return err
		}
		if chosen.since.IsZero() {
			if !chosen.until.at.IsZero() || chosen.until.ago >= 24*time.Hour {
				return usagef("--until %s: needs --since, which is %s ago else", chosen.until.text, statsSince)
			}
			if err := chosen.since.Set(statsSince); err != nil {
				return err
			}
		}
		found, err := either(c.Context(), f, func(pool *pgxpool.Pool) (foundStatistics, error) {
			return statistics(c.Context(), pool, chosen, args, *limit)
		}, func(r *remote) (foundStatistics, error) { return r.statistics(c.Context(), chosen, args, *limit) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), found.runStatistics, func(w io.Writer) error { return found.print(w, *out) })
	}
	return c
}

// foundStatistics are statistics at a moment.
type foundStatistics struct {
	runStatistics
	called connectorsNamed
	seen   time.Time
	// most is how many runs of all connectors are counted.
	most int
}

// numbersOf are the numbers of connectors that are named, each once.
func numbersOf(named []string, number func(string) (int32, error)) (ids []int32, _ error) {
	for _, text := range named {
		id, err := number(text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// begin sets the period of the statistics.
func (s *foundStatistics) begin(chosen *runFilter) {
	s.runStatistics = runStatistics{Since: chosen.from.UTC(), Until: earlier(chosen.to, s.seen).UTC(), Connectors: []connectorRuns{}}
}

func statistics(ctx context.Context, pool *pgxpool.Pool, chosen *runFilter, named []string, limit int) (s foundStatistics, _ error) {
	s.most = maxStatRuns
	ids, err := numbersOf(named, func(text string) (int32, error) { return connectorID(ctx, pool, text) })
	if err != nil {
		return s, err
	}
	if s.seen, err = chosen.fix(ctx, pool); err != nil {
		return s, err
	}
	s.begin(chosen)
	var found []dbgen.StatRunsRow
	if len(ids) > 0 {
		found, err = statsOfSome(ctx, pool, chosen, ids, limit)
	} else {
		found, err = statsOfAll(ctx, pool, chosen, &s.runStatistics, limit)
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return s, fmt.Errorf("count runs: %w; a later --since has fewer of them", err)
	}
	if err != nil {
		return s, fmt.Errorf("count runs: %w", err)
	}
	of := make([]int32, len(found))
	for i, r := range found {
		of[i] = r.ConnectorID
	}
	if s.called, err = connectorNames(ctx, pool, of); err != nil {
		return s, err
	}
	s.fill(found, limit)
	return s, nil
}

// fill takes the counts of connectors, as they are to be shown, and those of all, with the number 0, before them.
func (s *foundStatistics) fill(found []dbgen.StatRunsRow, limit int) {
	for _, r := range found {
		if r.ConnectorID == 0 {
			s.All = countsOf(r)
			continue
		}
		if s.More = len(s.Connectors) == limit; s.More {
			break
		}
		one := connectorRuns{ConnectorID: r.ConnectorID, runCounts: countsOf(r)}
		if c, there := s.called[r.ConnectorID]; there {
			one.ConnectorName, one.Type, one.UserID = &c.Name, &c.Type, c.UserID
		}
		s.Connectors = append(s.Connectors, one)
	}
}

// statsOfAll has a row for each connector, and one for all before them. It says in s how far back it looked, where that is not all.
func statsOfAll(ctx context.Context, pool *pgxpool.Pool, chosen *runFilter, s *runStatistics, limit int) ([]dbgen.StatRunsRow, error) {
	floor, further, err := runsBack(ctx, pool, chosen.from, chosen.to, maxStatRuns)
	if err != nil {
		return nil, err
	}
	if further {
		s.LookedBackTo = new(floor.UTC())
	}
	return askBounded(ctx, pool, "run_statistics", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.StatRunsRow, error) {
		return q.StatRuns(ctx, dbgen.StatRunsParams{
			Since: floor, Until: chosen.to, Types: chosen.types, Owner: chosen.owner, Page: int32(limit) + 2,
		})
	})
}

func statsOfSome(ctx context.Context, pool *pgxpool.Pool, chosen *runFilter, ids []int32, limit int) ([]dbgen.StatRunsRow, error) {
	return askBounded(ctx, pool, "run_statistics", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.StatRunsRow, error) {
		found, err := q.StatRunsOf(ctx, dbgen.StatRunsOfParams{
			ConnectorIds: ids, Since: chosen.from, Until: chosen.to, Most: maxStatRunsOf, Page: int32(limit) + 2,
		})
		rows := make([]dbgen.StatRunsRow, len(found))
		for i, r := range found {
			rows[i] = dbgen.StatRunsRow(r)
		}
		return rows, err
	})
}

func (s foundStatistics) print(w io.Writer, out output) error {
	if len(s.Connectors) == 0 {
		_, err := fmt.Fprintf(w, "no runs ended since %s that match\n", clock.At(s.Since, s.seen))
		return err
	}
	rows := make([][]string, 0, len(s.Connectors)+1)
	for _, c := range s.Connectors {
		rows = append(rows, c.row(s.called.say(c.ConnectorID), out))
	}
	if len(s.Connectors) > 1 || s.More {
		rows = append(rows, s.All.row("all", out))
	}
	var err error
	if out == allColumns {
		err = table(w, []string{
			"CONNECTOR", "RUNS", "COMPLETED", "SKIPPED", "FAILED", "SUPERSEDED", "MISSED", "RATE", "P50", "P95", "QUEUED P50", "QUEUED P95",
		}, rows)
	} else {
		err = fitted(w, []string{"CONNECTOR", "RUNS", "COMPLETED", "SKIPPED", "FAILED", "RATE", "P50", "P95"}, rows, nil)
	}
	if err == nil && s.More {
		_, err = fmt.Fprintf(w, "and more connectors: --limit %d\n", min(10*len(s.Connectors), maxRuns))
	}
	if err == nil && s.LookedBackTo != nil {
		_, err = fmt.Fprintf(w, "of the latest %d runs, back to %s; for those before: --until %s\n",
			s.most, clock.At(*s.LookedBackTo, s.seen), s.LookedBackTo.Format(time.RFC3339Nano))
	}
	return err
}

func (c runCounts) row(name string, out output) []string {
	rate := "-"
	if c.SuccessRate != nil {
		// Cut, and not rounded: 100% is all of them.
		rate = strconv.FormatFloat(float64(int(*c.SuccessRate*1000))/10, 'f', -1, 64) + "%"
	}
	row := []string{name, count(c.Runs), count(c.Completed), count(c.Skipped), count(c.Failed)}
	if out == allColumns {
		row = append(row, count(c.Superseded), count(c.MissedSlots))
	}
	row = append(row, rate, span((*time.Duration)(c.TookP50)), span((*time.Duration)(c.TookP95)))
	if out == allColumns {
		row = append(row, span((*time.Duration)(c.QueuedP50)), span((*time.Duration)(c.QueuedP95)))
	}
	return row
}
