package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/sdk/client"
)

// locks are those that a server lists, until enough says so.
func (r *remote) locks(ctx context.Context, enough func(lockView) bool) (found locksFound, err error) {
	found.seen = time.Now()
	p, read := client.LocksListParams{PageSize: new(int32(pageSize))}, 0
	found.list, err = readPages(ctx, "locks", func(token *string) ([]byte, error) {
		p.PageToken = token
		answer, err := r.api.LocksListWithResponse(ctx, &p)
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	}, func(l lockView) bool { read++; return read == maxLocks || enough(l) })
	if err != nil {
		return found, fmt.Errorf("list the locks: %w", err)
	}
	if found.list == nil {
		found.list = []lockView{}
	}
	return found, nil
}

// heldLock is the lock of a key that a run holds.
func (r *remote) heldLock(ctx context.Context, key string) (none lockView, _ error) {
	found, err := r.locks(ctx, func(l lockView) bool { return l.Key == key })
	if err != nil {
		return none, err
	}
	for _, l := range found.list {
		if l.Key == key && l.Epoch != nil {
			return l, nil
		}
	}
	return none, nobodyHas(key)
}

// releaseLock takes a lock from the run that it has found to hold it, and from no other.
func (r *remote) releaseLock(c *cobra.Command, key string, yes bool) (done released, _ error) {
	ctx := c.Context()
	held, err := r.heldLock(ctx, key)
	if err != nil {
		return done, err
	}
	done = released{Key: key, Epoch: *held.Epoch}
	who := "that you do not see"
	if held.ConnectorID != nil {
		done.ConnectorID, who = *held.ConnectorID, numberAndName(*held.ConnectorID, held.ConnectorName)
	}
	if done.RunID = uuid.Nil; held.RunID != nil {
		done.RunID = *held.RunID
	}
	if !yes {
		if err := askRelease(c, key, done.RunID, who, done.Epoch); err != nil {
			return done, err
		}
	}
	me, err := r.server.who(ctx)
	if err != nil {
		return done, err
	}
	answer, err := r.api.LocksReleaseWithResponse(ctx, &client.LocksReleaseParams{}, client.ReleaseLockBody{Key: key, Epoch: held.Epoch})
	var refused *client.Error
	switch none := errors.As(err, &refused) && refused.Status == http.StatusConflict && refused.RetryAfter == 0; {
	case none && yes:
		return done, nobodyHas(key)
	case none:
		return done, freedMeanwhile(key)
	case err != nil:
		return done, fmt.Errorf("release lock %s: %w", clip(key, 130), err)
	}
	gone, err := readAs[client.ReleasedLockBody](answer.Body)
	if err == nil {
		err = r.is(gone.Key == key)
	}
	done.ReleasedBy, done.ExpiresAt = fmt.Sprintf("user %d", me.UserID), gone.ExpiresAt.UTC()
	return done, err
}
