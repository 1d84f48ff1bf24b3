package model

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/scheduler"
	"github.com/echomind/sync/services/semantic"
)

// The two types: a listing of everything, and a feed of what changed since a cursor.
const (
	listing = "file"
	feed    = "onedrive"
)

var types = []string{feed, listing}

// limit is how many connectors of one type may be in flight.
const limit = 2

// maxTries is how often a redelivered document message is begun.
const maxTries = 2

// connector is what the model knows of one.
type connector struct {
	id      int32
	kind    string
	folder  string
	folders map[string]*source
	changes int
	deleted bool
}

func (c *connector) source() *source { return c.folderOf(c.folder) }

func (c *connector) folderOf(folder string) *source {
	s := c.folders[folder]
	if s == nil {
		s = newSource(fmt.Sprintf("c%d", c.id), folder, &c.changes)
		c.folders[folder] = s
	}
	return s
}

// world is one history: what the model knows, and the processes that run it.
type world struct {
	*lab
	tb         tb
	mu         sync.Mutex // the kit's handlers look at the model while the test does
	connectors []*connector
	trips      []*trip
	crew       [crewSize]uuid.UUID // the worker processes
	received   int                 // triggers, by all of them together
	// sessions are what each fetch saw, by its run; a run that nobody picked up has none.
	sessions map[uuid.UUID]*fetch
	// garbled are the runs with a document that became unreadable on its way.
	garbled map[uuid.UUID]bool
	// foreign are the runs that a subscriber without a lease has picked up.
	foreign map[uuid.UUID]bool
	// kitWorks: the worker kit is at work, and not the model's workers alone.
	kitWorks bool
	// asked are the connectors that a user triggered and that nobody has begun to fetch since.
	asked   map[int32]bool
	moves   *lifecycle.Lifecycle
	brokers [2]*scheduler.Scheduler
	readers [2]*semantic.Semantic
	said    []*nats.Msg // every message that was ever published, to be said again
	past    *sight      // what the database held after the action before
	steps   int
}

func newWorld(l *lab, t tb) *world {
	t.Helper()
	l.empty(t)
	w := &world{
		lab: l, tb: t, sessions: map[uuid.UUID]*fetch{}, asked: map[int32]bool{}, garbled: map[uuid.UUID]bool{},
		foreign: map[uuid.UUID]bool{}, moves: lifecycle.New(l.worker.servers.Pool),
	}
	for i := range 2 {
		w.startScheduler(i)
		w.startSemantic(i)
	}
	for i := range w.crew {
		w.crew[i] = uuid.New()
	}
	w.past = w.look()
	return w
}

func (w *world) startScheduler(i int) {
	p := w.schedulers[i]
	w.brokers[i] = scheduler.New(schedulerConfig(), p.servers, connect.NewProcess(p.log))
}

func schedulerConfig() scheduler.Config {
	// No lease: after a death the model lets leases run out by SQL, and does not wait for one.
	return scheduler.Config{
		Enabled: true, MaxConcurrentSyncs: limit, OwnerSharePercent: 80, ClaimBatch: 3, ForeignTimeout: 6 * time.Hour, LostGraceSeconds: 15,
	}
}

func (w *world) startSemantic(i int) {
	w.readers[i] = w.newSemantic(i, semantic.NewPostgresStore())
}

func (w *world) newSemantic(i int, store semantic.Store) *semantic.Semantic {
	p := w.semantic[i]
	return semantic.New(semanticConfig(), p.servers, constant{}, store, connect.NewProcess(p.log))
}

func semanticConfig() semantic.Config {
	// No lease: see schedulerConfig.
	return semantic.Config{
		Workers: 2, Batch: 64, MaxTries: maxTries, LedgerRetentionDays: 90, AuditRetentionDays: 365, ForeignTimeout: 6 * time.Hour,
	}
}

// constant is an embedder for texts whose meaning nobody asks for.
type constant struct{}

// Name is part of semantic.Embedder.
func (constant) Name() string { return "constant" }

// Dimensions is part of semantic.Embedder.
func (constant) Dimensions() int { return 2 }

// Embed is part of semantic.Embedder.
func (constant) Embed(_ context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i := range vectors {
		vectors[i] = []float32{1, 0}
	}
	return vectors, nil
}

// crewSize is how many worker processes there are: fewer than runs, so that some share a lease.
const crewSize = 3

// leaseTime is long: leases run out when an action makes them.
const leaseTime = time.Hour

func (w *world) fatalf(format string, args ...any) {
	w.tb.Helper()
	w.tb.Fatalf(format, args...)
}

// living are the connectors that the user has not deleted.
func (w *world) living() []*connector {
	var all []*connector
	for _, c := range w.connectors {
		if !c.deleted {
			all = append(all, c)
		}
	}
	return all
}

func (w *world) byID(id int32) *connector {
	for _, c := range w.connectors {
		if c.id == id {
			return c
		}
	}
	return nil
}
