package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

func (a *API) administrationRoutes() {
	register(a, identity.ListLocks, http.MethodGet, "/locks", "List the locks that runs hold or wait for, by key", http.StatusOK, a.listLocks)
	register(a, identity.ReleaseLock, http.MethodPost, "/locks/release", "Take a lock from the run that holds it", http.StatusOK, a.releaseLock)
}

// Lock is a lock on something scarce. Where runs wait for a lock that nobody has, epoch and the times are null.
type Lock struct {
	Key           string     `json:"key"`
	Epoch         *int64     `json:"epoch" doc:"A number that grows with each time that a key is given."`
	RunID         *uuid.UUID `json:"run_id" nullable:"true" doc:"Who holds it, where you see that connector."`
	ConnectorID   *int32     `json:"connector_id"`
	ConnectorName *string    `json:"connector_name"`
	AcquiredAt    *time.Time `json:"acquired_at"`
	ExpiresAt     *time.Time `json:"expires_at" doc:"When it ends without a renewal. One that has ended stands until another run has it."`
	Waiting       int32      `json:"waiting" doc:"How many runs wait for it, up to 1,000."`
}

// LockPage is one page of locks.
type LockPage struct {
	Body struct {
		Locks         []Lock  `json:"locks"`
		NextPageToken *string `json:"next_page_token"`
	}
}

func (a *API) listLocks(ctx context.Context, in *Paging) (*LockPage, error) {
	p, out := dbgen.LockKeysParams{Page: in.most() + 1}, &LockPage{}
	next, err := a.place(ctx, in.PageToken, "locks", &p.After)
	if err != nil {
		return nil, err
	}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		keys, err := q.LockKeys(ctx, p)
		if err != nil {
			return err
		}
		found, err := q.ListLocks(ctx, keys)
		if err != nil {
			return err
		}
		found, more := cut(found, in.most())
		out.Body.Locks = make([]Lock, len(found))
		for i, l := range found {
			out.Body.Locks[i] = Lock{
				Key: l.Key, Epoch: l.Epoch, RunID: l.RunID, ConnectorID: l.ConnectorID, ConnectorName: l.ConnectorName, AcquiredAt: utc(l.AcquiredAt),
				ExpiresAt: utc(l.ExpiresAt), Waiting: l.Waiting,
			}
		}
		if more {
			out.Body.NextPageToken = next(found[len(found)-1].Key)
		}
		return nil
	})
	return out, err
}

// ReleaseLock is which lock to take.
type ReleaseLock struct {
	Once
	Body struct {
		Key   string `json:"key" minLength:"1" maxLength:"128"`
		Epoch *int64 `json:"epoch,omitempty" minimum:"1" doc:"Only if it is still this one; left out: whichever it is."`
	}
}

// ReleasedLock is what was taken.
type ReleasedLock struct {
	Body struct {
		Key       string    `json:"key"`
		Epoch     int64     `json:"epoch"`
		ExpiresAt time.Time `json:"expires_at" doc:"When another run may have it at the latest."`
	}
}

func (a *API) releaseLock(ctx context.Context, in *ReleaseLock) (*ReleasedLock, error) {
	out := &ReleasedLock{}
	by := fmt.Sprintf("user %d", requestOf(ctx).UserID)
	err := a.once(ctx, func(ctx context.Context, q *dbgen.Queries) (string, error) {
		if strings.ContainsRune(in.Body.Key, 0) {
			return "", problem.Invalid("body.key", "must be a key of a lock")
		}
		gone, err := q.ReleaseLock(ctx, dbgen.ReleaseLockParams{LockKey: in.Body.Key, LockEpoch: in.Body.Epoch, Who: by})
		if err != nil {
			return "", err
		}
		if len(gone) == 0 {
			return "", problem.Conflict("No run holds this lock, or not in this epoch.", "List the locks.")
		}
		return fmt.Sprintf("%d %s", gone[0].Epoch, gone[0].ExpiresAt.UTC().Format(time.RFC3339Nano)), nil
	}, func(_ context.Context, _ *dbgen.Queries, done string) (err error) {
		var at string
		out.Body.Key = in.Body.Key
		if _, err = fmt.Sscanf(done, "%d %s", &out.Body.Epoch, &at); err == nil {
			out.Body.ExpiresAt, err = time.Parse(time.RFC3339Nano, at)
		}
		return err
	})
	return out, err
}
