package streams

import (
	"errors"
	"github.com/echomind/sync/contract/topology"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// received publishes a document message and receives it.
func (b *broker) received(msg *nats.Msg) jetstream.Msg {
	b.Helper()
	_, err := b.PublishMsg(b.Context(), msg)
	b.do(err)
	consumer, err := EnsureConsumer(b.Context(), b, topology.DocumentStream, topology.DocumentConsumer())
	b.do(err)
	got, err := consumer.Next(jetstream.FetchMaxWait(5 * time.Second))
	b.do(err)
	return got
}

func (b *broker) letter(sequence uint64) *jetstream.RawStreamMsg {
	b.Helper()
	stream, err := b.Stream(b.Context(), topology.DeadLetterStream)
	b.do(err)
	letter, err := stream.GetMsg(b.Context(), sequence)
	b.do(err)
	return letter
}

func document() *nats.Msg {
	msg := nats.NewMsg(topology.DocumentSubject)
	msg.Data = []byte{0xff, 0, 1}
	msg.Header.Set(topology.HeaderSession, "session-1")
	msg.Header.Set(topology.HeaderNumber, "7")
	msg.Header.Set("Baggage", "token=secret")
	return msg
}

func TestADeadLetterSaysWhyHowOftenAndWhere(t *testing.T) {
	b := newBroker(t).ensured()
	_, err := b.Publish(t.Context(), topology.DocumentSubject, []byte("before"))
	b.do(err)
	consumer, err := EnsureConsumer(t.Context(), b, topology.DocumentStream, topology.DocumentConsumer())
	b.do(err)
	before, err := consumer.Next(jetstream.FetchMaxWait(5 * time.Second))
	b.do(err)
	b.do(before.DoubleAck(t.Context()))

	b.do(b.received(document()).Nak())
	again, err := consumer.Next(jetstream.FetchMaxWait(5 * time.Second))
	b.do(err)
	arrived, err := again.Metadata()
	b.do(err)
	b.do(DeadLetter(t.Context(), b, again, errors.New("a\r\nEvil: header\x00 \xff"), 5))
	letter := b.letter(1)
	for header, want := range map[string]string{
		topology.HeaderTries: "5", topology.HeaderSession: "session-1", topology.HeaderNumber: "7", topology.HeaderSequence: "2", "Evil": "", "Baggage": "",
		topology.HeaderDeliveries: "2", topology.HeaderFirstAt: arrived.Timestamp.UTC().Format(time.RFC3339Nano),
	} {
		if got := letter.Header.Get(header); got != want {
			t.Errorf("%s is %q, want %q", header, got, want)
		}
	}
	if reason := letter.Header.Get(topology.HeaderReason); !strings.HasPrefix(reason, "a Evil: header") || !utf8.ValidString(reason) {
		t.Errorf("reason %q", reason)
	}
	if letter.Subject != "dlq.document.process" || string(letter.Data) != string([]byte{0xff, 0, 1}) {
		t.Errorf("letter %s %v", letter.Subject, letter.Data)
	}
}

func TestALongReasonIsCutBetweenCharacters(t *testing.T) {
	b := newBroker(t).ensured()
	b.do(DeadLetter(t.Context(), b, b.received(document()), errors.New("x"+strings.Repeat("ü", 5000)), 1))
	reason := b.letter(1).Header.Get(topology.HeaderReason)
	if len(reason) > 1000 || len(reason) < 990 || !utf8.ValidString(reason) {
		t.Errorf("the reason has %d bytes: %.20q", len(reason), reason)
	}
}

func TestTheServersOwnHeadersAreNotRepeated(t *testing.T) {
	b := newBroker(t).ensured()
	for i := range uint64(2) {
		msg := document()
		msg.Header.Set(nats.ExpectedStreamHdr, topology.DocumentStream)
		msg.Header.Set(nats.ExpectedLastSeqHdr, string('0'+rune(i)))
		received := b.received(msg)
		received.Headers().Set(nats.MsgIdHdr, "same") // a publisher may have set it
		b.do(DeadLetter(t.Context(), b, received, errors.New("poison"), 1))
		b.do(received.DoubleAck(t.Context()))
		if got := b.letter(i + 1).Header.Get(topology.HeaderReason); got != "poison" {
			t.Errorf("letter %d: reason %q", i+1, got)
		}
	}
}

func TestADeadLetterThatIsNotStoredIsAnError(t *testing.T) {
	b := newBroker(t).ensured()
	received := b.received(document())
	cfg := declared(topology.DeadLetterStream)
	cfg.MaxMsgSize = 1
	_, err := b.UpdateStream(t.Context(), cfg)
	b.do(err)
	if err := DeadLetter(t.Context(), b, received, errors.New("poison"), 1); err == nil {
		t.Error("a refused dead letter is no error")
	}
	b.do(b.DeleteStream(t.Context(), topology.DeadLetterStream))
	if err := DeadLetter(t.Context(), b, received, errors.New("poison"), 1); err == nil {
		t.Error("a dead letter without a stream is no error")
	}
}

func TestAFullStreamTakesALetterWithoutItsMessageAndThenNone(t *testing.T) {
	b := newBroker(t).ensured()
	config := topology.Streams(topology.DefaultMaxDocumentBytes, 4096, 0)[2]
	_, err := b.UpdateStream(t.Context(), config)
	b.do(err)
	big := document()
	big.Data = make([]byte, 2500)
	b.do(DeadLetter(t.Context(), b, b.received(big), errors.New("the first"), 5))
	b.do(DeadLetter(t.Context(), b, b.received(big), errors.New("the second"), 5))
	second := b.letter(2)
	if got := second.Header.Get(topology.HeaderCutFrom); got != "2500" || len(second.Data) > 0 {
		t.Errorf("cut from %q, with %d bytes left", got, len(second.Data))
	}
	if got := second.Header.Get(topology.HeaderReason); got != "the second" {
		t.Errorf("reason %q", got)
	}
	for range 10 {
		if err = DeadLetter(t.Context(), b, b.received(big), errors.New("one more"), 5); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrDeadLettersFull) {
		t.Errorf("a full stream says %v", err)
	}
}
