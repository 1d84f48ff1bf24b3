package topology

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/sdk/deadline"
)

// maxReasonBytes bounds the reason on a dead letter.
const maxReasonBytes = 1000

// DeadLetter publishes a message to dlq.<its subject> with headers that say why it was given up, how often it was
// begun, and where it was, and waits for the acknowledgement. The caller acknowledges the original afterwards.
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
	}
	err := deadline.Do(ctx, "topology.dead_letter", queryTimeout, func(ctx context.Context) error {
		_, err := js.PublishMsg(ctx, letter, jetstream.WithRetryAttempts(0))
		return err
	})
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
