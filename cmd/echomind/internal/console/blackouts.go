package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/blackouts"
	"github.com/echomind/sync/internal/slots"
)

// blackoutView is what programs are shown of a blackout window; null = any owner, type or provider.
type blackoutView struct {
	Name             string  `json:"name"`
	Calendar         string  `json:"calendar"`
	UserID           *int32  `json:"user_id"`
	Type             *string `json:"type"`
	Provider         *string `json:"provider"`
	ExceptConnectors []int32 `json:"except_connectors"`
	Mode             string  `json:"mode"`
	SpreadMinutes    int32   `json:"spread_minutes"`
	// Stands says that it holds now; Until is when it ends, null where it does not within years.
	Stands bool       `json:"stands"`
	Until  *time.Time `json:"until"`
	// Held is how many connectors wait for its end, not counted beyond 10,000; null where they were not counted.
	Held      *int64     `json:"held"`
	CreatedAt *time.Time `json:"created_at"`
	CreatedBy *string    `json:"created_by"`
	UpdatedAt time.Time  `json:"updated_at"`
	UpdatedBy *string    `json:"updated_by"`
	// Problem says why its calendar cannot be read: it holds nobody then.
	Problem *string `json:"problem"`
}

func viewBlackout(b dbgen.Blackout, held *int64) blackoutView {
	v := blackoutView{Name: b.Name, Calendar: b.Calendar, UserID: b.UserID, Type: b.Type, Provider: b.Provider, ExceptConnectors: b.ExceptConnectors,
		Mode: b.Mode, SpreadMinutes: b.SpreadMinutes, Held: held, CreatedAt: utc(&b.CreatedAt), CreatedBy: b.CreatedBy, UpdatedAt: b.UpdatedAt.UTC(), UpdatedBy: b.UpdatedBy}
	if v.ExceptConnectors == nil {
		v.ExceptConnectors = []int32{}
	}
	return v
}

// setHold says of a window whether it holds at a moment, and until when.
func (v *blackoutView) setHold(rows []dbgen.BlackoutWindowsRow, now time.Time) {
	for _, r := range rows {
		if r.Name != v.Name {
			continue
		}
		var err error
		if v.Stands, v.Until, err = blackouts.Row(r).HoldsAt(now); err != nil {
			v.Problem = new(err.Error())
		}
	}
}

func blackoutsOf(f *finder) *cobra.Command {
	return group("blackouts", "Keep the times in which no sync of some connectors begins",
		"A blackout window is a calendar, whom it holds - an owner, a type, a provider, each or together - and what becomes of slots within it: they are skipped, or wait "+
			"for its end. No run begins within it, whoever asks; one that is under way goes on. Administrators write windows: logins that are members of "+administratorRole+"; through a server superadmins, with the scope admin.",
		blackoutsList(f), blackoutsSet(f), blackoutsDelete(f))
}

func blackoutWindows(ctx context.Context, pool *pgxpool.Pool) ([]dbgen.BlackoutWindowsRow, time.Time, error) {
	rows, err := ask(ctx, pool, "blackout_windows", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.BlackoutWindowsRow, error) {
		return q.BlackoutWindows(ctx)
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read the blackout windows: %w", err)
	}
	now, err := ask(ctx, pool, "now", func(ctx context.Context, q *dbgen.Queries) (time.Time, error) { return q.Now(ctx) })
	return rows, now, err
}

func blackoutsList(f *finder) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the blackout windows", Long: "List the blackout windows, whether each stands now, and how many connectors wait for its end.",
		Example: "  echomind blackouts list\n  echomind blackouts list -o json", Args: cobra.NoArgs}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		views, err := either(c.Context(), f, func(pool *pgxpool.Pool) ([]blackoutView, error) { return listBlackouts(c.Context(), pool) },
			func(r *remote) ([]blackoutView, error) { return r.blackouts(c.Context()) })
		if err != nil {
			return err
		}
		rows := make([][]string, len(views))
		for i, v := range views {
			rows[i] = []string{v.Name, v.Calendar, v.holds(), v.Mode, v.now(), countOrDash(v.Held), clip(orDash(v.Problem), 80)}
		}
		return out.show(c.OutOrStdout(), views, func(w io.Writer) error {
			return table(w, []string{"BLACKOUT", "CALENDAR", "HOLDS", "MODE", "NOW", "WAITING", "PROBLEM"}, rows)
		})
	}
	return c
}

