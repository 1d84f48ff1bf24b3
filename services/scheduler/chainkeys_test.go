//go:build !race

// What Postgres decides is the same under the race detector.

package scheduler

import (
	"slices"
	"testing"
	"time"
)

// keyedLink is a connector without a schedule that runs after others, and has key k.
func (s *stage) keyedLink(upstreams ...int32) int32 {
	s.Helper()
	id := s.link(upstreams...)
	s.exec(`UPDATE connectors SET concurrency_keys = '{k}' WHERE id = $1`, id)
	return id
}

// holdsKey has key k have one place, and gives it to a connector, until that is disabled.
func (s *stage) holdsKey() (holder int32) {
	s.Helper()
	s.limitKey("k", 1)
	holder = s.connector(row{"concurrency_keys": []string{"k"}})
	if claimed := s.claim(s.scheduler()); len(claimed) != 1 || claimed[0].ID != holder {
		s.Fatalf("claimed %v, want %d", claimed, holder)
	}
	return holder
}

// ticked makes those due whose key has a place, and fails the test unless the claims of that tick have put these in flight.
func (s *stage) ticked(scheduler *Scheduler, ids ...int32) {
	s.Helper()
	before := one[[]int32](s, `SELECT coalesce(array_agg(connector_id), '{}') FROM open_runs`)
	s.do(scheduler.Tick(s.Context()))
	got := one[[]int32](s, `SELECT coalesce(array_agg(connector_id ORDER BY connector_id), '{}') FROM open_runs WHERE connector_id <> ALL ($1)`, before)
	slices.Sort(ids)
	if !slices.Equal(got, ids) {
		s.Errorf("claimed %v, want %v", got, ids)
	}
}

const (
	usedOf = `SELECT coalesce((SELECT used FROM upstream_uses WHERE connector_id = $1 AND upstream_id = $2), 0)`
	waitOf = `SELECT coalesce(waits_for_key, 'none') FROM connectors WHERE id = $1`
)

func TestAFollowerWhoseKeyIsFullUsesItsEndWhenItsRunIsOver(t *testing.T) {
	s := setStage(t)
	holder := s.holdsKey()
	a := s.byHand()
	id := s.keyedLink(a)
	scheduler := s.scheduler()
	s.runs(a)
	s.followed(scheduler) // let go, and its key is full
	want(s, "k", waitOf, id)
	want(s, int64(0), usedOf, id, a)
	s.followed(scheduler) // it waits on
	want(s, int64(0), usedOf, id, a)
	s.do(s.moves.Disable(t.Context(), holder))
	s.ticked(scheduler, id)
	want(s, int64(0), usedOf, id, a)
	s.complete(id)
	want(s, int64(1), usedOf, id, a)
	s.followed(scheduler)
	s.runs(a)
	s.followed(scheduler, id)
}

func TestAnEndThatComesWhileAFollowersKeyIsFullIsUsedByTheSameRun(t *testing.T) {
	s := setStage(t)
	holder := s.holdsKey()
	a := s.byHand()
	id := s.keyedLink(a)
	scheduler := s.scheduler()
	s.runs(a)
	s.followed(scheduler)
	s.runs(a)
	s.followed(scheduler)
	want(s, "k", waitOf, id)
	s.do(s.moves.Disable(t.Context(), holder))
	s.ticked(scheduler, id)
	s.complete(id)
	want(s, int64(2), usedOf, id, a)
	s.followed(scheduler)
}

func TestAFollowerThatWaitsForItsUpstreamHoldsNoPlaceOfItsKey(t *testing.T) {
	s := setStage(t)
	s.limitKey("k", 1)
	a := s.byHand()
	id := s.keyedLink(a)
	scheduler := s.scheduler()
	s.followed(scheduler)
	want(s, "none", waitOf, id)
	other := s.connector(row{"concurrency_keys": []string{"k"}})
	s.followed(scheduler, other)
	want(s, 1, inFlightOfKey, "k")
}

func TestAChainWhoseConnectorsShareAKeyOfOnePlaceEnds(t *testing.T) {
	s := setStage(t)
	s.limitKey("k", 1)
	chain := []int32{s.byHand()}
	s.exec(`UPDATE connectors SET concurrency_keys = '{k}' WHERE id = $1`, chain[0])
	for len(chain) < 5 {
		chain = append(chain, s.keyedLink(chain[len(chain)-1]))
	}
	scheduler := s.scheduler()
	s.runs(chain[0])
	for _, id := range chain[1:] {
		s.followed(scheduler, id)
		want(s, 1, inFlightOfKey, "k")
		s.complete(id)
	}
	s.followed(scheduler)
	want(s, 0, openWithout)
}

