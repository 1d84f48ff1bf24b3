//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import "testing"

const missedOf = `SELECT count(*)::int FROM runs WHERE connector_id = $1 AND status = 'missed'`

// patientLink is a connector without a schedule that runs after two others, and waits half an hour for the second of them.
func (s simulated) patientLink() (a, b, id int32) {
	s.Helper()
	a, b = s.byHand(), s.byHand()
	id = s.link(a, b)
	s.exec(`UPDATE run_after SET timeout_minutes = 30 WHERE connector_id = $1`, id)
	return a, b, id
}

func TestAnUpstreamThatEndsMoreOftenThanTheTimeoutPutsItNotOff(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	a, _, id := s.patientLink()
	scheduler := s.scheduler()
	s.followed(scheduler)
	for _, now := range []string{"12:00", "12:20", "12:40", "13:00", "13:20"} {
		s.at(utc("2026-02-02 " + now))
		s.runs(a)
		s.followed(scheduler)
	}
	want(s.stage, 1, missedOf, id) // since 12:00; it is found at 12:40, which uses that end, and then waits since 13:00
	want(s.stage, true, `SELECT due_at = '2026-02-02 12:00Z' AND reason = 'upstream 2 did not complete' FROM runs WHERE connector_id = $1 AND status = 'missed'`, id)
	s.at(utc("2026-02-02 13:30"))
	s.followed(scheduler)
	want(s.stage, 2, missedOf, id)
}

func TestWhoIsSwitchedOnHasItsTimeoutFromThen(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	a, b, id := s.patientLink()
	scheduler := s.scheduler()
	s.followed(scheduler)
	s.exec(`SELECT moves.disable($1)`, id)
	s.runs(a)
	s.followed(scheduler)
	s.at(utc("2026-02-02 15:00"))
	s.exec(`SELECT moves.enable($1)`, id)
	s.followed(scheduler)
	want(s.stage, 0, missedOf, id)
	s.at(utc("2026-02-02 15:05"))
	s.runs(b)
	s.followed(scheduler, id)
}

func TestWhoIsBusyHasItsTimeoutFromItsVerdict(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	a, b, id := s.patientLink()
	scheduler := s.scheduler()
	s.runs(a, b)
	s.followed(scheduler, id)
	s.runs(a)
	s.at(utc("2026-02-02 14:00")) // its sync takes two hours
	s.complete(id)
	s.followed(scheduler)
	want(s.stage, 0, missedOf, id)
	s.at(utc("2026-02-02 14:29"))
	s.runs(b)
	s.followed(scheduler, id)
	s.runs(a)
	s.complete(id)
	s.followed(scheduler)
	s.at(utc("2026-02-02 14:59"))
	s.followed(scheduler)
	want(s.stage, 1, missedOf, id)
}

func TestARowWhoseUpstreamEndedLongAgoHasItsTimeoutFromThen(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	a, b, id := s.byHand(), s.byHand(), s.byHand()
	scheduler := s.scheduler()
	s.runs(a)
	s.follow(scheduler)
	s.at(utc("2026-02-02 20:00"))
	s.exec(`INSERT INTO run_after (connector_id, upstream_id, timeout_minutes) VALUES ($1, $2, 30), ($1, $3, 30)`, id, a, b)
	s.followed(scheduler)
	want(s.stage, 0, missedOf, id)
	s.runs(b)
	s.followed(scheduler, id)
}

func TestAnEndThatBecomesTooOldIsWaitedForWithItsPatience(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	u, v, w := s.byHand(), s.byHand(), s.byHand()
	id := s.link(u, v, w)
	s.exec(`UPDATE run_after SET max_age_minutes = 10, timeout_minutes = 30 WHERE upstream_id = $1`, u)
	scheduler := s.scheduler()
	s.followed(scheduler)
	s.runs(w)
	s.runs(u)
	s.followed(scheduler)
	for _, at := range []string{"2026-02-02 12:11", "2026-02-02 12:29"} {
		s.at(utc(at))
		s.followed(scheduler)
		want(s.stage, 0, missedOf, id)
	}
	s.at(utc("2026-02-02 12:31"))
	s.followed(scheduler)
	want(s.stage, 1, missedOf, id)
	s.at(utc("2026-02-02 18:00"))
	s.runs(v)
	s.followed(scheduler)
	s.runs(u)
	s.runs(w)
	s.followed(scheduler, id)
}

func TestASlotDoesNotWaitForEverBehindAnEndThatBecomesTooOld(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	u, v := s.byHand(), s.byHand()
	id := s.synced(row{"schedule_cron": "0 13 * * *"})
	s.after(id, u)
	s.after(id, v)
	s.exec(`UPDATE run_after SET max_age_minutes = 10, timeout_minutes = 30 WHERE upstream_id = $1`, u)
	scheduler := s.scheduler()
	s.plan()
	s.at(utc("2026-02-02 12:55"))
	s.runs(u)
	s.at(utc("2026-02-02 13:00"))
	s.followed(scheduler)
	s.at(utc("2026-02-02 18:00"))
	s.followed(scheduler)
	want(s.stage, 1, missedOf, id)
}
