package api

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/echomind/sync/internal/caught"
	"github.com/echomind/sync/services/api/internal/problem"
)

const (
	// badgeKept is how long a replica answers with what it has found of a link.
	badgeKept = 10 * time.Second
	// mostBadges is of how many links it remembers that, and as many before.
	mostBadges = 2000
	// mostGood is of how many links it knows that they are good.
	mostGood = 100_000
)

// badgesFound are what was found of links of badges lately, also that there are none: however many ask for one, Postgres is asked once.
type badgesFound struct {
	// tries bound how often it is asked, and asking how many ask at once. Neither is anything to tokens.
	tries  strangers
	asking *share
	mu     sync.Mutex
	// latest is begun anew when it is full, and is before then.
	latest, before map[badgeLink]*badgeFound
	// good are links that led to a badge when they were looked for last: however many others guess, they are looked for again.
	good map[badgeLink]struct{}
}

// badgeLink is the hash of a link's secret.
type badgeLink [sha256.Size]byte

// badgeFound is what was found of one link, once known is closed.
type badgeFound struct {
	known chan struct{}
	// until is when it counts no more; zero until it is known.
	until time.Time
	// image is nil where there is no such link.
	image []byte
	err   error
}

func newBadgesFound(rate, burst float64) *badgesFound {
	return &badgesFound{tries: newStrangers(rate, burst), asking: newShare(1, problem.ManyBadges), latest: map[badgeLink]*badgeFound{}, good: map[badgeLink]struct{}{}}
}

// of is the image of a link's badge; nil: there is none. look asks Postgres, for everybody who waits for the same link.
func (b *badgesFound) of(ctx context.Context, link badgeLink, address string, now time.Time, look func(context.Context) ([]byte, error)) ([]byte, error) {
	found, isNew, err := b.begin(link, address, now)
	if err != nil {
		return nil, err
	}
	if isNew {
		ctx := context.WithoutCancel(ctx)
		err := caught.Do(func() error {
			done, err := b.asking.begin(ctx, 0)
			if err != nil {
				return err
			}
			defer done()
			found.image, err = look(ctx)
			return err
		})
		b.end(link, found, now, err)
	}
	select {
	case <-found.known:
		return found.image, found.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// begin is what was found of a link, or is being looked for; isNew: it is for who asks to look, and takes of what its address may.
func (b *badgesFound) begin(link badgeLink, address string, now time.Time) (found *badgeFound, isNew bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found = b.latest[link]
	if found == nil {
		found = b.before[link]
	}
	if found != nil && (found.until.IsZero() || now.Before(found.until)) {
		return found, false, nil
	}
	if _, isGood := b.good[link]; !isGood {
		if wait := b.tries.take(address, now); wait > 0 {
			return nil, false, problem.TooMany(int(wait/time.Second) + 1)
		}
	}
	if len(b.latest) >= mostBadges {
		b.latest, b.before = map[badgeLink]*badgeFound{}, b.latest
	}
	found = &badgeFound{known: make(chan struct{})}
	b.latest[link] = found
	return found, true, nil
}

// end tells those who wait. A failure is told to them alone: the next one looks again.
func (b *badgesFound) end(link badgeLink, found *badgeFound, now time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil && found.image == nil:
		delete(b.good, link)
	case err == nil && len(b.good) < mostGood:
		b.good[link] = struct{}{}
	}
	found.err = err
	if found.until = now.Add(badgeKept); err != nil {
		found.until = now
	}
	close(found.known)
}
