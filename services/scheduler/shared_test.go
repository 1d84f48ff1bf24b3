package scheduler

import (
	"time"

	"github.com/echomind/sync/internal/leases"
)

const pastTheGrace = 20 * time.Second

// inFlight is what the messages of the PENDING connectors say.
func (s *stage) inFlight() []Trigger {
	s.Helper()
	rows, err := s.servers.Pool.Query(s.Context(), `SELECT c.id, c.type, c.user_id, c.scope, c.config_version, c.run_id,
		r.dispatched_at FROM connectors c JOIN open_runs r ON r.id = c.run_id WHERE c.status = 'PENDING' ORDER BY r.dispatched_at, c.id`)
	s.do(err)
	defer rows.Close()
	var out []Trigger
	for rows.Next() {
		t := Trigger{Reason: "new"}
		s.do(rows.Scan(&t.ID, &t.Type, &t.UserID, &t.Scope, &t.ConfigVersion, &t.Session, &t.DispatchedAt))
		out = append(out, t)
	}
	s.do(rows.Err())
	return out
}

func (s *stage) large(n int, config string) {
	s.Helper()
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, config)
		SELECT 'c' || i, 'web', 1, 60, `+config+` FROM generate_series(1, $1::int) i`, n)
}

const numbers = `jsonb_build_object('numbers', (SELECT jsonb_agg(1) FROM generate_series(1, 21800)))`

// patient is a scheduler whose workers have a lease of some seconds.
func (s *stage) patient(lease int, change ...func(*Config)) *Scheduler {
	return s.scheduler(append(change, func(cfg *Config) { cfg.LeaseSeconds, cfg.WatchIntervalSeconds = lease, 1 })...)
}

// patientBy is patient, by a clock that stands until past moves it.
func (s *stage) patientBy(lease int) (scheduler *Scheduler, past func(time.Duration)) {
	scheduler, now := s.patient(lease), time.Now()
	scheduler.leases = leases.NewWatch(s.servers.Pool, seconds(lease), func() time.Time { return now })
	return scheduler, func(by time.Duration) { now = now.Add(by) }
}

const inFlightOf = `SELECT count(*) FROM open_runs WHERE user_id = $1`

// of inserts n connectors of an owner that are due since then, the first one the longest.
func (s *stage) of(owner, n int, since time.Duration) {
	s.Helper()
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes)
		SELECT 'of ' || $1::int, 'web', $1::int, 60 FROM generate_series(1, $2::int)`, owner, n)
	s.force(`UPDATE connectors c SET next_sync_at = clock_timestamp() - $2::interval + n.n * interval '1 ms'
		FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM connectors WHERE user_id = $1) n WHERE n.id = c.id`, owner, since)
}
