// Package ceiling measures what the servers do at best when they are asked for nothing but one part of a dispatch, and
// what the obvious loop makes of them.
package ceiling

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	stream  = "CEILING"
	subject = "ceiling.sync"
	// messageBytes is about the size of a trigger.
	messageBytes = 250
)

// Publisher publishes to a stream of the kind that triggers have: a work queue in files.
type Publisher struct {
	conn   *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	data   []byte
}

// NewPublisher connects to a server and makes the stream.
func NewPublisher(ctx context.Context, url string) (*Publisher, error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	p := &Publisher{conn: conn, data: bytes.Repeat([]byte("x"), messageBytes)}
	p.js, err = jetstream.New(conn)
	if err == nil {
		p.stream, err = p.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: stream, Subjects: []string{subject}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
		})
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("make the stream: %w", err)
	}
	return p, nil
}

// Close ends the connection.
func (p *Publisher) Close() { p.conn.Close() }

// Rate publishes n messages, many in flight, and returns how many were acknowledged a second.
func (p *Publisher) Rate(ctx context.Context, n int) (float64, error) {
	if err := p.stream.Purge(ctx); err != nil {
		return 0, fmt.Errorf("purge the stream: %w", err)
	}
	futures := make([]jetstream.PubAckFuture, n)
	began := time.Now()
	for i := range futures {
		var err error
		if futures[i], err = p.js.PublishAsync(subject, p.data); err != nil {
			return 0, fmt.Errorf("publish: %w", err)
		}
	}
	for _, future := range futures {
		select {
		case <-future.Ok():
		case err := <-future.Err():
			return 0, fmt.Errorf("publish: %w", err)
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	took := time.Since(began).Seconds()
	info, err := p.stream.Info(ctx)
	if err == nil && info.State.Msgs != uint64(n) {
		err = fmt.Errorf("%d messages were acknowledged, and %d are in the stream", n, info.State.Msgs)
	}
	if err == nil {
		err = p.stream.Purge(ctx)
	}
	return float64(n) / took, err
}

// one publishes a message and waits for its acknowledgement.
func (p *Publisher) one(ctx context.Context) error {
	_, err := p.js.Publish(ctx, subject, p.data)
	return err
}

var errTooFew = errors.New("fewer were claimed than are due")
