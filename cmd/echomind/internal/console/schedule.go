package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/blackouts"
	"github.com/echomind/sync/internal/foresee"
	"github.com/echomind/sync/internal/slots"
)

// mostEntries is how many lines a preview has at most.
const mostEntries = 5000

func schedule(f *finder) *cobra.Command {
	return group("schedule", "Show what a schedule will do",
		"A schedule is the interval or the cron expression of a connector, with what it makes of times that come at a bad moment.",
		preview(f))
}

func preview(f *finder) *cobra.Command {
	var next, last limit
	var set []string
	takes := limit{}
	c := &cobra.Command{
		Use:   "preview ID [--set FLAG=VALUE]... [--next 7d | --last 7d]",
		Short: "Show the slots of a connector's schedule and what becomes of each",
		Long: `Show the slots of a connector's schedule and what becomes of each, in its time zone and in UTC. It changes nothing, and asks
the code that the scheduler plans and claims by. It assumes that a scheduler is there all the time, and that each sync completes
after --takes. A server shows whole hours, at most 31 days and 500 lines.

--next begins where the connector stands: at a sync that is under way, or at a try that it waits for; --last goes through a time that is over, as if nothing had been done before it.
--set shows beside it what another schedule would do: cron, time_zone, refresh (as of --refresh), dst_gap, dst_overlap, spread,
deadline, overlap, once_per, catch_up, catch_up_most, catch_up_window, calendar, calendar_use, with the values of the flags of echomind connectors update.`,
		Example: `  echomind schedule preview 3
  echomind schedule preview 3 --set cron='*/30 6-22 * * *' --set once_per=day --next 2d -o json`,
		Args: oneConnector,
	}
	flags := c.Flags()
	flags.Var(&next, "next", "the slots of so much time from now (default 7d)")
	flags.Var(&last, "last", "the slots of so much time until now")
	flags.Var(&takes, "takes", "how long each sync is to take; none = no time")
	flags.StringArrayVar(&set, "set", nil, "show what another `FLAG=VALUE` of connectors update would change; may be repeated")
	c.MarkFlagsMutuallyExclusive("next", "last")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		span := previewSpan{minutes: cmp.Or(last.minutes, next.minutes, 7*24*60), past: last.minutes > 0, takes: takes.minutes}
		answer, err := either(c.Context(), f, func(pool *pgxpool.Pool) (none previewAnswer, _ error) {
			id, err := connectorID(c.Context(), pool, args[0])
			if err != nil {
				return none, err
			}
			p, err := newPreview(c.Context(), pool, id)
			if err != nil {
				return none, err
			}
			if p.from, p.until = p.now, p.now.Add(time.Duration(span.minutes)*time.Minute); span.past {
				p.from, p.until, p.past = p.now.Add(-time.Duration(span.minutes)*time.Minute), p.now, true
			}
			p.takes = time.Duration(span.takes) * time.Minute
			return p.answer(c.Context(), set)
		}, func(r *remote) (previewAnswer, error) { return r.preview(c.Context(), args[0], span, set) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), answer, func(w io.Writer) error { return printPreview(w, answer) })
	}
	return c
}

// previewSpan is the time that a preview goes through, and how long each sync is to take.
type previewSpan struct {
	minutes, takes int32
	past           bool
}

// flag is the one that has said so.
func (s previewSpan) flag() (name string, minutes int32) {
	if s.past {
		return "--last", s.minutes
	}
	return "--next", s.minutes
}

type previewAnswer struct {
	ConnectorID int32             `json:"connector_id"`
	From        time.Time         `json:"from"`
	Until       time.Time         `json:"until"`
	Now         foresee.Schedule  `json:"now"`
	Set         *foresee.Schedule `json:"set"`
}

// slotPreview goes through a time.
type slotPreview struct {
	pool             *pgxpool.Pool
	connector        dbgen.Connector
	now, from, until time.Time
	takes            time.Duration
	after            []int32
	past             bool
}

