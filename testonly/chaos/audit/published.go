package audit

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Published holds the runs that messages were heard of against those that were opened: none is published for a slot that is passed over.
func Published(ctx context.Context, pool *pgxpool.Pool, heard []uuid.UUID) (Finding, error) {
	f := Finding{
		Promise: 4, Name: "every message is of a run", Checked: len(heard),
		How: "no trigger is published but for a run that a claim has opened",
	}
	rows, err := pool.Query(ctx, `SELECT k.id FROM unnest($1::uuid[]) k(id)
		WHERE NOT EXISTS (SELECT FROM chaos.run_events e WHERE e.id = k.id AND e.what = 'open')`, heard)
	if err != nil {
		return f, wrap("ask which runs were opened", err)
	}
	unknown, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	for _, id := range unknown {
		f.violated("a trigger of run %s was published, which nobody has opened", id)
	}
	return f, wrap("ask which runs were opened", err)
}
