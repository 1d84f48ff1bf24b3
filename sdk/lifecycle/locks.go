package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/lifecycle/internal/dbgen"
)

// ErrLockLost says that a lock is not the run's any more. What wraps it says what became of it.
var ErrLockLost = errors.New("the lock is lost")

// LockAnswer is Postgres's answer to a try that asks for a lock: the lock is given, or the answer says who has it.
type LockAnswer struct {
	// Epoch fences what is done under the lock: it grows with each time that its key is given. 0 = it is not given.
	Epoch int64
	// ExpiresAt is when the lock ends without a renewal, by Postgres's clock.
	ExpiresAt time.Time
	// HolderRun has it, and is a run of HolderConnector, which may have ended; 0 where nobody has it, and others wait for it.
	HolderRun       uuid.UUID
	HolderConnector int32
	// Remaining is for how long they have it without a renewal; 0 where a transaction that has to do with them holds it back.
	Remaining time.Duration
	// Ahead is how many wait for it before this run; 8 stands for more.
	Ahead int
	// AskAgain is when who waits is to ask again.
	AskAgain time.Duration
	// PutOff is for how long the asking connector, which does not wait, has been put off.
	PutOff time.Duration
}

// AcquireLock asks for a lock, for ttl (one second to one hour). waits: the run keeps its place among those who wait, as long as it asks again. It also
// succeeds, with the same epoch, where the run has it already. ask numbers the try's questions, from 1: see FreeAsked.
func (l *Lifecycle) AcquireLock(ctx context.Context, try Try, key string, ttl time.Duration, waits bool, ask int64) (a LockAnswer, err error) {
	found, err := deadline.Get(ctx, "lifecycle.acquire_lock", callTimeout, func(ctx context.Context) ([]dbgen.AcquireLockRow, error) {
		return l.q.AcquireLock(ctx, dbgen.AcquireLockParams{RunID: try.Run, TryID: try.ID, LockKey: key, Ttl: ttl, Waits: waits, Ask: ask})
	})
	if err != nil {
		return a, translated("lifecycle.acquire_lock", err)
	}
	if len(found) == 0 {
		return a, ErrFenced
	}
	r := found[0]
	return LockAnswer{
		Epoch: or(r.Epoch), ExpiresAt: or(r.ExpiresAt), HolderRun: or(r.HolderRun), HolderConnector: or(r.HolderConnector), Ahead: int(or(r.Ahead)),
		Remaining: seconds(r.RemainingSeconds), AskAgain: seconds(r.AskAgainSeconds), PutOff: seconds(r.PutOffSeconds),
	}, nil
}

// RenewLock keeps a lock for its ttl from now, and says until when, by Postgres's clock. ErrLockLost where it is not the run's any more.
func (l *Lifecycle) RenewLock(ctx context.Context, try Try, key string, epoch int64) (time.Time, error) {
	r, err := deadline.Get(ctx, "lifecycle.renew_lock", callTimeout, func(ctx context.Context) (dbgen.RenewLockRow, error) {
		return l.q.RenewLock(ctx, dbgen.RenewLockParams{RunID: try.Run, TryID: try.ID, LockKey: key, LockEpoch: epoch})
	})
	switch {
	case err != nil:
		return time.Time{}, translated("lifecycle.renew_lock", err)
	case r.ExpiresAt == nil:
		return time.Time{}, fmt.Errorf("%w: %s", ErrLockLost, r.Why)
	}
	return *r.ExpiresAt, nil
}

// FreeLock gives a lock back that the run has in this epoch.
func (l *Lifecycle) FreeLock(ctx context.Context, try Try, key string, epoch int64) error {
	return l.freeLocks(ctx, dbgen.FreeLocksParams{RunID: try.Run, TryID: try.ID, LockKey: &key, LockEpoch: &epoch})
}

// FreeAsked gives back what a question for a lock that was not answered may have been given, and leaves the row of those who wait for it. Carried
// out late, it frees nothing that a later question was given.
func (l *Lifecycle) FreeAsked(ctx context.Context, try Try, key string, ask int64) error {
	return l.freeLocks(ctx, dbgen.FreeLocksParams{RunID: try.Run, TryID: try.ID, LockKey: &key, LockAsk: &ask})
}

// FreeLocks gives back all locks of a run, and its places among those who wait for others.
func (l *Lifecycle) FreeLocks(ctx context.Context, try Try) error {
	return l.freeLocks(ctx, dbgen.FreeLocksParams{RunID: try.Run, TryID: try.ID})
}

func (l *Lifecycle) freeLocks(ctx context.Context, p dbgen.FreeLocksParams) error {
	_, err := deadline.Get(ctx, "lifecycle.free_locks", callTimeout, func(ctx context.Context) (bool, error) { return l.q.FreeLocks(ctx, p) })
	return translated("lifecycle.free_locks", err)
}

// PassedOver is a provider that a run did not use, and why.
type PassedOver struct {
	Provider string `json:"provider"`
	Why      string `json:"why"`
}

// Provider is what a run uses, for the ledger.
type Provider struct {
	// Name is empty where none could be used.
	Name string
	// Lock is the key of the lock that the run has on it, and Epoch that one's; empty and 0 where it needs none.
	Lock  string
	Epoch int64
	// Before are those that come before it. Of what is said of them the beginning is kept.
	Before []PassedOver
}

// maxPassedBytes is what the ledger keeps of one choice.
const maxPassedBytes = 4096

// NoteProvider writes down which provider a run uses.
func (l *Lifecycle) NoteProvider(ctx context.Context, try Try, used Provider) error {
	passed, err := passedOver(used.Before)
	if err != nil {
		return err
	}
	p := dbgen.NoteProviderParams{RunID: try.Run, TryID: try.ID, PassedOver: passed}
	if used.Name != "" {
		p.Provider = &used.Name
	}
	if used.Lock != "" {
		p.LockKey, p.LockEpoch = &used.Lock, &used.Epoch
	}
	return guarded(ctx, "lifecycle.note_provider", func(ctx context.Context) (bool, error) { return l.q.NoteProvider(ctx, p) })
}

// passedOver is what fits of why providers were passed over.
func passedOver(all []PassedOver) (text []byte, err error) {
	said := make([]string, len(all))
	for i, one := range all {
		said[i] = clean(secret.Text(one.Why))
	}
	for most := 300; most > 0; most /= 2 {
		kept := make([]PassedOver, len(all))
		for i, one := range all {
			kept[i] = PassedOver{Provider: one.Provider, Why: clipped(said[i], most)}
		}
		// As Postgres writes it: a space behind each colon and comma.
		if text, err = json.Marshal(kept); err != nil || len(text)+4*len(all) <= maxPassedBytes {
			return text, err
		}
	}
	return nil, fmt.Errorf("%d providers were passed over: their names have more than %d bytes", len(all), maxPassedBytes)
}

func or[T any](value *T) (is T) {
	if value != nil {
		is = *value
	}
	return is
}

func seconds(of *float64) time.Duration { return time.Duration(or(of) * float64(time.Second)) }
