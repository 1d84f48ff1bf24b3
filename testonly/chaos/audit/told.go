package audit

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Told holds the ledger against the events that a subscriber has read: each verdict has one event, and none is lost. ids are the ids of verdicts that were read.
// missed says whether the stream has lost what was published at a moment, so that nobody could read it.
func Told(ctx context.Context, pool *pgxpool.Pool, ids map[uuid.UUID]bool, missed func(at time.Time) bool) (Finding, error) {
	f := Finding{
		Promise: 4, Name: "every verdict is told once",
		How: "each verdict of the ledger has one event, written with it; a subscriber has read each that was not dropped, and no other",
	}
	var dropped int
	if err := pool.QueryRow(ctx, `SELECT verdicts FROM moves.dropped_events()`).Scan(&dropped); err != nil {
		return f, wrap("ask for dropped events", err)
	}
	rows, err := pool.Query(ctx, `SELECT coalesce(r.id, t.run_id), r.id IS NOT NULL, count(t.no), max(t.removed_at)
		FROM runs r FULL JOIN chaos.told t ON t.run_id = r.id GROUP BY 1, 2`)
	if err != nil {
		return f, wrap("read the events of the ledger", err)
	}
	var (
		id      uuid.UUID
		ledger  bool
		events  int
		removed *time.Time
		unread  []uuid.UUID
	)
	known := map[uuid.UUID]bool{}
	_, err = pgx.ForEachRow(rows, []any{&id, &ledger, &events, &removed}, func() error {
		f.Checked++
		known[id] = true
		switch {
		case !ledger:
			f.violated("run %s has an event and no verdict", id)
		case events != 1:
			f.violated("run %s has %d events", id, events)
		case removed == nil:
			f.violated("the verdict of run %s was not published, and everything is at rest", id)
		case !ids[id] && !missed(*removed):
			unread = append(unread, id)
		}
		return nil
	})
	if len(unread) > dropped {
		for _, id := range unread {
			f.violated("the verdict of run %s was removed at the outbox, and nobody has read it; %d were dropped", id, dropped)
		}
	}
	for id := range ids {
		if !known[id] {
			f.violated("the verdict of run %s was told, and is not in the ledger", id)
		}
	}
	return f, wrap("read the events of the ledger", err)
}
