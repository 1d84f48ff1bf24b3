package search

import (
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
)

// vectorsSQL is not among the generated queries because those gather all rows before the first is looked at: an exact search reads every vector that
// is in sight, and keeps a handful.
func (in Sight) vectorsSQL(q query) (sql string, args pgx.NamedArgs) {
	args = in.with(pgx.NamedArgs{"embedder": q.embedder, "words": q.words})
	rows := `SELECT c.try_id, c.first_no, c.document_id, c.no, c.embedding, c.text FROM ` + in.chunks + ` c WHERE c.embedder = @embedder::text` + narrowed(q, args)
	if in.most > 0 { // connector by connector, so that no more is read than is compared
		rows = `SELECT c.* FROM unnest(@within::integer[]) k (id) CROSS JOIN LATERAL (` + rows + ` AND c.connector_id = k.id LIMIT @rows::integer) c LIMIT @rows::integer`
		args["within"], args["rows"] = in.within, in.most+1
	}
	// OFFSET 0 has each text lowered once, and not once for each word.
	return `SELECT r.try_id, r.first_no, r.document_id, r.no, r.embedding,
    (SELECT coalesce(sum(length(w)) FILTER (WHERE strpos(l.text, w) > 0), 0)::real / greatest(sum(length(w)), 1) FROM (SELECT lower(r.text) AS text OFFSET 0) l, unnest(@words::text[]) w)::real
FROM (` + rows + `) r`, args
}

// nearest compares the vectors in sight and returns the best, best first, and whether there were more than are compared.
func (in Sight) nearest(ctx context.Context, q query) (near []candidate, isPartial bool, err error) {
	var best candidates
	err = in.ask(ctx, func(ctx context.Context, db Querier) (err error) {
		best, isPartial, err = in.compare(ctx, db, q)
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("search vectors: %w", err)
	}
	near = make([]candidate, len(best))
	for i := len(best) - 1; i >= 0; i-- {
		near[i] = heap.Pop(&best).(candidate)
	}
	return near, isPartial, nil
}

func (in Sight) compare(ctx context.Context, db Querier, q query) (best candidates, isPartial bool, err error) {
	sql, args := in.vectorsSQL(q)
	rows, err := db.Query(ctx, sql, args)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for compared := 0; rows.Next(); compared++ {
		if in.most > 0 && compared == in.most {
			isPartial = true
			continue // the last row
		}
		raw := rows.RawValues()
		score, err := dot(raw[4], q.vector)
		if err != nil {
			return nil, false, fmt.Errorf("read a vector: %w", err)
		}
		rank := score + math.Float32frombits(binary.BigEndian.Uint32(raw[5]))
		if len(best) == shortlist && rank <= best[0].rank {
			continue
		}
		c := candidate{score: score, rank: rank}
		if err := rows.Scan(&c.try, &c.firstNo, &c.documentID, &c.no, nil, nil); err != nil {
			return nil, false, fmt.Errorf("read a candidate: %w", err)
		}
		heap.Push(&best, c)
		if len(best) > shortlist {
			heap.Pop(&best)
		}
	}
	return best, isPartial, rows.Err()
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
type candidates []candidate

func (c candidates) Len() int           { return len(c) }
func (c candidates) Less(i, j int) bool { return c[i].rank < c[j].rank }
func (c candidates) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(x any)        { *c = append(*c, x.(candidate)) }
func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}
