package model

import (
	"testing"

	"github.com/echomind/sync/contract/topology"
)

func TestARunThatItsWorkerHasForgottenIsRescuedThoughTheWorkerLives(t *testing.T) {
	w, c, on := oneSource(t)
	w.step(on, 0) // picked up
	w.step(on, 0) // acknowledged
	w.forget(on)
	w.renew(on) // must not keep it, which renew checks
	w.check()
	w.rescue(0, immortal)
	w.expect(c, "PENDING", "running", "")
	w.ends(c, 1)
}

func TestAWorkerThatDiesLosesItsOwnRunsAndNobodyElses(t *testing.T) {
	w := newWorld(newLab(t), t)
	var all []*connector
	for range limit {
		c := w.add(listing, hourly(), 5)
		c.source().write("d1", 1)
		all = append(all, c)
	}
	w.tick(0, immortal)
	var dead, living *trip
	for _, on := range []**trip{&dead, &living} {
		*on = w.receive(listing)
		w.step(*on, 0)
		w.step(*on, 0)
	}
	w.die(dead)
	w.runOutLease(w.byID(dead.request.ConnectorId))
	w.rescue(0, immortal)
	w.check()
	now := w.look()
	if c := now.connector(dead.request.ConnectorId); c.Status != "PENDING" || c.FailureCount != 1 {
		t.Fatalf("%s: its worker is lost, and it was not rescued", c)
	}
	if c := now.connector(living.request.ConnectorId); !c.leasedBy(living) || c.FailureCount != 0 {
		t.Fatalf("%s: its worker lives, and it was taken away", c)
	}
	w.ends(all[0], now.connector(all[0].id).FailureCount)
}

func TestAWorkerThatIsLostAgainFailsItsConnectorByThePolicy(t *testing.T) {
	w, c, on := oneSource(t)
	for range 2 {
		w.step(on, 0)
		w.step(on, 0)
		w.die(on)
		w.runOutLease(c)
		w.rescue(0, immortal)
		w.check()
		on = w.receive(listing)
	}
	if on != nil {
		t.Fatalf("%s was rescued twice in a row", on)
	}
	w.expect(c, "SYNCING", "running", "")
	w.abandon(0, immortal)
	w.expect(c, "ERROR", "failed", "worker lost")
	w.ends(c, 2)
}

func TestARunOfASubscriberWithoutALeaseIsLostOnlyAfterItsTime(t *testing.T) {
	w := newWorld(newLab(t), t)
	w.received = crewSize // whose turn it is
	c := w.add(listing, hourly(), 5)
	c.source().write("d1", 1)
	w.tick(0, immortal)
	on := w.receive(listing)
	w.step(on, 0)
	w.rescue(0, immortal)
	w.expect(c, "SYNCING", "running", "")
	w.runOutLease(c)
	w.rescue(0, immortal)
	w.expect(c, "PENDING", "running", "")
	w.finish(on) // must be refused, which each step checks
	w.ends(c, 1)
}

func TestARunWhoseDocumentsAreLostIsFetchedAgainAtOnce(t *testing.T) {
	for name, lose := range map[string]func(*world){
		"OneMessage":                func(w *world) { w.lose(topology.DocumentStream, 0) },
		"TheStream":                 func(w *world) { w.purge(topology.DocumentStream) },
		"TheStreamWithItsConsumers": func(w *world) { w.wipe(topology.DocumentStream) },
	} {
		t.Run(name, func(t *testing.T) {
			w, c, on := oneSource(t)
			w.finish(on)
			w.failLost(0, immortal)
			w.expect(c, "SYNCING", "running", "")
			lose(w)
			w.handle(0, immortal, w.documents(10))
			w.failLost(0, immortal)
			w.expect(c, "ERROR", "failed", "lost in transit")
			if row := w.look().connector(c.id); !row.IsDue {
				t.Fatalf("%s is not due", row)
			}
			w.ends(c, 0)
		})
	}
}

func TestASlotThatHasPassedIsMissedWhereItsUserTakesItAway(t *testing.T) {
	for reason, takes := range map[string]func(*world, *connector){
		"disabled before it could be claimed":          func(w *world, c *connector) { w.disable(c) },
		"connector deleted before it could be claimed": func(w *world, c *connector) { w.remove(c) },
		"schedule changed before it could be claimed":  func(w *world, c *connector) { w.setRefresh(c, nil) },
	} {
		t.Run(reason, func(t *testing.T) {
			w, c, on := oneSource(t)
			w.finish(on)
			w.handle(0, immortal, w.documents(10))
			w.comeDue(c)
			w.check()
			takes(w, c)
			w.check() // refuses a slot without its row
			if last := w.look().latest(c.id); last.Status != "missed" || deref(last.Reason) != reason {
				t.Fatalf("%s; want a slot that was missed: %s", last, reason)
			}
		})
	}
}
