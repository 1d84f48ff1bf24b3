package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/repeat"
)

const (
	// reachAgain is how often a database that is not there yet is asked for.
	reachAgain = time.Second
	// noSuchDatabase is what Postgres says of a database that nobody has made yet.
	noSuchDatabase = "3D000"
)

// migration is what programs are shown of one.
type migration struct {
	Version   int64      `json:"version"`
	File      string     `json:"file"`
	Applied   bool       `json:"applied"`
	AppliedAt *time.Time `json:"applied_at"`
}

// schemaView is what programs are shown of the schema.
type schemaView struct {
	db.Schema
	// Works is whether this program works on it.
	Works      bool        `json:"works"`
	Migrations []migration `json:"migrations"`
}

func migrate(f *finder) *cobra.Command {
	all := false
	down := schemaCommand(f, "down", "Take back the latest migration", "Take back the latest migration, or every one with --all. "+
		"What its tables hold is lost: it wants --yes.", "  echomind migrate down --yes\n  echomind migrate down --all --yes",
		func(ctx context.Context, url string) error { return db.Down(ctx, url, all) })
	down.Flags().BoolVar(&all, "all", false, "take back every migration: the database is empty afterwards")
	yes := down.Flags().Bool("yes", false, "I mean it")
	down.Args = func(c *cobra.Command, args []string) error {
		if err := cobra.NoArgs(c, args); err != nil || *yes {
			return err
		}
		return usagef("%s: what the tables hold is lost for good; add --yes if you mean it", c.CommandPath())
	}
	return group("migrate", "Bring the database's schema up to date, or back",
		"Bring the schema of the database to what this program needs, or back. `echomind run` does so by itself.",
		schemaCommand(f, "up", "Apply the migrations that are missing", "Apply the migrations that are missing. It is safe to run "+
			"twice, from several places at once, and while services of the release before work.",
			"  DATABASE_URL=postgres://… echomind migrate up --wait 2m", db.Up),
		down,
		schemaCommand(f, "status", "Show which migrations are applied, and which programs work on them",
			"Show which migrations are applied, and which programs work on them.",
			"  echomind migrate status", func(context.Context, string) error { return nil }))
}

// schemaCommand makes a command that does something to the schema and shows what came of it.
func schemaCommand(f *finder, use, short, long, example string, do func(context.Context, string) error) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: cobra.NoArgs}
	wait := c.Flags().Duration("wait", 0, "how long to wait for Postgres and the database to be there")
	timeout := c.Flags().Duration("timeout", 5*time.Minute, "how long it may take, with the wait for tables in use and other migrations")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		url, err := f.database()
		if err != nil {
			return err
		}
		if err := reach(c.Context(), url, *wait, c.ErrOrStderr()); err != nil {
			return err
		}
		err = deadline.Do(c.Context(), "console.migrate", *timeout, func(ctx context.Context) error { return do(ctx, url) })
		if err != nil {
			return err
		}
		view, err := deadline.Get(c.Context(), "console.migrations", queryTimeout,
			func(ctx context.Context) (schemaView, error) { return viewSchema(ctx, url) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), view, view.write)
	}
	return c
}

func viewSchema(ctx context.Context, url string) (view schemaView, err error) {
	stands, err := db.List(ctx, url)
	if err != nil {
		return view, err
	}
	conn, err := postgres.Connect(ctx, url, application)
	if err != nil {
		return view, err
	}
	defer func() { _ = conn.Close(ctx) }()
	if view.Schema, err = db.Look(ctx, conn); err != nil {
		return view, err
	}
	view.Works = view.Err() == nil
	view.Migrations = make([]migration, len(stands))
	for i, s := range stands {
		view.Migrations[i] = migration{Version: s.Version, File: s.File}
		if !s.AppliedAt.IsZero() {
			at := s.AppliedAt.UTC()
			view.Migrations[i].Applied, view.Migrations[i].AppliedAt = true, &at
		}
	}
	return view, nil
}

func (v schemaView) write(w io.Writer) error {
	rows := make([][]string, len(v.Migrations))
	for i, m := range v.Migrations {
		applied := "no"
		if m.Applied {
			applied = m.AppliedAt.Local().Format("2006-01-02 15:04")
		}
		rows[i] = []string{strconv.FormatInt(m.Version, 10), m.File, applied}
	}
	if err := table(w, []string{"VERSION", "MIGRATION", "APPLIED"}, rows); err != nil {
		return err
	}
	stands := "this program works on it"
	if err := v.Err(); err != nil {
		stands = err.Error()
	}
	_, err := fmt.Fprintf(w, "The database is at %d and works with programs built for %d or later; this one was built for %d: %s.\n",
		v.Database, v.CompatibleFrom, v.Program, stands)
	return err
}

// reach waits for a sign of life: waiting for a migration's lock is no way to notice that nobody answers.
func reach(ctx context.Context, url string, wait time.Duration, told io.Writer) error {
	until := time.Now().Add(wait)
	for {
		err := deadline.Do(ctx, "console.reach_postgres", queryTimeout, func(ctx context.Context) error {
			conn, err := postgres.Connect(ctx, url, application)
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		})
		var pg *pgconn.PgError
		passes := postgres.Unavailable(err) || errors.As(err, &pg) && pg.Code == noSuchDatabase
		if err == nil || !passes || time.Now().After(until) {
			return err
		}
		_, _ = fmt.Fprintln(told, "echomind: waiting for Postgres:", err)
		if repeat.Sleep(ctx, reachAgain) != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}
