package semantic

import (
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

// Key names the chunks of one version of a document.
type Key struct {
	Try        uuid.UUID
	FirstNo    int64
	DocumentID int64
}

// Piece is one chunk to keep.
type Piece struct {
	Key
	*internalpb.Chunk // as it came
	No                int32
	Embedder          string
	Vector            []float32
}

// Reader is who searches: a user, with the groups they belong to.
type Reader struct {
	UserID int32
	Groups []string
}

// Query is what is searched for: a vector of the named embedder, and the words it stands for, in lower case.
type Query struct {
	Embedder string
	Vector   []float32
	Words    []string
}

// Candidate is a chunk near a query. Score is the cosine of the angle between their vectors.
type Candidate struct {
	Key
	No    int32
	Score float32
	// rank orders candidates: the score, and the share of the words that the chunk holds.
	rank float32
}

// PostgresStore keeps vectors as real[] beside the text and searches them exactly.
type PostgresStore struct{ pool *pgxpool.Pool }

// NewPostgresStore makes a store on a pool.
func NewPostgresStore(pool *pgxpool.Pool) *PostgresStore { return &PostgresStore{pool: pool} }

// Write adds chunks within the transaction.
func (*PostgresStore) Write(ctx context.Context, tx pgx.Tx, pieces []Piece) error {
	if len(pieces) == 0 {
		return nil
	}
	columns := []string{
		"try_id", "first_no", "document_id", "no", "text", "heading_path", "start_offset", "end_offset",
		"embedder", "embedding",
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"chunks"}, columns, pgx.CopyFromSlice(len(pieces), func(i int) ([]any, error) {
		p := &pieces[i]
		path := p.HeadingPath
		if path == nil {
			path = []string{}
		}
		return []any{
			[16]byte(p.Try), p.FirstNo, p.DocumentID, p.No, p.Text, path, p.Start, p.End, p.Embedder, p.Vector,
		}, nil
	}))
	return err
}

// Remove deletes the chunks of keys within the transaction.
func (*PostgresStore) Remove(ctx context.Context, tx pgx.Tx, keys []Key) error {
	if len(keys) == 0 {
		return nil
	}
	var p dbgen.DeleteChunksParams
	for _, k := range keys {
		p.TryIds = append(p.TryIds, k.Try)
		p.FirstNos = append(p.FirstNos, k.FirstNo)
		p.Ids = append(p.Ids, k.DocumentID)
	}
	return dbgen.New(tx).DeleteChunks(ctx, p)
}

// searchVectors is not among the generated queries because those gather all rows before the first is looked at: an exact search
// reads every vector of its reader, and keeps a handful. Owner and scope come from the live connector. The chunks of a deleted
// connector belong to nobody, even after another connector took its id.
const searchVectors = `
SELECT c.try_id, c.first_no, c.document_id, c.no, c.embedding,
    (SELECT coalesce(sum(length(w)) FILTER (WHERE strpos(lower(c.text), w) > 0), 0)::real / greatest(sum(length(w)), 1)
        FROM unnest($4::text[]) w)::real
FROM connectors k
JOIN documents d ON d.connector_id = k.id AND d.try_id IS NOT NULL AND d.deleted_at IS NULL
JOIN chunks c ON c.try_id = d.try_id AND c.first_no = d.first_no AND c.document_id = d.id
WHERE c.embedder = $1 AND (
    (k.scope = 'user' AND k.user_id = $2) OR k.scope = 'org' OR (k.scope = 'group' AND k.scope_id = ANY($3::text[])))
    AND d.config_version >= k.added_version`

// Nearest reads every vector that the reader may see and returns the limit best, best first.
func (s *PostgresStore) Nearest(ctx context.Context, query Query, reader Reader, limit int) ([]Candidate, error) {
	groups := reader.Groups
	if groups == nil {
		groups = []string{}
	}
	rows, err := s.pool.Query(ctx, searchVectors, query.Embedder, reader.UserID, groups, query.Words)
	if err != nil {
		return nil, fmt.Errorf("search vectors: %w", err)
	}
	defer rows.Close()
	var best candidates
	for rows.Next() {
		raw := rows.RawValues()
		score, err := dot(raw[4], query.Vector)
		if err != nil {
			return nil, fmt.Errorf("read a vector: %w", err)
		}
		rank := score + math.Float32frombits(binary.BigEndian.Uint32(raw[5]))
		if len(best) == limit && rank <= best[0].rank {
			continue
		}
		var c Candidate
		if err := rows.Scan(&c.Try, &c.FirstNo, &c.DocumentID, &c.No, nil, nil); err != nil {
			return nil, fmt.Errorf("read a candidate: %w", err)
		}
		c.Score, c.rank = score, rank
		heap.Push(&best, c)
		if len(best) > limit {
			heap.Pop(&best)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("search vectors: %w", err)
	}
	sorted := make([]Candidate, len(best))
	for i := len(best) - 1; i >= 0; i-- {
		sorted[i] = heap.Pop(&best).(Candidate)
	}
	return sorted, nil
}

var errVector = errors.New("not a one-dimensional real[] of the query's length")

// dot multiplies a vector in Postgres's binary array format (dimensions, flags, element type, then length and lower
// bound of each dimension, then length and value of each element) with another, without decoding it first.
func dot(array []byte, vector []float32) (float32, error) {
	const header, element = 20, 8
	if len(array) != header+element*len(vector) || binary.BigEndian.Uint32(array) != 1 {
		return 0, errVector
	}
	var sum float32
	for i, x := range vector {
		sum += x * math.Float32frombits(binary.BigEndian.Uint32(array[header+element*i+4:]))
	}
	return sum, nil
}

// candidates is a heap with the worst on top.
type candidates []Candidate

func (c candidates) Len() int           { return len(c) }
func (c candidates) Less(i, j int) bool { return c[i].rank < c[j].rank }
func (c candidates) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(x any)        { *c = append(*c, x.(Candidate)) }
func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}
