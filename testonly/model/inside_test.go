package model

import (
	"slices"
	"sync"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/sdk/lifecycle"
)

func (w *world) schedulerActions() []action {
	return []action{
		{10, "scheduler ticks", nil, func(t *rapid.T) { w.tick(instance(t), events(t)) }},
		{2, "both schedulers tick", nil, func(*rapid.T) { w.tickBoth() }},
		{1, "scheduler claims and dies", nil, func(t *rapid.T) { w.claimAndDie(instance(t), oneOf(t, "type", types)) }},
		{3, "scheduler looks for lost messages", nil, func(t *rapid.T) {
			w.republish(instance(t), events(t), upTo(t, "impatient", 4) == 0)
		}},
		{8, "scheduler looks for lost workers", nil, func(t *rapid.T) { w.rescue(instance(t), events(t)) }},
	}
}

// workers is how many trips are known at once; of more the oldest worker dies.
const workers = 6

func (w *world) workerActions() []action {
	all := func(*trip) bool { return true }
	under := func(t *trip) bool { return !t.over }
	picked := func(t *trip) bool { return t.pickedUp }
	beating := func(t *trip) bool { return t.pickedUp && t.worker != uuid.Nil }
	working := func(t *trip) bool { return t.pickedUp && !t.over && t.lastSeq == 0 }
	fetchedSome := func(t *trip) bool { return working(t) && t.fetched && t.total > 0 }
	of := func(weight int, name string, such func(*trip) bool, do func(*rapid.T, *trip)) action {
		return action{
			weight, name, func() bool { return len(w.tripsThat(such)) > 0 },
			func(t *rapid.T) { do(t, oneOf(t, "trip", w.tripsThat(such))) },
		}
	}
	return []action{
		{8, "worker receives", nil, func(t *rapid.T) {
			if len(w.trips) >= workers {
				w.die(w.trips[0])
			}
			w.receive(oneOf(t, "type", types))
		}},
		of(10, "worker goes a few steps", under, func(t *rapid.T, on *trip) {
			for range between(t, "steps", 1, 6) {
				w.step(on, upTo(t, "message", 10))
			}
		}),
		of(8, "worker finishes", under, func(t *rapid.T, on *trip) {
			w.stream(w.tb, topology.DocumentStream)
			pick := upTo(t, "message", 10)
			for !on.over {
				w.step(on, pick)
			}
		}),
		{8, "worker takes a trip", nil, func(t *rapid.T) {
			w.stream(w.tb, topology.DocumentStream)
			if on := w.receive(oneOf(t, "type", types)); on != nil {
				w.finish(on)
			}
		}},
		of(3, "worker renews", beating, func(_ *rapid.T, on *trip) { w.renew(on) }),
		of(2, "worker forgets a run", working, func(_ *rapid.T, on *trip) { w.forget(on) }),
		of(1, "worker asks again for what it has", picked, func(_ *rapid.T, on *trip) { w.pickUpAgain(on) }),
		of(3, "worker fails", working, func(t *rapid.T, on *trip) {
			w.fail(on, oneOf(t, "kind", []lifecycle.Failure{lifecycle.Transient, lifecycle.Permanent}))
		}),
		of(3, "worker cuts a run short", fetchedSome, func(t *rapid.T, on *trip) { w.cut(on, 1+upTo(t, "sent", int(on.total)), false) }),
		of(1, "worker is told to wait, and has sent something", fetchedSome, func(t *rapid.T, on *trip) { w.cut(on, 1+upTo(t, "sent", int(on.total)), true) }),
		of(1, "worker releases", working, func(_ *rapid.T, on *trip) { w.release(on) }),
		of(1, "worker is told to wait", working, func(_ *rapid.T, on *trip) { w.postpone(on) }),
		of(2, "worker dies", all, func(_ *rapid.T, on *trip) { w.die(on) }),
		{1, "everything dies", nil, func(*rapid.T) { w.dieAll() }},
	}
}

func (w *world) tripsThat(such func(*trip) bool) []*trip {
	return slices.DeleteFunc(slices.Clone(w.trips), func(t *trip) bool { return !such(t) })
}

func (w *world) dieAll() {
	for len(w.trips) > 0 {
		w.die(w.trips[0])
	}
	for i := range 2 {
		w.startScheduler(i)
		w.startSemantic(i)
	}
}

func (w *world) semanticActions() []action {
	return []action{
		{10, "semantic handles documents", nil, func(t *rapid.T) { w.handle(instance(t), events(t), w.someDocuments(t)) }},
		{8, "semantic handles all documents", nil, func(t *rapid.T) { w.handle(instance(t), immortal, w.documents(32)) }},
		{5, "both semantics handle documents", nil, func(t *rapid.T) { w.handleBoth(events(t), w.someDocuments(t)) }},
		{2, "a message kills its readers", nil, func(t *rapid.T) { w.poison(instance(t)) }},
		{1, "the run ends in mid-store", w.anyConnector, w.endInMidStore},
		{2, "semantic completes stored runs", nil, func(t *rapid.T) { w.completeStored(instance(t), events(t)) }},
		{2, "semantic passes checkpoints", nil, func(t *rapid.T) { w.advanceStored(instance(t), events(t)) }},
		{6, "semantic looks for workers lost again", nil, func(t *rapid.T) { w.abandon(instance(t), events(t)) }},
		{4, "semantic looks for lost documents", nil, func(t *rapid.T) { w.failLost(instance(t), events(t)) }},
		{1, "semantic keeps the ledger", nil, func(t *rapid.T) { w.keepLedger(instance(t), events(t)) }},
		{3, "semantic sweeps", nil, func(t *rapid.T) { w.sweep(instance(t), events(t)) }},
	}
}

// poison lets a reader die of the next message again and again, until the message is given up.
func (w *world) poison(i int) {
	w.tb.Helper()
	for range maxTries + 1 {
		w.handle(i, 3, w.documents(1))
	}
	w.handle(i, immortal, w.documents(1))
}

// endInMidStore lets a run end, one way or another, while its documents are being stored.
func (w *world) endInMidStore(t *rapid.T) {
	batch := w.someDocuments(t)
	c := w.oneConnector(t)
	how := upTo(t, "how", 4)
	var storing sync.WaitGroup
	storing.Go(func() { w.read(0, immortal, batch) })
	defer func() {
		storing.Wait()
		for _, h := range batch {
			h.letGo()
		}
	}()
	switch how {
	case 0:
		w.setOwner(c, 3)
	case 1:
		w.disable(c)
	case 2:
		w.runOutLease(c)
		w.rescue(1, immortal)
	case 3:
		w.setFolder(c, "b")
	}
}

// someDocuments pulls a few messages, and forgets some of them until later, so that they come in any order.
func (w *world) someDocuments(t *rapid.T) []*held {
	batch := w.documents(between(t, "messages", 1, 8))
	if len(batch) == 0 {
		return nil
	}
	indexes := make([]int, len(batch))
	for i := range indexes {
		indexes[i] = i
	}
	order := rapid.Permutation(indexes).Draw(t, "order")
	taken := between(t, "taken", 1, len(batch))
	var some []*held
	for _, i := range order[:taken] {
		some = append(some, batch[i])
	}
	for _, i := range order[taken:] {
		batch[i].letGo()
	}
	return some
}
