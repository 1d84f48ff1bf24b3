package confine

import (
	"context"
	"sync"
	"time"
)

// lane is how long a request may turn out to take.
type lane int

const (
	// fast is for requests of which nothing is known; they get a short slice of computing.
	fast lane = iota
	// heavy is the same for shares whose requests take long though they end within their slice. While there are
	// several owners it leaves one place to others.
	heavy
	// slow is for requests that did not end within it. One child at most works in it.
	slow
	laneCount
)

// lanes hand out the places of a pool. Owners share them: a place that falls free goes to the owner who waits and
// has the fewest of them, and among these to the one who has used them least. No place stays free while somebody may take it.
type lanes struct {
	places int
	now    func() time.Time

	mu       sync.Mutex
	idle     *sync.Cond // nobody has a place
	taken    int
	busy     [laneCount]int // of these, by lane
	wasSlow  bool           // the last place went to the slow lane
	owners   map[string]*owner
	arrivals int
	// patience is how long the quick requests of an owner who has several places may have them while somebody waits who has none;
	// 0 = to their end.
	patience time.Duration
	running  map[*ticket]bool // those that have a place; true: they were asked to give it back
	later    *time.Timer      // looks again who has had a place for so long
}

// owner is somebody who waits for places or has some.
type owner struct {
	name    string
	waiting [laneCount][]*ticket
	taken   int
	used    time.Duration
}

// ticket is a request that waits.
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

// enter waits for a place until ctx ends; leave gives it back, and press asks for that before its time.
func (l *lanes) enter(ctx context.Context, name string, in lane, press func()) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t := l.queue(name, in, press)
	select {
	case <-t.granted:
	case <-ctx.Done():
		if !l.giveUp(t) {
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

// leastUsed is where a newcomer begins: it neither waits for what others have used before, nor has the place for
// itself until it has used as much.
func (l *lanes) leastUsed() time.Duration {
	least, first := time.Duration(0), true
	for _, o := range l.owners {
		if first || o.used < least {
			least, first = o.used, false
		}
	}
	return least
}

// giveUp is false where the place came meanwhile.
func (l *lanes) giveUp(t *ticket) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := t.owner.waiting[t.lane]
	for i, w := range queue {
		if w == t {
			t.owner.waiting[t.lane] = append(queue[:i:i], queue[i+1:]...)
			l.forget(t.owner)
			l.grant() // others may have what was kept for this owner
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

// grant hands out what is free.
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

// hurry asks for a place back while somebody waits who has none: of the owner with the most, if it has several, what has run longest.
// What runs in the slow lane stays: it takes one place only, and has begun anew already.
func (l *lanes) hurry() {
	if l.patience == 0 || l.taken < l.places || !l.somebodyHasNone() {
		return
	}
	var longest *ticket
	for t, asked := range l.running {
		if asked {
			return // its place comes
		}
		if t.lane == slow || t.owner.taken < 2 {
			continue
		}
		if longest == nil || t.owner.taken > longest.owner.taken || t.owner.taken == longest.owner.taken && t.since.Before(longest.since) {
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

func (l *lanes) somebodyHasNone() bool {
	for _, o := range l.owners {
		if o.taken == 0 && len(o.waiting[fast])+len(o.waiting[heavy]) > 0 {
			return true
		}
	}
	return false
}

// next is who gets the place that is free. The slow lane goes first, since it takes one place only; where there is
// no other, the lanes take turns.
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

// wait returns once nobody has a place.
func (l *lanes) wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.taken > 0 {
		l.idle.Wait()
	}
}
