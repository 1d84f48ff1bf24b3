package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/calendars"
	"github.com/echomind/sync/internal/calendars/icalendar"
)

// importedCalendar is what an import says.
type importedCalendar struct {
	calendarView
	// Left are the events that were left out, and why.
	Left    []string `json:"left_out"`
	Written bool     `json:"written"`
}

func calendarsImport(f *finder) *cobra.Command {
	var zone string
	var except []string
	var dryRun bool
	c := &cobra.Command{
		Use: "import NAME FILE", Short: "Add a calendar from an iCalendar file, or replace one",
		Long: `Add a calendar from the events of an iCalendar file, or replace what a calendar has. Whole days count in the calendar's time zone: --time-zone, else
the one that the file names (X-WR-TIMEZONE). The times of --except's files are not on the calendar, whatever FILE says: holidays among business days.

Schedules that name the calendar are planned anew. The file - is standard input.`,
		Example: `  echomind calendars import holidays-de feiertage.ics --time-zone Europe/Berlin --dry-run
  echomind calendars import business-days weekdays.ics --except feiertage.ics --time-zone Europe/Berlin`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("%s needs a NAME, the calendar's, and a FILE", c.CommandPath())
			}
			return nil
		},
	}
	c.Flags().StringVar(&zone, "time-zone", "", "the calendar's IANA time zone")
	c.Flags().StringArrayVar(&except, "except", nil, "an iCalendar `FILE` whose times are not on the calendar; may be repeated")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "read the files, and write nothing")
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		p, left, err := calendarOfFiles(c.InOrStdin(), args[1], except, zone)
		if err != nil {
			return err
		}
		p.Name, p.By = args[0], person()
		done := importedCalendar{calendarView: viewCalendar(dbgen.Calendar{Name: p.Name, TimeZone: p.TimeZone, Entries: p.Entries}, nil), Left: left, Written: !dryRun}
		done.calendarView, err = either(c.Context(), f, func(pool *pgxpool.Pool) (v calendarView, err error) {
			if v = done.calendarView; !dryRun {
				written, err := ask(c.Context(), pool, "put_calendar", func(ctx context.Context, q *dbgen.Queries) (dbgen.Calendar, error) { return q.PutCalendar(ctx, p) })
				if err != nil {
					return v, refusedCalendar("write the calendar", p.Name, err)
				}
				v = viewCalendar(written, nil)
			}
			v.Connectors, err = calendarUsers(c.Context(), pool, p.Name)
			return v, err
		}, func(r *remote) (calendarView, error) {
			if dryRun {
				return r.withUsers(c.Context(), done.calendarView)
			}
			return r.putCalendar(c.Context(), p)
		})
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), done, func(w io.Writer) error { return printImported(w, done) })
	}
	return c
}

func printImported(w io.Writer, done importedCalendar) error {
	for _, one := range done.Left {
		if _, err := fmt.Fprintln(w, "left out: "+printable(one)); err != nil {
			return err
		}
	}
	says := "would have"
	if done.Written {
		says = "has"
	}
	users := ""
	if done.Connectors != nil {
		users = "; " + counted(*done.Connectors, "connector names", "connectors name") + " it"
	}
	_, err := fmt.Fprintf(w, "calendar %s %s %s, in %s%s\n", done.Name, says, counted(int64(done.Entries), "entry", "entries"), done.TimeZone, users)
	return err
}

func counted(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// calendarOfFiles reads the files of an import.
func calendarOfFiles(stdin io.Reader, file string, except []string, zone string) (p dbgen.PutCalendarParams, left []string, err error) {
	read, err := readCalendarFile(stdin, file)
	if err != nil {
		return p, nil, err
	}
	if p.TimeZone = zone; zone == "" {
		if p.TimeZone = read.TimeZone; p.TimeZone == "" {
			return p, nil, usagef("--time-zone: %s names no time zone: give one such as Europe/Berlin", file)
		}
	}
	entries, left := read.Entries, read.Left
	for _, one := range except {
		out, err := readCalendarFile(stdin, one)
		if err != nil {
			return p, nil, err
		}
		for _, e := range out.Entries {
			e.Except = true
			entries = append(entries, e)
		}
		left = append(left, out.Left...)
	}
	if len(entries) == 0 {
		return p, nil, usagef("%s: it has no event that a calendar could have", file)
	}
	if _, err := calendars.Of(p.TimeZone, entries); err != nil {
		return p, nil, usagef("%s: %v", file, err)
	}
	p.Entries, err = json.Marshal(entries)
	return p, left, err
}

func readCalendarFile(stdin io.Reader, file string) (icalendar.File, error) {
	from := stdin
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return icalendar.File{}, usagef("%v", err)
		}
		defer opened.Close()
		from = opened
	}
	read, err := icalendar.Read(from)
	if err != nil {
		return read, usagef("%s: %v", file, err)
	}
	return read, nil
}