func TestFollowersOfOneEndTakeTurnsAtTheirKeyAndEachRunsOnce(t *testing.T) {
	s := setStage(t)
	s.limitKey("k", 2)
	a := s.byHand()
	left := map[int32]bool{}
	for range 5 {
		left[s.keyedLink(a)] = true
	}
	scheduler := s.scheduler()
	s.runs(a)
	s.follow(scheduler)
	for len(left) > 0 {
		s.do(scheduler.Tick(t.Context()))
		ids := one[[]int32](s, `SELECT coalesce(array_agg(connector_id), '{}') FROM open_runs`)
		if want := min(2, len(left)); len(ids) != want {
			t.Fatalf("%v are in flight, want %d", ids, want)
		}
		for _, id := range ids {
			if !left[id] {
				t.Errorf("connector %d runs twice for one end", id)
			}
			delete(left, id)
			s.complete(id)
		}
	}
	s.follow(scheduler)
	s.ticked(scheduler)
}

func TestAFollowerThatIsSwitchedOffWhileItsKeyIsFullRunsOnceItIsSwitchedOn(t *testing.T) {
	s := setStage(t)
	holder := s.holdsKey()
	a := s.byHand()
	id := s.keyedLink(a)
	scheduler := s.scheduler()
	s.runs(a)
	s.followed(scheduler)
	s.do(s.moves.Disable(t.Context(), id))
	want(s, 0, `SELECT count(*) FROM key_waiters`)
	s.do(s.moves.Disable(t.Context(), holder))
	s.follow(scheduler)
	s.ticked(scheduler)
	s.exec(`SELECT moves.enable($1)`, id)
	s.follow(scheduler)
	s.ticked(scheduler, id)
	s.complete(id)
	s.follow(scheduler)
	s.ticked(scheduler)
}

func TestANewUpstreamOfAFollowerWhoseKeyIsFullIsWaitedForFirst(t *testing.T) {
	s := setStage(t)
	holder := s.holdsKey()
	a, b := s.byHand(), s.byHand()
	id := s.keyedLink(a)
	scheduler := s.scheduler()
	s.runs(a)
	s.followed(scheduler)
	s.after(id, b)
	want(s, "none", waitOf, id)
	s.do(s.moves.Disable(t.Context(), holder))
	s.follow(scheduler)
	s.ticked(scheduler)
	s.runs(b)
	s.followed(scheduler, id)
	s.complete(id)
	want(s, int64(1), usedOf, id, a)
	want(s, int64(1), usedOf, id, b)
}

func TestAFollowerWhoseLastUpstreamGoesWhileItsKeyIsFullRunsOnce(t *testing.T) {
	s := setStage(t)
	holder := s.holdsKey()
	a := s.byHand()
	id := s.keyedLink(a)
	scheduler := s.scheduler()
	s.runs(a)
	s.followed(scheduler)
	s.exec(`DELETE FROM run_after`)
	s.followed(scheduler)
	s.do(s.moves.Disable(t.Context(), holder))
	s.ticked(scheduler, id)
	s.complete(id)
	s.followed(scheduler)
	want(s, 0, `SELECT count(*) FROM upstream_uses`)
}

func TestARescuedFollowerKeepsItsPlaceOfAKeyAndWhatItWasLetGoFor(t *testing.T) {
	s := setStage(t)
	s.limitKey("k", 1)
	a := s.byHand()
	id := s.keyedLink(a)
	scheduler := s.scheduler()
	s.runs(a)
	s.followed(scheduler, id)
	s.pickUp(id, gone)
	s.limitKey("k", 0)
	s.rescue()
	want(s, 1, inFlightOfKey, "k")
	want(s, int64(0), usedOf, id, a)
	s.complete(id)
	want(s, int64(1), usedOf, id, a)
	want(s, 0, inFlightOfKey, "k")
	s.followed(scheduler)
}

