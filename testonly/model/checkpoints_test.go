package model

import (
	"cmp"
	"slices"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
)

// sending is what a fetch sends of one document: change is where it stands in the source's change log.
type sending struct {
	name   string
	change int
	number func()
}

// sendings are a plan's messages.
func (w *world) sendings(t *trip, f *fetch, p plan) []sending {
	var all []sending
	add := func(name string, number func()) {
		all = append(all, sending{name: name, change: f.seen.source.changed[name], number: number})
	}
	for _, d := range p.put {
		add(d.name, func() {
			if draft, changed := f.seen.source.draft(d); changed {
				w.put(t, f.seen.source, draft)
			}
			w.put(t, f.seen.source, d)
		})
	}
	for _, d := range p.touch {
		add(d.name, func() {
			doc := f.seen.source.offer(d)
			w.number(t, part(doc, 1, func(p *internalpb.DocumentPart) { p.KeepChunks = true }))
		})
	}
	for _, name := range p.gone {
		add(name, func() {
			w.number(t, &internalpb.DocumentProcessRequest{Body: &internalpb.DocumentProcessRequest_Deletion{
				Deletion: &internalpb.DocumentDeletion{SourceId: name},
			}})
		})
	}
	return all
}

// numberInOrder numbers a fetch's messages in the order of the source's changes, so that a checkpoint may stand after
// each: a fetch from its cursor sees whatever changed later. pick, and where the source stands, say after which of them
// one does.
func (w *world) numberInOrder(t *trip, f *fetch, cursor, pick int, all []sending) {
	w.tb.Helper()
	slices.SortFunc(all, func(a, b sending) int {
		return cmp.Or(cmp.Compare(a.change, b.change), cmp.Compare(a.name, b.name))
	})
	some := (pick + f.seen.cursor) % 3
	for i, s := range all {
		s.number()
		if s.change <= cursor || some == 0 || some == 1 && i%2 == 0 {
			continue
		}
		w.number(t, &internalpb.DocumentProcessRequest{Body: &internalpb.DocumentProcessRequest_Checkpoint{
			Checkpoint: &internalpb.SyncCheckpoint{State: cursorState(s.change)},
		}})
		f.checkpoints[s.change] = t.total
	}
}

// passedCheckpoint says whether a run has just brought its connector's cursor to one of its checkpoints. That everything
// before it is stored is looked at with the run.
func (w *world) passedCheckpoint(c connectorRow, r runRow) bool {
	f, before := w.sessions[r.ID], w.past.runs[r.ID]
	return f != nil && c.Cursor != nil && r.ConnectorID == c.ID && r.ConfigVersion == c.ConfigVersion &&
		r.CheckpointNo > before.CheckpointNo && f.checkpoints[*c.Cursor] == r.CheckpointNo
}
