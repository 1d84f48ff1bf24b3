package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/deadline"
)

// ErrNoLetter says that there is no such dead letter (any more).
var ErrNoLetter = errors.New("no such dead letter")

// Letters is the stream of dead letters. Each is asked for by itself: however many there are, one at a time is in
// memory, and nothing is left behind in the broker.
type Letters struct {
	stream jetstream.Stream
	// Count is how many there were when the stream was opened, and Last the sequence of the latest: a caller that handles
	// all of them ends there, and does not chase those that come meanwhile.
	Count, Last uint64
	// MadeAt is when the stream was made: one that is made anew gives its numbers to other letters.
	MadeAt time.Time
}

// Letters opens the stream of dead letters. A stream that does not exist (yet) holds none.
func (b *Broker) Letters(ctx context.Context) (*Letters, error) {
	stream, err := deadline.Get(ctx, "broker.letters", queryTimeout, func(ctx context.Context) (jetstream.Stream, error) {
		return b.stream.Stream(ctx, topology.DeadLetterStream)
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return &Letters{}, nil
	}
	if err != nil {
		return nil, translate("ask for the stream of dead letters", err)
	}
	info := stream.CachedInfo()
	return &Letters{stream: stream, Count: info.State.Msgs, Last: info.State.LastSeq, MadeAt: info.Created}, nil
}

// Get returns the letter with a sequence. It returns ErrNoLetter where there is none.
func (l *Letters) Get(ctx context.Context, sequence uint64) (*jetstream.RawStreamMsg, error) {
	return l.get(ctx, sequence)
}

// Next returns the first letter at or after a sequence, of those whose subject matches. It returns ErrNoLetter after
// the last that there was when the stream was opened.
func (l *Letters) Next(ctx context.Context, sequence uint64, subject string) (*jetstream.RawStreamMsg, error) {
	letter, err := l.get(ctx, sequence, jetstream.WithGetMsgSubject(subject))
	if err == nil && letter.Sequence > l.Last {
		return nil, ErrNoLetter
	}
	return letter, err
}

func (l *Letters) get(ctx context.Context, sequence uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	if sequence > l.Last {
		return nil, ErrNoLetter
	}
	letter, err := deadline.Get(ctx, "broker.letter", queryTimeout,
		func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
			return l.stream.GetMsg(ctx, sequence, opts...)
		})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, ErrNoLetter
	}
	return letter, translate(fmt.Sprintf("ask for dead letter %d", sequence), err)
}

// Remove takes a letter out of the stream, for good. A letter that is gone already is no error.
func (l *Letters) Remove(ctx context.Context, sequence uint64) error {
	if sequence > l.Last {
		return nil
	}
	err := deadline.Do(ctx, "broker.remove_letter", queryTimeout,
		func(ctx context.Context) error { return l.stream.DeleteMsg(ctx, sequence) })
	if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) { // the client tells no reason that could be matched
		if _, asked := l.get(ctx, sequence); errors.Is(asked, ErrNoLetter) {
			return nil
		}
	}
	return translate(fmt.Sprintf("remove dead letter %d", sequence), err)
}
