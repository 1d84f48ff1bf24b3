package scheduler

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Counting what has passed takes twenty seconds here, batch after batch.
func TestAPlanDoesNotWaitForSlotsThatPassed(t *testing.T) {
	s := setStage(t)
	s.exec(`INSERT INTO passed_slots (connector_id, type, config_version, schedule_cron, time_zone, after, through, reason)
		SELECT i, 'web', 1, '0 * * * *', 'UTC', now() - interval '1 day', now(), 'x' FROM generate_series(1, 4000) i`)
	s.exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.005); RETURN OLD; END $$`)
	s.exec(`CREATE TRIGGER slow BEFORE DELETE ON passed_slots FOR EACH ROW EXECUTE FUNCTION slow()`)
	scheduler := s.scheduler()
	s.run(scheduler)
	s.listening(scheduler)
	s.eventually(30*time.Second, func() error {
		return s.countIs(1, `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()`)()
	})
	s.cronConnector(nightly, 0)
	s.eventually(time.Minute, s.countIs(0, `SELECT count(*) FROM connectors WHERE needs_plan`))
	if one[int](s, `SELECT count(*) FROM passed_slots`) == 0 {
		s.Error("it was planned when all that had passed was counted")
	}
}

func TestWhetherASlotIsAnsweredIsAskedOfItsWeeksOnly(t *testing.T) {
	s := setStage(t)
	s.exec(`DO $$ DECLARE w timestamptz := date_trunc('week', now(), 'UTC'); BEGIN FOR n IN 1..20 LOOP
		EXECUTE format('CREATE TABLE runs_%s PARTITION OF runs FOR VALUES FROM (%L) TO (%L)',
			to_char((w - make_interval(days => 7*n)) AT TIME ZONE 'UTC', 'YYYYMMDD'), w - make_interval(days => 7*n), w - make_interval(days => 7*n-7));
		END LOOP; END $$`)
	rows, err := s.servers.Pool.Query(t.Context(), `EXPLAIN ANALYZE SELECT moves.is_unanswered(i, 0, now() - make_interval(mins => i)) FROM generate_series(1, 3) i`)
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
