package model

import (
	"github.com/google/uuid"
)

// check holds the promises against what the database holds now and what it held after the action before.
func (w *world) check() {
	w.tb.Helper()
	now := w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, defect := range w.book.all() {
		w.fatalf("%s", defect)
	}
	for _, c := range now.connectors {
		w.checkStanding(now, c)
		w.checkState(now, c)
	}
	for _, c := range w.past.connectors {
		w.checkSlot(now, c)
	}
	for id := range w.asked {
		switch c := now.connectors[id]; {
		case c.Status == "DISABLED" || c.ID == 0:
			delete(w.asked, id)
		case c.inFlight() && w.kitWorks: // it was picked up, and the handler has not begun to look
		case !c.Triggered:
			w.fatalf("promise 1: %s: a trigger is forgotten, and nobody has fetched since", c)
		}
	}
	w.checkCap(now)
	for _, r := range now.runs {
		w.checkRun(now, r)
	}
	for id := range w.past.runs {
		if _, stays := now.runs[id]; !stays {
			w.fatalf("promise 4: %s vanished from the ledger", w.past.runs[id])
		}
	}
	for _, d := range now.documents {
		w.checkDocument(now, d)
	}
	w.past = now
}

// checkStanding: status, session, lease, due time and ledger agree; whatever is not running says why.
func (w *world) checkStanding(now *sight, c connectorRow) {
	w.tb.Helper()
	var open []runRow
	for _, r := range now.runs {
		if r.ConnectorID == c.ID && r.Status == "running" {
			open = append(open, r)
		}
	}
	refuse := func(what string) {
		w.tb.Helper()
		w.fatalf("%s: %s; open runs: %v", c, what, open)
	}
	switch {
	case len(open) > 1:
		refuse("promise 2: more than one open run")
	case c.inFlight() && (c.Run == nil || len(open) != 1 || open[0].ID != *c.Run):
		refuse("promise 4: in flight without its own open run")
	case c.inFlight() && open[0].ConfigVersion != c.ConfigVersion:
		refuse("promise 2: in flight under an old configuration")
	case !c.inFlight() && (len(open) > 0 || c.Run != nil):
		refuse("promise 4: at rest with an open run")
	case c.inFlight() && open[0].DispatchedAt == nil:
		refuse("promise 1: PENDING and never dispatched")
	case c.inFlight() && (c.Status == "SYNCING") != (open[0].TryID != nil && open[0].PickedUpAt != nil):
		refuse("promise 2: SYNCING without a try, or PENDING with one")
	case c.isUnleased() && !w.foreign[*c.Run], c.Worker != nil && c.DrainSeq != nil:
		refuse("promise 3: fetching without a lease, or draining with one")
	case c.Status != "SYNCING" && c.Worker != nil:
		refuse("a lease without a worker")
	case !c.atRest() && (c.NextSyncAt != nil || c.DueReason != nil):
		refuse("due while not at rest")
	case c.atRest() && (c.NextSyncAt == nil) != (c.DueReason == nil):
		refuse("promise 4: due without a reason, or the reverse")
	case c.atRest() && c.Triggered && !c.IsDue:
		refuse("promise 1: triggered and not due")
	case c.Status == "ERROR" && deref(c.StatusMessage) == "":
		refuse("promise 4: ERROR without a message")
	case c.Status == "ERROR" && c.NextSyncAt == nil && deref(now.latest(c.ID).Reason) != "permanent failure":
		refuse("promise 1: will never be tried again, though its failure was not permanent")
	case c.Status == "DISABLED" && deref(c.StatusMessage) == "":
		refuse("promise 4: DISABLED without a message")
	case c.Status == "ACTIVE" && c.Refresh != nil && c.NextSyncAt == nil && !(*c.Refresh == 0 && (synced(now, c) || cancelled(now, c))):
		refuse("promise 1: ACTIVE, not due, and never synced under its present configuration")
	}
}

// cancelled says whether a user has cancelled a run of a connector under its present configuration: one that runs once waits for a trigger
// then.
func cancelled(now *sight, c connectorRow) bool {
	for _, r := range now.runs {
		if r.ConnectorID == c.ID && r.ConfigVersion == c.ConfigVersion && deref(r.Reason) == "cancelled" {
			return true
		}
	}
	return false
}

// synced says whether a connector was synced as it is configured now.
func synced(now *sight, c connectorRow) bool {
	for _, r := range now.runs {
		if r.ConnectorID == c.ID && r.ConfigVersion == c.ConfigVersion && hasSynced(r) {
			return true
		}
	}
	return false
}

func hasSynced(r runRow) bool { return r.Status == "completed" || r.Status == "skipped" }

