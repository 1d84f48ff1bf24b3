package db_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

func TestWhatIsStoredOfATryIsToldByItsHighestNumber(t *testing.T) {
	b := newBase(t)
	tries := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	b.exec(`INSERT INTO run_messages (try_id, no) SELECT $1::uuid, n FROM unnest(ARRAY[1, 2, 9]) n UNION ALL SELECT $2, 4`, tries[0], tries[1])
	var told []string
	found, err := b.conn.Query(t.Context(), `SELECT try, no FROM moves.stored_up_to($1)`, tries)
	if err != nil {
		t.Fatal(err)
	}
	var try uuid.UUID
	var no int64
	if _, err := pgx.ForEachRow(found, []any{&try, &no}, func() error { told = append(told, fmt.Sprint(try, no)); return nil }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(told)
	want := []string{fmt.Sprint(tries[0], 9), fmt.Sprint(tries[1], 4)}
	if slices.Sort(want); !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	for _, bad := range []string{`NULL`, `array_fill(gen_random_uuid(), ARRAY[1001])`} {
		if got := b.asked(`SELECT count(*) FROM moves.stored_up_to(` + bad + `)`); !strings.Contains(got, "22023") {
			t.Errorf("%s: %s", bad, got)
		}
	}
}

// It is asked twenty times a second for a run that waits.
func TestWhatIsStoredOfATryIsOneLookWhateverNumberOfMessagesItHas(t *testing.T) {
	b := newBase(t)
	look, tries := `SELECT * FROM moves.stored_up_to(@tries)`, make([]uuid.UUID, 1000)
	for i := range tries {
		tries[i] = uuid.New()
	}
	b.exec(`ALTER TABLE run_messages SET (autovacuum_enabled = off)`)
	b.exec(`INSERT INTO run_messages (try_id, no) SELECT $1::uuid, n FROM generate_series(1, 100000) n`, tries[0])
	b.exec(`INSERT INTO run_messages (try_id, no) SELECT k, n FROM unnest($1::uuid[]) k, generate_series(1, 20) n`, tries[1:])
	for _, analysed := range []bool{false, true} {
		if analysed {
			b.exec(`ANALYZE run_messages`)
		}
		for _, n := range []int{1, 1000} {
			_, _ = b.explained(look, pgx.NamedArgs{"tries": tries[:n]}) // what a session reads once of the catalogue
			if reads, plan := b.explained(look, pgx.NamedArgs{"tries": tries[:n]}); reads > int64(8*n) {
				t.Errorf("%d buffers are read for %d tries, analysed %v:\n%s", reads, n, analysed, plan)
			}
		}
	}
}
