package scheduler

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/internal/connect"
)

// recorder keeps the statements that pass through a pool.
type recorder struct {
	mu         sync.Mutex
	statements map[string]statement
}

type statement struct {
	sql  string
	args []any
}

func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if name, named := strings.CutPrefix(q.SQL, "-- name: "); named {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.statements[name[:strings.IndexByte(name, ' ')]] = statement{q.SQL, q.Args}
	}
	return ctx
}

func (r *recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// recorded is the stage with a recorder on its pool.
func (s *stage) recorded() (*stage, *recorder) {
	s.Helper()
	r := &recorder{statements: map[string]statement{}}
	cfg, err := pgxpool.ParseConfig(s.url)
	s.do(err)
	cfg.ConnConfig.Tracer = r
	pool, err := pgxpool.NewWithConfig(s.Context(), cfg)
	s.do(err)
	s.Cleanup(pool.Close)
	other := *s
	other.servers = &connect.Servers{Pool: pool, NATS: s.servers.NATS, Stream: s.servers.Stream}
	return &other, r
}

// lone is the stage with a pool of one connection.
func (s *stage) lone() *stage {
	s.Helper()
	cfg, err := pgxpool.ParseConfig(s.url)
	s.do(err)
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(s.Context(), cfg)
	s.do(err)
	s.Cleanup(pool.Close)
	other := *s
	other.servers = &connect.Servers{Pool: pool, NATS: s.servers.NATS, Stream: s.servers.Stream}
	return &other
}

// mostBuffers bounds what a look may read to find nothing, or one row, of many thousands in flight.
const mostBuffers = 40

// buffers is what a statement reads, with all that the functions in it read, once the session knows its plans; and how many
// rows it returns. Nothing of it stays.
func (s *stage) buffers(mode, before, sql string, args ...any) (buffers, rows int) {
	s.Helper()
	tx, err := s.servers.Pool.Begin(s.Context())
	s.do(err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(s.Context())) }()
	_, err = tx.Exec(s.Context(), `SET LOCAL plan_cache_mode = `+mode+`; SET LOCAL echomind.moving = 'on'; `+before)
	s.do(err)
	for range 7 { // after five a plan may be generic
		var text []byte
		nested, err := tx.Begin(s.Context())
		s.do(err)
		s.do(nested.QueryRow(s.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql, args...).Scan(&text))
		s.do(nested.Rollback(s.Context()))
		var all []struct {
			Plan struct {
				Hit  int     `json:"Shared Hit Blocks"`
				Read int     `json:"Shared Read Blocks"`
				Rows float64 `json:"Actual Rows"`
			}
		}
		s.do(json.Unmarshal(text, &all))
		buffers, rows = all[0].Plan.Hit+all[0].Plan.Read, int(all[0].Plan.Rows)
	}
	return buffers, rows
}