// The run with parameters waits for the key, and the connector for its upstream: its own run comes first where both may.
func TestAFollowerAskedForWithParametersWaitsForItsKeyAndForItsUpstream(t *testing.T) {
	s := setStage(t)
	s.ofJobs()
	holder := s.holdsKey()
	a := s.byHand()
	id := s.keyedLink(a)
	scheduler := s.scheduler()
	s.exec(`SELECT moves.trigger_sync($1, parameters => '{"a": 1}')`, id)
	s.followed(scheduler)
	want(s, "k", waitOf, id)
	s.runs(a)
	s.followed(scheduler)
	want(s, "k", waitOf, id)
	want(s, int64(0), usedOf, id, a)
	s.do(s.moves.Disable(t.Context(), holder))
	s.ticked(scheduler, id)
	want(s, "upstream", `SELECT trigger FROM open_runs WHERE connector_id = $1`, id)
	try := s.pickUp(id, time.Minute)
	want(s, true, `SELECT moves.end_job($1, $2, NULL, NULL)`, try.Run, try.ID)
	want(s, int64(1), usedOf, id, a)
	s.ticked(scheduler, id)
	want(s, true, `SELECT parameters IS NOT NULL FROM open_runs WHERE connector_id = $1`, id)
	try = s.pickUp(id, time.Minute)
	want(s, true, `SELECT moves.end_job($1, $2, NULL, NULL)`, try.Run, try.ID)
	s.followed(scheduler)
}

func TestAFollowersClaimThatIsRefusedUsesNoEnd(t *testing.T) {
	s := setStage(t)
	s.limitKey("k", 1)
	a := s.byHand()
	id := s.keyedLink(a)
	scheduler := s.scheduler()
	s.runs(a)
	s.exec(`CREATE FUNCTION refuse_place() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$`)
	s.exec(`CREATE TRIGGER refuse_place BEFORE INSERT ON key_places FOR EACH ROW EXECUTE FUNCTION refuse_place()`)
	s.followed(scheduler)
	want(s, int64(0), usedOf, id, a)
	want(s, true, `SELECT due_at IS NOT NULL AND run_id IS NULL FROM connectors WHERE id = $1`, id)
	s.exec(`DROP TRIGGER refuse_place ON key_places`)
	s.followed(s.scheduler(), id)
	s.complete(id)
	want(s, int64(1), usedOf, id, a)
}

func TestASlotWhoseDeadlinePassesWhileItsKeyIsFullLeavesItsEndToTheNextSlot(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	holder := s.holdsKey()
	a := s.byHand()
	id := s.synced(row{"schedule_cron": "0 * * * *", "deadline_minutes": 30, "concurrency_keys": []string{"k"}})
	s.after(id, a)
	scheduler := s.scheduler()
	s.at(utc("2026-02-02 13:05"))
	s.runs(a)
	s.followed(scheduler)
	want(s.stage, "k", waitOf, id)
	s.exec(`UPDATE key_waiters SET since = clock_timestamp()`) // its default is no clock of the test's
	s.at(utc("2026-02-02 13:40"))
	s.do(s.scheduler().Tick(t.Context()))
	s.isLedger(id, "missed: too late 02 13:00-02 13:00 x1")
	want(s.stage, "none", waitOf, id)
	s.do(s.moves.Disable(t.Context(), holder))
	s.at(utc("2026-02-02 14:01"))
	s.followed(scheduler, id)
	s.isLedger(id, "missed: too late 02 13:00-02 13:00 x1", "running 02 14:00")
	s.complete(id)
	want(s.stage, int64(1), usedOf, id, a)
}

func TestATimeoutOfAnUpstreamIsNoTimeoutOfAKey(t *testing.T) {
	s := setClock(t, utc("2026-02-02 12:00"))
	holder := s.holdsKey()
	a := s.byHand()
	id := s.synced(row{"schedule_cron": "0 13 * * *", "concurrency_keys": []string{"k"}})
	s.exec(`INSERT INTO run_after (connector_id, upstream_id, timeout_minutes, max_age_minutes) VALUES ($1, $2, 20, 30)`, id, a)
	scheduler := s.scheduler()
	s.at(utc("2026-02-02 13:10"))
	s.runs(a)
	s.followed(scheduler)
	want(s.stage, "13:10", `SELECT to_char(due_at AT TIME ZONE 'UTC', 'HH24:MI') FROM key_waiters WHERE connector_id = $1`, id) // it has waited for the key since then
	s.at(utc("2026-02-02 17:00"))
	s.followed(scheduler)
	s.isLedger(id)
	s.do(s.moves.Disable(t.Context(), holder))
	s.ticked(scheduler, id)
	s.isLedger(id, "running 02 13:00")
}
