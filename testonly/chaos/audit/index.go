package audit

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Point is what a search index says of one chunk.
type Point struct {
	Scope       string
	ConnectorID int32
	DocumentID  int64
	TryID       string
	FirstNo     int64
	No          int32
}

// Index holds the search index against what documents show. read returns every point of a collection.
// Where Postgres has lost commits, what they brought there stays: search asks Postgres for each hit, and shows none of it.
func Index(
	ctx context.Context, pool *pgxpool.Pool, read func(ctx context.Context, collection string) ([]Point, error), commitsLost bool,
) (Finding, error) {
	f := Finding{
		Promise: 5, Name: "the index is what documents show",
		How: "the search index holds each chunk that a document shows, once, and nothing else; no change waits to be brought",
	}
	var collection string
	var waiting int
	err := pool.QueryRow(ctx, `SELECT coalesce((SELECT name || '-' || generation FROM search_index), ''), (SELECT count(*) FROM search_index_changes)`).
		Scan(&collection, &waiting)
	if err != nil {
		return f, wrap("ask for the index", err)
	}
	if collection == "" {
		f.violated("nobody keeps an index")
		return f, nil
	}
	if waiting > 0 {
		f.violated("%d changes wait to be brought", waiting)
	}
	shown, err := shownChunks(ctx, pool)
	if err != nil {
		return f, err
	}
	held, err := read(ctx, collection)
	if err != nil {
		f.violated("collection %s cannot be read: %s", collection, err)
		return f, nil
	}
	f.Checked = len(shown)
	compareIndex(&f, shown, held, commitsLost)
	return f, nil
}

func shownChunks(ctx context.Context, pool *pgxpool.Pool) ([]Point, error) {
	rows, err := pool.Query(ctx, `
		SELECT CASE k.scope WHEN 'user' THEN 'user_' || k.user_id WHEN 'group' THEN 'group_' || k.scope_id ELSE 'org' END,
			d.connector_id, d.id, d.try_id::text, d.first_no, c.no
		FROM documents d JOIN connectors k ON k.id = d.connector_id
		JOIN chunks c ON c.try_id = d.try_id AND c.first_no = d.first_no AND c.document_id = d.id
		ORDER BY d.connector_id, d.id, c.no`)
	if err != nil {
		return nil, wrap("read what documents show", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Point])
	return all, wrap("read what documents show", err)
}

func compareIndex(f *Finding, shown, held []Point, commitsLost bool) {
	missing := make(map[Point]bool, len(shown))
	for _, chunk := range shown {
		missing[chunk] = true
	}
	for _, point := range held {
		if !missing[point] && !commitsLost {
			f.violated("the index holds %+v, which no document shows, or holds it twice", point)
		}
		delete(missing, point)
	}
	for _, chunk := range shown {
		if missing[chunk] {
			f.violated("%+v is not in the index", chunk)
		}
	}
}
