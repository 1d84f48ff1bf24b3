package semantic

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

const (
	// roomKept is for how long nobody asks again how much room an owner has, while there is some; where the answer took long, up to
	// roomKeptLong. Nothing is refused by an answer that is older than roomFresh.
	roomKept, roomKeptLong, roomFresh = 10 * time.Second, time.Minute, time.Second
	// roomShare is how many times as long as the answer took nobody asks again.
	roomShare = 100
	// roomForgotten is how long an owner is remembered of whom nothing is stored.
	roomForgotten = 5 * time.Minute
	// smallBytes is how long the title, address and links of a document without new text may be whether or not there is room.
	smallBytes = 8 << 10
	// unbounded is what an owner without a quota may have: no more is stored while an answer is kept, and nothing overflows.
	unbounded = math.MaxInt64 / 2
)

// rooms remembers how much more owners may store. What other processes store meanwhile is not seen: together they may go beyond
// a quota by what they store in roomKept.
type rooms struct {
	mu     sync.Mutex
	owners map[int32]*room
}

// amount is of documents, and of bytes of their texts, titles, URLs and links.
type amount struct{ documents, bytes int64 }

func (a *amount) add(more amount) {
	a.documents += more.documents
	a.bytes += more.bytes
}

func (a *amount) sub(less amount) { a.add(amount{-less.documents, -less.bytes}) }

func (a amount) positive() amount { return amount{max(a.documents, 0), max(a.bytes, 0)} }

// room is what one owner may have and what is left of it.
type room struct {
	mu        *sync.Mutex
	owner     int32
	may, left amount
	asked     time.Time
	until     time.Time
}

// of says how much more an owner may store. full: it is about to be refused something.
func (r *rooms) of(ctx context.Context, q *dbgen.Queries, owner int32, full bool) (*room, error) {
	asked := time.Now()
	if known := r.known(owner, asked, full); known != nil {
		return known, nil
	}
	has, err := q.OwnerHasRoom(ctx, owner)
	if err != nil {
		return nil, fmt.Errorf("ask how much room user_id %d has: %w", owner, err)
	}
	answered := time.Now()
	kept := min(max(roomKept, roomShare*answered.Sub(asked)), roomKeptLong)
	of := &room{mu: &r.mu, owner: owner, asked: asked, until: asked.Add(kept)}
	of.may = amount{bound(has.MaxDocuments), bound(has.MaxBytes)}
	of.left = amount{bound(has.Documents), bound(has.Bytes)}
	r.mu.Lock()
	defer r.mu.Unlock()
	for old, room := range r.owners {
		if answered.Sub(room.until) > roomForgotten {
			delete(r.owners, old)
		}
	}
	if r.owners == nil {
		r.owners = map[int32]*room{}
	}
	r.owners[owner] = of
	return of, nil
}

func (r *rooms) known(owner int32, at time.Time, full bool) *room {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.owners[owner]
	if known == nil || at.After(known.until) || full && at.Sub(known.asked) > roomFresh {
		return nil
	}
	return known
}

func bound(n *int64) int64 {
	if n == nil {
		return unbounded
	}
	return *n
}

func (r *room) misses(needs amount) (column string) {
	switch {
	case needs.documents > 0 && needs.documents > r.left.documents:
		return "max_documents"
	case needs.bytes > 0 && needs.bytes > r.left.bytes:
		return "max_bytes"
	}
	return ""
}

// take counts what is about to be stored, or says why there is no room for what it needs. Less than nothing makes room; what takes
// more than it needs may leave less than nothing.
func (r *room) take(more, needs amount) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch column := r.misses(needs); column {
	case "":
	case "max_documents":
		return r.refuse(column, fmt.Sprintf("as many documents as it may have, %d", r.may.documents))
	default:
		return r.refuse(column, fmt.Sprintf("no room for %d bytes more, of %d", needs.bytes, r.may.bytes))
	}
	r.left.sub(more)
	return nil
}

// takeAnyhow counts what is stored whether or not there is room for it.
func (r *room) takeAnyhow(more amount) { r.giveBack(amount{-more.documents, -more.bytes}) }

func (r *room) refuse(column, why string) error {
	return fmt.Errorf("not stored: user_id %d has %s; delete what is not needed, or have an operator raise %s of this user_id in owner_quotas",
		r.owner, why, column)
}

// giveBack is for what was taken and not stored.
func (r *room) giveBack(took amount) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left.add(took)
}
