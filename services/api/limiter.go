package api

import (
	"container/list"
	"net/netip"
	"sync"
	"time"
)

// maxBuckets is how many tokens, or addresses, a limiter remembers.
const maxBuckets = 10_000

// limiter lets each of many ask so often: a token, or an address. Each replica has its own.
type limiter struct {
	rate, burst float64
	mu          sync.Mutex
	buckets     map[string]*list.Element
	// used has the buckets in the order of their use, the longest unused first: those are the first to be full again.
	used *list.List
}

type bucket struct {
	key  string
	left float64
	at   time.Time
}

func newLimiter(rate, burst float64) *limiter {
	return &limiter{rate: rate, burst: burst, buckets: map[string]*list.Element{}, used: list.New()}
}

// take takes one request of a key's, or says how long to wait for one.
func (l *limiter) take(key string, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bucket(key, now).take(l.rate)
}

// takeKnown is take for a key that is remembered.
func (l *limiter) takeKnown(key string, now time.Time) (wait time.Duration, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buckets[key] == nil {
		return 0, false
	}
	return l.bucket(key, now).take(l.rate), true
}

// give gives one request back.
func (l *limiter) give(key string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bucket(key, now)
	b.left = min(l.burst, b.left+1)
}

// forget forgets a key that counts no more.
func (l *limiter) forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.buckets[key]; e != nil {
		l.used.Remove(e)
		delete(l.buckets, key)
	}
}

// bucket is a key's, as it is now. Where there are too many the one that was not used for longest is forgotten.
func (l *limiter) bucket(key string, now time.Time) *bucket {
	e := l.buckets[key]
	if e == nil {
		if oldest := l.used.Front(); len(l.buckets) >= maxBuckets {
			delete(l.buckets, l.used.Remove(oldest).(*bucket).key)
		}
		e = l.used.PushBack(&bucket{key: key, left: l.burst, at: now})
		l.buckets[key] = e
	}
	l.used.MoveToBack(e)
	b := e.Value.(*bucket)
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.left, b.at = min(l.burst, b.left+passed*l.rate), now
	}
	return b
}

func (b *bucket) take(rate float64) (wait time.Duration) {
	if b.left < 1 {
		return time.Duration((1 - b.left) / rate * float64(time.Second))
	}
	b.left--
	return 0
}

// strangersTimes is how many times as often as one address all addresses together may try tokens that nobody knows yet.
const strangersTimes = 4

// strangers bounds how often tokens are tried that are not known to count: each asks Postgres. Tokens that counted lately are not held up by it.
type strangers struct{ each, all *limiter }

func newStrangers(rate, burst float64) strangers {
	return strangers{newLimiter(rate, burst), newLimiter(strangersTimes*rate, strangersTimes*burst)}
}

func (s strangers) take(address string, now time.Time) (wait time.Duration) {
	key := network(address)
	if wait := s.each.take(key, now); wait > 0 {
		return wait
	}
	if wait = s.all.take("", now); wait > 0 {
		s.each.give(key, now)
	}
	return wait
}

// give gives back what a token took that turned out to count.
func (s strangers) give(address string, now time.Time) {
	s.each.give(network(address), now)
	s.all.give("", now)
}

// network is whom an address belongs to: of IPv6 somebody has 64 bits.
func network(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return address
	}
	bits := 32
	if at.Addr().Unmap().Is6() {
		bits = 64
	}
	prefix, err := at.Addr().Unmap().WithZone("").Prefix(bits)
	if err != nil {
		return address
	}
	return prefix.String()
}
