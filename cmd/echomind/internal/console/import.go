package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/imports"
	"github.com/echomind/sync/cmd/echomind/internal/imports/crontab"
	"github.com/echomind/sync/cmd/echomind/internal/imports/echomind"
	"github.com/echomind/sync/cmd/echomind/internal/imports/redbeat"
	"github.com/echomind/sync/internal/timezone"
)

// The sources of imports, as imported_connectors names them.
const (
	fromCrontab  = "crontab"
	fromRedbeat  = "rdbeat"
	fromEchoMind = "echomind"
)

func imported(f *finder) *cobra.Command {
	return group("import", "Take over schedules of cron, celery-beat or the Python EchoMind",
		`Take over schedules of cron, celery-beat or the Python EchoMind. Without --apply nothing is written: the report says of every
row what would become of it. The same command again changes nothing; of an edited file the edited rows. Rows that are refused make it
exit with 1, and keep no other from being imported. docs/import.md has it all.`,
		importCrontab(f), importRedbeat(f), importEchoMind(f))
}

// importFlags are what all imports are told.
type importFlags struct {
	apply, storeSecrets             bool
	user                            int32
	connectorType, origin, zone, of string
	out                             *output
}

func (i *importFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.BoolVar(&i.apply, "apply", false, "write it; without it the report says what would be written")
	flags.StringVar(&i.origin, "origin", "", "what the machine, the Redis or the database is called: the next import of the same origin finds by it what this one has imported")
	flags.BoolVar(&i.storeSecrets, "store-secrets", false, "take rows with what looks like a secret that is not sealed, and store it as it is")
	i.out = withOutput(c)
}

// addJob adds what a schedule does not say: whose it is, what type its job is of, and in which zone it is read.
func (i *importFlags) addJob(c *cobra.Command, connectorType, zone string) {
	flags := c.Flags()
	flags.Int32Var(&i.user, "user", 0, "number of the user whose jobs they become")
	flags.StringVar(&i.connectorType, "type", connectorType, "the `type` of their connectors, which must be there and be one of jobs")
	flags.StringVar(&i.zone, "time-zone", "UTC", zone)
	_ = c.MarkFlagRequired("user")
	c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usagef("%s needs one FILE, or - for standard input", c.CommandPath())
		}
		return nil
	}
}

const maxOrigin = 200

// originOf is the machine and the file; "" where that is not known. Files of several machines have the same name.
func originOf(file string) string {
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return ""
	}
	return host + ":" + path
}

func (i *importFlags) check(c *cobra.Command, file string) error {
	if _, err := timezone.Load(i.zone); err != nil {
		return usagef("--time-zone %q: must be an IANA name such as Europe/Berlin", clip(i.zone, 40))
	}
	switch {
	case c.Flags().Changed("origin"):
	case file == "-":
		return usagef("--origin: standard input has no name; say what the import is of, such as --origin web1")
	case file != "":
		if i.origin = originOf(file); i.origin == "" {
			return usagef("--origin: say what the import is of, such as --origin web1")
		}
	}
	if length := utf8.RuneCountInString(i.origin); file != "" && length < 1 || length > maxOrigin || !utf8.ValidString(i.origin) || strings.ContainsRune(i.origin, 0) {
		return usagef("--origin %q: must be UTF-8 text of 1 to %d characters", clip(i.origin, 40), maxOrigin)
	}
	return nil
}

// read opens the file that is named, and has it read.
func read(c *cobra.Command, file string, reader func(io.Reader) ([]imports.Row, error)) ([]imports.Row, error) {
	from := c.InOrStdin()
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = opened.Close() }()
		from = opened
	}
	rows, err := reader(from)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", printable(file), err)
	}
	return rows, nil
}

