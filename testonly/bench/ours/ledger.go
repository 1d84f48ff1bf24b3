package ours

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	// ledgerWeeks is what the default retention keeps, 90 days.
	ledgerWeeks = 13
	// copyBatch is how many rows one COPY writes.
	copyBatch = 500_000
)

var ledgerColumns = []string{"id", "connector_id", "type", "trigger", "slot", "due_at", "started_at", "config_version", "dispatches",
	"picked_up_at", "try_id", "fetched_at", "completed_at", "status", "total"}

// FillLedger gives a system n runs that ended in the weeks before.
func (s *System) FillLedger(ctx context.Context, n int) error {
	return s.with(ctx, func(conn *pgx.Conn) error { return fillLedger(ctx, conn, n) })
}

// fillLedger copies n ended runs into as many weeks as are kept, in the order of time, as they would have come.
func fillLedger(ctx context.Context, conn *pgx.Conn, n int) error {
	var connectors int32
	var week time.Time
	err := conn.QueryRow(ctx, `SELECT max(id), date_trunc('week', clock_timestamp(), 'UTC') FROM connectors`).Scan(&connectors, &week)
	if err != nil {
		return fmt.Errorf("look at what the ledger is of: %w", err)
	}
	week = week.UTC() // no daylight saving between weeks
	first := week.AddDate(0, 0, -7*ledgerWeeks)
	for begins := first; begins.Before(week); begins = begins.AddDate(0, 0, 7) {
		_, err := conn.Exec(ctx, fmt.Sprintf(`CREATE TABLE %s PARTITION OF runs FOR VALUES FROM ('%s') TO ('%s')`,
			pgx.Identifier{"runs_" + begins.Format("20060102")}.Sanitize(), begins.UTC().Format(time.RFC3339),
			begins.AddDate(0, 0, 7).Format(time.RFC3339)))
		if err != nil {
			return fmt.Errorf("make the week of %s: %w", begins.Format(time.DateOnly), err)
		}
	}
	random := rand.New(rand.NewPCG(1, 2)) // the same ledger in each run
	step := week.Sub(first) / time.Duration(n)
	for done := 0; done < n; done += copyBatch {
		size := min(copyBatch, n-done)
		rows := pgx.CopyFromSlice(size, func(i int) ([]any, error) {
			at := first.Add(time.Duration(done+i) * step)
			return []any{uuid.New(), 1 + random.Int32N(connectors), "web", "schedule", at, at, at, int64(1), 1, at, uuid.New(), at, at, "skipped", int64(0)}, nil
		})
		if _, err := conn.CopyFrom(ctx, pgx.Identifier{"runs"}, ledgerColumns, rows); err != nil {
			return fmt.Errorf("copy runs into the ledger: %w", err)
		}
	}
	if _, err := conn.Exec(ctx, `VACUUM ANALYZE runs`); err != nil {
		return fmt.Errorf("analyse the ledger: %w", err)
	}
	return nil
}
