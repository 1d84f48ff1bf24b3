package console

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/postgres"
)

// systemScope is that of jobs of the system.
const systemScope = "system"

// addSystemJob adds the one job of a type of the system, or changes what is given of it where it is there, and says which.
func (f *finder) addSystemJob(c *cobra.Command, flags *connectorFlags, pool *pgxpool.Pool, p dbgen.AddConnectorParams, out *output) error {
	said := "system job %d is added\n"
	chain := flags.chain.within()
	job, err := f.insert(c.Context(), pool, p, chain.after)
	if postgres.Constraint(err) == "connectors_one_system_job" {
		said = "system job %d was there, and is changed\n"
		var id int32
		id, err = ask(c.Context(), pool, "system_job", func(ctx context.Context, q *dbgen.Queries) (int32, error) { return q.SystemJobOf(ctx, p.Type) })
		if err == nil {
			job, err = change(c.Context(), pool, id, func(p *dbgen.AddConnectorParams) error {
				flags.apply(c, p)
				return f.seal(id, p)
			}, chain)
		}
	}
	if err != nil {
		return err
	}
	return out.show(c.OutOrStdout(), view(job), func(w io.Writer) error {
		_, err := fmt.Fprintf(w, said, job.ID)
		return err
	})
}
