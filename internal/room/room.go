// Package room bounds the memory that a process takes for content: what is being fetched, read and sent.
//
// Each document says what it may take before it is fetched, waits until there is room, and gives the room back when it
// is sent. Nobody asks for more while he has some, so that nobody waits for himself.
package room

import (
	"context"
	"sync"
)

const (
	// Free is content that is taken without asking: most documents are smaller, and all that a process works on at
	// once are some tens.
	Free = 64 << 10
	// each is how many bytes a process takes for one of content at worst: the content as it came and in UTF-8, its
	// text, and buffers that grow.
	each = 6
)

// Room is memory for content. It is safe for concurrent use. The one of nobody, nil, has no end.
type Room struct {
	size int64

	mu      sync.Mutex
	taken   int64
	owners  map[string]int64
	waiting []*Place
}

// New makes room of so many bytes.
func New(size int64) *Room { return &Room{size: size, owners: map[string]int64{}} }

// most is what one owner may have: others find the other half.
func (r *Room) most() int64 { return r.size / 2 }

// Place is room that a document has. That of small content is nil.
type Place struct {
	room    *Room
	owner   string
	taken   int64
	granted chan struct{}
}

// Owned is an owner's way into the room.
type Owned struct {
	room  *Room
	owner string
}

// For is the way of an owner.
func (r *Room) For(owner string) Owned { return Owned{r, owner} }

// Cost is what content of so many bytes takes at worst.
func Cost(content int64) int64 { return each * content }

// Needed tells whether content of so many bytes has to ask.
func Needed(content int64) bool { return content > Free }

// Take waits for room for content of so many bytes until ctx ends. What is larger than an owner may have is taken as
// that much. wait, if not nil, is called where there is none at once.
func (o Owned) Take(ctx context.Context, content int64, wait func()) (*Place, error) {
	r := o.room
	if r == nil || !Needed(content) {
		return nil, ctx.Err()
	}
	p := &Place{room: r, owner: o.owner, taken: min(Cost(content), r.most()), granted: make(chan struct{})}
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
	p.Leave() // also where it was granted meanwhile
	return nil, ctx.Err()
}

// grant lets in who waits, for the owner with the least first. Who does not fit is waited for, so that small content does not
// keep large content out for ever; an owner with all that he may have keeps nobody out.
func (r *Room) grant() {
	for {
		var next *Place
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

// Keep gives back what is more than so many bytes of memory.
func (p *Place) Keep(bytes int64) {
	if p == nil {
		return
	}
	p.shrink(bytes)
}

// Leave gives everything back. More than once is the same as once.
func (p *Place) Leave() {
	if p == nil {
		return
	}
	p.shrink(0)
}

func (p *Place) shrink(to int64) {
	r := p.room
	r.mu.Lock()
	defer r.mu.Unlock()
	back := p.taken - to
	if back <= 0 {
		return
	}
	p.taken = to
	r.taken -= back
	if r.owners[p.owner] -= back; r.owners[p.owner] == 0 {
		delete(r.owners, p.owner)
	}
	r.grant()
}

// Taken is how many bytes are taken.
func (r *Room) Taken() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken
}