func newPreview(ctx context.Context, pool *pgxpool.Pool, id int32) (*slotPreview, error) {
	p := &slotPreview{pool: pool}
	var err error
	p.connector, err = ask(ctx, pool, "connector", func(ctx context.Context, q *dbgen.Queries) (dbgen.Connector, error) {
		return q.GetConnector(ctx, id)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, gone(ctx, pool, id)
	}
	if err != nil {
		return nil, fmt.Errorf("read the connector: %w", err)
	}
	upstreams, err := upstreamsOf(ctx, pool, id)
	if err != nil {
		return nil, err
	}
	for _, u := range upstreams {
		p.after = append(p.after, u.ConnectorID)
	}
	p.now, err = ask(ctx, pool, "now", func(ctx context.Context, q *dbgen.Queries) (time.Time, error) { return q.Now(ctx) })
	return p, err
}

func (p *slotPreview) answer(ctx context.Context, set []string) (a previewAnswer, err error) {
	a = previewAnswer{ConnectorID: p.connector.ID, From: p.from.UTC(), Until: p.until.UTC()}
	if a.Now, err = p.of(ctx, p.connector, false); err != nil || len(set) == 0 {
		return a, err
	}
	other, err := p.with(set)
	if err != nil {
		return a, err
	}
	shown, err := p.of(ctx, other, true)
	a.Set = &shown
	return a, err
}

// with is the connector as it would be.
func (p *slotPreview) with(set []string) (dbgen.Connector, error) {
	c, flags, err := setFlags(set, p.connector.ID)
	if err != nil {
		return p.connector, err
	}
	return flags.changed(c, p.connector), nil
}

// setFlags reads what --set gives of a connector, as the flags that change one do.
func setFlags(set []string, id int32) (*cobra.Command, *connectorFlags, error) {
	c := &cobra.Command{}
	flags := addConnectorFlags(c)
	known := []string{"cron", "time-zone", "refresh", "dst-gap", "dst-overlap", "spread", "deadline", "overlap", "once-per", "catch-up",
		"catch-up-most", "catch-up-window", "calendar", "calendar-use"}
	for _, s := range set {
		name, value, found := strings.Cut(s, "=")
		flag := strings.ReplaceAll(name, "_", "-")
		if !found || !slices.Contains(known, flag) {
			return nil, nil, usagef("--set %q: must be FLAG=VALUE, with one of %s", clip(s, 60), strings.ReplaceAll(strings.Join(known, ", "), "-", "_"))
		}
		if err := c.Flags().Set(flag, value); err != nil {
			return nil, nil, usagef("--set %s: %v", name, errorOf(err))
		}
	}
	if c.Flags().Changed("cron") && c.Flags().Changed("refresh") {
		return nil, nil, usagef("--set cron and --set refresh: give one of them")
	}
	return c, flags, errors.Join(flags.check(c), flags.checkSchedule(c, id))
}

// changed is a connector with what the flags give of its schedule.
func (f *connectorFlags) changed(c *cobra.Command, changed dbgen.Connector) dbgen.Connector {
	o := dbgen.AddConnectorParams{
		RefreshFreqMinutes: changed.RefreshFreqMinutes, ScheduleCron: changed.ScheduleCron, TimeZone: changed.TimeZone, DstGap: changed.DstGap,
		DstOverlap: changed.DstOverlap, SpreadPercent: changed.SpreadPercent, DeadlineMinutes: changed.DeadlineMinutes, Overlap: changed.Overlap,
		OncePer: changed.OncePer, CatchUp: changed.CatchUp, CatchUpMost: changed.CatchUpMost, CatchUpMinutes: changed.CatchUpMinutes,
		Calendar: changed.Calendar, CalendarUse: changed.CalendarUse,
	}
	f.apply(c, &o)
	changed.RefreshFreqMinutes, changed.ScheduleCron, changed.TimeZone, changed.DstGap = o.RefreshFreqMinutes, o.ScheduleCron, o.TimeZone, o.DstGap
	changed.DstOverlap, changed.SpreadPercent, changed.DeadlineMinutes, changed.Overlap = o.DstOverlap, o.SpreadPercent, o.DeadlineMinutes, o.Overlap
	changed.OncePer, changed.CatchUp, changed.CatchUpMost, changed.CatchUpMinutes = o.OncePer, o.CatchUp, o.CatchUpMost, o.CatchUpMinutes
	changed.Calendar, changed.CalendarUse = o.Calendar, o.CalendarUse
	return changed
}

// errorOf is what a flag's value says of itself, without the flag's name.
func errorOf(err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return invalid.Unwrap()
	}
	return err
}

