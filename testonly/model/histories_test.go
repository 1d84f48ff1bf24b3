package model

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/semantic"
)

// hourly is a connector's refresh in these histories.
func hourly() *int { minutes := 60; return &minutes }

// oneSource is a world with one connector of two documents, the second of them in two parts, that is being synced.
func oneSource(t *testing.T) (*world, *connector, *trip) {
	t.Helper()
	w := newWorld(newLab(t), t)
	c := w.add(listing, hourly(), 5)
	c.source().write("d1", 1)
	c.source().write("d2", 2)
	w.tick(0, immortal)
	on := w.receive(listing)
	if on == nil {
		t.Fatal("no trigger was published")
	}
	return w, c, on
}

// expect compares a connector and its latest run.
func (w *world) expect(c *connector, status, verdict, reason string) {
	w.tb.Helper()
	w.check()
	now := w.look()
	last := now.latest(c.id)
	if now.connector(c.id).Status != status || last.Status != verdict || deref(last.Reason) != reason {
		w.fatalf("%s with %s; want %s with a run that is %s %q", now.connector(c.id), last, status, verdict, reason)
	}
}

// ends checks how many failures count, and heals the world.
func (w *world) ends(c *connector, failures int) {
	w.tb.Helper()
	if got := w.look().connector(c.id).FailureCount; got != failures {
		w.fatalf("failure_count is %d, want %d", got, failures)
	}
	w.heal()
}

func TestALateRenewalDoesNotReviveADrainingRun(t *testing.T) {
	w, c, on := oneSource(t)
	w.finish(on)
	before := w.look().connector(c.id)
	w.renew(on) // must be refused, which renew checks
	after := w.look().connector(c.id)
	if before.Worker != nil || after.Worker != nil {
		t.Fatalf("a lease on a draining run: %v, %v", before, after)
	}
	w.rescue(0, immortal)
	w.abandon(0, immortal)
	w.expect(c, "SYNCING", "running", "")
	w.handle(0, immortal, w.documents(10))
	w.expect(c, "ACTIVE", "completed", "")
	w.ends(c, 0)
}

func TestACrashBetweenStoreAndCompletionLosesNothing(t *testing.T) {
	for name, heals := range map[string]func(*world){
		"ACountedDocumentIsDeliveredAgain": func(w *world) { w.handle(1, immortal, w.documents(10)) },
		"HousekeepingCompletesIt":          func(w *world) { w.completeStored(1, immortal) },
	} {
		t.Run(name, func(t *testing.T) {
			w, c, on := oneSource(t)
			w.finish(on)
			batch := w.documents(10)
			w.handle(0, immortal, batch[len(batch)-1:]) // sync completed comes first, so that a document completes the run
			before := "-- name: CompleteAll "           // the completion
			w.semantic[0].fatal.Store(&before)
			w.handle(0, immortal, batch[:len(batch)-1])
			w.expect(c, "SYNCING", "running", "")
			if run := w.look().latest(c.id); run.Total == nil || run.Stored != *run.Total {
				t.Fatalf("%s: not between store and completion", run)
			}
			heals(w)
			w.expect(c, "ACTIVE", "completed", "")
			w.ends(c, 0)
		})
	}
}

func TestAllWorkersDeadAtFullCapAreRescuedInTheirPlaces(t *testing.T) {
	w := newWorld(newLab(t), t)
	var all []*connector
	for range limit + 1 {
		c := w.add(listing, hourly(), 5)
		c.source().write("d1", 1)
		all = append(all, c)
	}
	w.tick(0, immortal)
	for range limit {
		on := w.receive(listing)
		w.step(on, 0) // picked up
		w.step(on, 0) // acknowledged
		w.die(on)
	}
	w.tick(1, immortal)
	w.check()
	if last := w.look().connector(all[limit].id); last.Status != "ACTIVE" || !last.IsDue {
		t.Fatalf("%s was claimed above the cap", last)
	}
	for _, c := range all[:limit] {
		w.runOutLease(c)
	}
	// Both schedulers look at once: each connector is rescued once.
	var both sync.WaitGroup
	for i := range 2 {
		both.Go(func() {
			w.schedulers[i].live(immortal, func(ctx context.Context, _ *life) { _ = w.brokers[i].Rescue(ctx) })
		})
	}
	both.Wait()
	w.check()
	for _, c := range all[:limit] {
		w.expect(c, "PENDING", "running", "")
	}
	for range limit {
		w.finish(w.receive(listing))
	}
	if extra := w.receive(listing); extra != nil {
		t.Fatalf("%s was published though nobody rescued it once more", extra)
	}
	w.handle(0, immortal, w.documents(10))
	for _, c := range all[:limit] {
		w.expect(c, "ACTIVE", "completed", "")
	}
	w.ends(all[0], 0)
}

func TestTwoWorkersStoreTheTwoPartsOfOneDocument(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		w, c, on := oneSource(t)
		w.finish(on)
		batch := w.documents(10)
		first, second := batch[order[0]], batch[order[1]]
		// A stops in the middle of its store, holding the document; B starts, and waits for the document or is done.
		entered, goOn := make(chan struct{}), make(chan struct{})
		w.readers[0] = w.pausing(0, entered, goOn)
		var storing sync.WaitGroup
		storing.Go(func() { w.read(0, immortal, []*held{first}) })
		<-entered
		stored := make(chan struct{})
		storing.Go(func() { defer close(stored); w.read(1, immortal, []*held{second}) })
		until(t, func() error {
			select {
			case <-stored:
				return nil
			default:
			}
			if rows[int64](w, `SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock'`)[0] == 0 {
				return errors.New("B neither waits nor is done")
			}
			return nil
		})
		close(goOn)
		storing.Wait()
		w.check()
		w.handle(0, immortal, append([]*held{batch[order[2]]}, batch[3:]...))
		w.expect(c, "ACTIVE", "completed", "")
		w.ends(c, 0)
	}
}

