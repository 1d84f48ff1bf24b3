package signin

import (
	"context"
	"sync"
	"time"

	"github.com/echomind/sync/internal/caught"
)

const (
	// fetchPause is between two questions to the issuer, also where many requests wait for the answer: from the beginning of one that was answered, so that what is new is not missed for
	// longer, and from the end of one that was not.
	fetchPause = 5 * time.Second
	// keysFresh is how long an answer is taken as it is; keysKept how long while the issuer does not answer.
	keysFresh = 5 * time.Minute
	keysKept  = 24 * time.Hour
)

// fetched is what an issuer says. It is asked when that is needed, by one request at a time, and again when the answer is old; a request that can do with the old answer does not wait.
type fetched[T any] struct {
	ask func(context.Context) (T, error)
	// warn is told why there is no new answer.
	warn func(error)
	now  func() time.Time

	mu       sync.Mutex
	held     T
	since    time.Time     // it was fetched
	triedAt  time.Time     // the pause begins
	failed   error         // of the last try
	fetching chan struct{} // nil: nobody is
}

// state is what is known of an answer at a moment.
type state[T any] struct {
	held T
	// usable: held is an answer, and not too old.
	usable bool
	// fetching is closed when the answer that is on its way has come; nil: none is.
	fetching chan struct{}
	// away: the last try has failed, or there is no answer; else nil.
	away *Away
}

// look says what is known, and has the issuer asked where that is due: there is no answer, it is old, or it lacks something. asked: it has just been, for this.
func (f *fetched[T]) look(ctx context.Context, lacks func(T) bool, asked bool) (s state[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	s.held, s.usable = f.held, !f.since.IsZero() && now.Sub(f.since) < keysKept
	due := !s.usable || now.Sub(f.since) > keysFresh || lacks(f.held)
	if due && !asked && f.fetching == nil && (f.triedAt.IsZero() || now.Sub(f.triedAt) >= fetchPause) {
		f.fetching = make(chan struct{})
		go f.fetch(context.WithoutCancel(ctx), f.fetching)
	}
	if s.fetching = f.fetching; !s.usable || f.failed != nil {
		s.away = &Away{RetryAfter: max(time.Second, f.triedAt.Add(fetchPause).Sub(now)), cause: f.failed}
	}
	return s
}

// get is the answer, for which it waits where there is none, or it lacks something, as long as ctx lasts. It may lack that still.
func (f *fetched[T]) get(ctx context.Context, lacks func(T) bool) (held T, _ *Away) {
	s := f.look(ctx, lacks, false)
	if s.usable && !lacks(s.held) {
		return s.held, nil
	}
	if s.fetching != nil {
		select {
		case <-s.fetching:
			s = f.look(ctx, lacks, true)
		case <-ctx.Done():
			return held, &Away{RetryAfter: fetchPause, cause: context.Cause(ctx)}
		}
	}
	if s.usable && !lacks(s.held) {
		return s.held, nil
	}
	return s.held, s.away
}

func (f *fetched[T]) fetch(ctx context.Context, done chan struct{}) {
	var held T
	began := f.now()
	err := caught.Do(func() (err error) {
		held, err = f.ask(ctx)
		return err
	})
	if err != nil {
		f.warn(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.triedAt = f.now()
	if f.failed = err; err == nil {
		f.held, f.since, f.triedAt = held, f.triedAt, began
	}
	f.fetching = nil
	close(done)
}
