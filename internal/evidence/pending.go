package evidence

import (
	"fmt"
	"time"

	"github.com/echomind/sync/internal/clock"
)

// mostFetching is up to how many are counted that are being fetched (connector_evidence).
const mostFetching = 1000

// maxLostGrace is where the doubling of the grace ends.
const maxLostGrace = time.Minute

func (x *explanation) pending() {
	c, s := x.Connector, x.Streams
	subject := "connector.sync." + c.Type
	times := ""
	if *c.Dispatches > 1 {
		times = fmt.Sprintf(", %d times by now", *c.Dispatches)
	}
	x.fact("session %s", c.RunID)
	x.fact("dispatched %s%s", clock.Ago(*c.DispatchedAt, x.Now), times)
	x.fact("due %s as %s, %s", clock.InZone(*c.DueAt, x.Now), *c.Trigger, waited(*c.DueAt, x.Now))
	if x.IsGlance {
		x.conclude(InTransit, "its message was sent "+clock.Ago(*c.DispatchedAt, x.Now)+", and no worker has taken it yet", "a worker takes it")
		return
	}
	x.fact("%s before it are PENDING", plural(c.PendingBefore, c.Type+" connector"))
	if s.Unknown != nil {
		x.fact("NATS: %v", s.Unknown)
		x.conclude(BrokerAway, "it waits to be picked up, and NATS, which carries its message, does not answer",
			"when NATS is back the message is picked up, or published again if it was lost")
		return
	}
	x.queue(subject)
	queued, lost := x.whereabouts()
	if c.PublishError != nil {
		x.fact("NATS has not acknowledged its message: %s", *c.PublishError)
	}
	switch {
	case s.TriggersGone:
		x.republished("the stream that carried its message is gone")
	case c.PublishError != nil && c.RunID.String() != s.Triggers.OldestSession:
		x.republished("NATS takes no message for it: " + *c.PublishError)
		x.answer.Cause = BrokerRefuses
	case lost:
		x.republished("its message is not in the stream any more, and nobody picked it up")
	case !queued && x.Now.Sub(*c.DispatchedAt) > x.Settings.LostGrace:
		x.conclude(MessageLost, "its message is not in the stream any more: only younger ones are queued",
			x.lookout("the scheduler publishes it again once the oldest one queued is younger by more than "+
				clock.Span(x.Settings.LostGrace)))
	case !queued:
		x.conclude(InTransit, "its message is on its way: published a moment ago, or being picked up",
			fmt.Sprintf("a worker picks it up; if none has within %s the message is looked for", clock.Span(x.Settings.LostGrace)))
	case pulling(s.Subscribers):
		x.conclude(Queued, "its message is queued and a worker is about to take it", "it is picked up within moments")
	case c.Fetching > 0 || held(s.Subscribers) > 0:
		x.conclude(QueuedBehindOthers, "every slot of the workers of its type is taken",
			"the next free slot takes the oldest message; more workers, or more WORKER_SLOTS, shorten the queue")
	default:
		x.conclude(NoSubscriber, "nobody is subscribed to "+subject+": no worker of its type runs",
			"it is picked up as soon as a service that handles "+c.Type+" connectors runs; nothing is lost meanwhile")
	}
}

// whereabouts concludes as the scheduler does: the stream holds no message that was dispatched before its oldest.
func (x *explanation) whereabouts() (queued, lost bool) {
	dispatched, oldest := *x.Connector.DispatchedAt, x.Streams.Triggers.Oldest
	if x.Connector.RunID.String() == x.Streams.Triggers.OldestSession {
		return true, false
	}
	if oldest == nil {
		return false, x.Now.Sub(dispatched) > x.Settings.LostGrace
	}
	return !dispatched.Before(*oldest), oldest.Sub(dispatched) > x.Settings.LostGrace
}

// queue puts down what the stream holds and who takes from it.
func (x *explanation) queue(subject string) {
	s := x.Streams
	switch {
	case s.TriggersGone:
		x.fact("stream: it does not exist")
	case s.Triggers.Oldest == nil:
		x.fact("stream: no message of %s is queued", subject)
	default:
		own := ""
		if x.Connector.RunID.String() == s.Triggers.OldestSession {
			own = ": this one's"
		}
		x.fact("stream: %s of %s queued, the oldest dispatched %s%s", plural(int64(s.Triggers.Messages), "message"),
			subject, clock.Ago(*s.Triggers.Oldest, x.Now), own)
	}
	x.subscribers(subject)
}

func (x *explanation) subscribers(subject string) {
	if len(x.Streams.Subscribers) == 0 {
		x.fact("subscribers: %s has no consumer", subject)
	}
	fetching := plural(x.Connector.Fetching, x.Connector.Type+" connector")
	if x.Connector.Fetching >= mostFetching {
		fetching += " or more"
	}
	for _, s := range x.Streams.Subscribers {
		x.fact("subscribers: consumer %s, %s waiting, %s delivered and not acknowledged, %s being fetched",
			s.Consumer, plural(int64(s.Waiting), "free slot"), plural(int64(s.Held), "message"),
			fetching)
	}
}

// republished concludes that the message is lost, and says when it is published again.
func (x *explanation) republished(why string) {
	c := x.Connector
	grace := x.Settings.LostGrace << min(max(*c.Dispatches-1, 0), 10)
	again := c.DispatchedAt.Add(min(grace, maxLostGrace))
	when := "within " + clock.Span(x.Settings.WatchInterval)
	if again.After(x.Now) {
		when = "within " + clock.Span(again.Sub(x.Now)+x.Settings.WatchInterval)
	}
	x.conclude(MessageLost, why, x.lookout("the scheduler publishes it again "+when))
}

func waited(since, now time.Time) string {
	return "waiting for " + clock.Span(now.Sub(since))
}