func TestAConfigChangeInMidStoreRollsTheStoreBack(t *testing.T) {
	for _, how := range []string{"config", "owner", "disable", "delete", "rescue"} {
		t.Run(how, func(t *testing.T) {
			w, c, on := oneSource(t)
			w.finishFetching(on)
			batch := w.documents(2)
			entered, goOn := make(chan struct{}), make(chan struct{})
			w.readers[0] = w.pausing(0, entered, goOn)
			var storing sync.WaitGroup
			storing.Go(func() { w.read(0, immortal, batch) })
			<-entered
			switch how {
			case "config":
				w.setFolder(c, "b")
				c.source().write("d1", 2)
			case "owner":
				w.setOwner(c, 2)
			case "disable":
				w.disable(c)
			case "delete":
				w.remove(c)
			case "rescue":
				w.runOutLease(c)
				w.rescue(0, immortal)
			}
			close(goOn)
			storing.Wait()
			if found := w.look().visible(c.id); len(found) > 0 {
				t.Fatalf("the store was not rolled back: %v", found)
			}
			w.check()
			w.step(on, 0) // draining must be refused, which step checks
			w.check()
			w.heal()
		})
	}
}

// pausing is a semantic whose store stops, once, before it has written any chunk.
func (w *world) pausing(i int, entered chan<- struct{}, goOn <-chan struct{}) *semantic.Semantic {
	store := semantic.NewPostgresStore()
	return w.newSemantic(i, &pausingStore{PostgresStore: store, entered: entered, goOn: goOn})
}

type pausingStore struct {
	*semantic.PostgresStore
	once    sync.Once
	entered chan<- struct{}
	goOn    <-chan struct{}
}

// Write is part of semantic.Store.
func (s *pausingStore) Write(ctx context.Context, tx pgx.Tx, pieces []semantic.Piece) error {
	s.once.Do(func() {
		close(s.entered)
		select {
		case <-s.goOn:
		case <-ctx.Done():
		}
	})
	return s.PostgresStore.Write(ctx, tx, pieces)
}

func TestAPickUpWhoseCommitIsUnknownIsRepeatedByItsOwner(t *testing.T) {
	w := newWorld(newLab(t), t)
	c := w.add(listing, hourly(), 5)
	c.source().write("d1", 2)
	w.kit.loseAnswer("-- name: PickUpAll ")
	stop := w.startKit(w.sync)
	defer stop()
	w.tick(0, immortal)
	until(t, func() error {
		for batch := w.documents(10); len(batch) > 0; batch = w.documents(10) {
			w.handle(0, immortal, batch)
		}
		if status := w.look().connector(c.id); status.Status != "ACTIVE" || status.LastSyncAt == nil {
			return errors.New(status.String())
		}
		return nil
	})
	if w.kit.mute.Load() != nil {
		t.Fatal("no answer was lost")
	}
	w.expect(c, string(lifecycle.Active), "completed", "")
	if runs := w.look().runs; len(runs) != 1 {
		t.Fatalf("%d runs, want the one that was picked up: %v", len(runs), runs)
	}
	if err := sameAs(c.source(), w.look().visible(c.id)); err != nil {
		t.Fatal(err)
	}
}

func TestALateDuplicateOfASweptRunChangesNothing(t *testing.T) {
	w, c, on := oneSource(t)
	w.finish(on)
	w.handle(0, immortal, w.documents(10))
	w.expect(c, "ACTIVE", "completed", "")
	w.sweep(0, immortal)
	for i := range w.said {
		w.sayAgain(i)
	}
	w.handle(0, immortal, w.documents(10)) // must not be taken for something that cannot be stored, which check sees
	w.expect(c, "ACTIVE", "completed", "")
	if n := w.queued(t, topology.DeadLetterStream); n > 0 {
		t.Fatalf("%d dead letters", n)
	}
	w.ends(c, 0)
}

func TestADocumentThatNobodyCanReadHoldsTheCursorBack(t *testing.T) {
	w := newWorld(newLab(t), t)
	c := w.add(feed, hourly(), 5)
	c.source().write("d1", 1)
	c.source().write("d2", 1)
	w.tick(0, immortal)
	w.finish(w.receive(feed))
	w.garble(0)
	w.handle(0, immortal, w.documents(10))
	w.expect(c, "ACTIVE", "completed", "")
	if row := w.look().connector(c.id); row.State != "{}" {
		t.Fatalf("%s: its cursor has passed a document that is not stored", row)
	}
	w.ends(c, 0) // where the feed hands it out once more
}

func TestAChangeWhoseRunIsEndedByTheUserIsSyncedWhenEnabled(t *testing.T) {
	w, c, on := oneSource(t)
	w.finish(on)
	w.handle(0, immortal, w.documents(10))
	w.setRefresh(c, new(int)) // never again by itself
	w.setFolder(c, "b")
	c.source().write("d1", 1)
	w.tick(0, immortal)
	w.disable(c)
	w.check()
	w.enable(c)
	w.check() // refuses a connector that is at rest, not due, and never synced as it is configured
	w.ends(c, 0)
}
