package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/postgres"
)

// typeView is what programs are shown of a connector type; null = the scheduler's default.
type typeView struct {
	Name string `json:"name"`
	// Kind is source, whose runs store documents, or job, whose runs have a result.
	Kind                  string `json:"kind"`
	DefaultRefreshMinutes *int32 `json:"default_refresh_minutes"`
	MaxConcurrentSyncs    *int32 `json:"max_concurrent_syncs"`
	// System: its one connector is a job of the system.
	System bool `json:"system"`
	// ConcurrencyKeys are those that every connector of the type has; null = none.
	ConcurrencyKeys []string `json:"concurrency_keys"`
	// Provider is whose service its connectors ask; null = nobody has said.
	Provider *string `json:"provider"`
}

func types(f *finder) *cobra.Command {
	return group("types", "List and add types of connectors",
		"The set of connector types is open: a type that is added here is scheduled like the others, and the subscriber of "+
			"connector.sync.<type> syncs it.", typesList(f), typesAdd(f))
}

func typesList(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List the types of connectors", Long: "List the types of connectors.",
		Example: "  echomind types list", Args: cobra.NoArgs,
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		views, err := either(c.Context(), f, func(pool *pgxpool.Pool) ([]typeView, error) {
			found, err := ask(c.Context(), pool, "types", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.ConnectorType, error) {
				return q.ListConnectorTypes(ctx)
			})
			if err != nil {
				return nil, fmt.Errorf("list the connector types: %w", err)
			}
			views := make([]typeView, len(found))
			for i, t := range found {
				views[i] = viewType(t)
			}
			return views, nil
		}, func(r *remote) ([]typeView, error) { return r.types(c.Context()) })
		if err != nil {
			return err
		}
		rows := make([][]string, len(views))
		for i, t := range views {
			rows[i] = []string{t.Name, t.Kind, t.defaultRefresh(), t.cap(), t.keys(), orDash(t.Provider)}
		}
		return out.show(c.OutOrStdout(), views, func(w io.Writer) error {
			return table(w, []string{"TYPE", "KIND", "DEFAULT REFRESH", "MOST IN FLIGHT", "KEYS", "PROVIDER"}, rows)
		})
	}
	return c
}

func viewType(t dbgen.ConnectorType) typeView {
	return typeView{Name: t.Name, Kind: t.Kind, DefaultRefreshMinutes: t.DefaultRefreshMinutes, MaxConcurrentSyncs: t.MaxConcurrentSyncs, System: t.System, ConcurrencyKeys: t.ConcurrencyKeys, Provider: t.Provider}
}

func (t typeView) defaultRefresh() string {
	if t.DefaultRefreshMinutes == nil {
		return "default"
	}
	return every(*t.DefaultRefreshMinutes)
}

func (t typeView) cap() string {
	switch {
	case t.MaxConcurrentSyncs == nil:
		return "default"
	case *t.MaxConcurrentSyncs == 0:
		return "no cap"
	}
	return strconv.Itoa(int(*t.MaxConcurrentSyncs))
}

func (t typeView) keys() string {
	if len(t.ConcurrencyKeys) == 0 {
		return "-"
	}
	return strings.Join(t.ConcurrencyKeys, ", ")
}

func typesAdd(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a type of connectors, or change what is given of one",
		Long: `Add a type of connectors, or change what is given of one that exists. The name is part of a subject:
small letters, digits and _, beginning with a letter. The runs of a source store documents, those of a job store none and have a result;
which it is cannot be changed.`,
		Example: "  echomind types add wiki --default-refresh 24h\n  echomind types add web --max-concurrent 20\n" +
			"  echomind types add word_count --kind job --default-refresh 6h",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("%s needs one NAME, the type's", c.CommandPath())
			}
			return nil
		},
	}
	var refresh interval
	c.Flags().Var(&refresh, "default-refresh", "interval of a new connector for which nobody chose; 0 = once; manual is refused")
	most := c.Flags().Int32("max-concurrent", 0, "how many may be in flight at once; 0 = no cap")
	system := c.Flags().Bool("system", false, "a type of jobs whose one connector is the system's; administrators add it")
	var keys []string
	keysFlag(c.Flags(), &keys)
	provider := c.Flags().String("provider", "", "whose service its connectors ask, which blackout windows name; none = nobody's; administrators name it")
	kind := c.Flags().String("kind", kindSource, "what it is: source or job")
	c.MarkFlagsMutuallyExclusive("system", "kind")
	c.MarkFlagsMutuallyExclusive("system", "max-concurrent")
	c.MarkFlagsMutuallyExclusive("system", keysFlagName)
	c.MarkFlagsMutuallyExclusive("system", "provider")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		p := dbgen.SetConnectorTypeParams{Name: args[0], Kind: *kind}
		if *kind != kindSource && *kind != kindJob {
			return usagef("--kind %q: must be %s or %s", clip(*kind, 40), kindSource, kindJob)
		}
		if c.Flags().Changed("default-refresh") {
			if refresh.manual {
				return usagef("--default-refresh manual: must be an interval, or 0 for once")
			}
			p.DefaultRefreshMinutes = &refresh.minutes
		}
		if c.Flags().Changed("max-concurrent") {
			p.MaxConcurrentSyncs = most
		}
		if p.SetsKeys = c.Flags().Changed(keysFlagName); p.SetsKeys {
			if err := checkKeys(keys); err != nil {
				return err
			}
			p.ConcurrencyKeys = keysGiven(keys)
		}
		given := typeGiven{SetConnectorTypeParams: p, system: *system, setsKind: c.Flags().Changed("kind"), setsProvider: c.Flags().Changed("provider")}
		if *provider != none {
			given.provider = provider
		}
		set, err := either(c.Context(), f, func(pool *pgxpool.Pool) (typeView, error) { return setType(c.Context(), pool, given) },
			func(r *remote) (typeView, error) { return r.setType(c.Context(), given) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), set, func(w io.Writer) error {
			keys := ""
			if len(set.ConcurrencyKeys) > 0 {
				keys = ", keys " + set.keys()
			}
			_, err := fmt.Fprintf(w, "type %s, a %s: default refresh %s, most in flight %s%s\n", set.Name, printable(set.Kind), set.defaultRefresh(), set.cap(), printable(keys))
			return err
		})
	}
	return c
}

