package campaign

import (
	"context"
	"fmt"
	"strings"

	"github.com/echomind/sync/chaos/audit"
	"github.com/echomind/sync/chaos/world"
)

// buffersBound is how many buffers a statement may touch for each row that it returns or writes, at least one.
const buffersBound = 60

// seldom are the statements that look at more than they return, and why they may.
var seldom = map[string]string{}

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
		WHERE pg_get_userbyid(userid) LIKE 'echomind\_%' AND calls >= 5 ORDER BY 4 DESC`)
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
		if _, exempt := seldom[statementName(query)]; !exempt && buffers > buffersBound {
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
