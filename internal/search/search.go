// Package search finds chunks by their vectors and words. It is one search with two kinds of callers: those who say themselves whom they
// search for (OfReader), and services/api, whose database knows whom it serves (OfViewer).
//
//	text → vector, words → the index in Qdrant | vectors in Postgres → a shortlist → read from Postgres once more, as whom it is for may see it → ranked
package search

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/search/embed"
	"github.com/echomind/sync/internal/search/qdrant"
)

const (
	// shortlist is how many of the best chunks are read and compared word by word.
	shortlist = 200
	// wordShare is how much of the score the shared words make up.
	wordShare = 0.5
	// leastScore is the least score of a hit. A hashed vector is noisy: on 770 chunks of this repository the cosine with a text
	// that shares no word was up to 0.18, which makes up to 0.09 of the score.
	leastScore = 0.1
	// MaxLimit bounds how many hits one search may ask for.
	MaxLimit = 100
	// MaxBytes bounds the text of a search, so that the text of the longest chunk can be searched for.
	MaxBytes = 64 << 10
)

// Embedder turns texts into vectors of unit length; vectors of embedders with different names are not comparable.
type Embedder interface {
	Name() string
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Question is what is searched for.
type Question struct {
	Text string
	// Limit is how many hits there are at most: 1 to MaxLimit.
	Limit int
	// Sources are the connectors whose documents may be found, and Scope is for whom they are (user, group or org); empty: of all that the
	// search may find.
	Sources []int32
	Scope   string
}

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
	// Of is what else is known of the document and its source.
	Of Origin `json:"-"`
}

// Origin is where a hit comes from: when its document was stored, and what the freshness of its connector is concluded from.
type Origin struct {
	StoredAt           time.Time
	LastSyncAt         *time.Time
	FreshWithinMinutes *int32
	SyncedVersion      *int64
	ConfigVersion      int64
	SeenAt             time.Time
}

// Found is what a search has found.
type Found struct {
	// Hits are the best, best first. Those that do not match the text are left out.
	Hits []Hit
	// IsPartial says that there were more chunks than the Sight lets a search compare, or that an index named as many as it may, some of which are
	// not for this reader: there may be others.
	IsPartial bool
}

// candidate is a chunk near a question.
type candidate struct {
	try        uuid.UUID
	firstNo    int64
	documentID int64
	no         int32
	// score is the cosine of the angle between the vectors; rank, which orders candidates, adds the share of the words that the chunk holds.
	score, rank float32
}

// query is a question as it is asked.
type query struct {
	Question
	embedder string
	vector   []float32
	words    []string
}

// Searcher answers questions.
type Searcher struct {
	embedder Embedder
	index    *index
}

// New makes a Searcher, on Qdrant's index where the configuration names one.
func New(embedder Embedder, cfg config.Qdrant) *Searcher {
	s := &Searcher{embedder: embedder}
	if cfg.URL != "" {
		s.index = &index{qdrant: qdrant.New(cfg), name: IndexName(cfg, embedder)}
	}
	return s
}

// HasIndex says whether candidates are asked of an index, so that their number does not depend on what there is.
func (s *Searcher) HasIndex() bool { return s.index != nil }

// Find returns the best hits for a question among what is in sight. It returns an error for a text that is empty or longer than MaxBytes, or
// a limit outside 1..MaxLimit; one that is ErrIndex where the index does not answer.
func (s *Searcher) Find(ctx context.Context, in Sight, question Question) (Found, error) {
	if len(question.Text) > MaxBytes {
		return Found{}, fmt.Errorf("search text of %d bytes: must have at most %d", len(question.Text), MaxBytes)
	}
	q := query{Question: question, embedder: s.embedder.Name(), words: embed.Words(question.Text)}
	switch {
	case len(q.words) == 0:
		return Found{}, fmt.Errorf("search text %q: must hold at least one word", question.Text)
	case question.Limit < 1 || question.Limit > MaxLimit:
		return Found{}, fmt.Errorf("limit %d: must be 1 to %d", question.Limit, MaxLimit)
	}
	vectors, err := s.embedder.Embed(ctx, []string{question.Text})
	if err != nil {
		return Found{}, fmt.Errorf("embed the search text: %w", err)
	}
	q.vector = vectors[0]
	var near []candidate
	out := Found{}
	if s.index != nil {
		near, err = s.index.nearest(ctx, in, q)
	} else {
		near, out.IsPartial, err = in.nearest(ctx, q)
	}
	if err != nil {
		return Found{}, err
	}
	hits, err := in.read(ctx, q, near)
	if err != nil {
		return Found{}, err
	}
	if s.index != nil { // chunks that the reader may not see took the places of those that the reader may
		out.IsPartial = len(near) >= shortlist && len(hits) < len(near)
	}
	out.Hits = ranked(hits, q.words)
	out.Hits = out.Hits[:min(question.Limit, len(out.Hits))]
	return out, nil
}

// ranked orders hits, which have the cosine as their score, by that and by the words that they share with the text. What does not match it is left out.
func ranked(hits []Hit, words []string) []Hit {
	held := make([][]bool, len(hits)) // by hit: which of the words it holds
	for i, h := range hits {
		held[i] = holds(h.Title+" "+h.Text, words)
	}
	weights := rarity(held, len(words))
	for i := range hits {
		hits[i].Score = (1-wordShare)*hits[i].Score + wordShare*share(held[i], weights)
	}
	hits = slices.DeleteFunc(hits, func(h Hit) bool { return h.Score < leastScore })
	slices.SortStableFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.SourceID, b.SourceID))
	})
	return hits
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
