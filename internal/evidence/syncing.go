package evidence

import (
	"cmp"
	"fmt"
	"time"

	"github.com/echomind/sync/internal/clock"
)

// kindJob is the kind of types whose runs store no documents.
const kindJob = "job"

const (
	// semanticLook is the time between two looks of semantic's for what is complete or lost.
	semanticLook = 5 * time.Second
	// missingFor is for how long documents must be missing before they count as lost: a lease, where nobody changed it.
	missingFor = 15 * time.Second
)

func (x *explanation) syncing() {
	c := x.Connector
	if c.TryID != nil {
		x.fact("session %s, try %s", c.RunID, c.TryID)
	} else {
		x.fact("session %s", c.RunID)
	}
	x.fact("picked up %s, due as %s", clock.Ago(*c.PickedUpAt, x.Now), *c.Trigger)
	if c.Kind == kindJob {
		x.fact("progress: %s", cmp.Or(clock.Progress(c.ProgressDone, c.ProgressTotal, c.ProgressText), "it says nothing of it"))
	} else {
		total := "of how many is not known yet"
		if c.Total != nil {
			total = fmt.Sprintf("of %d", *c.Total)
		}
		x.fact("%s stored, %s", plural(*c.Stored, "message"), total)
	}
	if c.Cut != nil {
		x.fact("its worker gave it up: %s", *c.Cut)
	}
	switch {
	case isTrue(c.Whole):
		x.completing()
	case c.LeaseExpiresAt != nil && x.Now.Before(*c.LeaseExpiresAt):
		x.answer.Running = true
		x.fact("lease: worker %s has it for another %s, and renews it", c.WorkerID, clock.Span(c.LeaseExpiresAt.Sub(x.Now)))
		if c.Kind == kindJob && !x.waits() {
			x.conclude(Fetching, "a worker does its job", "when that is done it becomes ACTIVE")
			break
		}
		x.fetching()
	case c.LeaseExpiresAt != nil:
		x.workerLost()
	case c.DrainSeq != nil:
		x.draining()
	default:
		x.foreign()
	}
	if c.TriggerRequestedAt != nil {
		x.answer.Next += "; then it runs once more, because it was triggered since it was picked up"
	}
}

// fetching: a worker is at work, or waits for room, or until more of what it has sent is stored.
func (x *explanation) fetching() {
	s := x.Streams
	if n := s.Documents.Messages; n > 0 {
		x.fact("document stream: %s waiting; a worker that has sent much waits until more of it is stored", plural(int64(n), "message"))
	}
	switch {
	case s.Unknown != nil:
		x.fact("NATS: %v", s.Unknown)
		x.conclude(BrokerAway, "a worker has it; NATS, which takes its documents, does not answer", "the worker waits, and goes on when NATS is back")
	case s.Documents.Full():
		x.fact("document stream: full, %d of %d bytes", s.Documents.Bytes, s.Documents.Limit)
		x.conclude(DocumentsFull, "its worker waits for room in the document stream", "it goes on as semantic stores what the stream holds")
	case x.waits():
		x.conclude(ToldToWait, x.wait()+" (a worker is fetching it)", "the worker goes on then, where it stands; nothing is to be done")
	case x.Connector.LockKey != nil:
		x.waitsForLock()
	case s.Documents.Messages > 0 && x.nobodyStores():
		x.conclude(NobodyStores, "a worker is fetching it, and nobody stores what is fetched: no semantic service runs",
			"it goes on slowly, and at full speed as soon as semantic runs; nothing is lost meanwhile")
	default:
		x.conclude(Fetching, "a worker is fetching it", "when everything is fetched and stored it becomes ACTIVE")
	}
}

// waitsForLock: what it needs is another run's.
func (x *explanation) waitsForLock() {
	c := x.Connector
	x.fact("lock: it asked for %s %s", *c.LockKey, clock.Ago(*c.LockAskedAt, x.Now))
	next := "it has the lock when those before it are through, or gives up when its worker has waited as long as it may; `echomind locks list` shows who has it"
	if c.LockRunID == nil {
		x.conclude(WaitsForLock, fmt.Sprintf("waits for lock %s, which others have, or asked for before", *c.LockKey), next)
		return
	}
	x.conclude(WaitsForLock, fmt.Sprintf("waits for lock %s, held by run %s of connector %d for another %s", *c.LockKey, c.LockRunID, *c.LockConnectorID,
		clock.Span(c.LockExpiresAt.Sub(x.Now))), next+"; its holder may renew it")
}

// waits says whether the run waits because its source has asked for it.
func (x *explanation) waits() bool {
	return x.Connector.WaitsUntil != nil && x.Connector.WaitsUntil.After(x.Now)
}

func (x *explanation) wait() string {
	return clock.WaitInZone(text(x.Connector.WaitMessage, "its source asked us to wait"), *x.Connector.WaitsUntil, x.Now)
}

// nobodyStores says whether no semantic service is there, and none without its name pulls or holds messages.
func (x *explanation) nobodyStores() bool {
	return !x.semantic() && !pulling(x.Streams.Storers) && held(x.Streams.Storers) == 0
}

