package confine

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// lane groups requests by how long they may take.
type lane int

const (
	// fast is for requests about which nothing is known; they get a short slice of computing time.
	fast lane = iota
	// heavy is the same for shares whose requests take long though they end within their slice. While there are several owners
	// it leaves one place to the other lanes.
	heavy
	// slow is for requests that did not end within their slice. At most one child works in it.
	slow
	laneCount
)

// lanes grant the places of a pool. Owners share them: a free place goes to the waiting owner with the fewest places, and among
// these to the owner that has used them least. No place stays free while a request may take it.
type lanes struct {
	places int
	now    func() time.Time

	mu       sync.Mutex
	idle     *sync.Cond // signals that no place is taken
	taken    int
	busy     [laneCount]int // taken places, by lane
	wasSlow  bool           // whether the last place was granted to the slow lane
	owners   map[string]*owner
	arrivals int
	// patience is how long the fast requests of an owner with several places may keep them while an owner without a place
	// waits; 0 = until they end.
	patience time.Duration
	running  map[*ticket]bool // requests that have a place; true: they were asked to give it back
	later    *time.Timer      // calls hurry when the next request has had its place for patience
}

// owner is an owner of requests that wait for a place or have one.
type owner struct {
	name    string
	waiting [laneCount][]*ticket
	taken   int
	used    time.Duration
}

// ticket is a request's place in the queue.
type ticket struct {
	owner   *owner
	lane    lane
	arrival int
	granted chan struct{}
	since   time.Time
	// press asks the request to give its place back, and to begin again in the slow lane.
	press func()
}

func newLanes(places int) *lanes {
	l := &lanes{places: places, now: time.Now, owners: map[string]*owner{}, running: map[*ticket]bool{}}
	l.idle = sync.NewCond(&l.mu)
	return l
}

// enter waits for a place until ctx ends; leave gives it back. press is called where the place should be given back early.
func (l *lanes) enter(ctx context.Context, name string, in lane, press func()) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t := l.queue(name, in, press)
	select {
	case <-t.granted:
	case <-ctx.Done():
		if !l.withdraw(t) {
			l.leave(t)
		}
		return nil, ctx.Err()
	}
	return sync.OnceFunc(func() { l.leave(t) }), nil
}

func (l *lanes) queue(name string, in lane, press func()) *ticket {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.owners[name]
	if o == nil {
		o = &owner{name: name, used: l.leastUsed()}
		l.owners[name] = o
	}
	l.arrivals++
	t := &ticket{owner: o, lane: in, arrival: l.arrivals, granted: make(chan struct{}), press: press}
	o.waiting[in] = append(o.waiting[in], t)
	l.grant()
	l.hurry()
	return t
}

// leastUsed is where a new owner's use begins: the owner need not wait for what others have used before, nor gets every place
// until it has used as much.
func (l *lanes) leastUsed() time.Duration {
	least, first := time.Duration(0), true
	for _, o := range l.owners {
		if first || o.used < least {
			least, first = o.used, false
		}
	}
	return least
}

// withdraw takes a ticket out of the queue. It returns false where its place was granted meanwhile.
func (l *lanes) withdraw(t *ticket) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := t.owner.waiting[t.lane]
	for i, w := range queue {
		if w == t {
			t.owner.waiting[t.lane] = append(queue[:i:i], queue[i+1:]...)
			l.forget(t.owner)
			l.grant() // others may have the place that was reserved for this owner
			return true
		}
	}
	return false
}

func (l *lanes) leave(t *ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken--
	delete(l.running, t)
	t.owner.taken--
	t.owner.used += l.now().Sub(t.since)
	l.busy[t.lane]--
	l.forget(t.owner)
	l.grant()
	l.hurry()
	if l.taken == 0 {
		l.idle.Broadcast()
	}
}

func (l *lanes) forget(o *owner) {
	if o.taken == 0 && len(o.waiting[fast])+len(o.waiting[heavy])+len(o.waiting[slow]) == 0 {
		delete(l.owners, o.name)
	}
}

// grant grants the free places.
func (l *lanes) grant() {
	for l.taken < l.places {
		t := l.next()
		if t == nil {
			return
		}
		t.owner.waiting[t.lane] = t.owner.waiting[t.lane][1:]
		t.owner.taken++
		t.since = l.now()
		l.taken++
		l.running[t] = false
		l.busy[t.lane]++
		l.wasSlow = t.lane == slow
		close(t.granted)
	}
}

// hurry asks for a place back while an owner without a place waits: from the owner with the most places, if it has several, and
// its longest-running request. A request in the slow lane keeps its place: the lane has only one, and the request has begun
// again already.
func (l *lanes) hurry() {
	if l.patience == 0 || l.taken < l.places || !l.ownerWaitsWithoutPlace() {
		return
	}
	var longest *ticket
	for t, asked := range l.running {
		if asked {
			return // a place is on its way
		}
		if t.lane == slow || t.owner.taken < 2 {
			continue
		}
		if longest == nil || cmp.Or(cmp.Compare(longest.owner.taken, t.owner.taken), t.since.Compare(longest.since), cmp.Compare(t.arrival, longest.arrival)) < 0 {
			longest = t
		}
	}
	if longest == nil {
		return
	}
	if early := l.patience - l.now().Sub(longest.since); early > 0 {
		if l.later == nil {
			l.later = time.AfterFunc(early, l.hurryLater)
		}
		return
	}
	l.running[longest] = true
	longest.press()
}

func (l *lanes) hurryLater() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.later = nil
	l.hurry()
}

func (l *lanes) ownerWaitsWithoutPlace() bool {
	for _, o := range l.owners {
		if o.taken == 0 && len(o.waiting[fast])+len(o.waiting[heavy]) > 0 {
			return true
		}
	}
	return false
}

// next is the ticket that gets a free place. The slow lane goes first, since it takes one place only; in a pool of one place
// the lanes take turns.
func (l *lanes) next() *ticket {
	quick := l.first(fast)
	if l.places == 1 || len(l.owners) == 1 || l.busy[heavy]+l.busy[slow] < l.places-1 {
		if t := l.first(heavy); t != nil && (quick == nil || t.before(quick)) {
			quick = t
		}
	}
	if l.busy[slow] > 0 || l.places == 1 && l.wasSlow && quick != nil {
		return quick
	}
	if t := l.first(slow); t != nil {
		return t
	}
	return quick
}

func (l *lanes) first(in lane) *ticket {
	var best *ticket
	for _, o := range l.owners {
		if len(o.waiting[in]) == 0 {
			continue
		}
		if t := o.waiting[in][0]; best == nil || t.before(best) {
			best = t
		}
	}
	return best
}

func (t *ticket) before(u *ticket) bool {
	switch a, b := t.owner, u.owner; {
	case a.taken != b.taken:
		return a.taken < b.taken
	case a.used != b.used:
		return a.used < b.used
	}
	return t.arrival < u.arrival
}

// wait returns once no place is taken.
func (l *lanes) wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.taken > 0 {
		l.idle.Wait()
	}
}
