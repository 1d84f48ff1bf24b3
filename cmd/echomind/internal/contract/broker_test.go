package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/testonly/testkit"
)

// broker is what a subscriber has of NATS: a connection, and nothing of ours but the messages.
type broker struct {
	*testing.T
	js       jetstream.JetStream
	consumer jetstream.Consumer
	last     jetstream.Msg // not acknowledged yet
}

func newBroker(t *testing.T, url string) *broker {
	t.Helper()
	js := testkit.JetStream(t, url)
	return &broker{T: t, js: js}
}

// makeConsumer makes the durable consumer, with what the document says of it.
func (b *broker) makeConsumer(stream, name, subject string) {
	b.Helper()
	var err error
	b.consumer, err = b.js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Durable: name, FilterSubject: subject, AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverAllPolicy,
		AckWait: 15 * time.Second, MaxDeliver: -1, MaxAckPending: -1, MaxWaiting: 512,
	})
	require.NoError(b, err)
}

// next waits for a trigger.
func (b *broker) next() *internalpb.ConnectorSyncRequest {
	b.Helper()
	msg, err := b.consumer.Next(jetstream.FetchMaxWait(soon))
	require.NoError(b, err)
	request := &internalpb.ConnectorSyncRequest{}
	require.NoError(b, proto.Unmarshal(msg.Data(), request))
	require.Equal(b, msg.Headers().Get("Echomind-Session"), request.ChunkingSession)
	b.last = msg
	return request
}

func (b *broker) ack() {
	b.Helper()
	require.NoError(b, b.last.DoubleAck(ctx))
}

// publish sends a document.process message, which is written in protobuf's JSON, and returns its place in the stream.
func (b *broker) publish(headers map[string]string, body string) (seq uint64) {
	b.Helper()
	request := &internalpb.DocumentProcessRequest{}
	require.NoError(b, protojson.Unmarshal([]byte(body), request), body)
	data, err := proto.Marshal(request)
	require.NoError(b, err)
	msg := nats.NewMsg("document.process")
	msg.Data = data
	for name, value := range headers {
		msg.Header.Set(name, value)
	}
	ack, err := b.js.PublishMsg(ctx, msg)
	require.NoError(b, err)
	return ack.Sequence
}

// empties waits until everything in a stream is acknowledged.
func (b *broker) empties(stream string) {
	b.Helper()
	testkit.Eventually(b, soon, func() error {
		s, err := b.js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		if n := s.CachedInfo().State.Msgs; n > 0 {
			return fmt.Errorf("%d messages are in %s", n, stream)
		}
		return nil
	})
}

// envelope puts what each message of a try carries before the body of one.
func envelope(connector, session, try, configVersion string, number int64, body string) (headers map[string]string, message string, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &fields); err != nil {
		return nil, "", fmt.Errorf("%s: %w", body, err)
	}
	for name, value := range map[string]string{
		"connectorId": connector, "chunkingSession": strconv.Quote(session), "try": strconv.Quote(try), "configVersion": configVersion,
		"number": strconv.FormatInt(number, 10),
	} {
		if _, has := fields[name]; has {
			return nil, "", errors.New(name + " is part of the envelope")
		}
		fields[name] = json.RawMessage(value)
	}
	all, err := json.Marshal(fields)
	return map[string]string{
		"Echomind-Session": session, "Echomind-Try": try, "Echomind-Number": strconv.FormatInt(number, 10), "Echomind-Type": "shelf",
	}, string(all), err
}

// words are the words of a line, the first of them apart.
func words(line string) (first string, rest []string) {
	all := strings.Fields(line)
	if len(all) == 0 {
		return "", nil
	}
	return all[0], all[1:]
}
