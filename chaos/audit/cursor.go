package audit

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

func (h *history) cursor() Finding {
	f := Finding{
		Promise: 5, Name: "the cursor moves with its run",
		How: "a state changes only as its run completes, by one version; or to nothing with a new configuration",
	}
	current := map[int32]configured{}
	for _, e := range h.events {
		if c, exists := h.configs[e.Connector]; exists && current[e.Connector].kind == "" {
			for _, one := range c {
				current[e.Connector] = one // whether it is synthetic does not change
				break
			}
		}
		if !e.StateMoved {
			continue
		}
		f.Checked++
		r := h.runOf(e.OldSession)
		switch {
		case e.Reconfigured:
			if !e.StateEmpty {
				f.violated("%s has a new configuration and a state that is not empty", e)
			}
		case e.From != "SYNCING" || e.To != "ACTIVE" || r == nil || !r.synced():
			f.violated("%s: the state changed from %v to %v, and no run completed", e, version(e.OldVersion), version(e.Version))
		case current[e.Connector].synthetic != nil && !oneMore(e.OldVersion, e.Version):
			f.violated("%s: version %v came after version %v", e, version(e.Version), version(e.OldVersion))
		}
	}
	return f
}

func oneMore(old, now *int) bool {
	before := 0
	if old != nil {
		before = *old
	}
	return now != nil && *now == before+1
}

func version(v *int) any {
	if v == nil {
		return "none"
	}
	return *v
}

// counted looks into the ledger itself: totals are no part of the history.
func counted(ctx context.Context, pool *pgxpool.Pool) (Finding, error) {
	f := Finding{
		Promise: 5, Name: "complete means all stored",
		How: "a run that completed has stored as many messages as its worker sent; skipped means none",
	}
	rows, err := pool.Query(ctx, `SELECT id::text, status, coalesce(total, -1), stored FROM scheduler_runs
		WHERE status IN ('completed', 'skipped')`)
	if err != nil {
		return f, wrap("read the ledger", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, status string
		var total, stored int64
		if err := rows.Scan(&id, &status, &total, &stored); err != nil {
			return f, wrap("read the ledger", err)
		}
		f.Checked++
		if total != stored || (status == "skipped") != (total == 0) {
			f.violated("run %s is %s with %d of %d messages stored", id, status, stored, total)
		}
	}
	return f, wrap("read the ledger", rows.Err())
}
