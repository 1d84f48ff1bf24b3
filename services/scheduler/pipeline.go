package scheduler

import "context"

// pipeline publishes one batch while the next is claimed, so that Postgres and the broker work at the same time. The first batch of
// a tick is waited for: a stream that takes nothing costs one batch, and not two.
type pipeline struct {
	publish func(context.Context, []Trigger)
	steady  bool          // the first batch is through
	size    int           // of the batch that is being published
	under   chan struct{} // closed when it is through; nil: none is
}

// send publishes a batch behind the one before.
func (p *pipeline) send(ctx context.Context, batch []Trigger) {
	p.wait()
	under := make(chan struct{})
	p.under, p.size = under, len(batch)
	go func() {
		defer close(under)
		p.publish(ctx, batch)
	}()
	if !p.steady {
		p.wait()
		p.steady = true
	}
}

// wait returns when nothing is being published.
func (p *pipeline) wait() {
	if p.under != nil {
		<-p.under
	}
	p.under, p.size = nil, 0
}
