package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/postgres"
)

// mostUpstreams is how many others a connector runs after at most.
const mostUpstreams = 1000

// chainFlags say whom a connector runs after.
type chainFlags struct {
	runAfter, accept string
	maxAge, timeout  limit
	// flags are those of the command; nil = it has none of these, and its own --timeout is another.
	flags *pflag.FlagSet
}

func (f *chainFlags) add(c *cobra.Command) {
	flags := c.Flags()
	f.flags = flags
	flags.StringVar(&f.runAfter, "run-after", none, "connectors, by their `IDS` or names and commas, that must each have ended anew before it runs; without --refresh and --cron it runs then, else at its own times; none = it waits for nobody")
	flags.StringVar(&f.accept, "accept", "completed", "--run-after: which of their ends count: completed, or skipped, which is these and the skipped ones")
	flags.Var(&f.maxAge, "max-age", "--run-after: how old the slot of such an end may be; none = of any age")
	flags.Var(&f.timeout, "timeout", "--run-after: how long they are waited for, from the slot on, or from the first of them that has ended; none = for ever")
}

func (f *chainFlags) given() bool {
	return f.flags != nil && slices.ContainsFunc([]string{"run-after", "accept", "max-age", "timeout"}, f.flags.Changed)
}

// named are the connectors that --run-after names.
func (f *chainFlags) named() ([]string, error) {
	if f.runAfter == none {
		return nil, nil
	}
	texts := strings.Split(f.runAfter, ",")
	for i, text := range texts {
		texts[i] = strings.TrimSpace(text)
		if checkConnector(texts[i]) != nil {
			return nil, usagef("--run-after %q: must be connectors' numbers or names with commas between them, such as 12,docs, or none", clip(f.runAfter, 60))
		}
	}
	if len(texts) > mostUpstreams {
		return nil, usagef("--run-after: names %d connectors, must be %d at most", len(texts), mostUpstreams)
	}
	return texts, nil
}

// upstreams are the numbers of those that --run-after names.
func (f *chainFlags) upstreams(ctx context.Context, q *dbgen.Queries) ([]int32, error) {
	texts, err := f.named()
	if err != nil {
		return nil, err
	}
	ids := make([]int32, len(texts))
	for i, text := range texts {
		if isNumber(text) {
			ids[i], err = parseID(text)
		} else {
			ids[i], err = connectorNamed(ctx, q, text)
		}
		if err != nil {
			return nil, usagef("--run-after: %w", err)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

func (f *chainFlags) check() error {
	if f.accept != "completed" && f.accept != "skipped" {
		return usagef("--accept %q: must be completed or skipped", clip(f.accept, 40))
	}
	_, err := f.named()
	return err
}

// checkNew refuses what would mean nothing of a connector that is not there yet.
func (f *chainFlags) checkNew() error {
	if !f.given() {
		return nil
	}
	for _, of := range []string{"accept", "max-age", "timeout"} {
		if f.flags.Changed(of) && f.runAfter == none {
			return usagef("--%s: needs --run-after, which it is about", of)
		}
	}
	return nil
}

// within is what a change of a connector does besides, in its transaction.
func (f *chainFlags) within() within {
	return within{
		before: func(ctx context.Context, q *dbgen.Queries) error {
			if !f.given() {
				return nil
			}
			return q.TakeTurnAtChains(ctx)
		},
		after: func(ctx context.Context, q *dbgen.Queries, id int32) error { return f.write(ctx, q, id) },
	}
}

// write changes what was given of whom a connector runs after; those that stay keep what they have been used for.
func (f *chainFlags) write(ctx context.Context, q *dbgen.Queries, id int32) error {
	if !f.given() {
		return nil
	}
	given := f.flags.Changed
	if given("run-after") {
		ids, err := f.upstreams(ctx, q)
		if err != nil {
			return err
		}
		if err := q.RemoveUpstreams(ctx, dbgen.RemoveUpstreamsParams{ConnectorID: id, Upstreams: ids}); err != nil {
			return chainRefused(err)
		}
		if len(ids) > 0 {
			if err := q.AddUpstreams(ctx, dbgen.AddUpstreamsParams{ConnectorID: id, Upstreams: ids}); err != nil {
				return chainRefused(err)
			}
		}
	}
	p := dbgen.ChangeUpstreamsParams{ConnectorID: id, SetMaxAge: given("max-age"), MaxAge: f.maxAge.column(), SetTimeout: given("timeout"), Timeout: f.timeout.column()}
	if given("accept") {
		p.Accepts = &f.accept
	}
	if !given("accept") && !p.SetMaxAge && !p.SetTimeout {
		return nil
	}
	changed, err := q.ChangeUpstreams(ctx, p)
	if err == nil && changed == 0 && f.runAfter == none {
		return usagef("--accept, --max-age, --timeout: connector %d runs after nobody; give --run-after as well", id)
	}
	return chainRefused(err)
}

// chainRefused is what to correct of a --run-after that the database refuses.
func chainRefused(err error) error {
	var pg *pgconn.PgError
	switch constraint := postgres.Constraint(err); {
	case constraint == "run_after_not_itself":
		return usagef("--run-after: a connector would run after itself")
	case errors.As(err, &pg) && strings.HasPrefix(constraint, "run_after_"):
		return usagef("--run-after: %s", strings.TrimPrefix(pg.Message, "run_after: "))
	}
	return err
}

// upstream is a connector that another one runs after, as programs are shown it.
type upstream struct {
	ConnectorID    int32  `json:"connector_id"`
	Accepts        string `json:"accepts"`
	MaxAgeMinutes  *int32 `json:"max_age_minutes"`
	TimeoutMinutes *int32 `json:"timeout_minutes"`
}

func upstreamsOf(ctx context.Context, pool *pgxpool.Pool, id int32) ([]upstream, error) {
	rows, err := ask(ctx, pool, "run_after", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.RunAfter, error) {
		return q.RunAfterOf(ctx, []int32{id})
	})
	if err != nil {
		return nil, fmt.Errorf("read whom connector %d runs after: %w", id, err)
	}
	all := make([]upstream, len(rows))
	for i, r := range rows {
		all[i] = upstream{r.UpstreamID, r.Accepts, r.MaxAgeMinutes, r.TimeoutMinutes}
	}
	return all, nil
}

// saidAfter names those that a connector runs after, at most a few of them.
func saidAfter(all []upstream) string {
	const few = 10
	asked := func(u upstream) string {
		return policy("accepts", &u.Accepts) + ofMinutes("max age", u.MaxAgeMinutes) + ofMinutes("timeout", u.TimeoutMinutes)
	}
	said := ""
	for i, u := range all[:min(len(all), few)] {
		switch {
		case i == 0:
		case asked(u) != asked(all[i-1]): // what is asked of those before
			said += asked(all[i-1]) + "; "
		default:
			said += ", "
		}
		said += strconv.Itoa(int(u.ConnectorID))
	}
	switch {
	case len(all) > few:
		said += asked(all[few-1]) + fmt.Sprintf("; and %d others", len(all)-few)
	case len(all) > 0:
		said += asked(all[len(all)-1])
	}
	return said
}

func ofMinutes(name string, minutes *int32) string {
	if minutes == nil {
		return ""
	}
	return fmt.Sprintf(", %s %s", name, every(*minutes))
}
