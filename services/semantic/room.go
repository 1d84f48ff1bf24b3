package semantic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

const (
	// roomKept is for how long nobody asks again what an owner has stored, and roomShare how many times as long as the answer took.
	roomKept, roomShare = 10 * time.Second, 100
	// roomForgotten is how long an owner is remembered of whom nothing is stored.
	roomForgotten = 5 * time.Minute
)

// errNoRoom says that an owner has so many rows of documents, stored or not, that not even the failure of one more is kept: its run
// fails, and its cursor stays.
var errNoRoom = errors.New("nothing more is kept")

// rooms remembers how much more owners may store. What other processes store meanwhile is not seen: together they may go beyond
// the quota by what they store in roomKept.
type rooms struct {
	mu     sync.Mutex
	owners map[int32]*room
}

// amount is of documents, of rows of any status, and of bytes of text.
type amount struct{ documents, rows, textBytes int64 }

// room is what one owner may have and what is left of it; no bound is math.MaxInt64.
type room struct {
	mu        *sync.Mutex
	owner     int32
	may, left amount
	until     time.Time
}

func (r *rooms) of(ctx context.Context, q *dbgen.Queries, owner int32) (*room, error) {
	asked := time.Now()
	if known := r.known(owner, asked); known != nil {
		return known, nil
	}
	stores, err := q.OwnerStores(ctx, owner)
	if err != nil {
		return nil, err
	}
	answered := time.Now()
	of := &room{mu: &r.mu, owner: owner, until: answered.Add(max(roomKept, roomShare*answered.Sub(asked)))}
	bound := func(most, there int64) (may, left int64) {
		if most == 0 {
			return math.MaxInt64, math.MaxInt64
		}
		return most, most - there
	}
	of.may.documents, of.left.documents = bound(stores.MaxDocuments, stores.Documents)
	of.may.rows, of.left.rows = bound(2*min(stores.MaxDocuments, math.MaxInt64/2), stores.Rows)
	of.may.textBytes, of.left.textBytes = bound(stores.MaxTextBytes, stores.TextBytes)
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

func (r *rooms) known(owner int32, at time.Time) *room {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.owners[owner]; known != nil && at.Before(known.until) {
		return known
	}
	return nil
}

// takeRows counts the rows that a store adds.
func (r *room) takeRows(rows map[string]dbgen.LockDocumentsRow) (took amount, err error) {
	for _, row := range rows {
		if row.IsNew {
			took.rows++
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if took.rows > 0 && took.rows > r.left.rows {
		return amount{}, fmt.Errorf("%w: user_id %d may have %d documents, and has twice as many with those that failed; %s",
			errNoRoom, r.owner, r.may.documents, roomHint("max_documents"))
	}
	r.left.rows -= took.rows
	return took, nil
}

// take counts a document that is stored in place of what its row is, or says why there is no room for it.
func (r *room) take(row dbgen.LockDocumentsRow, textBytes int64) (took amount, err error) {
	if row.Status != "stored" && row.TryID == nil {
		took.documents = 1
	}
	took.textBytes = max(textBytes-row.TextBytes, 0)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case took.documents > 0 && took.documents > r.left.documents:
		return amount{}, fmt.Errorf("not stored: user_id %d has as many documents as it may have, %d; %s",
			r.owner, r.may.documents, roomHint("max_documents"))
	case took.textBytes > 0 && took.textBytes > r.left.textBytes:
		return amount{}, fmt.Errorf("not stored: user_id %d may have %d bytes of text, and %d more are too many; %s",
			r.owner, r.may.textBytes, took.textBytes, roomHint("max_text_bytes"))
	}
	r.left.documents -= took.documents
	r.left.textBytes -= took.textBytes
	return took, nil
}

func roomHint(column string) string {
	return "delete what is not needed, or have an operator raise " + column + " of this user_id in owner_quotas"
}

// giveBack is for what was taken and not stored.
func (r *room) giveBack(took amount) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left.documents += took.documents
	r.left.rows += took.rows
	r.left.textBytes += took.textBytes
}

func (a *amount) add(more amount) {
	a.documents += more.documents
	a.rows += more.rows
	a.textBytes += more.textBytes
}
