package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/internal/conditions"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
)

const (
	maxListedConditions = 10000
	administratorRole   = "echomind_administrator"
)

// conditionView is what programs are shown of a condition.
type conditionView struct {
	Name string `json:"name"`
	// Query is null where a server is asked by a user who is no superadmin.
	Query *string `json:"query"`
	// Users are those whose jobs may name it; null = everybody's.
	Users     []int32 `json:"users"`
	TimeoutMS int32   `json:"timeout_ms"`
	// Connectors is how many name it, not counted beyond 10,000; null where they were not counted.
	Connectors *int64    `json:"connectors"`
	CreatedAt  time.Time `json:"created_at"`
	CreatedBy  *string   `json:"created_by"`
	UpdatedAt  time.Time `json:"updated_at"`
	UpdatedBy  *string   `json:"updated_by"`
}

func viewCondition(c dbgen.Condition) conditionView {
	return conditionView{Name: c.Name, Query: &c.Query, Users: c.UserIds, TimeoutMS: c.TimeoutMs, CreatedAt: c.CreatedAt.UTC(), CreatedBy: c.CreatedBy,
		UpdatedAt: c.UpdatedAt.UTC(), UpdatedBy: c.UpdatedBy}
}

func conditionsOf(f *finder) *cobra.Command {
	return group("conditions", "Write the questions that are asked before a job runs, and try them",
		"A condition is a SELECT of one boolean, with the job's config as $1, a jsonb. It is asked when a job is due that names it; where it is not met the job "+
			"is skipped, and no worker hears of it. Conditions read what is granted to role echomind_conditions. Administrators write them: logins that are members "+
			"of "+administratorRole+".",
		conditionsAdd(f), conditionsList(f), conditionsShow(f), conditionsUpdate(f), conditionsRemove(f), conditionsTry(f))
}

// conditionFlags are what is said of a condition.
type conditionFlags struct {
	query, users string
	timeout      time.Duration
}

func (v *conditionFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&v.query, "query", "", "a SELECT of one boolean; $1 is the job's config; @FILE reads it from a file, @- from standard input")
	flags.StringVar(&v.users, "users", "all", "whose jobs may name it: numbers of users with commas between them, or all")
	flags.DurationVar(&v.timeout, "timeout", conditions.Longest, "how long it may take for one job, 10ms to 2s")
}

func (v *conditionFlags) check(c *cobra.Command) error {
	if c.Flags().Changed("query") {
		if err := readObject("--query", &v.query, c.InOrStdin()); err != nil {
			return err
		}
		if n := len([]rune(v.query)); strings.TrimSpace(v.query) == "" || n > 10000 {
			return usagef("--query: must have 1 to 10000 characters, and has %d", n)
		}
	}
	if v.timeout < 10*time.Millisecond || v.timeout > conditions.Longest || v.timeout%time.Millisecond != 0 {
		return usagef("--timeout %s: must be 10ms to %s", v.timeout, conditions.Longest)
	}
	_, err := v.owners()
	return err
}

func (v *conditionFlags) owners() (all []int32, err error) {
	if v.users == "all" {
		return nil, nil
	}
	for one := range strings.SplitSeq(v.users, ",") {
		id, err := strconv.ParseInt(strings.TrimSpace(one), 10, 32)
		if err != nil || id < 1 {
			return nil, usagef("--users %q: must be numbers of users such as 7,12, or all", clip(v.users, 40))
		}
		all = append(all, int32(id))
	}
	if len(all) > 1000 {
		return nil, usagef("--users: must be at most 1000, and are %d", len(all))
	}
	return all, nil
}

func oneCondition(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("%s needs one NAME, the condition's", c.CommandPath())
	}
	return nil
}