// checkSlot: a slot that has passed stays due, or has its run, or is missed: also where the user has changed the schedule,
// disabled or deleted the connector.
func (w *world) checkSlot(now *sight, before connectorRow) {
	w.tb.Helper()
	slot := before.SlotAt
	if slot == nil || !before.IsDue || before.SlotsThrough != nil && !slot.After(*before.SlotsThrough) {
		return
	}
	if stays := now.connectors[before.ID].SlotAt; stays != nil && stays.Equal(*slot) {
		return
	}
	answers := 0
	for _, r := range now.runs {
		if r.ConnectorID == before.ID && r.Slot != nil && r.Slot.Equal(*slot) {
			answers++
		}
	}
	if answers != 1 {
		w.fatalf("promise 4: the slot %s of %s has %d rows in the ledger", slot, before, answers)
	}
}

// checkCap: no more of a type in flight than its cap; a rescue keeps a place, and so never adds one.
func (w *world) checkCap(now *sight) {
	w.tb.Helper()
	count := map[string]int{}
	for _, c := range now.connectors {
		if c.inFlight() {
			count[c.Type]++
		}
	}
	for kind, n := range count {
		if n > limit {
			w.fatalf("promise 2: %d of type %s are in flight, above the cap of %d", n, kind, limit)
		}
	}
}

// checkRun: one verdict, with its reason, for ever; counts that add up.
func (w *world) checkRun(now *sight, r runRow) {
	w.tb.Helper()
	before, existed := w.past.runs[r.ID]
	ended := existed && before.Status != "running"
	switch {
	case ended && (before.Status != r.Status || deref(before.Reason) != deref(r.Reason) ||
		!before.CompletedAt.Equal(*r.CompletedAt)):
		w.fatalf("promise 4: the verdict of %s was %s", r, before)
	case ended && before.Stored != r.Stored:
		w.fatalf("promise 2: %s was written after its verdict: %s", r, before)
	case r.Status == "running" && now.connectors[r.ConnectorID].ID == 0:
		w.fatalf("promise 4: %s is open and its connector is gone", r)
	case (r.Status == "running") != (r.CompletedAt == nil):
		w.fatalf("promise 4: %s has a verdict without a time, or the reverse", r)
	case r.Status != "running" && r.Status != "completed" && deref(r.Reason) == "":
		w.fatalf("promise 4: %s does not say why", r)
	case hasSynced(r) && (r.Total == nil || *r.Total != r.Stored):
		w.fatalf("promise 5: %s ended before everything was stored", r)
	case r.CheckpointNo < before.CheckpointNo, ended && r.CheckpointNo != before.CheckpointNo:
		w.fatalf("promise 5: the checkpoint of %s was %d and is %d", r, before.CheckpointNo, r.CheckpointNo)
	case r.Status == "running" && r.CheckpointNo != r.Prefix:
		w.fatalf("promise 5: %s has checkpoint %d, and only %d messages before it are stored", r, r.CheckpointNo, r.Prefix)
	case r.CountedThrough != r.CountedPrefix:
		w.fatalf("promise 5: %s is counted up to %d, and only %d messages of these are stored", r, r.CountedThrough, r.CountedPrefix)
	case r.SaysWait != r.Wait:
		w.fatalf("promise 5: %s says that %d parts wait, and %d do", r, r.SaysWait, r.Wait)
	case !ended && before.Cut != nil && (deref(r.Reason) == "took too long" || deref(r.Reason) == "postponed") && *r.Total != r.Stored:
		w.fatalf("promise 3: %s was ended before everything that it had sent was stored", r)
	case (r.Status == "skipped" && r.MissedCount == nil) != (hasSynced(r) && *r.Total == r.Notes):
		w.fatalf("promise 4: %s: skipped means that there was nothing to store", r)
	case r.Status == "running" && r.Stored != r.Counted, r.Counted > r.Stored:
		w.fatalf("promise 2: %s counts %d messages", r, r.Counted)
	case r.Trigger == "schedule" && r.Slot == nil:
		w.fatalf("promise 4: %s answers no slot", r)
	case (r.Status == "missed") != (r.MissedCount != nil && r.Status != "skipped") || r.MissedCount != nil && r.TryID != nil:
		w.fatalf("promise 4: %s: missed means slots that no run answers", r)
	case existed && before.TryID != nil && !same(before.TryID, r.TryID):
		w.fatalf("promise 2: %s has changed its try", r)
	}
	if hasSynced(r) && !ended {
		w.checkSynced(now, r)
	}
	if before.Cut != nil && !ended && deref(r.Reason) == "took too long" {
		w.checkCut(now, r)
	}
}

