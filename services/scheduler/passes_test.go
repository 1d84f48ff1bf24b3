package scheduler

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A lock on what has passed holds its verdicts up, as ten thousands of them do.
func TestAPlanDoesNotWaitForSlotsThatPassed(t *testing.T) {
	s := setStage(t)
	s.exec(`INSERT INTO passed_slots (connector_id, type, config_version, schedule_cron, time_zone, after, through, reason)
		SELECT i, 'web', 1, '0 * * * *', 'UTC', now() - interval '1 day', now(), 'x' FROM generate_series(1, 100) i`)
	s.exec(`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN OLD; END $$`)
	s.exec(`CREATE TRIGGER wait BEFORE DELETE ON passed_slots FOR EACH ROW EXECUTE FUNCTION wait()`)
	holder, err := s.servers.Pool.Acquire(t.Context())
	s.do(err)
	defer holder.Release()
	_, err = holder.Exec(t.Context(), `SELECT pg_advisory_lock(4711)`)
	s.do(err)
	scheduler := s.scheduler()
	s.run(scheduler)
	s.listening(scheduler)
	s.eventually(10*time.Second, func() error {
		return s.countIs(1, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted`)()
	})
	s.cronConnector(nightly, 0)
	s.eventually(wakes, s.countIs(0, `SELECT count(*) FROM connectors WHERE needs_plan`))
	want(s, 100, `SELECT count(*) FROM passed_slots`)
	_, err = holder.Exec(t.Context(), `SELECT pg_advisory_unlock(4711)`)
	s.do(err)
	s.eventually(10*time.Second, s.countIs(0, `SELECT count(*) FROM passed_slots`))
}

func TestWhetherASlotIsAnsweredIsAskedOfItsWeeksOnly(t *testing.T) {
	s := setStage(t)
	s.exec(`DO $$ DECLARE w timestamptz := date_trunc('week', now(), 'UTC'); BEGIN FOR n IN 1..20 LOOP
		EXECUTE format('CREATE TABLE runs_%s PARTITION OF runs FOR VALUES FROM (%L) TO (%L)',
			to_char((w - make_interval(days => 7*n)) AT TIME ZONE 'UTC', 'YYYYMMDD'), w - make_interval(days => 7*n), w - make_interval(days => 7*n-7));
		END LOOP; END $$`)
	rows, err := s.servers.Pool.Query(t.Context(), `EXPLAIN ANALYZE SELECT moves.is_unanswered(i, now() - make_interval(mins => i)) FROM generate_series(1, 3) i`)
	s.do(err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	s.do(err)
	read := 0
	for _, line := range lines {
		if strings.Contains(line, " on runs_") && !strings.Contains(line, "never executed") {
			read++
		}
	}
	if read > 6 { // last week, this one, the next two, what no week took
		t.Errorf("%d partitions are read:\n%s", read, strings.Join(lines, "\n"))
	}
}
