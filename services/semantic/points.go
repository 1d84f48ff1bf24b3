package semantic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
	"github.com/echomind/sync/services/semantic/internal/qdrant"
)

// rareWords of a query are searched for by themselves, because in a long chunk one word is lost in the noise of a hashed vector.
// The longest words are taken, because longer words are rarer. Each adds up to rareLimit candidates.
const rareWords, rareLimit = 4, 50

// indexName names the index for an embedder's vectors, and collectionName the collection that holds it now.
func indexName(cfg config.Qdrant, embedder Embedder) string {
	return cfg.Collection + "-" + embedder.Name()
}

func collectionName(row dbgen.SearchIndexRow) string { return row.Name + "-" + row.Generation.String() }

// indexSearch asks Qdrant for what a search is near to.
type indexSearch struct {
	queries *dbgen.Queries
	qdrant  *qdrant.Client
	name    string
}

// Nearest asks for the best chunks of the scopes that the reader may see, in no order.
func (x *indexSearch) Nearest(ctx context.Context, query Query, reader Reader, limit int) ([]Candidate, error) {
	row, err := x.queries.SearchIndex(ctx)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && row.Name != x.name {
		return nil, fmt.Errorf("no index %s is kept: give semantic the same QDRANT_URL and QDRANT_COLLECTION, or take QDRANT_URL away to search in Postgres", x.name)
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the search index: %w", err)
	}
	scopes := []string{"org", fmt.Sprint("user_", reader.UserID)}
	for _, group := range reader.Groups {
		scopes = append(scopes, "group_"+group)
	}
	collection := x.qdrant.Collection(collectionName(row))
	hits, err := collection.Nearest(ctx, query.Vector, scopes, longest(query.Words), uint64(limit), rareLimit)
	if err != nil {
		return nil, err
	}
	candidates := make([]Candidate, len(hits))
	for i, hit := range hits {
		try, err := uuid.Parse(hit.TryID)
		if err != nil {
			return nil, fmt.Errorf("a point of collection %s is not ours: its try_id is %q", collection.Name, hit.TryID)
		}
		candidates[i] = Candidate{Key: Key{Try: try, FirstNo: hit.FirstNo, DocumentID: hit.DocumentID}, No: hit.No, Score: hit.Score}
	}
	return candidates, nil
}

func longest(words []string) []string {
	sorted := slices.SortedStableFunc(slices.Values(words), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return sorted[:min(rareWords, len(sorted))]
}
