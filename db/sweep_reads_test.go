package db_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// mostSwept is how many buffers one statement of a sweep may read for each row that it takes.
const mostSwept = 40

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

// leaves adds rows to everything that a sweep reads: of an ended try, of one whose sightings stay, and what an open run is writing.
func (b *base) leaves(id int32, ended, stays, open uuid.UUID, from, to int) {
	b.Helper()
	b.exec(`WITH made AS (
			INSERT INTO documents (connector_id, source_id, status, config_version, try_id, first_no, touched_by)
			SELECT $1, n::text, CASE WHEN n % 2 = 0 THEN 'stored' ELSE 'partial' END, 0, $2, n, CASE WHEN n % 4 = 1 THEN $3::uuid END
			FROM generate_series($4::integer, $5::integer) n RETURNING id, try_id, first_no),
		named AS (INSERT INTO unnamed_chunks (try_id, first_no, document_id) SELECT try_id, first_no, id FROM made)
		INSERT INTO chunks (try_id, first_no, document_id, no, text, start_offset, end_offset, embedder, embedding)
		SELECT try_id, first_no, id, k, '', 0, 0, '', '{1}' FROM made, generate_series(0, 9) k`, id, ended, open, from, to)
	b.exec(`INSERT INTO run_messages SELECT $1, n, n FROM generate_series($2::integer, $3::integer) n`, ended, from, to)
	b.exec(`INSERT INTO message_tries SELECT $1, n, 1 FROM generate_series($2::integer, $3::integer) n`, ended, from, to)
	b.exec(`INSERT INTO run_checkpoints SELECT $1, $1, n, '{}' FROM generate_series($2::integer, $3::integer) n`, ended, from, to)
	b.exec(`INSERT INTO sightings SELECT $1, t, 1, n::text, 1 FROM unnest(ARRAY[$2, $3]::uuid[]) t,
		generate_series($4::integer, $5::integer) n`, id, ended, stays, from, to)
}

func TestAStatementOfASweepReadsItsBatchWhateverStandsOnStatisticsOfAQuietTime(t *testing.T) {
	b := newBase(t)
	const few, many, batch = 5_000, 40_000, 200
	id := b.connector()
	open := b.syncing(id)
	ended, stays := uuid.New(), uuid.New()
	for _, table := range []string{
		"documents", "chunks", "unnamed_chunks", "run_messages", "message_tries", "run_checkpoints", "sightings",
	} {
		b.exec(`ALTER TABLE ` + table + ` SET (autovacuum_enabled = off)`)
		b.exec(`ANALYZE ` + table)
	}
	b.exec(`SET plan_cache_mode = force_custom_plan`) // as internal/postgres has it
	b.exec(`SET enable_seqscan = off`)                // and ByIndex of it
	b.exec(`SET enable_bitmapscan = off`)
	calls := map[string]pgx.NamedArgs{
		"SweepMessages":     {"try_id": ended, "behind": 1000},
		"SweepTries":        {"try_id": ended, "behind": 1000},
		"SweepCheckpoints":  {"try_id": ended, "behind": 1000},
		"SightedListings":   {"connector_id": id, "behind_try": uuid.UUID{}, "behind": 0, "page": batch},
		"SweepSightings":    {"connector_id": id, "try_id": ended, "listing": 1, "behind": "1"},
		"SweepOrphanChunks": {"try_id": ended, "behind_no": 1000, "behind_id": 0, "page": batch},
		"SweepLeftovers":    {"connector_id": id, "behind": 1000, "page": batch},
		"SweepOutdated":     {"connector_id": id, "config_version": 1, "behind": "1", "page": batch},
		"SweepChunks":       {"behind": 1000, "page": 100},
		"PassUnnamedChunks": {"behind": 1000, "page": batch},
	}
	swept := queries(t, "semantic")
	first := map[string]int64{}
	for from, to := 1, few; to <= many; from, to = to+1, to+many-few {
		b.leaves(id, ended, stays, open.ID, from, to)
		for _, name := range slices.Sorted(maps.Keys(calls)) {
			args := calls[name]
			args["batch"] = batch
			_, _ = b.explained(swept[name], args) // what a session reads once of the catalogue
			reads, plan := b.explained(swept[name], args)
			if first[name] == 0 {
				first[name] = reads
			}
			if reads > mostSwept*batch || reads > first[name]*3+20 {
				t.Errorf("%s reads %d buffers for a batch of %d where %d rows stand, and %d where %d do:\n%s",
					name, reads, batch, to, first[name], few, plan)
			}
		}
	}
}
