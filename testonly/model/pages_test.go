package model

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/sdk/worker"
)

// reading is a world with one shelf, which real workers of the kit sync.
type reading struct {
	*world
	*shelf
	c     *connector
	ended bool // the last worker was done
	stop  func()
}

func newReading(l *lab, t tb) *reading {
	t.Helper()
	r := &reading{world: newWorld(l, t), shelf: newShelf()}
	r.c = r.add(listing, hourly(), 1000)
	cfg := worker.DefaultConfig()
	cfg.LeaseSeconds, cfg.Slots = 3, 32 // a worker that stands still has its slot until it notices
	kit, err := worker.New(listing, r.shelf.sync, cfg, r.kit.servers, connect.NewProcess(r.kit.log))
	must(t, "make a worker", err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- kit.Run(ctx) }()
	r.stop = func() {
		cancel()
		must(t, "stop the worker", <-ended)
	}
	return r
}

// next waits until a worker has sent a page, or is done.
func (r *reading) next() turn {
	r.tb.Helper()
	select {
	case asks := <-r.turns:
		return asks
	case <-time.After(within):
		r.fatalf("no worker sends anything: %s", r.look().connector(r.c.id))
		return turn{}
	}
}

// store hands everything that a worker has sent to semantic.
func (r *reading) store() {
	r.tb.Helper()
	var want int64
	until(r.tb, func() error {
		for batch := r.documents(64); len(batch) > 0; batch = r.documents(64) {
			r.handle(0, immortal, batch)
		}
		run := r.look().latest(r.c.id)
		want = max(want, run.Stored)
		if c := r.look().connector(r.c.id); c.Status == "SYNCING" && (run.Stored == 0 || run.CheckpointNo < run.Stored) && run.Total == nil {
			return fmt.Errorf("%s: what it sent is not stored", run)
		}
		return nil
	})
}

// loseReader lets the lease of a worker that stands still run out. The failures that this counts are forgotten, so that
// the connector is claimed again at once.
func (r *reading) loseReader() {
	r.tb.Helper()
	r.force(r.tb, `UPDATE connectors SET failure_count = 0`)
	r.force(r.tb, `UPDATE open_runs SET fails_if_lost = false`)
	r.loseWorker(r.c)
	before := r.look().connector(r.c.id)
	r.rescue(0, immortal)
	if now := r.look().connector(r.c.id); before.Status == "SYNCING" && same(now.Run, before.Run) {
		r.fatalf("%s was not rescued", now)
	}
}

// letEnd lets the worker send everything.
func (r *reading) letEnd() {
	r.tb.Helper()
	for !r.ended {
		if asks := r.next(); asks.ended {
			r.ended = true
		} else {
			asks.lives <- true
		}
	}
}

// finish lets the run end, and compares what is stored with the shelf.
func (r *reading) finish() {
	r.tb.Helper()
	r.letEnd()
	r.ended = false
	until(r.tb, func() error {
		for batch := r.documents(64); len(batch) > 0; batch = r.documents(64) {
			r.handle(1, immortal, batch)
		}
		if c := r.look().connector(r.c.id); c.Status != "ACTIVE" {
			return fmt.Errorf("%s is not complete", c)
		}
		return nil
	})
}

func (r *reading) compareAll() {
	r.tb.Helper()
	found := r.look().visible(r.c.id)
	var problem error
	r.do(func() { problem = errors.Join(r.defect, sameAs(r.source, found)) })
	if problem != nil {
		r.fatalf("promise 5: %v", problem)
	}
	r.sweep(0, immortal)
	if left := rows[int64](r.world, `SELECT count(*) FROM sightings`)[0]; left > 0 {
		r.fatalf("%d sightings are left of listings that are over", left)
	}
}

func TestAFirstSyncThatDiesAfterEachPageGoesOnFromThere(t *testing.T) {
	r := newReading(newLab(t), t)
	defer r.stop()
	const pages = 5
	for i := range pages * pageSize {
		r.write(fmt.Sprintf("d%02d", i), 1+i%2)
	}
	r.tick(0, immortal)
	lives := map[uuid.UUID]bool{}
	for range pages {
		asks := r.next()
		r.store()
		now := r.look()
		run := now.latest(r.c.id)
		if run.CheckpointNo != run.Stored || run.Prefix != run.Stored || run.Stored == 0 {
			t.Fatalf("%s has checkpoint %d", run, run.CheckpointNo)
		}
		lives[run.ID] = true
		asks.lives <- false
		r.loseReader()
	}
	r.finish()
	r.compareAll()
	if len(lives) != pages {
		t.Fatalf("%d workers for %d pages", len(lives), pages)
	}
	for version, times := range r.fetched {
		if times != 1 {
			t.Errorf("%s was fetched %d times", version, times)
		}
	}
	if len(r.fetched) != pages*pageSize {
		t.Errorf("%d documents were fetched, of %d", len(r.fetched), pages*pageSize)
	}
}

