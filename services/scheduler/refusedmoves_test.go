//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import "testing"

// refusesUpdates lets Postgres refuse every write of one connector's row, as an operator's trigger may.
func (s *stage) refusesUpdates(id int32) {
	s.Helper()
	s.exec(`CREATE TABLE refused_updates (id integer)`)
	s.exec(`INSERT INTO refused_updates VALUES ($1)`, id)
	s.exec(`CREATE FUNCTION refuse_one() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
		IF EXISTS (SELECT FROM refused_updates r WHERE r.id = NEW.id) THEN RAISE EXCEPTION 'no'; END IF; RETURN NEW; END $$`)
	s.exec(`CREATE TRIGGER refuse_one BEFORE UPDATE ON connectors FOR EACH ROW EXECUTE FUNCTION refuse_one()`)
}

func TestAConnectorWhosePlanCannotBeWrittenAtAllKeepsNoOtherFromItsPlan(t *testing.T) {
	s := setStage(t)
	var first int32
	for i := range 6 {
		if id := s.cronConnector(nightly, 0); i == 0 {
			first = id
		}
	}
	s.refusesUpdates(first)
	scheduler := s.scheduler(func(cfg *Config) { cfg.ClaimBatch = 2 })
	s.do(scheduler.Plan(t.Context()))
	want(s, first, `SELECT max(id) FROM connectors WHERE needs_plan`)
	s.exec(`DELETE FROM refused_updates`)
	s.do(scheduler.Plan(t.Context()))
	want(s, 1, `SELECT count(*) FROM connectors WHERE needs_plan`)
	scheduler.unplanned.elapse()
	s.do(scheduler.Plan(t.Context()))
	want(s, 0, `SELECT count(*) FROM connectors WHERE needs_plan`)
}

func TestALostRunThatCannotBeClaimedAgainKeepsNoOtherFromItsRescue(t *testing.T) {
	s := setStage(t)
	s.connectors(6)
	s.claim(s.scheduler())
	for id := int32(1); id <= 6; id++ {
		s.pickUp(id, gone)
	}
	s.exec(`UPDATE open_runs SET worker_id = (SELECT min(worker_id::text)::uuid FROM open_runs)`)
	s.refusesUpdates(1)
	scheduler := s.scheduler(impatient, func(cfg *Config) { cfg.ClaimBatch = 2 })
	s.do(scheduler.Rescue(t.Context()))
	want(s, 5, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)
	want(s, 5, `SELECT count(*) FROM open_runs WHERE trigger = 'rescue'`)
	want(s, 5, `SELECT count(*) FROM runs WHERE reason = 'worker lost'`)
	if n := len(s.messages("web")); n != 5 {
		t.Errorf("%d messages, want 5", n)
	}
	s.exec(`DELETE FROM refused_updates`)
	scheduler.unrescued.elapse()
	s.do(scheduler.Rescue(t.Context()))
	want(s, 6, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)
}
