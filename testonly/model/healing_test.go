package model

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/sdk/worker"
)

// rounds bounds how long the world may take to come to rest.
const rounds = 40

// heal ends every trouble, lets the components work until they are quiet, and compares the outcome with the
// sources: first of what is due by itself, then of everything, which the user triggers.
func (w *world) heal() {
	w.tb.Helper()
	for len(w.trips) > 0 {
		w.die(w.trips[0])
	}
	for _, c := range w.living() {
		for name, d := range c.source().documents {
			if d.unreadable {
				c.source().setUnreadable(name, false)
			}
		}
		w.comeDue(c)
	}
	stop := w.startKit(w.sync)
	defer stop()
	w.settle(false)
	for _, c := range w.living() {
		w.trigger(c)
	}
	w.settle(true)
	w.checkQuiet()
}

// settle lets the components work until nothing is out of place.
func (w *world) settle(all bool) {
	w.tb.Helper()
	var problem error
	for range rounds {
		// No worker is at work here: what is leased is a dead one's.
		w.exec(w.tb, `UPDATE workers SET expires_at = clock_timestamp() - interval '1 second'`)
		for _, c := range w.living() {
			w.runOutLease(c)
		}
		w.tick(0, immortal)
		w.republish(1, immortal, false)
		w.rescue(1, immortal)
		w.abandon(0, immortal)
		w.failLost(1, immortal)
		w.completeStored(0, immortal)
		w.advanceStored(1, immortal)
		w.work()
		w.sweep(1, immortal)
		w.check()
		if problem = w.unsettled(all); problem == nil {
			return
		}
	}
	w.fatalf("no rest after %d rounds: %v", rounds, problem)
}

// work hands documents to semantic until no trigger and no document is queued and no worker is at work.
func (w *world) work() {
	w.tb.Helper()
	until(w.tb, func() error {
		for batch := w.documents(64); len(batch) > 0; batch = w.documents(64) {
			w.handle(0, immortal, batch)
		}
		working := rows[int64](w, `SELECT count(*) FROM open_runs r JOIN workers l ON l.id = r.worker_id
			WHERE l.expires_at > clock_timestamp()`)
		triggers, documents := w.queued(w.tb, topology.SyncStream), w.queued(w.tb, topology.DocumentStream)
		if triggers+documents > 0 || working[0] > 0 {
			return fmt.Errorf("%d triggers and %d documents are queued, %d workers at work", triggers, documents, working[0])
		}
		return nil
	})
}

// unsettled says what is not yet as it must be in the end, and lets the time pass that it waits for.
func (w *world) unsettled(all bool) error {
	w.tb.Helper()
	now := w.look()
	var problems []error
	for _, model := range w.living() {
		c := now.connector(model.id)
		problem := w.outOfPlace(now, model, c, all)
		if problem != nil {
			problems = append(problems, fmt.Errorf("%s: %w", c, problem))
			w.comeDue(model)
		}
	}
	return errors.Join(problems...)
}

func (w *world) outOfPlace(now *sight, model *connector, c connectorRow, all bool) error {
	switch {
	case c.Status == "DISABLED":
		return nil
	case c.inFlight():
		return errors.New("still in flight")
	case c.Triggered || c.IsDue:
		return errors.New("still due")
	case c.Status == "ERROR" && c.NextSyncAt == nil && !all:
		return nil // its failure was permanent; it waits for the user
	case c.Status == "ERROR":
		return errors.New("still in ERROR")
	case all || c.Refresh != nil && *c.Refresh > 0:
		return sameAs(model.source(), now.visible(c.ID))
	case c.Refresh != nil:
		return onlyOf(model.source(), now.visible(c.ID))
	}
	return nil
}

// sameAs compares what can be found with what the source has.
func sameAs(s *source, found map[string]documentRow) error {
	for name, d := range s.documents {
		row, exists := found[name]
		if !exists {
			return fmt.Errorf("document %s is missing", name)
		}
		if row.text() != s.whole(d) || row.VersionToken != d.token() || row.Status != "stored" {
			return fmt.Errorf("%s is not %+v", row, d)
		}
	}
	for name, row := range found {
		if _, exists := s.documents[name]; !exists {
			return fmt.Errorf("%s is left over", row)
		}
	}
	return nil
}

