package topology

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/sdk/deadline"
)

const (
	// maxReasonBytes bounds the reason on a dead letter.
	maxReasonBytes = 1000
	// headerRoom is kept free for a dead letter's own headers where the original fills a whole payload.
	headerRoom = 4096
)

// ours are the headers that a dead letter keeps even when it is cut.
var ours = map[string]bool{
	HeaderSession: true, HeaderNumber: true, HeaderReason: true, HeaderTries: true, HeaderSequence: true,
	HeaderDeliveries: true, HeaderFirstAt: true,
}

// DeadLetter publishes a message to dlq.<its subject> with headers that say why it was given up, how often it was
// begun and delivered, and since when and where it was, and waits for the acknowledgement. The caller acknowledges
// the original afterwards. One that leaves no room for the headers is cut, and loses its own: else it would hold up
// its consumer for ever.
func DeadLetter(ctx context.Context, js jetstream.JetStream, msg jetstream.Msg, why error, tries int) error {
	letter := nats.NewMsg("dlq." + msg.Subject())
	letter.Data = msg.Data()
	for key, values := range msg.Headers() {
		// The server's own headers were for the first publish; here they could have this one refused or swallowed.
		if !strings.HasPrefix(strings.ToLower(key), "nats-") {
			letter.Header[key] = values
		}
	}
	reason := strings.Join(strings.Fields(strings.ToValidUTF8(why.Error(), "\uFFFD")), " ")
	if len(reason) > maxReasonBytes {
		reason = strings.ToValidUTF8(reason[:maxReasonBytes], "")
	}
	letter.Header.Set(HeaderReason, reason)
	letter.Header.Set(HeaderTries, strconv.Itoa(tries))
	if meta, err := msg.Metadata(); err == nil {
		letter.Header.Set(HeaderSequence, strconv.FormatUint(meta.Sequence.Stream, 10))
		letter.Header.Set(HeaderDeliveries, strconv.FormatUint(meta.NumDelivered, 10))
		letter.Header.Set(HeaderFirstAt, meta.Timestamp.UTC().Format(time.RFC3339Nano))
	}
	publish := func(ctx context.Context) error {
		_, err := js.PublishMsg(ctx, letter, jetstream.WithRetryAttempts(0))
		return err
	}
	err := deadline.Do(ctx, "topology.dead_letter", queryTimeout, publish)
	if errors.Is(err, nats.ErrMaxPayload) {
		for key := range msg.Headers() {
			if !ours[key] {
				letter.Header.Del(key)
			}
		}
		letter.Header.Set(HeaderCutFrom, strconv.Itoa(len(letter.Data)))
		letter.Data = letter.Data[:min(len(letter.Data), max(0, int(js.Conn().MaxPayload())-headerRoom))]
		err = deadline.Do(ctx, "topology.dead_letter", queryTimeout, publish)
	}
	if err != nil {
		return fmt.Errorf("publish a dead letter: %w", err)
	}
	return nil
}

// DispatchedAt reads the dispatch time that a trigger carries.
func DispatchedAt(headers nats.Header) (time.Time, error) {
	value := headers.Get(HeaderDispatchedAt)
	at, err := time.Parse(time.RFC3339Nano, value)
	if err != nil {
		return time.Time{}, fmt.Errorf("header %s %q: %w", HeaderDispatchedAt, value, err)
	}
	return at, nil
}