// checkCut: a run that took too long counts as a failure only where it has passed no checkpoint, and else is due at once.
func (w *world) checkCut(now *sight, r runRow) {
	w.tb.Helper()
	c, before := now.connectors[r.ConnectorID], w.past.connectors[r.ConnectorID]
	if c.Status != "ERROR" || now.latest(c.ID).ID != r.ID {
		return
	}
	if went := r.CheckpointNo > 0; went != (c.FailureCount == before.FailureCount) || went && !c.IsDue {
		w.fatalf("promise 3: %s passed checkpoint %d and has left %s; before: %s", r, r.CheckpointNo, c, before)
	}
}

// checkSynced: at its verdict a run has stored everything that its fetch saw, and left nothing that it did not.
func (w *world) checkSynced(now *sight, r runRow) {
	w.tb.Helper()
	f := w.sessions[r.ID]
	if f == nil {
		w.fatalf("promise 2: %s was synced and nobody fetched", r)
	}
	if w.garbled[r.ID] {
		return // which documents it could not store nobody can tell; that they are fetched again is seen in the end
	}
	stored := map[string]documentRow{}
	for _, d := range now.documents {
		if d.ConnectorID == r.ConnectorID && (d.Status == "stored" || d.Status == "failed") {
			stored[d.SourceID] = d
		}
	}
	for name, d := range f.seen.documents {
		row, exists := stored[name]
		delete(stored, name)
		switch {
		case !exists:
			w.fatalf("promise 5: %s ended without document %s", r, name)
		case row.ConfigVersion != r.ConfigVersion && !f.connector.deleted && now.connectors[r.ConnectorID].ConfigVersion == r.ConfigVersion:
			w.fatalf("promise 5: %s ended and left a document of another configuration: %s", r, row)
		case row.Status == "failed" && !row.isGivenUp() && !d.unreadable:
			w.fatalf("promise 5: %s failed a document that the source handed out: %s", r, row)
		case row.Status == "failed" && row.VersionToken != "":
			w.fatalf("promise 5: %s keeps the token of a document that failed: %s", r, row)
		case row.Status == "stored" && (d.unreadable || row.VersionToken != d.token() || row.text() != f.seen.source.whole(d)):
			w.fatalf("promise 5: %s ended with %s; its fetch saw %+v", r, row, d)
		}
	}
	for _, row := range stored {
		if row.Status == "failed" && row.isGivenUp() && row.VersionToken == "" {
			continue // its deletion killed its readers: it says so, and the next fetch takes it up
		}
		w.fatalf("promise 5: %s ended and left %s, which its fetch did not see", r, row)
	}
}

// checkState: the cursor moves with the verdict of a run that synced, to where that run's fetch had come; or to a
// checkpoint of a run that is still open, or was just now; and goes back to nothing with a new configuration.
func (w *world) checkState(now *sight, c connectorRow) {
	w.tb.Helper()
	before := w.past.connectors[c.ID]
	if before.ID == 0 || before.State == c.State && before.ConfigVersion == c.ConfigVersion {
		return
	}
	if before.ConfigVersion != c.ConfigVersion && c.State == "{}" {
		return
	}
	for id, r := range now.runs {
		f := w.sessions[id]
		if r.ConnectorID == c.ID && r.ConfigVersion == c.ConfigVersion && hasSynced(r) && !hasSynced(w.past.runs[id]) &&
			f != nil && c.Cursor != nil && f.seen.cursor == *c.Cursor {
			return
		}
		if w.passedCheckpoint(c, r) {
			return
		}
	}
	w.fatalf("promise 5: %s: its state was %s, and no run brought it forward", c, before.State)
}

// checkDocument: what a search may find is one whole version that the source really had, written while its run was
// open.
func (w *world) checkDocument(now *sight, d documentRow) {
	w.tb.Helper()
	if !w.wasSame(d) && d.WrittenBy != nil {
		if writer, existed := w.past.ofTry(*d.WrittenBy); existed && writer.Status != "running" {
			w.fatalf("promise 2: %s was written by %s, which had ended", d, writer)
		}
	}
	c := w.byID(d.ConnectorID)
	if c == nil || c.deleted {
		return
	}
	if (d.TryID == nil) && d.Status == "stored" {
		w.fatalf("promise 5: nothing can be found of %s", d)
	}
	if d.TryID == nil {
		return
	}
	if d.ChunkCount != len(d.Texts) {
		w.fatalf("promise 2: a part of %s is missing or doubled", d)
	}
	for _, folder := range c.folders {
		if folder.versions[d.text()] {
			return
		}
	}
	w.fatalf("promise 2: the source never had %s", d)
}

func (w *world) wasSame(d documentRow) bool {
	for _, o := range w.past.documents {
		if o.ID == d.ID {
			return same(o.TryID, d.TryID) && o.VersionToken == d.VersionToken && o.Status == d.Status &&
				same(o.WrittenBy, d.WrittenBy)
		}
	}
	return d.WrittenBy == nil
}

func same(a, b *uuid.UUID) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }
