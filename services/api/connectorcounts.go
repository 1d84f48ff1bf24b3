package api

import (
	"context"
	"time"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/services/api/internal/dbgen"
)

// Counts is whether documents are counted.
type Counts struct {
	Counts bool `query:"counts" doc:"Whether to count the documents of each, for which they are read."`
}

const (
	// mostDocuments is how many are read to count those that failed, of all connectors of a page.
	mostDocuments = 100_000
	// countTimeout bounds that.
	countTimeout = 4 * time.Second
)

// counted counts the documents of some connectors, where that was asked for; none where that takes too long, or somebody holds them.
func (a *API) counted(ctx context.Context, c Counts, ids ...int32) (map[int32]dbgen.CountDocumentsRow, error) {
	if !c.Counts || len(ids) == 0 {
		return nil, nil
	}
	var rows []dbgen.CountDocumentsRow
	err := deadline.Do(ctx, "api.count_documents", countTimeout, func(ctx context.Context) error {
		return a.byKey(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
			rows, err = q.CountDocuments(ctx, dbgen.CountDocumentsParams{Ids: ids, Most: mostDocuments})
			return err
		})
	})
	if err != nil {
		return nil, ctx.Err()
	}
	counted := make(map[int32]dbgen.CountDocumentsRow, len(rows))
	for _, r := range rows {
		counted[r.ConnectorID] = r
	}
	return counted, nil
}

// count says how many documents it has, where they were counted.
func (c *Connector) count(counted map[int32]dbgen.CountDocumentsRow) {
	r, is := counted[c.ID]
	if !is {
		return
	}
	if c.Documents = &r.Documents; r.Failed >= 0 {
		c.DocumentsFailed = &r.Failed
	}
}
