package semantic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/services/semantic/embed"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
	"github.com/echomind/sync/services/semantic/internal/qdrant"
)

const (
	searchTimeout = 30 * time.Second
	// shortlist is how many of the best chunks are read and compared word by word.
	shortlist = 200
	// wordShare is how much of the score the shared words make up.
	wordShare = 0.5
	// leastScore is the least score of a hit. A hashed vector is noisy: on 770 chunks of this repository the cosine with a text
	// that shares no word was up to 0.18, which makes up to 0.09 of the score.
	leastScore = 0.1
	// MaxSearchLimit bounds how many hits one search may ask for.
	MaxSearchLimit = 100
	// MaxSearchBytes bounds the text of a search, so that the text of the longest chunk can be searched for.
	MaxSearchBytes = 64 << 10
)

// Hit is one chunk that a search found.
type Hit struct {
	ConnectorID int32    `json:"connector_id"`
	Connector   string   `json:"connector"`
	SourceID    string   `json:"source_id"`
	Title       string   `json:"title"`
	URL         string   `json:"url"`
	HeadingPath []string `json:"heading_path"`
	Text        string   `json:"text"`
	Start       int64    `json:"start"`
	End         int64    `json:"end"`
	Score       float32  `json:"score"`
}

// Searcher answers searches.
type Searcher struct {
	queries  *dbgen.Queries
	embedder Embedder
	vectors  vectors
}

// vectors finds candidates by their vectors.
type vectors interface {
	Nearest(ctx context.Context, query Query, reader Reader, limit int) ([]Candidate, error)
}

// NewSearcher makes a Searcher with the embedded embedder, on Qdrant's index where the configuration names one.
func NewSearcher(pool *pgxpool.Pool, cfg config.Qdrant) *Searcher {
	s := &Searcher{queries: dbgen.New(pool), embedder: &embed.Hash{}, vectors: NewPostgresStore(pool)}
	if cfg.URL != "" {
		s.vectors = &indexSearch{queries: s.queries, qdrant: qdrant.New(cfg), name: indexName(cfg, s.embedder)}
	}
	return s
}

// Search returns the best hits for a text among the documents that a reader may see: their own, their groups' and the
// organisation's. Hits that do not match the text are left out. It returns an error for a text that is empty or longer than
// MaxSearchBytes, or a limit outside 1..MaxSearchLimit.
func (s *Searcher) Search(ctx context.Context, reader Reader, text string, limit int) ([]Hit, error) {
	if len(text) > MaxSearchBytes {
		return nil, fmt.Errorf("search text of %d bytes: must have at most %d", len(text), MaxSearchBytes)
	}
	words := embed.Words(text)
	switch {
	case len(words) == 0:
		return nil, fmt.Errorf("search text %q: must hold at least one word", text)
	case limit < 1 || limit > MaxSearchLimit:
		return nil, fmt.Errorf("limit %d: must be 1 to %d", limit, MaxSearchLimit)
	}
	return deadline.Get(ctx, "semantic.search", searchTimeout, func(ctx context.Context) ([]Hit, error) {
		vectors, err := s.embedder.Embed(ctx, []string{text})
		if err != nil {
			return nil, fmt.Errorf("embed the search text: %w", err)
		}
		near, err := s.vectors.Nearest(ctx, Query{Embedder: s.embedder.Name(), Vector: vectors[0], Words: words}, reader, shortlist)
		if err != nil {
			return nil, err
		}
		hits, err := s.read(ctx, reader, near, words)
		if err != nil {
			return nil, err
		}
		return hits[:min(limit, len(hits))], nil
	})
}

func (s *Searcher) read(ctx context.Context, reader Reader, near []Candidate, words []string) ([]Hit, error) {
	hits := []Hit{}
	var held [][]bool // by hit: which of the words it holds
	for _, c := range near {
		row, err := s.queries.SearchHit(ctx, dbgen.SearchHitParams{
			TryID: c.Try, FirstNo: c.FirstNo, DocumentID: c.DocumentID, No: c.No,
			UserID: reader.UserID, Groups: append([]string{}, reader.Groups...),
		})
		if errors.Is(err, pgx.ErrNoRows) {
			continue // replaced, deleted or handed to somebody else since the vectors were read
		}
		if err != nil {
			return nil, fmt.Errorf("read a hit: %w", err)
		}
		hits = append(hits, Hit{
			ConnectorID: row.ConnectorID, Connector: row.Connector, SourceID: row.SourceID, Title: row.Title,
			URL: row.Url, HeadingPath: row.HeadingPath, Text: row.Text, Start: row.StartOffset, End: row.EndOffset,
			Score: c.Score,
		})
		held = append(held, holds(row.Title+" "+row.Text, words))
	}
	weights := rarity(held, len(words))
	for i := range hits {
		hits[i].Score = (1-wordShare)*hits[i].Score + wordShare*share(held[i], weights)
	}
	hits = slices.DeleteFunc(hits, func(h Hit) bool { return h.Score < leastScore })
	slices.SortStableFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.SourceID, b.SourceID))
	})
	return hits, nil
}

// holds says, for each word, whether the text holds it.
func holds(text string, words []string) []bool {
	found := map[string]bool{}
	for _, w := range embed.Words(text) {
		found[w] = true
	}
	out := make([]bool, len(words))
	for i, w := range words {
		out[i] = found[w]
	}
	return out
}

// rarity weighs each word by how few of the hits hold it (inverse document frequency): a rare word says more about what is meant.
func rarity(held [][]bool, words int) []float32 {
	weights := make([]float32, words)
	for i := range weights {
		holders := 0
		for _, h := range held {
			if h[i] {
				holders++
			}
		}
		weights[i] = float32(math.Log(1 + float64(len(held)+1)/float64(holders+1)))
	}
	return weights
}

// share is the share of the words' weight that a hit holds.
func share(held []bool, weights []float32) float32 {
	var has, all float32
	for i, w := range weights {
		all += w
		if held[i] {
			has += w
		}
	}
	return has / all
}
