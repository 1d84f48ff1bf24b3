package crawl

import (
	"context"
	"sync"
	"time"
)

// Hosts keeps the crawls of one process polite to each host: so many requests at once, so much time
// between them, silence after "come back later". Crawls that share a Hosts share its limits.
// It is safe for concurrent use.
type Hosts struct {
	mu    sync.Mutex
	hosts map[string]*host
}

type host struct {
	slots chan struct{}
	users int
	// next is the earliest start of the next request.
	next time.Time
}

// NewHosts returns limits that no crawl has used yet.
func NewHosts() *Hosts { return &Hosts{hosts: map[string]*host{}} }

// join keeps a host's state alive until leave is called. The first crawl that joins sets how many
// requests the host gets at once.
func (h *Hosts) join(name string, concurrency int) (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.hosts[name]
	if st == nil {
		st = &host{slots: make(chan struct{}, concurrency)}
		h.hosts[name] = st
	}
	st.users++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if st.users--; st.users == 0 {
			delete(h.hosts, name)
		}
	}
}

// guest is one crawl's use of the hosts it meets. Their state lives until leave is called.
type guest struct {
	opt    Options
	mu     sync.Mutex
	joined map[string]func()
}

func newGuest(opt Options) *guest { return &guest{opt: opt, joined: map[string]func(){}} }

func (g *guest) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, leave := range g.joined {
		leave()
	}
	clear(g.joined)
}

func (g *guest) join(name string) *host {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.opt.Hosts
	if g.joined[name] == nil {
		g.joined[name] = h.join(name, g.opt.Concurrency)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hosts[name]
}

// acquire waits for a slot of the host and for delay since the start of the request before. The slot is
// kept until release is called. Its errors are ctx's.
func (g *guest) acquire(ctx context.Context, name string, delay time.Duration) (release func(), err error) {
	st := g.join(name)
	select {
	case st.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	now := g.opt.Now()
	g.opt.Hosts.mu.Lock()
	start := now
	if st.next.After(now) {
		start = st.next
	}
	st.next = start.Add(delay)
	g.opt.Hosts.mu.Unlock()
	if start.After(now) {
		if err := g.opt.Wait(ctx, start.Sub(now)); err != nil {
			<-st.slots
			return nil, err
		}
	}
	return func() { <-st.slots }, nil
}

// hold lets no request to the host start within d from now.
func (g *guest) hold(name string, d time.Duration) {
	st, until := g.join(name), g.opt.Now().Add(d)
	g.opt.Hosts.mu.Lock()
	defer g.opt.Hosts.mu.Unlock()
	if st.next.Before(until) {
		st.next = until
	}
}