// giveUp lets a reader die of a document's message again and again, until the message is given up.
func (r *reading) giveUp(name string) {
	r.tb.Helper()
	until(r.tb, func() error {
		for _, d := range r.look().documents {
			if d.SourceID == name && d.Status == "failed" {
				return nil
			}
		}
		var its []*held
		for _, h := range r.documents(64) {
			m := &internalpb.DocumentProcessRequest{}
			must(r.tb, "decode a document", proto.Unmarshal(h.Data(), m))
			if m.GetPart().GetSourceId() == name || m.GetDeletion().GetSourceId() == name {
				its = append(its, h)
			} else {
				h.letGo()
			}
		}
		tries := rows[int64](r.world, `SELECT coalesce(max(tries), 0)::bigint FROM message_tries m
			JOIN open_runs r USING (try_id)`)[0]
		if tries < maxTries {
			r.handle(0, 3, its)
		} else {
			r.handle(0, immortal, its)
		}
		return fmt.Errorf("no message of %s is given up", name)
	})
}

func TestADocumentThatWasGivenUpIsFetchedAgainBesideTheChanges(t *testing.T) {
	t.Run("AfterACheckpointOfItsListing", func(t *testing.T) {
		r := newReading(newLab(t), t)
		defer r.stop()
		for i := range 2 * pageSize {
			r.write(fmt.Sprintf("d%02d", i), 1)
		}
		r.tick(0, immortal)
		asks := r.next()
		r.giveUp("d01")
		r.store()
		asks.lives <- false
		r.loseReader()
		r.finish() // of a run that continues after d01's page
		r.compareAll()
	})
	t.Run("AfterItsDeletion", func(t *testing.T) {
		r := newReading(newLab(t), t)
		defer r.stop()
		r.write("d01", 1)
		r.tick(0, immortal)
		r.finish()
		r.do(func() { r.source.remove("d01") })
		r.trigger(r.c)
		r.tick(0, immortal)
		r.letEnd()
		r.giveUp("d01")
		r.finish()
		r.trigger(r.c)
		r.tick(0, immortal)
		r.finish() // of a run to which nothing has changed
		r.compareAll()
	})
}

// TestAListingOverManyRunsDeletesExactlyWhatItHasNotShown plays random histories of a shelf: it is listed again from the
// beginning, by workers that die after any page, with any part of what they sent stored, in any order, while documents
// come, change and go. Each run must know exactly what the pages before its checkpoint have shown.
func TestAListingOverManyRunsDeletesExactlyWhatItHasNotShown(t *testing.T) {
	l := newLab(t)
	unlessGiven(t, "checks", 15)
	unlessGiven(t, "nofailfile", true)
	deaths, listings := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		r := newReading(l, rt)
		defer r.stop()
		for range 10 {
			r.change(rt, 2)
		}
		for range between(rt, "listings", 1, 3) {
			listings++
			r.do(func() { r.refusing = true })
			r.force(rt, `UPDATE connectors SET state = '{}'`) // the source cannot go on from any cursor
			r.trigger(r.c)
			r.tick(0, immortal)
			for range between(rt, "deaths", 1, 5) {
				if !r.liveAndDie(rt) {
					break
				}
				deaths++
				r.change(rt, 3)
			}
			r.finish()
			r.change(rt, 3)
		}
		r.trigger(r.c)
		r.tick(0, immortal)
		r.finish()
		r.compareAll()
	})
	t.Logf("%d listings, %d deaths", listings, deaths)
}

// liveAndDie lets a worker send some pages; some of that is stored when it dies. It reports false if the listing had ended.
func (r *reading) liveAndDie(t *rapid.T) bool {
	pages := between(t, "pages", 0, 2)
	for {
		asks := r.next()
		if asks.ended {
			r.ended = true
			return false
		}
		for range between(t, "batches", 0, 3) {
			r.handle(instance(t), events(t), r.someDocuments(t))
		}
		if pages--; pages < 0 {
			asks.lives <- false
			r.loseReader()
			return true
		}
		r.change(t, 2)
		r.do(func() { r.refusing = upTo(t, "start all over", 8) == 0 })
		asks.lives <- true
	}
}

// change lets documents come, change and go.
func (r *reading) change(t *rapid.T, most int) {
	for range between(t, "changes", 0, most) {
		name := fmt.Sprintf("d%02d", upTo(t, "document", 15))
		r.do(func() {
			if _, exists := r.source.documents[name]; exists && upTo(t, "gone", 2) == 0 {
				r.source.remove(name)
			} else {
				r.write(name, between(t, "parts", 1, 2))
			}
		})
	}
}