func conditionsAdd(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "add NAME --query SQL", Short: "Add a condition",
		Long: `Add a condition. The query is a SELECT of one boolean, of one row at most, and $1 is the config of the job that asks, a jsonb. Postgres reads it at once,
and refuses one with a mistake. What it reads must be granted to role echomind_conditions.`,
		Example: `  echomind conditions add has_changes --query "SELECT count(*) > ($1->>'least')::int FROM changes"`,
		Args:    oneCondition,
	}
	var given conditionFlags
	given.add(c)
	_ = c.MarkFlagRequired("query")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := given.check(c); err != nil {
			return err
		}
		users, _ := given.owners()
		return f.withPool(c.Context(), func(pool *pgxpool.Pool) error {
			added, err := ask(c.Context(), pool, "add_condition", func(ctx context.Context, q *dbgen.Queries) (dbgen.Condition, error) {
				return q.AddCondition(ctx, dbgen.AddConditionParams{Name: args[0], Query: given.query, UserIds: users,
					TimeoutMs: int32(given.timeout.Milliseconds()), By: person()})
			})
			if err != nil {
				return refusedCondition("add the condition", args[0], err)
			}
			return out.show(c.OutOrStdout(), viewCondition(added), func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "condition %s is added; `echomind conditions try %s --config '{…}'` asks it, and `echomind connectors update ID --condition %s` uses it\n",
					added.Name, added.Name, added.Name)
				return err
			})
		})
	}
	return c
}

func conditionsList(f *finder) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the conditions", Long: "List the conditions, with how many connectors name each.",
		Example: "  echomind conditions list\n  echomind conditions list -o json", Args: cobra.NoArgs}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		views, err := either(c.Context(), f, func(pool *pgxpool.Pool) ([]conditionView, error) {
			found, err := ask(c.Context(), pool, "conditions", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.ListConditionsRow, error) {
				return q.ListConditions(ctx, maxListedConditions)
			})
			if err != nil {
				return nil, fmt.Errorf("list the conditions: %w", err)
			}
			views := make([]conditionView, len(found))
			for i, one := range found {
				views[i] = conditionView{Name: one.Name, Query: &one.Query, Users: one.UserIds, TimeoutMS: one.TimeoutMs, Connectors: &one.Connectors,
					CreatedAt: one.CreatedAt.UTC(), CreatedBy: one.CreatedBy, UpdatedAt: one.UpdatedAt.UTC(), UpdatedBy: one.UpdatedBy}
			}
			return views, nil
		}, func(r *remote) ([]conditionView, error) { return r.conditions(c.Context()) })
		if err != nil {
			return err
		}
		rows := make([][]string, len(views))
		for i, one := range views {
			rows[i] = []string{one.Name, usersOf(one.Users), one.timeout(), countOrDash(one.Connectors), clip(strings.Join(strings.Fields(orDash(one.Query)), " "), 60)}
		}
		return out.show(c.OutOrStdout(), views, func(w io.Writer) error {
			return table(w, []string{"CONDITION", "USERS", "TIMEOUT", "CONNECTORS", "QUERY"}, rows)
		})
	}
	return c
}

func (v conditionView) timeout() string {
	return (time.Duration(v.TimeoutMS) * time.Millisecond).String()
}

func usersOf(ids []int32) string {
	if ids == nil {
		return "all"
	}
	all := make([]string, len(ids))
	for i, id := range slices.Sorted(slices.Values(ids)) {
		all[i] = strconv.Itoa(int(id))
	}
	return strings.Join(all, ",")
}

func conditionsShow(f *finder) *cobra.Command {
	c := &cobra.Command{Use: "show NAME", Short: "Show a condition", Long: "Show a condition, with its whole query.",
		Example: "  echomind conditions show has_changes", Args: oneCondition}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		v, err := either(c.Context(), f, func(pool *pgxpool.Pool) (conditionView, error) {
			found, err := conditionNamed(c.Context(), pool, args[0])
			return viewCondition(found), err
		}, func(r *remote) (conditionView, error) { return r.condition(c.Context(), args[0]) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), v, func(w io.Writer) error { return printCondition(w, v) })
	}
	return c
}

func printCondition(w io.Writer, c conditionView) error {
	now := time.Now()
	if err := table(w, []string{"condition", c.Name}, [][]string{
		{"users", usersOf(c.Users)},
		{"timeout", c.timeout()},
		{"added", clock.At(c.CreatedAt, now) + " by " + orDash(c.CreatedBy)},
		{"updated", clock.At(c.UpdatedAt, now) + " by " + orDash(c.UpdatedBy)},
	}); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\n"+printableLines(orDash(c.Query)))
	return err
}

// printableLines is a text of several lines, each without what a terminal would obey.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return strings.Join(lines, "\n")
}

