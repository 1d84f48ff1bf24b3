package audit

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// locks says what the triggers have seen of locks.
func (h *history) locks(ctx context.Context, pool *pgxpool.Pool) (Finding, error) {
	f := Finding{
		Promise: 2, Name: "one run has a lock",
		How: "a lock is given in a higher epoch than any before, to nobody before its time is over, and is free when its run's worker is done, and not when somebody else ends the run",
	}
	h.seen(&f, "lock")
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM chaos.lock_events`).Scan(&f.Checked); err != nil {
		return f, fmt.Errorf("count the locks: %w", err)
	}
	return f, nil
}
