package source_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
)

var errKilled = errors.New("killed")

// TestTheStoreComesToShowThePlaceWhateverHappensOnTheWay: things are written, renamed, moved, damaged and removed, also between the pages of
// a listing, which shows some of them twice; the process is killed at any message and
// checkpoint, and any of what it has sent since any of its checkpoints is lost; the store has no room, gives
// deletions up, and the configuration changes. Once all that is over a few quiet syncs make what is stored the same as the place.
func TestTheStoreComesToShowThePlaceWhateverHappensOnTheWay(t *testing.T) {
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			p, store := newPlace(), workertest.New()
			p.page = 1 + r.IntN(5)
			known := func() string { return fmt.Sprintf("t%02d", r.IntN(25)) }
			storm := func() {
				for range r.IntN(4) {
					id := known()
					there := p.has(id)
					switch n := r.IntN(12); {
					case n < 4 || !there:
						p.write(id, fmt.Sprint("text ", r.IntN(1000)))
					case n < 5:
						p.set(id, func(t *thing) { t.title = fmt.Sprint("Title ", r.IntN(9)) })
					case n < 6:
						p.set(id, func(t *thing) { t.folder = fmt.Sprint("folder", r.IntN(4)) })
					case n < 7:
						p.set(id, func(t *thing) { t.damaged, t.content, t.version = "damaged", r.IntN(2) == 0, p.next() })
					case n < 8:
						p.set(id, func(t *thing) { t.damaged, t.version = "", p.next() })
					case n < 9:
						p.mu.Lock()
						p.hidden[id] = true
						p.mu.Unlock()
					case n < 10:
						p.mu.Lock()
						delete(p.hidden, id)
						p.mu.Unlock()
					default:
						p.remove(id)
					}
				}
			}
			p.between, p.twice = storm, func() bool { return r.IntN(3) == 0 }
			for range 12 {
				if r.IntN(8) == 0 {
					p.stale = true
				}
				if r.IntN(12) == 0 {
					store.Reconfigure()
				}
				var left atomic.Int64
				left.Store(int64(1 + r.IntN(40)))
				dies := func() error {
					if left.Add(-1) <= 0 {
						return errKilled
					}
					return nil
				}
				full := r.IntN(4) == 0
				store.OnPut = func(worker.Document) error { return dies() }
				store.OnCheckpoint = func(int) error { return dies() }
				store.Refuses = func(worker.Document) bool { return full }
				store.GivesUp = func(string) bool { return full }
				store.Allows = true
				_, err := source.Run(t.Context(), store, p, source.Options{Workers: 1 + r.IntN(3), Again: 5})
				if err == nil {
					store.Complete()
					continue
				}
				require.ErrorIs(t, err, errKilled)
				store.Crash(r.IntN)
			}
			p.between, p.twice, store.OnPut, store.OnCheckpoint, store.Refuses, store.GivesUp = nil, nil, nil, nil, nil, nil
			clear(p.hidden)
			for id := range p.things {
				p.set(id, func(t *thing) { t.damaged = ""; t.version = p.next() })
			}
			for range 3 {
				_, err := source.Run(t.Context(), store, p, source.Options{Again: 50})
				require.NoError(t, err)
				store.Complete()
			}
			require.NoError(t, p.differs(store))
			p.reads = 0
			store.Ops()
			_, err := source.Run(t.Context(), store, p, source.Options{})
			require.NoError(t, err)
			require.Zero(t, p.reads)
			require.Empty(t, slices.DeleteFunc(store.Ops(), func(op string) bool { return op == "" }))
		})
	}
}
