package fault

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/echomind/sync/contract/topology"
)

// taped bounds how many messages a tape keeps, and remembered how many of the last.
const (
	taped      = 5000
	remembered = 100
)

// headerReplayed marks what a tape has said.
const headerReplayed = "Chaos-Replayed"

// Tape records what is published, so that it can be said again.
type Tape struct {
	mu       sync.Mutex
	messages []*nats.Msg
	// recent are the last ones, in the order in which they were said.
	recent []*nats.Msg
	seen   int
	rng    *rand.Rand
}

// NewTape makes an empty tape.
func NewTape(seed uint64) *Tape { return &Tape{rng: rand.New(rand.NewPCG(seed, 1))} }

// Record keeps a sample of everything that has been said so far.
func (t *Tape) Record(msg *nats.Msg) {
	if msg.Header.Get(headerReplayed) != "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen++
	t.recent = append(t.recent[max(0, len(t.recent)+1-remembered):], msg)
	if len(t.messages) < taped {
		t.messages = append(t.messages, msg)
	} else if at := t.rng.IntN(t.seen); at < taped {
		t.messages[at] = msg
	}
}

// Recent returns up to n of the last messages.
func (t *Tape) Recent(n int) []*nats.Msg {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.recent[max(0, len(t.recent)-n):])
}

// Sample returns up to n messages in random order.
func (t *Tape) Sample(n int, rng *rand.Rand) []*nats.Msg {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*nats.Msg
	for _, i := range rng.Perm(len(t.messages))[:min(n, len(t.messages))] {
		out = append(out, t.messages[i])
	}
	return out
}

// Said says whether the harness has published a message itself: again, or forged.
func Said(msg *nats.Msg) bool {
	return msg.Header.Get(headerReplayed) != "" || msg.Header.Get(HeaderForged) != ""
}

// Replay says messages again, exactly as they were but for one header.
func (f *Field) Replay(ctx context.Context, n int) error {
	for _, msg := range f.Tape.Sample(n, f.Rand) {
		again := nats.NewMsg(msg.Subject)
		again.Data = msg.Data
		for key, values := range msg.Header {
			again.Header[key] = values
		}
		again.Header.Set(headerReplayed, "1")
		if _, err := f.World.Stream.PublishMsg(ctx, again); err != nil && !errors.Is(err, nats.ErrNoResponders) && ctx.Err() == nil {
			f.Log.Debug("a replay was not taken", "err", err)
		}
	}
	return nil
}

// Noise says what nobody can read.
func (f *Field) Noise(ctx context.Context) {
	for _, subject := range []string{topology.DocumentSubject, "connector.sync.synthetic", "connector.sync.web"} {
		noise := sha256.Sum256([]byte(fmt.Sprint(f.Rand.Uint64())))
		noise[0] |= 7 // no wire type has these bits: no decoder reads it
		if _, err := f.World.Stream.Publish(ctx, subject, noise[:]); err != nil {
			f.Log.Debug("noise was not taken", "err", err)
		}
	}
}

func messages() []Fault {
	return []Fault{
		{Name: "messages repeated and out of order", Inject: func(ctx context.Context, f *Field) error {
			for range 5 {
				if err := f.Replay(ctx, 100); err != nil {
					return err
				}
				sleep(ctx, f.short()/2)
			}
			return nil
		}},
		{Name: "messages that cannot be read", Inject: func(ctx context.Context, f *Field) error {
			f.Noise(ctx)
			return nil
		}},
	}
}
