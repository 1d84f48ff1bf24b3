package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
)

const (
	maxListedLimits = 10000
	mostOfAKey      = 10000
	mostKeys        = 4
	keysFlagName    = "key"
)

var (
	keyForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,127}$`)
	// keyOpens is a user, and maybe a password, in a URL.
	keyOpens = regexp.MustCompile(`//[^/]*@`)
)

// keysFlag is the flag that names concurrency keys.
func keysFlag(flags *pflag.FlagSet, keys *[]string) {
	flags.StringSliceVar(keys, keysFlagName, nil, "a concurrency `key`, of which echomind limits bounds how many are in flight; may be given up to four times; none = no key")
}

// keysGiven are the keys of a flag that checkKeys has let pass; nil = none.
func keysGiven(keys []string) []string {
	if slices.Equal(keys, []string{none}) {
		return nil
	}
	return keys
}

func checkKeys(keys []string) error {
	if keys != nil && len(keys) == 0 { // --key ""
		keys = []string{""}
	}
	if len(keys) > mostKeys {
		return usagef("--%s: must be at most %d, and are %d", keysFlagName, mostKeys, len(keys))
	}
	for _, key := range keys {
		if err := checkKey("--"+keysFlagName, key); err != nil {
			return err
		}
		if key == none && len(keys) > 1 {
			return usagef("--%s none: must be given alone", keysFlagName)
		}
	}
	return nil
}

func checkKey(what, key string) error {
	if !keyForm.MatchString(key) {
		return usagef("%s %q: must be up to 128 letters, digits and _.:/@-, beginning with a letter or a digit, such as onedrive:tenant-42", what, clip(key, 130))
	}
	if keyOpens.MatchString(key) {
		return usagef("%s: must have no user or password in a URL, since many see keys", what)
	}
	return nil
}

// limitView is what programs are shown of a limit.
type limitView struct {
	Key  string `json:"key"`
	Most int32  `json:"most"`
	// Held is how many runs in flight have a place, Waiting how many due connectors wait for one; null where they were not counted.
	Held      *int64    `json:"held"`
	Waiting   *int64    `json:"waiting"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy *string   `json:"created_by"`
	UpdatedAt time.Time `json:"updated_at"`
	UpdatedBy *string   `json:"updated_by"`
}

func limits(f *finder) *cobra.Command {
	return group("limits", "Bound how many runs that have a concurrency key are in flight",
		"Connectors and types name concurrency keys (--"+keysFlagName+"). A limit says how many runs of a key may be in flight at once; a key without one is not bounded. "+
			"A lower limit ends no run. Administrators write limits: logins that are members of "+administratorRole+"; through a server superadmins, with the scope admin.",
		limitsList(f), limitsSet(f), limitsRemove(f))
}

func limitsList(f *finder) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the limits", Long: "List the limits, with how many runs of each key are in flight, and how many connectors wait for a place.",
		Example: "  echomind limits list", Args: cobra.NoArgs}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		views, err := either(c.Context(), f, func(pool *pgxpool.Pool) ([]limitView, error) {
			found, err := ask(c.Context(), pool, "limits", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.ListLimitsRow, error) {
				return q.ListLimits(ctx, maxListedLimits)
			})
			if err != nil {
				return nil, fmt.Errorf("list the limits: %w", err)
			}
			views := make([]limitView, len(found))
			for i, l := range found {
				views[i] = limitView{Key: l.Key, Most: l.Most, Held: &l.Held, Waiting: &l.Waiting,
					CreatedAt: l.CreatedAt.UTC(), CreatedBy: l.CreatedBy, UpdatedAt: l.UpdatedAt.UTC(), UpdatedBy: l.UpdatedBy}
			}
			return views, nil
		}, func(r *remote) ([]limitView, error) { return r.limits(c.Context()) })
		if err != nil {
			return err
		}
		rows := make([][]string, len(views))
		for i, l := range views {
			rows[i] = []string{l.Key, strconv.Itoa(int(l.Most)), countOrDash(l.Held), countOrDash(l.Waiting)}
		}
		return out.show(c.OutOrStdout(), views, func(w io.Writer) error {
			return table(w, []string{"KEY", "MOST", "IN FLIGHT", "WAITING"}, rows)
		})
	}
	return c
}

// countOrDash is how many there are; - where they were not counted.
func countOrDash(n *int64) string {
	if n == nil {
		return "-"
	}
	return count(*n)
}

func limitsSet(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "set KEY N", Short: "Set how many runs of a key may be in flight",
		Long:    `Set how many runs of a key may be in flight at once; 0 = none from now on. It binds from the next claim: what is in flight goes on, and counts.`,
		Example: "  echomind limits set onedrive:tenant-42 4",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("%s needs KEY and N, the most in flight", c.CommandPath())
			}
			if args[0] == none {
				return usagef("KEY none: means that there is no key: --%s none; choose another", keysFlagName)
			}
			return checkKey("KEY", args[0])
		},
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		most, err := strconv.ParseInt(args[1], 10, 32)
		if err != nil || most < 0 || most > mostOfAKey {
			return usagef("N %q: must be a number from 0 to %d", clip(args[1], 40), mostOfAKey)
		}
		set, err := either(c.Context(), f, func(pool *pgxpool.Pool) (limitView, error) {
			l, err := ask(c.Context(), pool, "set_limit", func(ctx context.Context, q *dbgen.Queries) (dbgen.ConcurrencyLimit, error) {
				return q.SetLimit(ctx, dbgen.SetLimitParams{Key: args[0], Most: int32(most), By: person()})
			})
			if err != nil {
				err = refusedLimit("set the limit", err)
			}
			return limitView{Key: l.Key, Most: l.Most, CreatedAt: l.CreatedAt.UTC(), CreatedBy: l.CreatedBy, UpdatedAt: l.UpdatedAt.UTC(), UpdatedBy: l.UpdatedBy}, err
		}, func(r *remote) (limitView, error) { return r.setLimit(c.Context(), args[0], int32(most)) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), set, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "key %s: at most %d in flight\n", set.Key, set.Most)
			return err
		})
	}
	return c
}

func limitsRemove(f *finder) *cobra.Command {
	c := &cobra.Command{Use: "remove KEY", Short: "Remove the limit of a key", Long: "Remove the limit of a key: it bounds nothing any more. Connectors may go on naming it.",
		Example: "  echomind limits remove onedrive:tenant-42",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("%s needs one KEY", c.CommandPath())
			}
			return checkKey("KEY", args[0])
		},
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		key, err := either(c.Context(), f, func(pool *pgxpool.Pool) (string, error) {
			n, err := ask(c.Context(), pool, "remove_limit", func(ctx context.Context, q *dbgen.Queries) (int64, error) {
				return q.RemoveLimit(ctx, args[0])
			})
			switch {
			case err != nil:
				err = refusedLimit("remove the limit", err)
			case n == 0:
				err = noLimit(args[0])
			}
			return args[0], err
		}, func(r *remote) (string, error) { return args[0], r.removeLimit(c.Context(), args[0]) })
		if err == nil {
			_, err = fmt.Fprintf(c.OutOrStdout(), "key %s has no limit any more\n", key)
		}
		return err
	}
	return c
}

func noLimit(key string) error {
	return fmt.Errorf("key %s has no limit; `echomind limits list` shows those there are", key)
}

func refusedLimit(what string, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == insufficientPrivilege {
		return fmt.Errorf("%s: %s; DATABASE_URL's login must be a member of role %s", what, pg.Message, administratorRole)
	}
	return told(what, err)
}
