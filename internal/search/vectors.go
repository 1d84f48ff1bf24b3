package search

import (
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

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

// portion is how many chunks are read at once where a search compares for a bounded time.
const portion = 1000

// nearest compares the vectors in sight and returns the best, best first, and whether there were more than are compared.
func (in Sight) nearest(ctx context.Context, q query) (near []candidate, isPartial bool, err error) {
	var c comparison
	err = in.ask(ctx, func(ctx context.Context, db Querier) (err error) {
		c = comparison{most: in.most, vector: q.vector}
		if in.most == 0 {
			sql, args := in.vectorsSQL(q)
			_, err = c.take(ctx, db, sql, args)
			return err
		}
		isPartial, err = in.inPortions(ctx, db, q, &c)
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("search vectors: %w", err)
	}
	near = make([]candidate, len(c.best))
	for i := len(c.best) - 1; i >= 0; i-- {
		near[i] = heap.Pop(&c.best).(candidate)
	}
	return near, isPartial, nil
}

// inPortions compares until there are no more chunks, or the time is over. db is a transaction.
func (in Sight) inPortions(ctx context.Context, db Querier, q query, c *comparison) (isPartial bool, err error) {
	until := time.Now().Add(in.patience)
	sql, args := in.vectorsSQL(q)
	rows, err := db.Query(ctx, `DECLARE in_sight NO SCROLL CURSOR FOR `+sql, args)
	if err != nil {
		return false, err
	}
	if rows.Close(); rows.Err() != nil {
		return false, rows.Err()
	}
	for more := true; more && !isPartial; {
		n, err := c.take(ctx, db, fmt.Sprintf(`FETCH %d FROM in_sight`, portion))
		if err != nil {
			return false, err
		}
		more = n == portion
		isPartial = c.seen > in.most || more && time.Now().After(until)
	}
	rows, err = db.Query(ctx, `CLOSE in_sight`)
	if err != nil {
		return false, err
	}
	rows.Close()
	return isPartial, rows.Err()
}

// comparison keeps the best of what it has seen.
type comparison struct {
	// most is how many chunks it compares; 0 = all.
	most, seen int
	vector     []float32
	best       candidates
}

// take compares what a statement returns, and says how much that was.
func (c *comparison) take(ctx context.Context, db Querier, sql string, args ...any) (n int, err error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for ; rows.Next(); n++ {
		if c.seen++; c.most > 0 && c.seen > c.most {
			continue // the last row
		}
		raw := rows.RawValues()
		score, err := dot(raw[4], c.vector)
		if err != nil {
			return 0, fmt.Errorf("read a vector: %w", err)
		}
		rank := score + math.Float32frombits(binary.BigEndian.Uint32(raw[5]))
		if len(c.best) == shortlist && rank <= c.best[0].rank {
			continue
		}
		one := candidate{score: score, rank: rank}
		if err := rows.Scan(&one.try, &one.firstNo, &one.documentID, &one.no, nil, nil); err != nil {
			return 0, fmt.Errorf("read a candidate: %w", err)
		}
		heap.Push(&c.best, one)
		if len(c.best) > shortlist {
			heap.Pop(&c.best)
		}
	}
	return n, rows.Err()
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