// of goes through the slots of a connector; afresh where its schedule would be another from now on.
func (p *slotPreview) of(ctx context.Context, c dbgen.Connector, afresh bool) (foresee.Schedule, error) {
	look := foresee.Look{From: p.from, Until: p.until, Past: p.past, Takes: p.takes, Most: mostEntries, IntervalSlot: p.intervalSlot, CalendarOf: p.calendarOf, BlackoutsOf: p.blackoutsOf}
	return look.Of(ctx, foresee.Connector{
		Columns: slots.Columns{
			ID: c.ID, Cron: c.ScheduleCron, Zone: c.TimeZone, DSTGap: c.DstGap, DSTOverlap: c.DstOverlap, Deadline: c.DeadlineMinutes,
			Overlap: c.Overlap, OncePer: c.OncePer, CatchUp: c.CatchUp, Most: c.CatchUpMost, Window: c.CatchUpMinutes,
			Through: c.PlannedThrough, ClaimedAt: c.ClaimedAt, OverAt: c.OverAt, ClaimedFor: c.ClaimedFor, SyncedFor: c.SyncedFor,
		},
		RefreshFreqMinutes: c.RefreshFreqMinutes, SpreadPercent: c.SpreadPercent, Condition: c.Condition, Status: c.Status, DueReason: c.DueReason,
		NeedsPlan: c.NeedsPlan, NextSyncAt: c.NextSyncAt, SlotAt: c.SlotAt, LastSyncAt: c.LastSyncAt, HasRun: c.RunID != nil, RunAtOnce: c.RunAtOnce,
		Calendar: c.Calendar, CalendarUse: c.CalendarUse, KeptPlan: c.KeptPlan, After: p.after, Type: c.Type, UserID: c.UserID,
	}, refresh(view(c)), afresh)
}

func (p *slotPreview) intervalSlot(ctx context.Context, c foresee.Connector, base time.Time) (time.Time, error) {
	return ask(ctx, p.pool, "slot", func(ctx context.Context, q *dbgen.Queries) (time.Time, error) {
		return q.IntervalSlot(ctx, dbgen.IntervalSlotParams{ID: c.ID, Base: base, Minutes: *c.RefreshFreqMinutes, Spread: c.SpreadPercent})
	})
}

func (p *slotPreview) calendarOf(ctx context.Context, name string) (zone string, entries []byte, err error) {
	found, err := calendarNamed(ctx, p.pool, name)
	return found.TimeZone, found.Entries, err
}

func (p *slotPreview) blackoutsOf(ctx context.Context) ([]blackouts.Row, error) {
	rows, _, err := blackoutWindows(ctx, p.pool)
	all := make([]blackouts.Row, len(rows))
	for i, r := range rows {
		all[i] = blackouts.Row(r)
	}
	return all, err
}

func printPreview(w io.Writer, a previewAnswer) error {
	for i, shown := range []*foresee.Schedule{&a.Now, a.Set} {
		if shown == nil {
			continue
		}
		heading := "as it is: "
		if i == 1 {
			heading = "\nas it would be: "
		}
		if _, err := fmt.Fprintln(w, heading+printable(shown.Schedule)); err != nil {
			return err
		}
		rows := make([][]string, len(shown.Slots))
		for j, e := range shown.Slots {
			rows[j] = previewRow(e)
		}
		if len(rows) == 0 {
			says := shown.Note
			if says == "" {
				says = "no slot comes until " + a.Until.UTC().Format(time.RFC3339)
			}
			if _, err := fmt.Fprintln(w, says); err != nil {
				return err
			}
			continue
		}
		if err := table(w, []string{"LOCAL", "UTC", "SLOTS", "WHAT"}, rows); err != nil {
			return err
		}
		if shown.Condition != nil {
			if _, err := fmt.Fprintf(w, "what runs is decided at its slot, where condition %s is asked: one that is not met skips it\n", *shown.Condition); err != nil {
				return err
			}
		}
		if len(shown.After) > 0 {
			if _, err := fmt.Fprintf(w, "what runs here waits for its turn %s: each must have ended since its last run\n", foresee.After(shown.After)); err != nil {
				return err
			}
		}
		if shown.Cut {
			if _, err := fmt.Fprintf(w, "and more; the first %d are shown\n", len(shown.Slots)); err != nil {
				return err
			}
		}
	}
	return nil
}

func previewRow(e foresee.Slot) []string {
	const form = "Mon 2006-01-02 15:04 -07:00"
	local, _ := time.Parse(time.RFC3339, e.LocalFirst)
	at, utc, what := local.Format(form), e.First.Format("2006-01-02 15:04"), e.Verdict
	if e.Count > 1 {
		end, _ := time.Parse(time.RFC3339, e.LocalLast)
		at, utc = at+" … "+end.Format("02 15:04"), utc+" … "+e.Last.Format("02 15:04")
	}
	if e.Reason != "" {
		what += ": " + e.Reason
	}
	return []string{at, utc, fmt.Sprint(e.Count), what}
}
