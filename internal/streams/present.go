package streams

import (
	"context"
	"errors"
	"fmt"
	"github.com/echomind/sync/contract/topology"

	"github.com/nats-io/nats.go/jetstream"
)

// Present returns nil where every stream exists and answers; otherwise the error names the stream and what to do. It changes
// nothing.
func Present(ctx context.Context, js jetstream.JetStream) error {
	for _, want := range topology.Streams(0, 0, 0) {
		_, err := inspectStream(ctx, js, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("stream %s is missing; unless a service may make it again, run `echomind streams apply`", want.Name)
		}
		if err != nil {
			return fmt.Errorf("look at stream %s: %w", want.Name, err)
		}
	}
	return nil
}
