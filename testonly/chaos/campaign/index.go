package campaign

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/world"
)

// everyPoint is more than a campaign stores.
const everyPoint = 1_000_000

// index compares what can be searched with what documents show.
func index(ctx context.Context, w *world.World, commitsLost bool) (audit.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	f, err := audit.Index(ctx, w.Pool, func(ctx context.Context, collection string) ([]audit.Point, error) {
		return pointsOf(ctx, w.Qdrant, collection)
	}, commitsLost)
	return f, wrap("audit the index", err)
}

// pointsOf asks for everything that is near to nothing.
func pointsOf(ctx context.Context, qdrant *world.Qdrant, collection string) ([]audit.Point, error) {
	size, err := dimensions(ctx, qdrant, collection)
	if err != nil {
		return nil, err
	}
	type search struct {
		Query       []float32 `json:"query"`
		Filter      struct{}  `json:"filter"`
		Limit       int       `json:"limit"`
		WithPayload []string  `json:"with_payload"`
	}
	var body struct {
		Searches []search `json:"searches"`
	}
	body.Searches = []search{{
		Query: make([]float32, size), Limit: everyPoint, WithPayload: []string{"connector_id", "document_id", "version", "no"},
	}}
	var answers []struct {
		Points []struct {
			Payload audit.Point `json:"payload"`
		} `json:"points"`
	}
	if err := qdrant.Ask(ctx, http.MethodPost, "/collections/"+collection+"/points/query/batch", body, &answers); err != nil {
		return nil, err
	}
	if len(answers) != 1 || len(answers[0].Points) == everyPoint {
		return nil, fmt.Errorf("these are not all points of %s", collection)
	}
	var all []audit.Point
	for _, p := range answers[0].Points {
		all = append(all, p.Payload)
	}
	return all, nil
}

func dimensions(ctx context.Context, qdrant *world.Qdrant, collection string) (int, error) {
	var info struct {
		Config struct {
			Params struct {
				Vectors struct {
					Size int `json:"size"`
				} `json:"vectors"`
			} `json:"params"`
		} `json:"config"`
	}
	err := qdrant.Ask(ctx, http.MethodGet, "/collections/"+collection, nil, &info)
	return info.Config.Params.Vectors.Size, err
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
		_, err = dimensions(ctx, w.Qdrant, collection)
	}
	if errors.Is(err, world.ErrMissing) {
		return true, nil
	}
	return false, wrap("ask for the index", err)
}