func listBlackouts(ctx context.Context, pool *pgxpool.Pool) ([]blackoutView, error) {
	found, err := ask(ctx, pool, "blackouts", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.ListBlackoutsRow, error) {
		return q.ListBlackouts(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("list the blackout windows: %w", err)
	}
	times, now, err := blackoutWindows(ctx, pool)
	if err != nil {
		return nil, err
	}
	views := make([]blackoutView, len(found))
	for i, b := range found {
		views[i] = viewBlackout(dbgen.Blackout{Name: b.Name, Calendar: b.Calendar, UserID: b.UserID, Type: b.Type, Provider: b.Provider, ExceptConnectors: b.ExceptConnectors,
			Mode: b.Mode, SpreadMinutes: b.SpreadMinutes, CreatedAt: b.CreatedAt, CreatedBy: b.CreatedBy, UpdatedAt: b.UpdatedAt, UpdatedBy: b.UpdatedBy}, &b.Held)
		views[i].setHold(times, now)
	}
	return views, nil
}

// holds says whom it holds.
func (v blackoutView) holds() string {
	var all []string
	if v.UserID != nil {
		all = append(all, fmt.Sprintf("user %d", *v.UserID))
	}
	if v.Type != nil {
		all = append(all, "type "+*v.Type)
	}
	if v.Provider != nil {
		all = append(all, "provider "+*v.Provider)
	}
	said := "everybody"
	if len(all) > 0 {
		said = strings.Join(all, ", ")
	}
	if n := len(v.ExceptConnectors); n > 0 {
		said += fmt.Sprintf(", but for %d", n)
	}
	return said
}

func (v blackoutView) now() string {
	switch {
	case !v.Stands:
		return "-"
	case v.Until == nil:
		return "stands, without an end"
	}
	return "stands until " + v.Until.UTC().Format(time.RFC3339)
}

func blackoutsSet(f *finder) *cobra.Command {
	var p dbgen.PutBlackoutParams
	var user, kind, provider string
	var except []string
	var spread interval
	c := &cobra.Command{
		Use: "set NAME", Short: "Add a blackout window, or replace what one says",
		Long: `Add a blackout window, or replace what one says. --calendar has its times (echomind calendars import). It holds the connectors that fit all of --user, --type and
--provider that are given, and every connector where none is; system jobs where their type is named. Slots within it are skipped, or, with --mode defer, wait for its end;
tries, requests and first syncs wait in any case. Those that have waited begin within --spread behind the end. --except lets connectors run all the same.

It binds from the next claim. What is under way goes on.`,
		Example: `  echomind blackouts set office --calendar office-hours --type onedrive --mode defer
  echomind blackouts set maintenance --calendar maintenance --user 7 --mode skip
  echomind blackouts set google --calendar google-away --provider google --mode defer --spread 30m --except 42`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("%s needs one NAME, the window's", c.CommandPath())
			}
			return nil
		},
	}
	c.Flags().StringVar(&p.Calendar, "calendar", "", "the calendar that has its times")
	c.Flags().StringVar(&user, "user", "", "hold the connectors of this owner, a `number`")
	c.Flags().StringVar(&kind, "type", "", "hold the connectors of this type")
	c.Flags().StringVar(&provider, "provider", "", "hold the connectors of the types that name this provider: echomind types list")
	c.Flags().StringVar(&p.Mode, "mode", "", "what becomes of slots within it: skip or defer")
	c.Flags().StringSliceVar(&except, "except", nil, "do not hold this connector, a `number`; may be given up to 100 times")
	spread.minutes = 10
	c.Flags().Var(&spread, "spread", "in how much time behind the end those that have waited begin; 0 = at once")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		p.Name, p.By, p.SpreadMinutes = args[0], person(), spread.minutes
		switch {
		case p.Calendar == "":
			return usagef("--calendar: must name the calendar that has the window's times; `echomind calendars list` shows those there are")
		case p.Mode != blackouts.Skip && p.Mode != blackouts.Defer:
			return usagef("--mode %q: must be %s or %s", clip(p.Mode, 40), blackouts.Skip, blackouts.Defer)
		case spread.manual || spread.minutes > 1440:
			return usagef("--spread: must be 0 to 24h")
		case len(except) > blackouts.Most:
			return usagef("--except: must be at most %d connectors, and are %d", blackouts.Most, len(except))
		}
		if c.Flags().Changed("user") {
			id, err := positive("--user", user)
			if err != nil {
				return err
			}
			p.UserID = &id
		}
		for _, one := range except {
			id, err := positive("--except", one)
			if err != nil {
				return err
			}
			p.ExceptConnectors = append(p.ExceptConnectors, id)
		}
		if c.Flags().Changed("type") {
			p.Type = &kind
		}
		if c.Flags().Changed("provider") {
			p.Provider = &provider
		}
		v, err := either(c.Context(), f, func(pool *pgxpool.Pool) (blackoutView, error) { return putBlackout(c.Context(), pool, p) },
			func(r *remote) (blackoutView, error) { return r.putBlackout(c.Context(), p) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), v, func(w io.Writer) error {
			stands := ""
			if v.Stands {
				stands = "; it " + v.now()
			}
			if v.Problem != nil {
				stands = "; it holds nobody: " + *v.Problem
			}
			_, err := fmt.Fprintf(w, "blackout %s: no sync of %s begins in the times of calendar %s, mode %s%s\n", v.Name, v.holds(), v.Calendar, v.Mode, stands)
			return err
		})
	}
	return c
}