// typeGiven is what is given of a type.
type typeGiven struct {
	dbgen.SetConnectorTypeParams
	system, setsKind, setsProvider bool
	provider                       *string
}

func setType(ctx context.Context, pool *pgxpool.Pool, given typeGiven) (v typeView, _ error) {
	p := given.SetConnectorTypeParams
	isSystems, err := stays(ctx, pool, given)
	if err != nil {
		return v, err
	}
	write := func() (dbgen.ConnectorType, error) {
		return ask(ctx, pool, "add_type", func(ctx context.Context, q *dbgen.Queries) (dbgen.ConnectorType, error) {
			if given.system {
				return q.AddSystemType(ctx, dbgen.AddSystemTypeParams{Name: p.Name, DefaultRefreshMinutes: p.DefaultRefreshMinutes})
			}
			return q.SetConnectorType(ctx, p)
		})
	}
	set, err := write()
	if isSystems && postgres.Constraint(err) == "connector_types_name_is_the_systems" { // it would add a type of that name first
		given.system = true
		set, err = write()
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return v, staysNoSystemType(p.Name)
	}
	if err != nil {
		return v, refusedType(p, err)
	}
	if given.setsProvider {
		named := dbgen.SetTypeProviderParams{Name: p.Name, Provider: given.provider}
		set, err = ask(ctx, pool, "set_provider", func(ctx context.Context, q *dbgen.Queries) (dbgen.ConnectorType, error) {
			return q.SetTypeProvider(ctx, named)
		})
		if err != nil {
			return v, refusedProvider(named, err)
		}
	}
	return viewType(set), nil
}

func staysNoSystemType(name string) error {
	return fmt.Errorf("type %s is not the system's, and stays so: add a type of another name", name)
}

const kindSource, kindJob = "source", "job"

// stays refuses what a type that is there does not become. isSystems: it is one of the system's.
func stays(ctx context.Context, pool *pgxpool.Pool, given typeGiven) (isSystems bool, _ error) {
	p := given.SetConnectorTypeParams
	standing, err := ask(ctx, pool, "type", func(ctx context.Context, q *dbgen.Queries) (dbgen.ConnectorType, error) {
		return q.ConnectorType(ctx, p.Name)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read the connector type: %w", err)
	case given.setsKind && standing.Kind != p.Kind:
		return false, staysOfKind(p.Name, standing.Kind)
	case standing.System && p.MaxConcurrentSyncs != nil && *p.MaxConcurrentSyncs > 0:
		return true, wrongOfType("connector_types_system_has_no_cap", p)
	case standing.System && p.ConcurrencyKeys != nil:
		return true, wrongOfType("connector_types_system_has_no_keys", p)
	}
	return standing.System, nil
}

func staysOfKind(name, kind string) error {
	return fmt.Errorf("type %s is a %s, and stays one: add a type of another name", name, printable(kind))
}

func refusedType(p dbgen.SetConnectorTypeParams, err error) error {
	if wrong := wrongOfType(postgres.Constraint(err), p); wrong != nil {
		return wrong
	}
	return fmt.Errorf("add the connector type: %w", err)
}

// wrongOfType says what is wrong with a type, by the constraint that refuses it; nil: another one does.
func wrongOfType(constraint string, p dbgen.SetConnectorTypeParams) error {
	switch constraint {
	case "connector_types_name_form":
		return usagef("NAME %q: must match [a-z][a-z0-9_]* and have at most 63 characters", clip(p.Name, 70))
	case "connector_types_name_is_the_systems":
		return usagef("NAME %s: is that of a job of the system; choose another", p.Name)
	case "connector_types_refresh_range":
		return usagef("--default-refresh: must be 0 to %dd", maxMinutes/unitMinutes["d"])
	case "connector_types_system_has_no_cap":
		return usagef("--max-concurrent %d: type %s is the system's, which has one run at most", *p.MaxConcurrentSyncs, p.Name)
	case "connector_types_system_has_no_keys":
		return usagef("--key: type %s is the system's; an administrator names keys of its job: `echomind connectors update ID --key …`", p.Name)
	case "connector_types_cap_range":
		return usagef("--max-concurrent %d: must be 0 (no cap) or more", *p.MaxConcurrentSyncs)
	}
	return nil
}

func wrongProvider(provider *string) error {
	return usagef("--provider %q: must match [a-z][a-z0-9_-]* and have at most 63 characters", clip(orDash(provider), 70))
}

func refusedProvider(p dbgen.SetTypeProviderParams, err error) error {
	var pg *pgconn.PgError
	switch {
	case postgres.Constraint(err) == "connector_types_provider_form":
		return wrongProvider(p.Provider)
	case errors.As(err, &pg) && pg.Code == insufficientPrivilege:
		return fmt.Errorf("name the provider: %s; DATABASE_URL's login must be a member of role %s, since blackout windows go by it", pg.Message, administratorRole)
	}
	return fmt.Errorf("name the provider: %w", err)
}
