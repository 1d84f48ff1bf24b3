package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

const (
	// mostOfOperation is how many connectors one operation changes at most.
	mostOfOperation = 100_000
	// matchLook is how many connectors one statement looks through, and matchTime how long is looked: what a request has, less what it needs besides.
	matchLook = 100_000
	matchTime = 3 * time.Second
	// confirmTime is how long a preview may be confirmed.
	confirmTime = 15 * time.Minute
)

// bulk is what operations on many connectors share in one replica.
type bulk struct {
	// looks bounds how many look for what matches at once.
	looks *share
	// most is how many connectors one operation changes at most.
	most int
	// time is how long a batch works.
	time time.Duration
	// woken and letters have the next batch, or the next turn of dead letters, be looked for now.
	woken, letters chan struct{}
}

func newBulk() *bulk {
	return &bulk{looks: newShare(2, problem.ManyPreviews), most: mostOfOperation, time: batchTime, woken: make(chan struct{}, 1), letters: make(chan struct{}, 1)}
}

// wake has work be looked for now, of connectors and of dead letters.
func (b *bulk) wake() {
	for _, one := range []chan struct{}{b.woken, b.letters} {
		select {
		case one <- struct{}{}:
		default:
		}
	}
}

// turnToMatch waits, without a connection, for others of this replica who look for what matches. The key of confirms is there then.
func (a *API) turnToMatch(ctx context.Context) (leave func(), err error) {
	if _, err := a.places.sealer(ctx, a.pool); err != nil {
		return nil, err
	}
	return a.bulk.looks.begin(ctx, requestOf(ctx).UserID)
}

// matched is what a filter finds.
type matched struct {
	// ids are those that the viewer may change, leftOut how many they see and may not change, as far as there was time to count them.
	ids     []int32
	leftOut int32
	// more: there are more than one operation changes, or than could be looked through in time.
	more bool
}

// matching looks through all connectors, some of them at a time: no index has what matches. Those that the viewer may not change are counted in the time
// that is left then.
func (b *bulk) matching(ctx context.Context, q *dbgen.Queries, f OperationFilter) (found matched, err error) {
	found.ids = []int32{}
	until := time.Now().Add(deadline.Of(matchTime))
	whole, err := through(ctx, q, until, func(after, last int32) (bool, error) {
		ids, err := q.ChangeableMatching(ctx, dbgen.ChangeableMatchingParams{
			After: after, Through: last, Name: given(f.Name), Type: given(f.Type), Status: given(f.Status), UserID: given(f.UserID),
			Scope: given(f.Scope), ScopeID: given(f.ScopeID), Late: f.Late, Page: int32(b.most + 1 - len(found.ids)),
		})
		found.ids = append(found.ids, ids...)
		return len(found.ids) <= b.most, err
	})
	if found.more = !whole; err != nil || found.more {
		found.ids = found.ids[:min(len(found.ids), b.most)]
		return found, err
	}
	if requestOf(ctx).Role == identity.Superadmin { // who may change all
		return found, nil
	}
	_, err = through(ctx, q, until, func(after, last int32) (bool, error) {
		n, err := q.CountUnchangeable(ctx, dbgen.CountUnchangeableParams{
			After: after, Through: last, Name: given(f.Name), Type: given(f.Type), Status: given(f.Status), UserID: given(f.UserID),
			Scope: given(f.Scope), ScopeID: given(f.ScopeID), Late: f.Late, Most: int32(b.most) - found.leftOut,
		})
		found.leftOut += n
		return int(found.leftOut) < b.most, err
	})
	return found, err
}

// through looks at a part of the connectors after the other, each as far as its last number, while look says that it goes on. It says whether that was all of them, in time.
func through(ctx context.Context, q *dbgen.Queries, until time.Time, look func(after, last int32) (bool, error)) (whole bool, err error) {
	for after := int32(0); after < math.MaxInt32; {
		if time.Now().After(until) {
			return false, nil
		}
		last, err := q.ConnectorsThrough(ctx, dbgen.ConnectorsThroughParams{After: after, Look: matchLook})
		if errors.Is(err, pgx.ErrNoRows) {
			last, err = math.MaxInt32, nil
		}
		if err != nil {
			return false, err
		}
		if goesOn, err := look(after, last); err != nil || !goesOn {
			return false, err
		}
		after = last
	}
	return true, nil
}

// confirmed is what was previewed.
type confirmed struct {
	Count int       `json:"n"`
	Until time.Time `json:"u"`
	// Which is a digest of what would be deleted.
	Which []byte `json:"w,omitempty"`
}

// which tells what would be deleted from what would be later: as many others may match then.
func which(r OperationRequest, found matched) []byte {
	if r.Action != "delete" {
		return nil
	}
	digest := sha256.New()
	_ = binary.Write(digest, binary.LittleEndian, found.ids) // it never fails
	return digest.Sum(nil)
}

// sealedFor binds what was previewed to its user, action and filter.
func sealedFor(ctx context.Context, r OperationRequest) ([]byte, error) {
	return json.Marshal(struct {
		What    string
		UserID  int32
		Request OperationRequest
	}{"operation", requestOf(ctx).UserID, r})
}

// confirming makes the text that confirms what was previewed.
func (a *API) confirming(ctx context.Context, r OperationRequest, of confirmed) (*string, error) {
	aead, err := a.places.sealer(ctx, a.pool)
	if err != nil {
		return nil, err
	}
	bound, err := sealedFor(ctx, r)
	if err != nil {
		return nil, err
	}
	plain, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	_, _ = rand.Read(nonce) // it never fails
	text := base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, plain, bound))
	return &text, nil
}

// opened reads such a text.
func (a *API) opened(ctx context.Context, r OperationRequest, text string) (of confirmed, err error) {
	aead, err := a.places.sealer(ctx, a.pool)
	if err != nil {
		return of, err
	}
	bound, err := sealedFor(ctx, r)
	if err != nil {
		return of, err
	}
	wrong := problem.Invalid("body.confirm", "must be the confirm of a preview of yours, of the same action and filter")
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(sealed) < aead.NonceSize() {
		return of, wrong
	}
	plain, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], bound)
	if err != nil || json.Unmarshal(plain, &of) != nil {
		return of, wrong
	}
	return of, nil
}

// confirmed finds what matches now, where that is about what was previewed: what is deleted is no more than that.
func (a *API) confirmed(ctx context.Context, q *dbgen.Queries, r OperationRequest, text string) (found matched, err error) {
	of, err := a.opened(ctx, r, text)
	if err != nil {
		return found, err
	}
	now, err := q.Now(ctx)
	if err != nil {
		return found, err
	}
	if now.After(of.Until) {
		return found, problem.Conflict("The preview is older than 15 minutes.", "Preview the operation again, and confirm that.")
	}
	if found, err = a.bulk.matching(ctx, q, r.Filter); err != nil {
		return found, err
	}
	room := of.Count/10 + 10
	switch n := len(found.ids); {
	case found.more || n > of.Count+room:
		return found, problem.Conflict(fmt.Sprintf("%d matched when it was previewed, and %d or more do now.", of.Count, n), "Preview the operation again, and confirm that.")
	case n == 0:
		return found, problem.Conflict("Nothing matches any more that you may change.", "Preview the operation again.")
	case !bytes.Equal(which(r, found), of.Which):
		return found, problem.Conflict("Others match now than when it was previewed.", "Preview the operation again, and confirm that.")
	}
	return found, nil
}
