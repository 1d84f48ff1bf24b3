// Package room bounds the memory of a process for content that it fetches, reads and sends.
//
// Each document reserves the memory that it may take before it is fetched, waits until there is room, and releases the room
// when it is sent. A document that holds room never waits for more, so that no document waits for itself: a document that turns
// out larger counts with its real size (Resize), and later documents wait.
package room

import (
	"context"
	"sync"
)

const (
	// Free is the size of content that needs no reservation: most documents are smaller, and a process works on a few tens at once.
	Free = 64 << 10
	// each is how many bytes a process takes at worst for one byte of content: the content as it came and in UTF-8, its text,
	// which is extract.TextPerByte times the content at most, and buffers that grow.
	each = 6
)

// Room is memory for content. It is safe for concurrent use. A nil Room has no bound.
type Room struct {
	size int64

	mu      sync.Mutex
	taken   int64
	owners  map[string]int64
	waiting []*Reservation
}

// New makes a Room of so many bytes.
func New(size int64) *Room { return &Room{size: size, owners: map[string]int64{}} }

// most is how much one owner may reserve, so that the other half is free for other owners.
func (r *Room) most() int64 { return r.size / 2 }

// Reservation is the room of one document. It is nil where there is no Room.
type Reservation struct {
	room    *Room
	owner   string
	taken   int64
	granted chan struct{}
}

// OwnerRoom makes the reservations of one owner.
type OwnerRoom struct {
	room  *Room
	owner string
}

// ForOwner returns the OwnerRoom of an owner.
func (r *Room) ForOwner(owner string) OwnerRoom { return OwnerRoom{r, owner} }

// Cost is how much memory content of so many bytes takes at worst.
func Cost(content int64) int64 { return each * content }

// Needed tells whether content of so many bytes needs a reservation.
func Needed(content int64) bool { return content > Free }

// Empty returns a reservation of nothing yet.
func (o OwnerRoom) Empty() *Reservation {
	if o.room == nil {
		return nil
	}
	return &Reservation{room: o.room, owner: o.owner}
}

// Take waits until ctx ends for room for content of so many bytes. Content that is larger than an owner's share takes that share;
// small content neither waits nor counts until it is resized. wait, if not nil, is called where there is no room at once.
func (o OwnerRoom) Take(ctx context.Context, content int64, wait func()) (*Reservation, error) {
	r := o.room
	if r == nil || ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !Needed(content) {
		return o.Empty(), nil
	}
	p := &Reservation{room: r, owner: o.owner, taken: min(Cost(content), r.most()), granted: make(chan struct{})}
	r.mu.Lock()
	r.waiting = append(r.waiting, p)
	r.grant()
	r.mu.Unlock()
	select {
	case <-p.granted:
		return p, nil
	default:
	}
	if wait != nil {
		wait()
	}
	select {
	case <-p.granted:
		return p, nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	for i, w := range r.waiting {
		if w == p {
			r.waiting = append(r.waiting[:i:i], r.waiting[i+1:]...)
			p.taken = 0
		}
	}
	r.mu.Unlock()
	p.Release() // it may have been granted meanwhile, or have blocked later ones
	return nil, ctx.Err()
}

// Reserve is Take, for callers that do not import this package.
func (o OwnerRoom) Reserve(ctx context.Context, content int64) (interface {
	Resize(bytes int64)
	Release()
}, error) {
	return o.Take(ctx, content, nil)
}

// grant grants waiting reservations, those of the owner with the least room first. A reservation that does not fit blocks later
// ones, so that small content does not keep large content out for ever; an owner whose whole share is taken blocks nobody.
func (r *Room) grant() {
	for {
		var next *Reservation
		for _, p := range r.waiting {
			if r.owners[p.owner]+p.taken <= r.most() && (next == nil || r.owners[p.owner] < r.owners[next.owner]) {
				next = p
			}
		}
		if next == nil || r.taken+next.taken > r.size {
			return
		}
		for i, p := range r.waiting {
			if p == next {
				r.waiting = append(r.waiting[:i:i], r.waiting[i+1:]...)
				break
			}
		}
		r.taken += next.taken
		r.owners[next.owner] += next.taken
		close(next.granted)
	}
}

// Resize sets how many bytes of memory the document takes now. It never waits, and may exceed the room: then nothing is granted
// until enough is released.
func (p *Reservation) Resize(bytes int64) {
	if p == nil {
		return
	}
	r := p.room
	r.mu.Lock()
	defer r.mu.Unlock()
	more := bytes - p.taken
	p.taken = bytes
	r.taken += more
	if r.owners[p.owner] += more; r.owners[p.owner] == 0 {
		delete(r.owners, p.owner)
	}
	r.grant()
}

// Release releases the whole reservation. It may be called more than once.
func (p *Reservation) Release() { p.Resize(0) }

// Taken is how many bytes are reserved.
func (r *Room) Taken() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken
}
