package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/calendars"
	"github.com/echomind/sync/internal/clock"
)

const (
	maxListedCalendars = 10000
	// shownTimes is how many times to come are shown of a calendar.
	shownTimes = 20
)

// calendarView is what programs are shown of a calendar.
type calendarView struct {
	Name     string `json:"name"`
	Version  int64  `json:"version"`
	TimeZone string `json:"time_zone"`
	Entries  int    `json:"entries"`
	// Connectors is how many name it, not counted beyond 10,000; null where this login, or through a server this token, may not count them.
	Connectors *int64 `json:"connectors"`
	// CreatedAt is null where nothing is written.
	CreatedAt *time.Time `json:"created_at"`
	CreatedBy *string    `json:"created_by"`
	UpdatedAt time.Time  `json:"updated_at"`
	UpdatedBy *string    `json:"updated_by"`
	// Problem says why it cannot be read; null where it can.
	Problem *string `json:"problem"`
}

func viewCalendar(c dbgen.Calendar, users *int64) calendarView {
	v := calendarView{Name: c.Name, Version: c.Version, TimeZone: c.TimeZone, Connectors: users, CreatedAt: utc(&c.CreatedAt), CreatedBy: c.CreatedBy,
		UpdatedAt: c.UpdatedAt.UTC(), UpdatedBy: c.UpdatedBy}
	var all []json.RawMessage
	if json.Unmarshal(c.Entries, &all) == nil {
		v.Entries = len(all)
	}
	if _, err := calendars.Read(c.TimeZone, c.Entries); err != nil {
		problem := err.Error()
		v.Problem = &problem
	}
	return v
}

func calendarsOf(f *finder) *cobra.Command {
	return group("calendars", "Keep the calendars on whose times schedules do not run, or run alone",
		"A calendar is a list of days and spans of time, in a time zone of its own: holidays, business days. A connector names one by --calendar. "+
			"Administrators import and delete them: logins that are members of "+administratorRole+"; through a server superadmins, with the scope admin.",
		calendarsList(f), calendarsShow(f), calendarsImport(f), calendarsDelete(f))
}

func oneCalendar(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("%s needs one NAME, the calendar's", c.CommandPath())
	}
	return nil
}

func calendarsList(f *finder) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the calendars", Long: "List the calendars, with how many connectors name each.",
		Example: "  echomind calendars list\n  echomind calendars list -o json", Args: cobra.NoArgs}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		views, err := either(c.Context(), f, func(pool *pgxpool.Pool) ([]calendarView, error) {
			found, err := ask(c.Context(), pool, "calendars", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.ListCalendarsRow, error) {
				return q.ListCalendars(ctx, maxListedCalendars)
			})
			if err != nil {
				return nil, fmt.Errorf("list the calendars: %w", err)
			}
			views := make([]calendarView, len(found))
			for i, one := range found {
				views[i] = viewCalendar(dbgen.Calendar{Name: one.Name, Version: one.Version, TimeZone: one.TimeZone, Entries: one.Entries, CreatedAt: one.CreatedAt,
					CreatedBy: one.CreatedBy, UpdatedAt: one.UpdatedAt, UpdatedBy: one.UpdatedBy}, &one.Connectors)
			}
			return views, nil
		}, func(r *remote) ([]calendarView, error) { return r.calendars(c.Context()) })
		if err != nil {
			return err
		}
		rows := make([][]string, len(views))
		for i, v := range views {
			rows[i] = []string{v.Name, v.TimeZone, count(int64(v.Entries)), countOrDash(v.Connectors), clip(orDash(v.Problem), 80)}
		}
		return out.show(c.OutOrStdout(), views, func(w io.Writer) error {
			return table(w, []string{"CALENDAR", "ZONE", "ENTRIES", "CONNECTORS", "PROBLEM"}, rows)
		})
	}
	return c
}

// calendarDetails is a calendar with what is in it.
type calendarDetails struct {
	calendarView
	All    json.RawMessage  `json:"all"`
	Coming []calendars.Span `json:"coming"`
}

func calendarsShow(f *finder) *cobra.Command {
	c := &cobra.Command{Use: "show NAME", Short: "Show a calendar and the times to come", Long: "Show a calendar, its entries, and the next of its times.",
		Example: "  echomind calendars show holidays-de", Args: oneCalendar}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		d, err := either(c.Context(), f, func(pool *pgxpool.Pool) (d calendarDetails, _ error) {
			found, err := calendarNamed(c.Context(), pool, args[0])
			if err != nil {
				return d, err
			}
			users, err := calendarUsers(c.Context(), pool, args[0])
			if err != nil {
				return d, err
			}
			d = calendarDetails{calendarView: viewCalendar(found, users), All: found.Entries, Coming: []calendars.Span{}}
			if times, err := calendars.Read(found.TimeZone, found.Entries); err == nil {
				if d.Coming, err = times.Coming(c.Context(), time.Now(), shownTimes); err != nil {
					return d, err
				}
			}
			return d, nil
		}, func(r *remote) (calendarDetails, error) { return r.calendar(c.Context(), args[0]) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), d, func(w io.Writer) error { return printCalendar(w, d) })
	}
	return c
}

