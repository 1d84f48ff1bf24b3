package console

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/client"
)

// systemScope is that of jobs of the system.
const systemScope = "system"

const addedSystemJob, changedSystemJob = "system job %d is added\n", "system job %d was there, and is changed\n"

// addSystemJob adds the one job of a type of the system, or changes what is given of it where it is there, and says which.
func (f *finder) addSystemJob(c *cobra.Command, flags *connectorFlags, pool *pgxpool.Pool, p dbgen.AddConnectorParams, out *output) error {
	said := addedSystemJob
	chain := flags.chain.within()
	job, err := f.insert(c.Context(), pool, p, chain.after)
	if postgres.Constraint(err) == "connectors_one_system_job" {
		said = changedSystemJob
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
	return showSystemJob(c, view(job), said, *out)
}

func showSystemJob(c *cobra.Command, job connector, said string, out output) error {
	return out.show(c.OutOrStdout(), job, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, said, job.ID)
		return err
	})
}

// addSystemJob is that of the database.
func (r *remote) addSystemJob(c *cobra.Command, flags *connectorFlags) (job connector, said string, err error) {
	var existing *connector
	p := client.ConnectorsListParams{Type: &flags.connectorType, Scope: new(client.ConnectorsListParamsScope(systemScope)), PageSize: new(int32(pageSize))}
	_, err = readPages(c.Context(), "connectors", func(token *string) ([]byte, error) {
		p.PageToken = token
		answer, err := r.api.ConnectorsListWithResponse(c.Context(), &p)
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	}, func(found connector) bool {
		if found.Type == flags.connectorType && found.Scope == systemScope {
			existing = &found
		}
		return existing != nil
	})
	switch {
	case err != nil:
		return job, "", fmt.Errorf("look for the system job: %w", err)
	case existing == nil:
		job, err = r.add(c, flags)
		return job, addedSystemJob, err
	}
	job, err = r.update(c, strconv.Itoa(int(existing.ID)), flags)
	return job, changedSystemJob, err
}