func importCrontab(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "crontab FILE --user N [--apply]",
		Short: "Take over the jobs of a crontab",
		Long: `Take over the jobs of a crontab: each becomes a connector of a job type, whose config has command, env, stdin and user for the worker
that runs it. A job is known again by a comment right above it, "# name: nightly backup"; without one by its command, or, where that alone
was edited, by its schedule. It runs first at its next time. Each machine has an --origin of its own: without one it is this machine and the file.`,
		Example: `  echomind types add cron_job --kind job
  crontab -l | echomind import crontab - --origin web1 --user 1 --time-zone Europe/Berlin
  echomind import crontab /etc/crontab --user 1 --apply`,
	}
	i := &importFlags{of: fromCrontab}
	i.add(c)
	i.addJob(c, "cron_job", "the zone of the machine's clock, where no CRON_TZ says another")
	system := c.Flags().Bool("system", false, "each line names a user before its command; so it is read without this flag below /etc")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := i.check(c, args[0]); err != nil {
			return err
		}
		if path, err := filepath.Abs(args[0]); err == nil && !c.Flags().Changed("system") {
			*system = path == "/etc/crontab" || strings.HasPrefix(path, "/etc/cron.d/")
		}
		rows, err := read(c, args[0], func(from io.Reader) ([]imports.Row, error) {
			return crontab.Read(from, crontab.Options{System: *system, Zone: i.zone})
		})
		if err != nil {
			return err
		}
		return i.run(c, f, rows, 0)
	}
	return c
}

func importRedbeat(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "rdbeat FILE --user N [--apply]",
		Short: "Take over the entries of celery-beat from a dump of RedBeat's Redis",
		Long: `Take over the entries of celery-beat from a dump, in JSON, of the Redis in which RedBeat keeps them. Each becomes a connector of a job type,
whose config has task, args, kwargs and options for the worker that runs it. A crontab is written anew, so that it allows the same times; an interval
counts from when it ran last. Solar times, recurring rules and intervals of less than a minute are refused.`,
		Example: `  echomind types add celery_task --kind job
  echomind import rdbeat redbeat.json --origin production --user 1
  echomind import rdbeat redbeat.json --origin production --user 1 --apply`,
	}
	i := &importFlags{of: fromRedbeat}
	i.add(c)
	i.addJob(c, "celery_task", "Celery's own time zone, its setting timezone")
	prefix := c.Flags().String("prefix", "redbeat:", "what the keys of entries begin with, Celery's setting redbeat_key_prefix")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := i.check(c, args[0]); err != nil {
			return err
		}
		others := 0
		rows, err := read(c, args[0], func(from io.Reader) (rows []imports.Row, err error) {
			rows, others, err = redbeat.Read(from, redbeat.Options{Prefix: *prefix, Zone: i.zone})
			return rows, err
		})
		if err != nil {
			return err
		}
		return i.run(c, f, rows, others)
	}
	return c
}

func importEchoMind(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "echomind --from postgres://… [--apply]",
		Short: "Take over the connectors of the Python EchoMind",
		Long: `Take over the connectors of the Python EchoMind (gen-mind/EchoMind) from its database, which is only read. Their documents and cursors are not: each
is synced from the beginning. Their credentials are sealed.`,
		Example: "  echomind import echomind --from @url-of-echomind\n  echomind import echomind --from @url-of-echomind --apply",
		Args:    cobra.NoArgs,
	}
	i := &importFlags{of: fromEchoMind, zone: "UTC"}
	i.add(c)
	from := c.Flags().String("from", "", "the database's `URL`; @FILE reads it from a file, @- from standard input, where no list of processes shows it")
	_ = c.MarkFlagRequired("from")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := errors.Join(readObject("--from", from, c.InOrStdin()), i.check(c, "")); err != nil {
			return err
		}
		rows, err := i.connectorsOf(c.Context(), strings.TrimSpace(*from))
		if err != nil {
			return err
		}
		return i.run(c, f, rows, 0)
	}
	return c
}

func (i *importFlags) connectorsOf(ctx context.Context, url string) (rows []imports.Row, err error) {
	database, err := echomind.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	if i.origin == "" {
		i.origin = clip(database.Name(), maxOrigin)
	}
	rows, err = database.Read(ctx)
	return rows, errors.Join(err, database.Close(ctx))
}

// run compares what was read with what is there, writes it where it is to be written, and reports.
func (i *importFlags) run(c *cobra.Command, f *finder, rows []imports.Row, passedOver int) error {
	return f.withPool(c.Context(), func(pool *pgxpool.Pool) error {
		im := &importer{importFlags: i, find: f, pool: pool}
		report, failed := im.rows(c.Context(), rows)
		if report == nil {
			return failed
		}
		report.PassedOver = passedOver
		if err := report.show(c.OutOrStdout(), *i.out); err != nil {
			return err
		}
		if refused := report.Counts[rowRefused]; refused > 0 && failed == nil {
			failed = fmt.Errorf("%d of %d rows were refused", refused, len(rows))
		}
		return failed
	})
}
