package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/echomind/sync/internal/devstack/loopback"
)

const (
	qdrantKey = "chaos"
	// scrollPage is how many points are read at once.
	scrollPage = 1000
)

// ErrMissing says that Qdrant has no such collection.
var ErrMissing = errors.New("there is no such collection")

// Qdrant is semantic's stand-in for one, in a process of its own. It keeps everything in memory: killed, it comes back
// empty.
type Qdrant struct {
	server
	port int
}

func newQdrant(path string, log io.Writer) (*Qdrant, error) {
	port, err := loopback.Port(0)
	if err != nil {
		return nil, fmt.Errorf("find a port for Qdrant: %w", err)
	}
	env := []string{
		"QDRANT__SERVICE__GRPC_PORT=" + strconv.Itoa(port), "QDRANT__SERVICE__HTTP_PORT=0", "QDRANT__SERVICE__API_KEY=" + qdrantKey,
	}
	return &Qdrant{server: server{name: "qdrant", path: path, env: env, log: log}, port: port}, nil
}

// Start starts the server and returns when it answers.
func (q *Qdrant) Start(ctx context.Context) error {
	return q.start(ctx, func(ctx context.Context) error {
		return q.ask(ctx, func(ctx context.Context, c *qdrant.Client) error {
			_, err := c.HealthCheck(ctx)
			return err
		})
	})
}

// told is what a program needs to know in order to use it.
func (q *Qdrant) told() []string {
	return []string{"QDRANT_URL=http://" + loopback.Address(q.port), "QDRANT_API_KEY=" + qdrantKey}
}

func (q *Qdrant) ask(ctx context.Context, call func(context.Context, *qdrant.Client) error) error {
	client, err := qdrant.NewClient(&qdrant.Config{Host: "127.0.0.1", Port: q.port, PoolSize: 1, SkipCompatibilityCheck: true, KeepAliveTime: -1})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	err = call(metadata.AppendToOutgoingContext(ctx, "api-key", qdrantKey), client)
	if status.Code(err) == codes.NotFound {
		return ErrMissing
	}
	return err
}

// Look returns ErrMissing where there is no such collection.
func (q *Qdrant) Look(ctx context.Context, collection string) error {
	return q.ask(ctx, func(ctx context.Context, c *qdrant.Client) error {
		_, err := c.GetCollectionInfo(ctx, collection)
		return err
	})
}

// Each calls a function with these fields of every point of a collection.
func (q *Qdrant) Each(ctx context.Context, collection string, call func(map[string]*qdrant.Value), fields ...string) error {
	return q.ask(ctx, func(ctx context.Context, c *qdrant.Client) error {
		request := &qdrant.ScrollPoints{CollectionName: collection, Limit: new(uint32(scrollPage)), WithPayload: qdrant.NewWithPayloadInclude(fields...)}
		for {
			points, next, err := c.ScrollAndOffset(ctx, request)
			if err != nil {
				return err
			}
			for _, p := range points {
				call(p.GetPayload())
			}
			if request.Offset = next; next == nil {
				return nil
			}
		}
	})
}
