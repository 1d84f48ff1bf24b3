package semantic

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/search"
	"github.com/echomind/sync/internal/search/embed"
)

const (
	searchTimeout = 30 * time.Second
	// MaxSearchLimit bounds how many hits one search may ask for.
	MaxSearchLimit = search.MaxLimit
	// MaxSearchBytes bounds the text of a search, so that the text of the longest chunk can be searched for.
	MaxSearchBytes = search.MaxBytes
)

// Reader is who searches: a user, with the groups they belong to.
type Reader = search.Reader

// Hit is one chunk that a search found.
type Hit = search.Hit

// Searcher answers searches. Its caller names the reader.
type Searcher struct {
	pool *pgxpool.Pool
	*search.Searcher
}

// NewSearcher makes a Searcher with the embedded embedder, on Qdrant's index where the configuration names one.
func NewSearcher(pool *pgxpool.Pool, cfg config.Qdrant) *Searcher {
	return &Searcher{pool, search.New(&embed.Hash{}, cfg)}
}

// Search returns the best hits for a text among the documents that a reader may see: their own, their groups' and the
// organisation's. Hits that do not match the text are left out. It returns an error for a text that is empty or longer than
// MaxSearchBytes, or a limit outside 1..MaxSearchLimit.
func (s *Searcher) Search(ctx context.Context, reader Reader, text string, limit int) ([]Hit, error) {
	return deadline.Get(ctx, "semantic.search", searchTimeout, func(ctx context.Context) ([]Hit, error) {
		found, err := s.Find(ctx, search.OfReader(s.pool, reader), search.Question{Text: text, Limit: limit})
		return found.Hits, err
	})
}