func putBlackout(ctx context.Context, pool *pgxpool.Pool, p dbgen.PutBlackoutParams) (v blackoutView, _ error) {
	b, err := ask(ctx, pool, "put_blackout", func(ctx context.Context, q *dbgen.Queries) (dbgen.Blackout, error) { return q.PutBlackout(ctx, p) })
	if err != nil {
		return v, refusedBlackout("write the blackout window", p, err)
	}
	times, now, err := blackoutWindows(ctx, pool)
	v = viewBlackout(b, nil)
	v.setHold(times, now)
	return v, err
}

// tellHeld says which window keeps a connector from what was asked for, and how it runs all the same.
func tellHeld(ctx context.Context, w io.Writer, pool *pgxpool.Pool, id int32) error {
	rows, now, err := blackoutWindows(ctx, pool)
	if err != nil || len(rows) == 0 {
		return err
	}
	found, err := ask(ctx, pool, "connector", func(ctx context.Context, q *dbgen.Queries) (dbgen.Connector, error) { return q.GetConnector(ctx, id) })
	if err != nil {
		return fmt.Errorf("read the connector: %w", err)
	}
	who, all := blackouts.Who{ID: id, Type: found.Type}, make([]blackouts.Row, len(rows))
	if found.UserID != nil {
		who.UserID = *found.UserID
	}
	for i, r := range rows {
		all[i] = blackouts.Row(r)
	}
	windows, _ := blackouts.Of(all, who)
	h, is := slots.Hold(windows, id, now, time.Time{})
	if !is {
		return nil
	}
	return sayHeld(w, id, h)
}

func sayHeld(w io.Writer, id int32, h slots.Held) error {
	_, err := fmt.Fprintf(w, "connector %d waits: %s; an administrator lets it run before: `echomind blackouts set %s … --except %d`\n", id, h.Says(), h.Blackout.Name, id)
	return err
}

// positive reads the number of a connector or an owner.
func positive(flag, text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 0, usagef("%s %q: must be a number from 1 to 2147483647", flag, clip(text, 40))
	}
	return int32(n), nil
}

func blackoutsDelete(f *finder) *cobra.Command {
	c := &cobra.Command{Use: "delete NAME", Short: "Delete a blackout window", Long: "Delete a blackout window. Connectors that wait for its end begin within its spread from now.",
		Example: "  echomind blackouts delete office",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("%s needs one NAME, the window's", c.CommandPath())
			}
			return nil
		}}
	c.RunE = func(c *cobra.Command, args []string) error {
		name, err := either(c.Context(), f, func(pool *pgxpool.Pool) (string, error) {
			n, err := ask(c.Context(), pool, "delete_blackout", func(ctx context.Context, q *dbgen.Queries) (int64, error) { return q.DeleteBlackout(ctx, args[0]) })
			if err == nil && n == 0 {
				err = pgx.ErrNoRows
			}
			if err != nil {
				err = refusedBlackout("delete the blackout window", dbgen.PutBlackoutParams{Name: args[0]}, err)
			}
			return args[0], err
		}, func(r *remote) (string, error) { return args[0], r.deleteBlackout(c.Context(), args[0]) })
		if err == nil {
			_, err = fmt.Fprintf(c.OutOrStdout(), "blackout %s is deleted\n", name)
		}
		return err
	}
	return c
}

// refusedBlackout says what is wrong with a window.
func refusedBlackout(what string, p dbgen.PutBlackoutParams, err error) error {
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return noBlackout(p.Name)
	case !errors.As(err, &pg):
		return fmt.Errorf("%s: %w", what, err)
	case pg.Code == insufficientPrivilege:
		return fmt.Errorf("%s: %s; DATABASE_URL's login must be a member of role %s", what, pg.Message, administratorRole)
	}
	if wrong := wrongOfBlackout(pg.ConstraintName, p); wrong != nil {
		return wrong
	}
	return told(what, err)
}

// wrongOfBlackout says what is wrong with a window, by the constraint that refuses it; nil: another one does.
func wrongOfBlackout(constraint string, p dbgen.PutBlackoutParams) error {
	switch constraint {
	case "blackouts_name_form":
		return wrongName(p.Name)
	case "blackouts_calendar_known":
		return usagef("--calendar %q: there is none of this name; `echomind calendars list` shows those there are", clip(p.Calendar, 63))
	case "blackouts_type_known":
		return usagef("--type %q: there is none of this name; `echomind types list` shows those there are", clip(orDash(p.Type), 63))
	case "blackouts_provider_known":
		return usagef("--provider %q: no type names it; `echomind types list` shows those there are", clip(orDash(p.Provider), 63))
	}
	return nil
}

func noBlackout(name string) error {
	return fmt.Errorf("there is no blackout window %q; `echomind blackouts list` shows those there are", clip(name, 63))
}

// wrongName is of a calendar's name, or a blackout window's.
func wrongName(name string) error {
	return usagef("NAME %q: must match [a-z][a-z0-9_-]* and have at most 63 characters", clip(name, 70))
}
