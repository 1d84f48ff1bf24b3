package streams

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/line"
	"github.com/echomind/sync/internal/secret"
)

const (
	// maxReasonBytes bounds the reason on a dead letter.
	maxReasonBytes = 1000
	// storedOverhead is more than the bytes that the server stores beside a message.
	storedOverhead = 256
	// headerRoom is reserved for a dead letter's own headers where the original has the size of a whole payload.
	headerRoom = 4096
)

// ErrDeadLettersFull says that the stream of dead letters has no room, not even for a letter without its message.
var ErrDeadLettersFull = errors.New("the stream of dead letters is full; look at it with `echomind dlq list` and make room with " +
	"`echomind dlq drop`")

// ours are the headers that a dead letter keeps even when it is cut.
var ours = map[string]bool{
	topology.HeaderSession: true, topology.HeaderTry: true, topology.HeaderNumber: true, topology.HeaderReason: true, topology.HeaderTries: true, topology.HeaderSequence: true,
	topology.HeaderDeliveries: true, topology.HeaderFirstAt: true,
}

// DeadLetter publishes a message to dlq.<its subject> with headers that say why it was given up, how often it was begun and
// delivered, and since when and where it was, and waits for the acknowledgement. The caller then acknowledges the original. A
// message that leaves no room for the headers is cut and loses its own headers: otherwise it would hold up its consumer for
// ever. Where the stream is full the letter is sent without the message, and where even that finds no room DeadLetter returns
// ErrDeadLettersFull: the caller goes on, because unread dead letters must not stop everybody's syncs.
func DeadLetter(ctx context.Context, js jetstream.JetStream, msg jetstream.Msg, why error, tries int) error {
	letter := nats.NewMsg("dlq." + msg.Subject())
	letter.Data = msg.Data()
	for key, values := range msg.Headers() {
		// The server's own headers were for the first publish; here they could have the letter refused or dropped. Baggage may
		// hold secrets of others.
		if name := strings.ToLower(key); name != "baggage" && !strings.HasPrefix(name, "nats-") {
			letter.Header[key] = values
		}
	}
	letter.Header.Set(topology.HeaderReason, line.Clip(secret.Text(why.Error()), maxReasonBytes-len("…")))
	letter.Header.Set(topology.HeaderTries, strconv.Itoa(tries))
	if meta, err := msg.Metadata(); err == nil {
		letter.Header.Set(topology.HeaderSequence, strconv.FormatUint(meta.Sequence.Stream, 10))
		letter.Header.Set(topology.HeaderDeliveries, strconv.FormatUint(meta.NumDelivered, 10))
		letter.Header.Set(topology.HeaderFirstAt, meta.Timestamp.UTC().Format(time.RFC3339Nano))
	}
	publish := func(ctx context.Context) error {
		_, err := js.PublishMsg(ctx, letter, jetstream.WithRetryAttempts(0))
		return err
	}
	err := deadline.Do(ctx, "streams.dead_letter", queryTimeout, publish)
	if errors.Is(err, nats.ErrMaxPayload) {
		cut(letter, max(0, int(js.Conn().MaxPayload())-headerRoom))
		err = deadline.Do(ctx, "streams.dead_letter", queryTimeout, publish)
	}
	if err != nil && noRoom(ctx, js, letter) {
		cut(letter, 0)
		err = deadline.Do(ctx, "streams.dead_letter", queryTimeout, publish)
		if err != nil && noRoom(ctx, js, letter) {
			err = ErrDeadLettersFull
		}
	}
	if err != nil {
		return fmt.Errorf("publish a dead letter: %w", err)
	}
	return nil
}

// cut leaves a letter the first bytes of its message, and our own headers.
func cut(letter *nats.Msg, most int) {
	for key := range letter.Header {
		if !ours[key] && key != topology.HeaderCutFrom {
			letter.Header.Del(key)
		}
	}
	if letter.Header.Get(topology.HeaderCutFrom) == "" {
		letter.Header.Set(topology.HeaderCutFrom, strconv.Itoa(len(letter.Data)))
	}
	letter.Data = letter.Data[:min(len(letter.Data), most)]
}

// noRoom says whether the stream's own limits leave no room for a letter. The server's error says so only in its text.
func noRoom(ctx context.Context, js jetstream.JetStream, letter *nats.Msg) bool {
	stream, err := deadline.Get(ctx, "streams.dead_letter_room", queryTimeout,
		func(ctx context.Context) (jetstream.Stream, error) { return js.Stream(ctx, topology.DeadLetterStream) })
	if err != nil {
		return false
	}
	info := stream.CachedInfo()
	most, held := info.Config.MaxBytes, int64(info.State.Bytes)
	return most > 0 && held+int64(letter.Size())+storedOverhead > most ||
		info.Config.MaxMsgs > 0 && int64(info.State.Msgs) >= info.Config.MaxMsgs
}
