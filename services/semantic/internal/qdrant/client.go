// Package qdrant keeps points in a collection of Qdrant, by its makers' client.
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
	// callTimeout bounds one call with its answer; one that makes a collection, on all peers of a cluster, has longer.
	callTimeout, createTimeout = 10 * time.Second, 60 * time.Second
	// maxMessage bounds a request and an answer, in bytes, and maxHeaders what stands around it, an error's text too.
	maxMessage, maxHeaders = 16 << 20, 64 << 10
	// maxReason is how much of what Qdrant says about an error is passed on, in bytes.
	maxReason = 300
	// defaultPort is that of its gRPC API.
	defaultPort = 6334
)

// ErrMissing says that the collection is not there, by Qdrant's own word.
var ErrMissing = errors.New("the collection does not exist")

// Client talks to one Qdrant. It is safe for concurrent use and asks once: callers repeat. It holds no connection between
// calls, so that after an outage none waits for a backoff, and none needs to be closed.
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

// call makes one call, within a deadline of that name. Its errors name the collection and never the key.
func (c *Client) call(
	ctx context.Context, operation, collection string, after time.Duration, call func(context.Context, *qdrant.Client) error,
) error {
	err := deadline.Do(ctx, "qdrant."+operation, after, func(ctx context.Context) error {
		client, err := qdrant.NewClient(&c.at)
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		if c.key != "" { // not by its own setting, which logs where there is no TLS
			ctx = metadata.AppendToOutgoingContext(ctx, "api-key", c.key)
		}
		return meaning(call(ctx, client))
	})
	if err != nil {
		return fmt.Errorf("qdrant: %s %s: %w", operation, collection, err)
	}
	return nil
}

// meaning is what an answer other than OK says.
func meaning(err error) error {
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
