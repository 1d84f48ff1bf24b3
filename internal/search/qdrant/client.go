// Package qdrant keeps points in a collection of Qdrant, through Qdrant's own Go client.
package qdrant

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/deadline"
)

const (
	// callTimeout bounds one call with its answer; createTimeout bounds the creation of a collection, on all peers of a cluster.
	callTimeout, createTimeout = 10 * time.Second, 60 * time.Second
	// maxMessage bounds a request and an answer, in bytes, and maxHeaders their headers, which carry an error's text.
	maxMessage, maxHeaders = 16 << 20, 64 << 10
	// maxReason is how much of an error's text is passed on, in bytes.
	maxReason = 300
	// defaultPort is the port of Qdrant's gRPC API.
	defaultPort = 6334
)

// ErrMissing says that Qdrant reports no such collection.
var ErrMissing = errors.New("the collection does not exist")

// Client talks to one Qdrant. It is safe for concurrent use. It asks once: callers repeat. It holds no connection between calls:
// after an outage no call waits for a backoff, and nothing needs to be closed.
type Client struct {
	at  qdrant.Config
	key string
}

// New makes a client for a checked configuration; it connects to nothing.
func New(cfg config.Qdrant) *Client {
	c := &Client{key: cfg.APIKey, at: qdrant.Config{
		// Its own look at the server's version has no deadline.
		Port: defaultPort, PoolSize: 1, KeepAliveTime: -1, SkipCompatibilityCheck: true,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		GrpcOptions: []grpc.DialOption{
			grpc.WithDisableServiceConfig(), grpc.WithMaxHeaderListSize(maxHeaders),
			grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(maxMessage), grpc.MaxCallRecvMsgSize(maxMessage)),
		},
	}}
	if u, err := url.Parse(cfg.URL); err == nil {
		c.at.Host, c.at.UseTLS = strings.TrimSuffix(u.Host, ":"+u.Port()), u.Scheme == "https"
		if port, err := strconv.Atoi(u.Port()); err == nil {
			c.at.Port = port
		}
	}
	return c
}

// call makes one call within a deadline of that name. Its errors name the collection and never the key.
func (c *Client) call(
	ctx context.Context, operation, collection string, after time.Duration, call func(context.Context, *qdrant.Client) error,
) error {
	err := deadline.Do(ctx, "qdrant."+operation, after, func(ctx context.Context) error {
		client, err := qdrant.NewClient(&c.at)
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		if c.key != "" { // the client's own setting for it logs a warning without TLS
			ctx = metadata.AppendToOutgoingContext(ctx, "api-key", c.key)
		}
		return translate(call(ctx, client))
	})
	if err != nil {
		return fmt.Errorf("qdrant: %s %s: %w", operation, collection, err)
	}
	return nil
}

// translate turns a gRPC status into an error.
func translate(err error) error {
	var answer interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &answer) {
		return err
	}
	said := answer.GRPCStatus()
	reason := strings.ToValidUTF8(said.Message()[:min(len(said.Message()), maxReason)], "")
	switch said.Code() {
	case codes.NotFound:
		return fmt.Errorf("%w: %q", ErrMissing, reason)
	case codes.Unauthenticated, codes.PermissionDenied:
		return fmt.Errorf("%s: check QDRANT_API_KEY; it said %q", said.Code(), reason)
	case codes.Canceled:
		return fmt.Errorf("%w: %q", context.Canceled, reason)
	case codes.DeadlineExceeded:
		return fmt.Errorf("%w: %q", context.DeadlineExceeded, reason)
	default:
		return fmt.Errorf("%s: %q", said.Code(), reason)
	}
}
