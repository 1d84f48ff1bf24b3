package evidence

import (
	"fmt"

	"github.com/echomind/sync/cmd/echomind/internal/clock"
)

const semanticName = "echomind-semantic"

func (x *explanation) syncing() {
	c, r := x.Connector, x.Run
	if r != nil {
		if r.PickedUpAt != nil {
			x.fact("picked up %s, due as %s", clock.Ago(*r.PickedUpAt, x.Now), r.Trigger)
		}
		total := "of how many is not known yet"
		if r.Total != nil {
			total = fmt.Sprintf("of %d", *r.Total)
		}
		x.fact("%s stored, %s", plural(r.Stored, "message"), total)
	}
	switch {
	case c.LeaseExpiresAt != nil && x.Now.Before(*c.LeaseExpiresAt):
		x.answer.Running = true
		x.fact("lease: good for another %s; the worker renews it", clock.Span(c.LeaseExpiresAt.Sub(x.Now)))
		x.conclude(Fetching, "a worker is fetching it", "when everything is fetched and stored it becomes ACTIVE")
	case c.LeaseExpiresAt != nil:
		x.workerLost()
	case r != nil && r.Total != nil && r.Stored == *r.Total:
		x.answer.Running = true
		x.conclude(Completing, "everything is stored; it is about to become ACTIVE",
			"semantic completes it within 5s"+x.noSemantic())
	case r != nil && r.DrainSeq != nil:
		x.draining()
	default:
		x.foreign()
	}
	if c.TriggerRequestedAt != nil {
		x.answer.Next += "; then it runs once more, because it was triggered since it was picked up"
	}
}

func (x *explanation) workerLost() {
	c := x.Connector
	x.fact("lease: ran out %s and was not renewed", clock.Ago(*c.LeaseExpiresAt, x.Now))
	next := "the scheduler gives it to another worker within " + clock.Span(x.Settings.WatchInterval)
	if c.FailureCount > 0 || c.MaxRetries <= 1 {
		next = "it did not happen for the first time: the scheduler counts a failure within " +
			clock.Span(x.Settings.WatchInterval) + "; it is tried again after a pause, or disabled at max_retries"
	}
	x.conclude(WorkerLost, "its worker is gone, or cannot reach Postgres", x.lookout(next))
}

// draining: the worker is done, documents are queued.
func (x *explanation) draining() {
	s, seq := x.Streams, uint64(max(*x.Run.DrainSeq, 0))
	if x.Run.FetchedAt != nil {
		x.fact("fetched %s; its last message is number %d in the document stream", clock.Ago(*x.Run.FetchedAt, x.Now), seq)
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
	if s.DrainingBefore == x.Run.ID.String() &&
		(s.DocumentsGone || d.Messages == 0 || d.FirstSeq > seq || d.LastSeq < seq) {
		x.conclude(DocumentsLost, "documents of this run were lost between the worker and the store",
			x.lookout("the scheduler ends this run and syncs the connector again within "+
				clock.Span(x.Settings.WatchInterval)))
		return
	}
	if d.Messages > 0 && d.FirstSeq <= seq {
		ahead := min(d.Messages, seq-d.FirstSeq+1)
		x.fact("at most %s to go before it is complete, its own included", plural(int64(ahead), "message"))
	}
	x.answer.Running = true
	if missing := x.noSemantic(); missing != "" && !pulling(s.Storers) && held(s.Storers) == 0 {
		x.answer.Running = false
		x.conclude(NobodyStores, "everything is fetched, and nobody stores it: no semantic service runs",
			"it goes on as soon as semantic runs; nothing is lost meanwhile")
		return
	}
	x.conclude(Storing, "everything is fetched; semantic is storing it", "when the last document is stored it becomes ACTIVE")
}

// noSemantic is an ending for a sentence where no semantic service is seen, "" where one is.
func (x *explanation) noSemantic() string {
	for _, s := range x.Services {
		if s.Name != nil && *s.Name == semanticName {
			return ""
		}
	}
	x.fact("semantic: none is connected to this database (no connection is named %s)", semanticName)
	return " once it runs"
}

// foreign: neither lease nor end of the documents; a subscriber without the worker kit.
func (x *explanation) foreign() {
	x.answer.Running = true
	began := x.Now
	if x.Run != nil {
		began = x.Run.StartedAt
		if x.Run.PickedUpAt != nil {
			began = *x.Run.PickedUpAt
		}
	}
	x.fact("lease: none, as is usual for a subscriber without the worker kit")
	limit := began.Add(x.Settings.ForeignTimeout)
	if limit.After(x.Now) {
		x.conclude(ForeignSubscriber, "a service of another team works on it, and keeps no lease",
			"that service ends it; if it has not "+clock.Until(limit, x.Now)+", the scheduler takes it for lost")
		return
	}
	x.answer.Running = false
	x.conclude(WorkerLost, "a service of another team took it and has not ended it within "+clock.Span(x.Settings.ForeignTimeout),
		x.lookout("the scheduler takes it back within "+clock.Span(x.Settings.WatchInterval)))
}
