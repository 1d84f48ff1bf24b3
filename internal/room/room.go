// Package room bounds the memory that a process takes for content: what is being fetched, read and sent.
//
// Each document says what it may take before it is fetched, waits until there is room, and gives the room back when it
// is sent. Nobody waits for more while he has some, so that nobody waits for himself: what turns out to be larger counts as
// what it is (Hold), and keeps out those who come later.
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
	// text, which is extract.TextPerByte times the content at most, and buffers that grow.
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

// Place is room that a document has. One in no room is nil.
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

// Place is a place that has nothing so far.
func (o Owned) Place() *Place {
	if o.room == nil {
		return nil
	}
	return &Place{room: o.room, owner: o.owner}
}

// Take waits for room for content of so many bytes until ctx ends. What is larger than an owner may have is taken as
// that much; small content neither waits nor counts until it is held. wait, if not nil, is called where there is no room at once.
func (o Owned) Take(ctx context.Context, content int64, wait func()) (*Place, error) {
	r := o.room
	if r == nil || ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !Needed(content) {
		return o.Place(), nil
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
	p.Leave() // it may have been granted meanwhile, or have kept out those behind it
	return nil, ctx.Err()
}

// Enter is Take for a caller that knows nothing of this package.
func (o Owned) Enter(ctx context.Context, content int64) (interface {
	Hold(bytes int64)
	Leave()
}, error) {
	return o.Take(ctx, content, nil)
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

// Hold has the place count as so many bytes of memory, which is what the document takes by now. It never waits, and may go
// beyond what there is: nobody is let in then until enough is given back.
func (p *Place) Hold(bytes int64) {
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

// Leave gives everything back. More than once is the same as once.
func (p *Place) Leave() { p.Hold(0) }

// Taken is how many bytes are taken.
func (r *Room) Taken() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken
}
