package connect

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/internal/config"
)

// onceTimeout bounds how long a person waits for NATS.
const onceTimeout = 3 * time.Second

// Once connects a person's command: it tries once. Its errors never contain the URL, which may hold a password. The caller
// closes the connection.
func Once(servers string, access config.NATSAccess) (*nats.Conn, jetstream.JetStream, error) {
	options, err := Access(access)
	if err != nil {
		return nil, nil, err
	}
	refused := &refusals{inbox: access.Inbox(servers)}
	conn, err := nats.Connect(servers, append(options, nats.Name("echomind"), nats.CustomInboxPrefix(refused.inbox), nats.Timeout(onceTimeout), nats.NoReconnect(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				refused.permissionRefused(err)
			}
		}))...)
	if err != nil {
		return nil, nil, unreadable("connect to NATS, as NATS_URL says", err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("use JetStream: %w", err)
	}
	return conn, stream{js, refused}, nil
}

// unreadable is a parse error without the URL, which may hold a password.
func unreadable(doing string, err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		return errors.New("NATS_URL is not a URL; it must start with nats:// or tls://")
	}
	return fmt.Errorf("%s: %w", doing, err)
}
