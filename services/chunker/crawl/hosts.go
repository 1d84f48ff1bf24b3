package crawl

import (
	"context"
	"sync"
	"time"

	"github.com/echomind/sync/internal/repeat"
)

// Hosts limits the requests of all crawls of one process to each host: how many at the same time, how much time between them,
// and an owner's pause after "come back later". Crawls that share a Hosts share its limits. It is safe for concurrent use.
type Hosts struct {
	mu    sync.Mutex
	hosts map[string]*host
}

type host struct {
	slots chan struct{}
	users int
	// next is the earliest start of the next request.
	next time.Time
	// pausedUntil is the earliest next request of an owner who was told to come back later. It does not stop other owners: one URL of
	// a host can say so to its author's crawls for ever.
	pausedUntil map[string]time.Time
}

// NewHosts returns limits that no crawl has used yet.
func NewHosts() *Hosts { return &Hosts{hosts: map[string]*host{}} }

// hostUser is one crawl's use of hosts. Their state lives until leave is called.
type hostUser struct {
	opt    Options
	joined map[string]*host // guarded by Hosts.mu
}

func newHostUser(opt Options) *hostUser { return &hostUser{opt: opt, joined: map[string]*host{}} }

func (g *hostUser) leave() {
	g.opt.Hosts.mu.Lock()
	defer g.opt.Hosts.mu.Unlock()
	for name, st := range g.joined {
		if st.users--; st.users == 0 {
			delete(g.opt.Hosts.hosts, name)
		}
	}
	clear(g.joined)
}

// join keeps a host's state alive until leave is called. The first crawl that joins sets how many requests the host gets at the
// same time.
func (g *hostUser) join(name string) *host {
	g.opt.Hosts.mu.Lock()
	defer g.opt.Hosts.mu.Unlock()
	if st := g.joined[name]; st != nil {
		return st
	}
	st := g.opt.Hosts.hosts[name]
	if st == nil {
		st = &host{slots: make(chan struct{}, g.opt.Concurrency), pausedUntil: map[string]time.Time{}}
		g.opt.Hosts.hosts[name] = st
	}
	st.users++
	g.joined[name] = st
	return st
}

// acquire waits for a slot of the host, until its pause is over and delay has passed since the start of the request before. The
// slot is kept until release is called. Its errors are ctx's.
func (g *hostUser) acquire(ctx context.Context, name string, delay time.Duration) (release func(), err error) {
	st := g.join(name)
	release = func() { <-st.slots }
	for {
		if err := g.await(ctx, st); err != nil {
			return nil, err
		}
		select {
		case st.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		now := g.opt.Now()
		start, paused := g.start(st, now, delay)
		if paused {
			release() // others may have the slot
			continue
		}
		if start.After(now) {
			if err := g.opt.Wait(ctx, start.Sub(now)); err != nil {
				release()
				return nil, err
			}
		}
		return release, nil
	}
}

// start returns when the next request may start. paused says that the owner was told to come back later meanwhile.
func (g *hostUser) start(st *host, now time.Time, delay time.Duration) (start time.Time, paused bool) {
	g.opt.Hosts.mu.Lock()
	defer g.opt.Hosts.mu.Unlock()
	if st.pausedUntil[g.opt.Owner].After(now) {
		return time.Time{}, true
	}
	start = now
	if st.next.After(now) {
		start = st.next
	}
	st.next = start.Add(delay)
	return start, false
}

// await waits, without a slot, until the owner's pause is over.
func (g *hostUser) await(ctx context.Context, st *host) error {
	for {
		g.opt.Hosts.mu.Lock()
		until := st.pausedUntil[g.opt.Owner]
		g.opt.Hosts.mu.Unlock()
		left := until.Sub(g.opt.Now())
		if left <= 0 {
			return nil
		}
		if err := g.opt.Wait(ctx, left); err != nil {
			return err
		}
	}
}

// comeBack are the pauses before requests that are repeated, where the server asks for no longer ones.
var comeBack = repeat.Pauses{First: time.Second, Last: time.Minute}

// retry calls ask again where the host asks to come back later, as later says of an error.
func (g *hostUser) retry(name string, ask func() (later time.Duration, err error)) error {
	for try := 0; ; try++ {
		later, err := ask()
		if err == nil || later == 0 || try == g.opt.MaxRetries || later > g.opt.MaxRetryAfter {
			return err
		}
		g.pause(name, max(later, comeBack.After(try+1)))
	}
}

// pause lets no request of this owner to the host start within d from now.
func (g *hostUser) pause(name string, d time.Duration) {
	st, now := g.join(name), g.opt.Now()
	g.opt.Hosts.mu.Lock()
	defer g.opt.Hosts.mu.Unlock()
	for owner, until := range st.pausedUntil {
		if !until.After(now) {
			delete(st.pausedUntil, owner)
		}
	}
	if until := now.Add(d); st.pausedUntil[g.opt.Owner].Before(until) {
		st.pausedUntil[g.opt.Owner] = until
	}
}
