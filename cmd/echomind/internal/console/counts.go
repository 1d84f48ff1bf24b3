package console

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/deadline"
)

// failedTimeout bounds the count of failed documents, for which every document of the connectors is read.
const failedTimeout = 3 * time.Second

// documentCounts are what connectors have stored, and what of them is failed now, by connector.
type documentCounts struct {
	found, failed map[int32]int64
	// unknown says why failed documents could not be counted.
	unknown error
}

// countDocuments counts the documents of connectors, a page of them at a time.
func countDocuments(ctx context.Context, pool *pgxpool.Pool, of []dbgen.Connector) (documentCounts, error) {
	counted := documentCounts{found: map[int32]int64{}, failed: map[int32]int64{}}
	ids := make([]int32, len(of))
	for i, c := range of {
		ids[i] = c.ID
	}
	for page := range slices.Chunk(ids, listPage) {
		found, err := ask(ctx, pool, "count_found", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.CountFoundRow, error) {
			return q.CountFound(ctx, page)
		})
		if err != nil {
			return counted, fmt.Errorf("count documents: %w", err)
		}
		for _, r := range found {
			counted.found[r.ConnectorID] = r.Documents
		}
	}
	counted.unknown = deadline.Do(ctx, "console.count_failed", failedTimeout, func(ctx context.Context) error {
		for page := range slices.Chunk(ids, listPage) {
			failed, err := dbgen.New(pool).CountFailed(ctx, page)
			if err != nil {
				return err
			}
			for _, r := range failed {
				counted.failed[r.ConnectorID] = r.Failed
			}
		}
		return nil
	})
	return counted, ctx.Err()
}

// numberOf is a number of documents; "?" where they were not counted.
func numberOf(documents *int64) string {
	if documents == nil {
		return "?"
	}
	return count(*documents)
}

// of puts the counts into what programs are shown of a connector.
func (d documentCounts) of(c connector) connector {
	found, failed := d.found[c.ID], d.failed[c.ID]
	c.Documents = &found
	if d.unknown == nil {
		c.DocumentsFailed = &failed
	}
	return c
}
