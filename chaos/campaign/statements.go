package campaign

import (
	"context"
	"fmt"
	"strings"

	"github.com/echomind/sync/chaos/audit"
	"github.com/echomind/sync/chaos/world"
)

const (
	// buffersBound is how many buffers a statement may touch for each row that it returns or writes, at least one.
	buffersBound = 60
	// warmCalls is how often it must have been called: each new connection first reads the catalogue.
	warmCalls = 100
)

// allowed are the statements that may touch more, how many, and why.
var allowed = map[string]struct {
	buffers float64
	why     string
}{
	"PickUp":            {200, "a move: the harness's own triggers write its history"},
	"Complete":          {200, "a move: the harness's own triggers write its history"},
	"Fail":              {400, "a move, and rare: each process reads the catalogue for its first"},
	"Release":           {400, "a move, and rare: each process reads the catalogue for its first"},
	"Advance":           {200, "a move: the harness's own triggers look at what is stored at a checkpoint"},
	"Heartbeat":         {120, "the harness's own triggers watch the leases"},
	"WriteDocuments":    {120, "the harness's own triggers write the history of documents"},
	"DueTypes":          {150, "asks for each type, behind what was claimed since the last vacuum"},
	"Claim":             {60 * 500, "one row for a batch of up to 500 claims"},
	"Plan":              {60 * 500, "one row for a batch of up to 500 plans"},
	"Redispatch":        {400, "a move, and rare: each process reads the catalogue for its first"},
	"Rescue":            {400, "a move, and rare"},
	"Abandon":           {400, "a move, and rare: each process reads the catalogue for its first"},
	"FailLostInTransit": {400, "a move, and rare"},
	"KeepLedger":        {2000, "looks at every partition, once an hour"},
	"ForgetWorkers":     {400, "looks at every worker, once an hour"},
	"SweepOrphanChunks": {400, "looks at each chunk of an ended try, and removes few"},
	"SweepOutdated":     {60 * 1000, "one row for a page of 1000 documents"},
	"SweepLeftovers":    {60 * 2000, "one row for a batch of 2000 documents"},
}

// statements asks Postgres what each statement of the programs has read, since its last crash.
func statements(ctx context.Context, w *world.World) audit.Finding {
	f := audit.Finding{
		Promise: 3, Name: "no statement reads much",
		How: fmt.Sprintf("a statement of a program touches at most %d buffers a row, but for those that are named to be exempt", buffersBound),
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var there bool
	if err := w.Pool.QueryRow(ctx, `SELECT to_regclass('pg_stat_statements') IS NOT NULL`).Scan(&there); err != nil {
		violated(&f, err.Error())
	}
	if !there {
		f.Checked = 1 // not installed: there is nothing to look at
		return f
	}
	rows, err := w.Pool.Query(ctx, `
		SELECT query, calls, rows, (shared_blks_hit + shared_blks_read)::float8 / greatest(calls, rows)
		FROM pg_stat_statements
		WHERE pg_get_userbyid(userid) LIKE 'echomind\_%' AND calls >= $1 ORDER BY 4 DESC`, warmCalls)
	if err != nil {
		violated(&f, err.Error())
		return f
	}
	defer rows.Close()
	for rows.Next() {
		var query string
		var calls, n int64
		var buffers float64
		if err := rows.Scan(&query, &calls, &n, &buffers); err != nil {
			violated(&f, err.Error())
			return f
		}
		f.Checked++
		if buffers > max(buffersBound, allowed[statementName(query)].buffers) {
			violated(&f, fmt.Sprintf("%.0f buffers a row, %d calls, %d rows: %.120s", buffers, calls, n, strings.Join(strings.Fields(query), " ")))
		}
	}
	if err := rows.Err(); err != nil {
		violated(&f, err.Error())
	}
	return f
}

// statementName is what a query file calls a statement.
func statementName(query string) string {
	_, rest, found := strings.Cut(query, "-- name: ")
	if !found {
		return ""
	}
	name, _, _ := strings.Cut(rest, " ")
	return name
}
