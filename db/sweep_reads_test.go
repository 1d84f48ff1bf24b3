package db_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// mostSwept is how many buffers one statement of a sweep may read for each row that it takes, whatever stands.
const mostSwept = 20

// explained is how many buffers a statement reads, which is taken back.
func (b *base) explained(sql string, args pgx.NamedArgs) (buffers int64, plan string) {
	b.Helper()
	tx, err := b.conn.Begin(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = tx.Rollback(b.Context()) }()
	if err := tx.QueryRow(b.Context(), `EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) `+sql, args).Scan(&plan); err != nil {
		b.Fatalf("%s: %v", sql, err)
	}
	var out []struct {
		Plan struct {
			Hit  int64 `json:"Shared Hit Blocks"`
			Read int64 `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal([]byte(plan), &out); err != nil {
		b.Fatal(err)
	}
	return out[0].Plan.Hit + out[0].Plan.Read, plan
}

func TestNoStatementOfASweepReadsMoreThanItsBatchOnStatisticsOfAQuietTime(t *testing.T) {
	b := newBase(t)
	const rows, batch = 150_000, 500
	id := b.connector()
	try := b.syncing(id)
	ended, stays := uuid.New(), uuid.New()
	for _, table := range []string{"documents", "chunks", "run_messages", "message_tries", "sightings", "unnamed_chunks"} {
		b.exec(`ALTER TABLE ` + table + ` SET (autovacuum_enabled = off)`)
		b.exec(`ANALYZE ` + table)
	}
	b.exec(`INSERT INTO documents (connector_id, source_id, status, config_version, try_id, first_no, touched_by)
		SELECT $1, n::text, CASE WHEN n % 2 = 0 THEN 'stored' ELSE 'partial' END, 0, $2, n, CASE WHEN n % 4 = 1 THEN $3::uuid END
		FROM generate_series(1, $4::integer) n`, id, ended, try.ID, rows)
	b.exec(`INSERT INTO chunks (try_id, first_no, document_id, no, text, start_offset, end_offset, embedder, embedding)
		SELECT d.try_id, d.first_no, d.id, k, '', 0, 0, '', '{1}' FROM documents d, generate_series(0, 149) k WHERE d.first_no <= $1`, rows/150)
	b.exec(`INSERT INTO run_messages SELECT $1, n, n FROM generate_series(1, $2::integer) n`, ended, rows)
	b.exec(`INSERT INTO message_tries SELECT $1, n, 1 FROM generate_series(1, $2::integer) n`, ended, rows)
	b.exec(`INSERT INTO sightings SELECT $1, t, 1, n::text, 1 FROM unnest(ARRAY[$2, $3]::uuid[]) t, generate_series(1, $4::integer) n`,
		id, ended, stays, rows)
	b.exec(`INSERT INTO unnamed_chunks (try_id, first_no, document_id) SELECT try_id, first_no, id FROM documents`)
	b.exec(`SET plan_cache_mode = force_custom_plan`) // as internal/postgres has it
	swept := queries(t, "semantic")
	calls := map[string]pgx.NamedArgs{
		"SweepMessages":     {"try_id": ended, "behind": 1000},
		"SweepTries":        {"try_id": ended, "behind": 1000},
		"SweepCheckpoints":  {"try_id": ended, "behind": 0},
		"SightedTries":      {"connector_id": id, "behind": uuid.UUID{}, "page": batch},
		"SweepSightings":    {"connector_id": id, "try_id": ended, "behind_listing": 1, "behind": "1"},
		"SweepOrphanChunks": {"try_id": ended, "behind_no": 100, "behind_id": 0, "page": batch},
		"SweepLeftovers":    {"connector_id": id, "behind": 1000, "page": batch},
		"SweepOutdated":     {"connector_id": id, "config_version": 1, "behind": "1", "page": batch},
		"SweepChunks":       {"behind": 0, "page": 100},
		"PassUnnamedChunks": {"behind": 0, "page": batch},
	}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		args := calls[name]
		args["batch"] = batch
		reads, plan := b.explained(swept[name], args)
		t.Logf("%s: %d buffers", name, reads)
		if reads > mostSwept*batch {
			t.Errorf("%s reads %d buffers for a batch of %d:\n%s", name, reads, batch, plan)
		}
	}
}
