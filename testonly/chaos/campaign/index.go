package campaign

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/qdrant/go-client/qdrant"

	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/world"
)

// index compares what can be searched with what documents show.
func index(ctx context.Context, w *world.World, commitsLost bool) (audit.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	f, err := audit.Index(ctx, w.Pool, func(ctx context.Context, collection string) ([]audit.Point, error) {
		return pointsOf(ctx, w.Qdrant, collection)
	}, commitsLost)
	return f, wrap("audit the index", err)
}

func pointsOf(ctx context.Context, index *world.Qdrant, collection string) (all []audit.Point, err error) {
	err = index.Each(ctx, collection, func(p map[string]*qdrant.Value) {
		all = append(all, audit.Point{
			Scope: p["scope"].GetStringValue(), ConnectorID: int32(p["connector_id"].GetIntegerValue()),
			DocumentID: p["document_id"].GetIntegerValue(), TryID: p["try_id"].GetStringValue(), FirstNo: p["first_no"].GetIntegerValue(),
			No: int32(p["no"].GetIntegerValue()),
		})
	}, "scope", "connector_id", "document_id", "try_id", "first_no", "no")
	return all, err
}

// indexLost says whether the collection is not there, where there is an index; semantic looks for it every few seconds.
func indexLost(ctx context.Context, w *world.World) (bool, error) {
	if w.Qdrant == nil {
		return false, nil
	}
	var collection string
	err := w.Pool.QueryRow(ctx, `SELECT name || '-' || generation FROM search_index`).Scan(&collection)
	if errors.Is(err, pgx.ErrNoRows) {
		return true, nil
	}
	if err == nil {
		err = w.Qdrant.Look(ctx, collection)
	}
	if errors.Is(err, world.ErrMissing) {
		return true, nil
	}
	return false, wrap("ask for the index", err)
}
