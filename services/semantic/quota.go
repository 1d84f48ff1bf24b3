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
	// quotaKept is for how long a quota's answer is used while there is room, and quotaKeptLong the same where the answer took
	// long. No document is refused by an answer that is older than quotaFresh.
	quotaKept, quotaKeptLong, quotaFresh = 10 * time.Second, time.Minute, time.Second
	// quotaShare limits the load: an answer is used for so many times as long as it took.
	quotaShare = 100
	// quotaForgotten is how long the quota of an owner who stores nothing is remembered.
	quotaForgotten = 5 * time.Minute
	// smallBytes is how long the title, address and links of a document without new text may be although the quota is used up.
	smallBytes = 8 << 10
	// unbounded is the limit of an owner without a quota: it is never reached while an answer is kept, and sums do not overflow.
	unbounded = math.MaxInt64 / 2
)

// quotas remembers how much more each owner may store. What other processes store meanwhile is not seen: together they may exceed a
// quota by what they store during quotaKept.
type quotas struct {
	mu     sync.Mutex
	owners map[int32]*quota
}

// amount counts documents, and the bytes of their texts, titles, URLs and links.
type amount struct{ documents, bytes int64 }

func (a *amount) add(more amount) {
	a.documents += more.documents
	a.bytes += more.bytes
}

func (a *amount) sub(less amount) { a.add(amount{-less.documents, -less.bytes}) }

func (a amount) positive() amount { return amount{max(a.documents, 0), max(a.bytes, 0)} }

// quota is the limit of one owner, and what is left of it.
type quota struct {
	mu          *sync.Mutex
	owner       int32
	limit, left amount
	asked       time.Time
	until       time.Time
}

// get returns the quota of an owner. full asks for a fresh answer, because a document is about to be refused.
func (r *quotas) get(ctx context.Context, q *dbgen.Queries, owner int32, full bool) (*quota, error) {
	asked := time.Now()
	if known := r.known(owner, asked, full); known != nil {
		return known, nil
	}
	has, err := q.OwnerHasRoom(ctx, owner)
	if err != nil {
		return nil, fmt.Errorf("ask how much room user_id %d has: %w", owner, err)
	}
	answered := time.Now()
	kept := min(max(quotaKept, quotaShare*answered.Sub(asked)), quotaKeptLong)
	of := &quota{mu: &r.mu, owner: owner, asked: asked, until: asked.Add(kept)}
	of.limit = amount{bound(has.MaxDocuments), bound(has.MaxBytes)}
	of.left = amount{bound(has.Documents), bound(has.Bytes)}
	r.mu.Lock()
	defer r.mu.Unlock()
	for old, room := range r.owners {
		if answered.Sub(room.until) > quotaForgotten {
			delete(r.owners, old)
		}
	}
	if r.owners == nil {
		r.owners = map[int32]*quota{}
	}
	r.owners[owner] = of
	return of, nil
}

func (r *quotas) known(owner int32, at time.Time, full bool) *quota {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.owners[owner]
	if known == nil || at.After(known.until) || full && at.Sub(known.asked) > quotaFresh {
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

func (r *quota) exceeded(needs amount) (column string) {
	switch {
	case needs.documents > 0 && needs.documents > r.left.documents:
		return "max_documents"
	case needs.bytes > 0 && needs.bytes > r.left.bytes:
		return "max_bytes"
	}
	return ""
}

// reserve takes more from the quota, or says why it has no room for needs. A negative amount makes room. Where more is larger than
// needs, what is left may become negative.
func (r *quota) reserve(more, needs amount) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch column := r.exceeded(needs); column {
	case "":
	case "max_documents":
		return r.refusal(column, fmt.Sprintf("as many documents as it may have, %d", r.limit.documents))
	default:
		return r.refusal(column, fmt.Sprintf("no room for %d bytes more, of %d", needs.bytes, r.limit.bytes))
	}
	r.left.sub(more)
	return nil
}

// reserveAnyway takes from the quota whether or not there is room.
func (r *quota) reserveAnyway(more amount) { r.giveBack(amount{-more.documents, -more.bytes}) }

func (r *quota) refusal(column, why string) error {
	return fmt.Errorf("not stored: user_id %d has %s; delete what is not needed, or have an operator raise %s of this user_id in owner_quotas",
		r.owner, why, column)
}

// giveBack returns what was reserved and not stored.
func (r *quota) giveBack(took amount) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left.add(took)
}
