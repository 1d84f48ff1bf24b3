package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/deadline"
)

const (
	// natsConnectTimeout bounds each attempt to connect, from dialling to the server's answer.
	natsConnectTimeout = 2 * time.Second
	// natsPing is the interval of pings; after two without an answer the connection is given up, 6 s after the server stopped
	// answering.
	natsPing = 2 * time.Second
	// natsWriteTimeout bounds a write to a server that does not read any more. While it lasts every use of the connection
	// waits, so that a publish may take so much longer than its own deadline. The driver's default is a minute.
	natsWriteTimeout = 3 * time.Second
	// drainTimeout bounds the sending of the last acknowledgements.
	drainTimeout = 2 * time.Second
	// publishTimeout forgets an asynchronous publish whose acknowledgement was lost; else it would count as pending
	// for ever.
	publishTimeout = 10 * time.Second
)

func openNATS(cfg config.Common, service string, way *line, refused *refusals, log *slog.Logger) (*nats.Conn, error) {
	access, err := Access(cfg.NATSAccess)
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect(cfg.NATSURL, append(access,
		nats.Name("echomind-"+service), nats.CustomInboxPrefix(refused.inbox),
		// A refused user may be corrected on either side: the driver would give up at the second refusal.
		nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(500*time.Millisecond), nats.ReconnectJitter(200*time.Millisecond, 500*time.Millisecond),
		nats.Timeout(deadline.Of(natsConnectTimeout)), nats.SetCustomDialer(way),
		nats.PingInterval(natsPing), nats.MaxPingsOutstanding(2),
		nats.FlusherTimeout(natsWriteTimeout), nats.ReconnectOnFlusherError(),
		// Nothing is buffered while NATS is away: a publish fails at once, and its caller repeats it.
		nats.ReconnectBufSize(-1),
		nats.DrainTimeout(drainTimeout),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("NATS is away; work waits until it is back", "err", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			refused.connected()
			log.Info("NATS is back")
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			if refused.connectFailed(err) {
				log.Warn("NATS cannot be reached, or does not let this program in; it tries again", "err", err)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) && refused.permissionRefused(err) {
				return // the request's own error says more
			}
			level := slog.LevelDebug
			if errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, nats.ErrAuthorization) {
				level = slog.LevelWarn // a person must correct the user or its rights
			}
			log.Log(context.Background(), level, "NATS reports", "err", err)
		}),
	)...)
	if err != nil {
		return nil, unreadable("read NATS_URL", err)
	}
	return conn, nil
}

// closeNATS sends the last acknowledgements and closes the connection. Where the server does not answer, the driver would wait
// for it in several places, one after the other: then the socket is cut.
func (s *Servers) closeNATS() error {
	var drained error
	err := closeWithin("connect.close_nats", drainTimeout+time.Second, func() {
		closed := make(chan struct{})
		s.NATS.SetClosedHandler(func(*nats.Conn) { close(closed) })
		if drained = s.NATS.Drain(); drained == nil {
			<-closed
		}
		s.NATS.Close()
	})
	if err != nil {
		s.log.Warn("NATS did not take the last acknowledgements; what they are for is delivered again", "err", err)
		s.line.cut()
		s.NATS.Close()
		return nil
	}
	if errors.Is(drained, nats.ErrConnectionClosed) || errors.Is(drained, nats.ErrConnectionReconnecting) {
		return nil // nothing was left to send
	}
	return drained
}

// closeWithin bounds a close that has no timeout of its own.
func closeWithin(name string, after time.Duration, work func()) error {
	done := make(chan struct{})
	go func() { defer close(done); work() }()
	select {
	case <-done:
		return nil
	case <-time.After(after):
		return &deadline.Error{Name: name, After: after}
	}
}

// line dials for a NATS connection, and can cut the sockets that it has dialled.
type line struct {
	mu    sync.Mutex
	conn  net.Conn
	isCut bool
}

func (l *line) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline.Of(natsConnectTimeout))
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	l.conn = conn
	return conn, nil
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	if l.conn != nil {
		_ = l.conn.Close()
	}
}

// ErrAway says that NATS cannot be reached now. It is a wait.
var ErrAway = errors.New("NATS is away")

// away translates the driver's misleading errors. While a connection without a buffer is being made again, the driver says that
// a buffer is full; of a server without JetStream, that nobody responds.
func away(err error) error {
	switch {
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return ErrAway
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("NATS answers, but its JetStream does not; unless it is starting, run nats-server with -js: %w", err)
	}
	return err
}

// stream is JetStream with errors in our words.
type stream struct {
	jetstream.JetStream
	refused *refusals
}

func (s stream) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	return request(ctx, s.refused, api+"STREAM.INFO."+name, func(ctx context.Context) (jetstream.Stream, error) {
		return s.JetStream.Stream(ctx, name)
	})
}

func (s stream) CreateStream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	return request(ctx, s.refused, api+"STREAM.CREATE."+cfg.Name, func(ctx context.Context) (jetstream.Stream, error) {
		return s.JetStream.CreateStream(ctx, cfg)
	})
}

func (s stream) UpdateStream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	return request(ctx, s.refused, api+"STREAM.UPDATE."+cfg.Name, func(ctx context.Context) (jetstream.Stream, error) {
		return s.JetStream.UpdateStream(ctx, cfg)
	})
}

func (s stream) AccountInfo(ctx context.Context) (*jetstream.AccountInfo, error) {
	return request(ctx, s.refused, api+"INFO", s.JetStream.AccountInfo)
}

func (s stream) CreateOrUpdateConsumer(
	ctx context.Context, name string, cfg jetstream.ConsumerConfig,
) (jetstream.Consumer, error) {
	subject := api + "CONSUMER.CREATE." + name + "." + cfg.Durable + "." + cfg.FilterSubject
	return request(ctx, s.refused, subject, func(ctx context.Context) (jetstream.Consumer, error) {
		return s.JetStream.CreateOrUpdateConsumer(ctx, name, cfg)
	})
}

func (s stream) PublishMsg(
	ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt,
) (*jetstream.PubAck, error) {
	return request(ctx, s.refused, msg.Subject, func(ctx context.Context) (*jetstream.PubAck, error) {
		return s.JetStream.PublishMsg(ctx, msg, opts...)
	})
}

func (s stream) PublishMsgAsync(msg *nats.Msg, opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	future, err := s.JetStream.PublishMsgAsync(msg, opts...)
	return future, away(err)
}
