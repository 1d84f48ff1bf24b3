package scheduler

// pipeline publishes one batch of a type while its next is claimed, so that Postgres and the broker work at the same time. The first
// batch is waited for: a stream that takes nothing costs one batch, and not two.
type pipeline struct {
	steady bool          // the first batch is through
	under  chan struct{} // closed when the batch that is being published is through; nil: none is
}

// send has a batch be published behind the one before.
func (p *pipeline) send(publish func()) {
	p.wait()
	under := make(chan struct{})
	p.under = under
	go func() {
		defer close(under)
		publish()
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
	p.under = nil
}
