package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/search/qdrant"
)

// rareWords of a query are searched for by themselves, because in a long chunk one word is lost in the noise of a hashed vector.
// The longest words are taken, because longer words are rarer. Each adds up to rareLimit candidates.
const rareWords, rareLimit = 4, 50

// indexTimeout bounds what an index is waited for: less than what a search has, so that it says that the index does not answer.
const indexTimeout = 4 * time.Second

// ErrIndex says that the index does not answer, or that another index is kept.
var ErrIndex = errors.New("the search index does not answer")

// IndexName names the index for an embedder's vectors, and CollectionName the collection that holds it now.
func IndexName(cfg config.Qdrant, embedder interface{ Name() string }) string {
	return cfg.Collection + "-" + embedder.Name()
}

// CollectionName names the collection of an index, by what search_index says of it.
func CollectionName(index string, generation uuid.UUID) string {
	return index + "-" + generation.String()
}

// index asks Qdrant for what a search is near to.
type index struct {
	qdrant *qdrant.Client
	name   string
}

// kept is the collection that semantic keeps of the index now.
func (x *index) kept(ctx context.Context, in Sight) (*qdrant.Collection, error) {
	var name string
	var generation uuid.UUID
	err := in.ask(ctx, func(ctx context.Context, db Querier) error {
		rows, err := db.Query(ctx, `SELECT name, generation FROM `+in.kept)
		if err != nil {
			return err
		}
		_, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, row.Scan(&name, &generation) })
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask for the search index: %w", err)
	}
	if name != x.name {
		return nil, fmt.Errorf("%w: no index %s is kept: give semantic the same QDRANT_URL and QDRANT_COLLECTION, or take QDRANT_URL away to search in Postgres", ErrIndex, x.name)
	}
	return x.qdrant.Collection(CollectionName(name, generation)), nil
}

// nearest asks for the best chunks of the scopes in sight, in no order.
func (x *index) nearest(ctx context.Context, in Sight, q query) ([]candidate, error) {
	collection, err := x.kept(ctx, in)
	if err != nil {
		return nil, err
	}
	within := qdrant.Within{Scopes: in.scopes, Connectors: q.Sources}
	hits, err := deadline.Get(ctx, "search.index", indexTimeout, func(ctx context.Context) ([]qdrant.Hit, error) {
		return collection.Nearest(ctx, q.vector, within, longest(q.words), shortlist, rareLimit)
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIndex, err)
	}
	near := make([]candidate, len(hits))
	for i, hit := range hits {
		try, err := uuid.Parse(hit.TryID)
		if err != nil {
			return nil, fmt.Errorf("%w: a point of collection %s is not ours: its try_id is %q", ErrIndex, collection.Name, hit.TryID)
		}
		near[i] = candidate{try: try, firstNo: hit.FirstNo, documentID: hit.DocumentID, no: hit.No, score: hit.Score}
	}
	return near, nil
}

func longest(words []string) []string {
	sorted := slices.SortedStableFunc(slices.Values(words), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return sorted[:min(rareWords, len(sorted))]
}
