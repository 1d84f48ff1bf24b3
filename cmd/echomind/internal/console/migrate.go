package console

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/deadline"
)

// migrateTimeout leaves time to wait for another migration that is running.
const migrateTimeout = 5 * time.Minute

// migration is what programs are shown of one.
type migration struct {
	Version   int64      `json:"version"`
	File      string     `json:"file"`
	Applied   bool       `json:"applied"`
	AppliedAt *time.Time `json:"applied_at"`
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
			"twice, and from several places at once.", "  DATABASE_URL=postgres://… echomind migrate up", db.Up),
		down,
		schemaCommand(f, "status", "Show which migrations are applied", "Show which migrations are applied.",
			"  echomind migrate status", func(context.Context, string) error { return nil }))
}

// schemaCommand makes a command that does something to the schema and shows what came of it.
func schemaCommand(f *finder, use, short, long, example string, do func(context.Context, string) error) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: cobra.NoArgs}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		url, err := f.database()
		if err != nil {
			return err
		}
		if err := reachable(c.Context(), url); err != nil {
			return err
		}
		err = deadline.Do(c.Context(), "console.migrate", migrateTimeout, func(ctx context.Context) error { return do(ctx, url) })
		if err != nil {
			return err
		}
		stands, err := deadline.Get(c.Context(), "console.migrations", queryTimeout,
			func(ctx context.Context) ([]db.Status, error) { return db.List(ctx, url) })
		if err != nil {
			return err
		}
		views := make([]migration, len(stands))
		rows := make([][]string, len(stands))
		for i, s := range stands {
			views[i] = migration{Version: s.Version, File: s.File}
			applied := "no"
			if !s.AppliedAt.IsZero() {
				at := s.AppliedAt.UTC()
				views[i].Applied, views[i].AppliedAt = true, &at
				applied = s.AppliedAt.Local().Format("2006-01-02 15:04")
			}
			rows[i] = []string{strconv.FormatInt(s.Version, 10), s.File, applied}
		}
		return out.show(c.OutOrStdout(), views, func(w io.Writer) error {
			return table(w, []string{"VERSION", "MIGRATION", "APPLIED"}, rows)
		})
	}
	return c
}

// reachable asks for a sign of life first: waiting for a migration's lock is no way to notice that nobody answers.
func reachable(ctx context.Context, url string) error {
	pool, err := postgres.Open(ctx, url, application, maxConns)
	if err != nil {
		return err
	}
	defer pool.Close()
	return deadline.Do(ctx, "console.reach_postgres", queryTimeout, pool.Ping)
}
