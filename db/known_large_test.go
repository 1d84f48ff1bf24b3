package db_test

import (
	"testing"

	"github.com/google/uuid"
)

// A page of what is known costs as much for a listing over hundreds of runs as for one over a single run.
func TestWhatAPageOfTheKnownReadsDoesNotGrowWithTheRunsOfAListing(t *testing.T) {
	const page, most = 5000, 30_000 // a document and its sighting are found by a key each
	b := newBase(t)
	id := b.synced()
	try := b.syncing(id)
	b.exec(`ANALYZE sightings, documents`) // statistics of a quiet time
	b.exec(`INSERT INTO documents (connector_id, source_id, status, config_version)
		SELECT id, md5(n::text), 'stored', config_version FROM connectors, generate_series(1, 20000) n WHERE id = $1`, id)
	// Each run of the listing has shown documents of its own, half of all together, and some again behind its checkpoint.
	b.exec(`INSERT INTO sightings (connector_id, try_id, listing, source_id, no)
		SELECT $1::integer, md5((n % 500)::text)::uuid, 1, md5(n::text), 4 FROM generate_series(2, 20000, 2) n
		UNION ALL SELECT $1::integer, md5((n % 500 + 1)::text)::uuid, 1, md5(n::text), 5 FROM generate_series(1, 20000) n`, id)
	const known = `SELECT concat_ws(' ', count(*), count(*) FILTER (WHERE k.seen)) FROM moves.known($1, $2, '', $3,
		ARRAY(SELECT md5(n::text)::uuid FROM generate_series(0, $4::integer - 1) n), array_fill(1, ARRAY[$4]), array_fill(4::bigint, ARRAY[$4])) k`
	w := b.watched()
	for _, c := range []struct {
		legs int
		want string
	}{{0, "5000 0"}, {1, "5000 7"}, {500, "5000 2449"}, {500, "5000 2449"}} {
		if got := w.calls(most, known, try.Run, try.ID, page, c.legs); got != c.want {
			t.Errorf("over %d runs %s are known and seen, want %s", c.legs, got, c.want)
		}
	}
}

func TestWhatNoRunOfAListingHasShownIsNotSeen(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	try, old := b.syncing(id), uuid.New()
	b.exec(`INSERT INTO documents (connector_id, source_id, status, config_version)
		SELECT id, 'a', 'stored', config_version FROM connectors WHERE id = $1`, id)
	b.exec(`INSERT INTO sightings (connector_id, try_id, listing, source_id, no) VALUES ($1, $2, 2, 'a', 3)`, id, old)
	const seen = `SELECT seen FROM moves.known($1, $2, '', 1, $3, $4, $5)`
	for want, legs := range map[string][3]any{
		"true":  {[]uuid.UUID{uuid.New(), old, old}, []int{2, 1, 2}, []int64{9, 9, 3}},
		"false": {[]uuid.UUID{old, old, uuid.New()}, []int{1, 2, 2}, []int64{3, 2, 3}},
	} {
		b.moves(want, seen, try.Run, try.ID, legs[0], legs[1], legs[2])
	}
	b.moves("false", seen, try.Run, try.ID, []*uuid.UUID{&old, nil}, []*int{nil}, []*int64{nil, nil})
}