// onlyOf says whether anything can be found that the present configuration never had.
func onlyOf(s *source, found map[string]documentRow) error {
	for _, row := range found {
		if !s.versions[row.text()] {
			return fmt.Errorf("%s is of another configuration", row)
		}
	}
	return nil
}

// checkQuiet: nothing is left behind, in the database or in the broker.
func (w *world) checkQuiet() {
	w.tb.Helper()
	for _, r := range w.look().runs {
		if r.Status == "running" {
			w.fatalf("promise 4: %s has no verdict in the end", r)
		}
	}
	w.sweep(0, immortal)
	for what, left := range map[string]string{
		"chunks that no document names": `SELECT count(*) FROM chunks c WHERE NOT EXISTS (SELECT 1 FROM documents d
			WHERE d.id = c.document_id AND d.try_id = c.try_id AND d.first_no = c.first_no)`,
		"documents of deleted connectors":    `SELECT count(*) FROM documents d WHERE d.connector_id NOT IN (SELECT id FROM connectors)`,
		"documents that are deleted or part": `SELECT count(*) FROM documents WHERE status IN ('deleted', 'partial')`,
		"counted messages of ended runs":     `SELECT count(*) FROM run_messages`,
		"checkpoints of ended runs":          `SELECT count(*) FROM run_checkpoints`,
		"tries of messages of ended runs":    `SELECT count(*) FROM message_tries`,
		"ended runs not swept":               `SELECT count(*) FROM unswept_runs`,
		"chunks not swept":                   `SELECT count(*) FROM unnamed_chunks`,
		"deleted connectors not swept":       `SELECT count(*) FROM deleted_connectors`,
	} {
		if n := rows[int64](w, left)[0]; n > 0 {
			w.fatalf("%d %s are left", n, what)
		}
	}
	for _, stream := range []string{topology.SyncStream, topology.DocumentStream} {
		if n := w.queued(w.tb, stream); n > 0 {
			w.fatalf("%d messages are left in %s", n, stream)
		}
	}
}

// startKit starts a worker of the kit for each type. The returned function stops them and waits.
func (w *world) startKit(handle worker.Handler) (stop func()) {
	w.tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	process := connect.NewProcess(w.kit.log)
	w.kitWorks = true
	for _, kind := range types {
		kit, err := worker.New(kind, handle, worker.DefaultConfig(), w.kit.servers, process)
		must(w.tb, "make a worker", err)
		working.Go(func() { _ = kit.Run(ctx) })
	}
	return func() { cancel(); working.Wait(); w.kitWorks = false }
}

// sync is a handler of the kit that fetches from the model.
func (w *world) sync(ctx context.Context, run *worker.Run) error {
	known, err := run.Known(ctx)
	if err != nil {
		return err
	}
	var config struct{ Folder string }
	var state struct {
		Cursor int `json:"cursor"`
	}
	if err := errors.Join(run.Config(&config), run.State(&state)); err != nil {
		return err
	}
	seen, p := w.see(run, config.Folder, known, state.Cursor)
	for _, d := range p.put {
		if err := run.Put(ctx, seen.source.offer(d)); err != nil {
			return err
		}
	}
	for _, d := range p.touch {
		if err := run.Touch(ctx, seen.source.offer(d)); err != nil {
			return err
		}
	}
	for _, name := range p.gone {
		if err := run.Delete(ctx, name); err != nil {
			return err
		}
	}
	run.Unchanged(p.unchanged)
	state.Cursor = seen.cursor
	return run.SetState(state)
}

// see is what the model shows to a run.
func (w *world) see(run *worker.Run, folder string, known map[string]worker.Known, cursor int) (*snapshot, plan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.byID(run.Request().ConnectorId)
	delete(w.asked, c.id)
	seen := c.folderOf(folder).snapshot()
	w.sessions[uuid.MustParse(run.Request().ChunkingSession)] = &fetch{connector: c, seen: seen, total: -1}
	return seen, seen.source.fetch(known, cursor, c.kind == feed)
}