func conditionsUpdate(f *finder) *cobra.Command {
	c := &cobra.Command{Use: "update NAME [flags]", Short: "Change what is given of a condition", Long: "Change what is given of a condition; the rest stays. The next question is the new one.",
		Example: "  echomind conditions update has_changes --timeout 500ms --users 7,12", Args: oneCondition}
	var given conditionFlags
	given.add(c)
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := errors.Join(somethingGiven(c), given.check(c)); err != nil {
			return err
		}
		users, _ := given.owners()
		return f.withPool(c.Context(), func(pool *pgxpool.Pool) (err error) {
			var updated dbgen.Condition
			err = deadline.Do(c.Context(), "console.update_condition", queryTimeout, func(ctx context.Context) error {
				return postgres.Tx(ctx, pool, func(tx pgx.Tx) error {
					q := dbgen.New(tx)
					old, err := q.LockCondition(ctx, args[0])
					if err != nil {
						return err
					}
					p := dbgen.UpdateConditionParams{Name: args[0], Query: old.Query, UserIds: old.UserIds, TimeoutMs: old.TimeoutMs, By: person()}
					if c.Flags().Changed("query") {
						p.Query = given.query
					}
					if c.Flags().Changed("users") {
						p.UserIds = users
					}
					if c.Flags().Changed("timeout") {
						p.TimeoutMs = int32(given.timeout.Milliseconds())
					}
					updated, err = q.UpdateCondition(ctx, p)
					return err
				})
			})
			if err != nil {
				return refusedCondition("update the condition", args[0], err)
			}
			return out.show(c.OutOrStdout(), viewCondition(updated), func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "condition %s is changed\n", updated.Name)
				return err
			})
		})
	}
	return c
}

func conditionsRemove(f *finder) *cobra.Command {
	c := &cobra.Command{Use: "remove NAME", Short: "Remove a condition that no connector names", Long: "Remove a condition. One that a connector names stays.",
		Example: "  echomind conditions remove has_changes", Args: oneCondition}
	c.RunE = func(c *cobra.Command, args []string) error {
		return f.withPool(c.Context(), func(pool *pgxpool.Pool) error {
			n, err := ask(c.Context(), pool, "remove_condition", func(ctx context.Context, q *dbgen.Queries) (int64, error) {
				return q.RemoveCondition(ctx, args[0])
			})
			if err == nil && n == 0 {
				err = pgx.ErrNoRows
			}
			if err != nil {
				return refusedCondition("remove the condition", args[0], err)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "condition %s is removed\n", args[0])
			return err
		})
	}
	return c
}

func conditionNamed(ctx context.Context, pool *pgxpool.Pool, name string) (dbgen.Condition, error) {
	found, err := ask(ctx, pool, "condition", func(ctx context.Context, q *dbgen.Queries) (dbgen.Condition, error) { return q.GetCondition(ctx, name) })
	if err != nil {
		return found, refusedCondition("read the condition", name, err)
	}
	return found, nil
}

func noCondition(name string) error {
	return fmt.Errorf("there is no condition %q; `echomind conditions list` shows those there are", clip(name, 63))
}

// refusedCondition says what is wrong with a condition.
func refusedCondition(what, name string, err error) error {
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return noCondition(name)
	case !errors.As(err, &pg):
		return fmt.Errorf("%s: %w", what, err)
	case pg.ConstraintName == "conditions_name_form":
		return usagef("NAME %q: must match [a-z][a-z0-9_]* and have at most 63 characters", clip(name, 70))
	case pg.ConstraintName == "conditions_pkey":
		return fmt.Errorf("there is a condition %s already; `echomind conditions update %s` changes it", name, name)
	case pg.ConstraintName == "connectors_condition_known":
		return fmt.Errorf("condition %s is in use: take it from its connectors first (`echomind connectors update ID --condition none`)", name)
	case pg.Code == insufficientPrivilege:
		return fmt.Errorf("%s: %s; DATABASE_URL's login must be a member of role %s", what, pg.Message, administratorRole)
	case strings.HasPrefix(pg.Code, "42"):
		says := pg.Message
		if pg.Detail != "" {
			says += ": " + pg.Detail
		}
		return usagef("--query: PostgreSQL refuses it: %s", says)
	}
	return told(what, err)
}