func (x *explanation) completing() {
	x.answer.Running = true
	c := x.Connector
	next := "semantic completes it within " + clock.Span(semanticLook)
	if !x.semantic() {
		next += " once it runs"
	}
	if c.Cut != nil {
		if c.WaitsUntil != nil {
			x.conclude(Completing, "its source asked us to wait, and what was fetched is stored; it is about to be put off", next)
			return
		}
		x.conclude(Completing, "its worker gave it up ("+*c.Cut+"), and what was fetched is stored; it is about to fail", next+", and syncs again")
		return
	}
	x.conclude(Completing, "everything is stored; it is about to become ACTIVE", next)
}

func (x *explanation) workerLost() {
	c := x.Connector
	x.fact("lease: worker %s had it; it ran out %s and was not renewed", c.WorkerID, clock.Ago(*c.LeaseExpiresAt, x.Now))
	x.conclude(WorkerLost, "its worker is gone, or cannot reach Postgres", x.takenBack())
}

// takenBack says who ends the run of a lost worker, and when: the scheduler the first time, semantic from then on.
func (x *explanation) takenBack() string {
	c := x.Connector
	if c.FailureCount == 0 && c.MaxRetries > 1 {
		return x.lookout("the scheduler gives it to another worker within " + clock.Span(x.Settings.WatchInterval))
	}
	return x.healing("it did not happen for the first time: semantic counts a failure within " + clock.Span(semanticLook) +
		"; it is tried again after a pause, or disabled at max_retries")
}

// draining: the worker is done, documents are queued.
func (x *explanation) draining() {
	c, s, seq := x.Connector, x.Streams, uint64(max(*x.Connector.DrainSeq, 0))
	if c.FetchedAt != nil {
		x.fact("fetched %s; its last message is number %d in the document stream", clock.Ago(*c.FetchedAt, x.Now), seq)
	}
	if s.Unknown != nil {
		x.answer.Running = true
		x.fact("NATS: %v", s.Unknown)
		x.conclude(BrokerAway, "everything is fetched; NATS, which holds what is still to be stored, does not answer",
			"when NATS is back the rest is stored, or the connector synced again if it was lost")
		return
	}
	d := s.Documents
	switch {
	case s.DocumentsGone:
		x.fact("document stream: it does not exist")
	case d.Messages == 0:
		x.fact("document stream: empty")
	default:
		x.fact("document stream: %s waiting, number %d to %d", plural(int64(d.Messages), "message"), d.FirstSeq, d.LastSeq)
	}
	if s.DrainingBefore != nil && *s.DrainingBefore == *c.RunID &&
		(s.DocumentsGone || d.Messages == 0 || d.FirstSeq > seq || d.LastSeq < seq) {
		x.conclude(DocumentsLost, "documents of this run were lost between the worker and the store",
			x.healing("semantic ends this run within "+clock.Span(missingFor+2*semanticLook)+", and the connector is synced again"))
		return
	}
	if d.Messages > 0 && d.FirstSeq <= seq {
		ahead := min(d.Messages, seq-d.FirstSeq+1)
		x.fact("at most %s to go before it is complete, its own included", plural(int64(ahead), "message"))
	}
	x.answer.Running = true
	if x.nobodyStores() {
		x.answer.Running = false
		x.conclude(NobodyStores, "everything is fetched, and nobody stores it: no semantic service runs",
			"it goes on as soon as semantic runs; nothing is lost meanwhile")
		return
	}
	if c.Cut != nil && c.WaitsUntil != nil {
		x.conclude(Storing, clock.WaitInZone(*c.Cut, *c.WaitsUntil, x.Now)+"; semantic is storing what was fetched",
			"when the last document is stored it is put off until then")
		return
	}
	if c.Cut != nil {
		x.conclude(Storing, "its worker gave it up ("+*c.Cut+"); semantic is storing what was fetched",
			"when the last document is stored it fails, and goes on from its last checkpoint, if it has one")
		return
	}
	x.conclude(Storing, "everything is fetched; semantic is storing it", "when the last document is stored it becomes ACTIVE")
}

// foreign: neither lease nor end of the documents; a subscriber without the worker kit.
func (x *explanation) foreign() {
	x.answer.Running = true
	x.fact("lease: none, as is usual for a subscriber without the worker kit")
	limit := x.Connector.PickedUpAt.Add(x.Settings.ForeignTimeout)
	if limit.After(x.Now) && x.waits() {
		x.conclude(ToldToWait, x.wait()+" (a service of another team works on it, and keeps no lease)", "that service goes on then")
		return
	}
	if limit.After(x.Now) && x.Connector.LockKey != nil {
		x.waitsForLock()
		return
	}
	if limit.After(x.Now) {
		x.conclude(ForeignSubscriber, "a service of another team works on it, and keeps no lease",
			"that service ends it; if it has not "+clock.Until(limit, x.Now)+", it is taken for lost")
		return
	}
	x.answer.Running = false
	x.conclude(WorkerLost, "a service of another team took it and has not ended it within "+clock.Span(x.Settings.ForeignTimeout),
		x.takenBack())
}
