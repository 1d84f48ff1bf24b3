package ceiling

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// least are the tables that a claim needs at least: sources with an index of what is due, and a ledger with its key.
const least = `
CREATE TABLE sources (
	id integer PRIMARY KEY, name text NOT NULL, type text NOT NULL, user_id integer NOT NULL, config jsonb NOT NULL DEFAULT '{}',
	status text NOT NULL DEFAULT 'ACTIVE', run_id uuid, next_sync_at timestamptz, due_reason text
) WITH (fillfactor = 80);
CREATE INDEX sources_due ON sources (type, next_sync_at) WHERE next_sync_at IS NOT NULL;
CREATE TABLE ledger (
	id uuid PRIMARY KEY, connector_id integer NOT NULL, type text NOT NULL, user_id integer NOT NULL, trigger text NOT NULL,
	due_at timestamptz NOT NULL, started_at timestamptz NOT NULL, config_version bigint NOT NULL, dispatched_at timestamptz NOT NULL
);`

// likeOurs are the same with all columns, constraints and indexes of ours, and without our functions and triggers.
const likeOurs = `
CREATE TABLE sources (LIKE connectors INCLUDING ALL) WITH (fillfactor = 80);
CREATE TABLE ledger (LIKE open_runs INCLUDING ALL) WITH (fillfactor = 60);`

// claim goes by the column that the index of what is due has: %[1]s.
const claim = `
WITH due AS (
	SELECT id, next_sync_at, due_reason FROM sources WHERE type = 'web' AND %[1]s <= $1
	ORDER BY %[1]s LIMIT $2 FOR UPDATE SKIP LOCKED
), claimed AS (
	UPDATE sources s SET status = 'PENDING', run_id = gen_random_uuid(), next_sync_at = NULL, due_reason = NULL
	FROM due WHERE s.id = due.id
	RETURNING s.id, s.type, s.user_id, s.config, s.run_id, due.next_sync_at, due.due_reason
)`

const (
	claimAlone      = claim + ` SELECT id, type, user_id, config, run_id FROM claimed`
	claimWithLedger = claim + `, opened AS (
	INSERT INTO ledger (id, connector_id, type, user_id, trigger, due_at, started_at, config_version, dispatched_at)
	SELECT run_id, id, type, user_id, due_reason, next_sync_at, clock_timestamp(), 1, clock_timestamp() FROM claimed
) SELECT id, type, user_id, config, run_id FROM claimed`
)

// Claimer claims by one statement, with nothing around it.
type Claimer struct {
	conn *pgx.Conn
	due  int
	// by is the column that says when a source is due.
	by string
	// settle lets each measurement begin behind a checkpoint.
	settle func(context.Context) error
}

// NewClaimer makes tables that have what a claim needs and no more, in an empty database, with a number of sources.
func NewClaimer(ctx context.Context, url string, due int, settle func(context.Context) error) (*Claimer, error) {
	return newClaimer(ctx, url, least, "next_sync_at", due, settle)
}

// NewClaimerLikeOurs makes tables like ours, in a database that has our schema.
func NewClaimerLikeOurs(ctx context.Context, url string, due int, settle func(context.Context) error) (*Claimer, error) {
	return newClaimer(ctx, url, likeOurs, "due_at", due, settle)
}

func newClaimer(ctx context.Context, url, schema, by string, due int, settle func(context.Context) error) (*Claimer, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect to Postgres: %w", err)
	}
	c := &Claimer{conn: conn, due: due, by: by, settle: settle}
	if _, err = conn.Exec(ctx, schema); err == nil {
		_, err = conn.Exec(ctx, `INSERT INTO sources (id, name, type, user_id)
			SELECT i, 'c' || i, 'web', 1 + i % 1000 FROM generate_series(1, $1::integer) i`, due)
	}
	if err != nil {
		return nil, fmt.Errorf("make the tables: %w", err)
	}
	return c, nil
}

// Close ends the connection.
func (c *Claimer) Close(ctx context.Context) error { return c.conn.Close(ctx) }

// reset makes n sources due, and lets nobody pay for what the last measurement left.
func (c *Claimer) reset(ctx context.Context, n int) error {
	_, err := c.conn.Exec(ctx, `UPDATE sources SET status = 'ACTIVE', run_id = NULL, due_reason = 'schedule',
		next_sync_at = CASE WHEN id <= $1 THEN clock_timestamp() END`, n)
	for _, sql := range []string{`TRUNCATE ledger`, `VACUUM ANALYZE sources`} {
		if err == nil {
			_, err = c.conn.Exec(ctx, sql)
		}
	}
	if err != nil {
		return fmt.Errorf("make sources due: %w", err)
	}
	return c.settle(ctx)
}

// Rate claims all sources in batches, one statement and one transaction each, and returns how many a second.
func (c *Claimer) Rate(ctx context.Context, batch int, withLedger bool) (float64, error) {
	if err := c.reset(ctx, c.due); err != nil {
		return 0, err
	}
	statement := claimAlone
	if withLedger {
		statement = claimWithLedger
	}
	began, claimed := time.Now(), 0
	for {
		n, err := c.claim(ctx, statement, batch)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			break
		}
		claimed += n
	}
	took := time.Since(began).Seconds()
	if claimed != c.due {
		return 0, fmt.Errorf("%w: %d of %d", errTooFew, claimed, c.due)
	}
	return float64(claimed) / took, nil
}

// claim runs one statement and reads its rows, as a dispatcher must.
func (c *Claimer) claim(ctx context.Context, statement string, batch int) (n int, err error) {
	rows, err := c.conn.Query(ctx, fmt.Sprintf(statement, c.by), time.Now(), batch)
	if err != nil {
		return 0, fmt.Errorf("claim: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		if _, err := rows.Values(); err != nil {
			return 0, fmt.Errorf("read a claimed row: %w", err)
		}
		n++
	}
	return n, rows.Err()
}

// LoopRate claims n sources row by row and waits for each acknowledgement, as one would write it first.
func (c *Claimer) LoopRate(ctx context.Context, to *Publisher, n int) (float64, error) {
	n = min(n, c.due)
	if err := c.reset(ctx, n); err != nil {
		return 0, err
	}
	began := time.Now()
	for i := range n {
		claimed, err := c.claim(ctx, claimAlone, 1)
		if err != nil {
			return 0, err
		}
		if claimed == 0 {
			return 0, fmt.Errorf("%w: %d of %d", errTooFew, i, n)
		}
		if err := to.one(ctx); err != nil {
			return 0, fmt.Errorf("publish: %w", err)
		}
	}
	rate := float64(n) / time.Since(began).Seconds()
	return rate, to.stream.Purge(ctx)
}