func printCalendar(w io.Writer, d calendarDetails) error {
	now := time.Now()
	if err := table(w, []string{"calendar", d.Name}, [][]string{
		{"time zone", d.TimeZone},
		{"connectors", countOrDash(d.Connectors)},
		{"added", clock.Optional(d.CreatedAt, now) + " by " + orDash(d.CreatedBy)},
		{"updated", clock.At(d.UpdatedAt, now) + " by " + orDash(d.UpdatedBy)},
		{"problem", orDash(d.Problem)},
	}); err != nil {
		return err
	}
	var entries []calendars.Entry
	if err := json.Unmarshal(d.All, &entries); err != nil || len(entries) == 0 && d.Problem != nil {
		return nil // its problem says so
	}
	rows := make([][]string, len(entries))
	for i, e := range entries {
		what := e.Rule
		if len(e.Also) > 0 || len(e.Not) > 0 {
			what += fmt.Sprintf(" +%d -%d", len(e.Also), len(e.Not))
		}
		if e.Except {
			what += " (not on it)"
		}
		rows[i] = []string{e.Name, e.Start, e.End, clip(what, 80)}
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := table(w, []string{"ENTRY", "START", "END", "REPEATED"}, rows); err != nil {
		return err
	}
	zone, err := time.LoadLocation(d.TimeZone)
	if err != nil || len(d.Coming) == 0 {
		return nil
	}
	rows = make([][]string, len(d.Coming))
	for i, t := range d.Coming {
		to := "-" // it goes on for years
		if t.To != nil {
			to = t.To.In(zone).Format(time.RFC3339)
		}
		from := t.From.In(zone).Format(time.RFC3339)
		if !t.From.After(time.Now()) {
			from = "now" // it goes on
		}
		rows[i] = []string{from, to, t.Name}
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return table(w, []string{"COMING", "UNTIL", "NAME"}, rows)
}

func calendarsDelete(f *finder) *cobra.Command {
	c := &cobra.Command{Use: "delete NAME", Short: "Delete a calendar that no connector names", Long: "Delete a calendar. One that a connector names stays.",
		Example: "  echomind calendars delete holidays-de", Args: oneCalendar}
	c.RunE = func(c *cobra.Command, args []string) error {
		name, err := either(c.Context(), f, func(pool *pgxpool.Pool) (string, error) {
			n, err := ask(c.Context(), pool, "delete_calendar", func(ctx context.Context, q *dbgen.Queries) (int64, error) {
				return q.DeleteCalendar(ctx, args[0])
			})
			if err == nil && n == 0 {
				err = pgx.ErrNoRows
			}
			if err != nil {
				err = refusedCalendar("delete the calendar", args[0], err)
			}
			return args[0], err
		}, func(r *remote) (string, error) { return args[0], r.deleteCalendar(c.Context(), args[0]) })
		if err == nil {
			_, err = fmt.Fprintf(c.OutOrStdout(), "calendar %s is deleted\n", name)
		}
		return err
	}
	return c
}

func calendarNamed(ctx context.Context, pool *pgxpool.Pool, name string) (dbgen.Calendar, error) {
	found, err := ask(ctx, pool, "calendar", func(ctx context.Context, q *dbgen.Queries) (dbgen.Calendar, error) { return q.GetCalendar(ctx, name) })
	if err != nil {
		return found, refusedCalendar("read the calendar", name, err)
	}
	return found, nil
}

// calendarUsers is how many connectors name a calendar; nil where this login may not count them.
func calendarUsers(ctx context.Context, pool *pgxpool.Pool, name string) (*int64, error) {
	n, err := ask(ctx, pool, "calendar_users", func(ctx context.Context, q *dbgen.Queries) (int64, error) { return q.CalendarUsers(ctx, name) })
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == insufficientPrivilege {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("count who names the calendar: %w", err)
	}
	return &n, nil
}

func noCalendar(name string) error {
	return fmt.Errorf("there is no calendar %q; `echomind calendars list` shows those there are", clip(name, 63))
}

// refusedCalendar says what is wrong with a calendar.
func refusedCalendar(what, name string, err error) error {
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return noCalendar(name)
	case !errors.As(err, &pg):
		return fmt.Errorf("%s: %w", what, err)
	case pg.ConstraintName == "calendars_name_form":
		return wrongName(name)
	case pg.ConstraintName == "calendars_entries_size":
		return fmt.Errorf("%s: its entries have more than %d bytes; leave out what is over, or write rules", what, calendars.MaxBytes)
	case pg.ConstraintName == "connectors_calendar_known":
		return fmt.Errorf("calendar %s is in use: take it from its connectors first (`echomind connectors update ID --calendar none`)", name)
	case pg.ConstraintName == "blackouts_calendar_known":
		return fmt.Errorf("calendar %s is in use: a blackout window has its times; `echomind blackouts list` shows which", name)
	case pg.Code == insufficientPrivilege:
		return fmt.Errorf("%s: %s; DATABASE_URL's login must be a member of role %s", what, pg.Message, administratorRole)
	}
	return told(what, err)
}
