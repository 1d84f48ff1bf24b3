package streams

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/deadline"
)

// Size is how large the streams may grow and on how many servers they are kept. A zero field leaves a stream unchanged, or
// means the default for a new stream.
type Size struct {
	// MaxDocumentBytes, MaxDeadLetterBytes and MaxEventBytes bound the large streams, in bytes of each replica.
	MaxDocumentBytes, MaxDeadLetterBytes, MaxEventBytes int64
	// Replicas is the number of servers of a cluster that keep each stream: 1, 3 or 5.
	Replicas int
}

// Apply changes the streams to their declarations, with a user who may do that. It is safe to repeat, and to run twice at the
// same time. It returns ErrMisconfigured for a setting that would lose work and cannot be changed in place: retention and
// storage. Settings that the declaration does not name stay as their operator set them.
func Apply(ctx context.Context, js jetstream.JetStream, size Size) error {
	for _, want := range topology.Streams(size.MaxDocumentBytes, size.MaxDeadLetterBytes, size.MaxEventBytes) {
		want.Replicas = size.Replicas
		if err := apply(ctx, js, want); err != nil {
			return fmt.Errorf("apply stream %s: %w", want.Name, err)
		}
	}
	return nil
}

func apply(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	info, err := inspectStream(ctx, js, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		created := withDefaults(want)
		err = deadline.Do(ctx, "streams.create_stream", queryTimeout, func(ctx context.Context) error {
			_, err := js.CreateStream(ctx, created)
			return err
		})
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return err
		}
		info, err = inspectStream(ctx, js, want.Name) // another process made it at the same time
	}
	if err != nil {
		return err
	}
	have := info.Config
	if have.Retention != want.Retention || have.Storage != want.Storage {
		return fmt.Errorf("%w: retention is %s and storage %s, must be %s and %s; neither can be changed: move what it holds, delete it and apply again",
			ErrMisconfigured, have.Retention, have.Storage, want.Retention, want.Storage)
	}
	changed := have
	changed.Description, changed.Subjects, changed.Discard, changed.RePublish = want.Description, want.Subjects, want.Discard, want.RePublish
	changed.NoAck, changed.PersistMode = false, jetstream.DefaultPersistMode
	if want.Retention == jetstream.WorkQueuePolicy {
		changed.MaxAge, changed.MaxMsgsPerSubject = 0, -1
	}
	if want.MaxBytes > 0 {
		changed.MaxBytes = want.MaxBytes
	}
	if want.MaxMsgSize > 0 {
		changed.MaxMsgSize = want.MaxMsgSize
	}
	if want.Name == topology.EventStream && changed.MaxAge == 0 {
		changed.MaxAge = want.MaxAge // nobody acknowledges them
	}
	if want.Replicas > 0 {
		changed.Replicas = want.Replicas
	}
	if reflect.DeepEqual(changed, have) {
		return nil
	}
	return deadline.Do(ctx, "streams.update_stream", queryTimeout, func(ctx context.Context) error {
		_, err := js.UpdateStream(ctx, changed)
		return err
	})
}

func withDefaults(want jetstream.StreamConfig) jetstream.StreamConfig {
	for _, usual := range topology.Streams(topology.DefaultMaxDocumentBytes, topology.DefaultMaxDeadLetterBytes, topology.DefaultMaxEventBytes) {
		if usual.Name == want.Name && want.MaxBytes == 0 {
			want.MaxBytes = usual.MaxBytes
		}
	}
	want.Replicas = max(want.Replicas, 1)
	return want
}

func inspectStream(ctx context.Context, js jetstream.JetStream, name string) (*jetstream.StreamInfo, error) {
	return deadline.Get(ctx, "streams.stream", queryTimeout, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return nil, err
		}
		return stream.CachedInfo(), nil
	})
}

// State is the state of a stream, with warnings about its durability.
type State struct {
	Info     *jetstream.StreamInfo
	Warnings []string
}

// Inspect inspects every stream. A missing stream has no Info and one warning.
func Inspect(ctx context.Context, js jetstream.JetStream) (map[string]State, error) {
	all := map[string]State{}
	for _, want := range topology.Streams(topology.DefaultMaxDocumentBytes, topology.DefaultMaxDeadLetterBytes, topology.DefaultMaxEventBytes) {
		info, err := inspectStream(ctx, js, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			all[want.Name] = State{Warnings: []string{"it does not exist; run `echomind streams apply`"}}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look at stream %s: %w", want.Name, err)
		}
		all[want.Name] = State{info, weaknesses(info, want)}
	}
	return all, nil
}

// weaknesses are settings that make a stream less durable than it looks. None of them breaks a promise: what the broker loses
// is published or fetched again. Clients cannot see how often the server syncs its files to disk (sync_interval); docs/nats.md
// says what to set.
func weaknesses(info *jetstream.StreamInfo, want jetstream.StreamConfig) (found []string) {
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	have := info.Config
	if err := check(have, want); err != nil {
		say("%v", err)
	}
	switch {
	case have.Replicas >= 2:
	case want.Name == topology.EventStream:
		say("replicas is 1: a lost volume loses the events that nobody has read yet; set 3 in a cluster")
	default:
		say("replicas is 1: a lost volume loses what is queued, until it is published or fetched again; set 3 in a cluster")
	}
	if have.Storage == jetstream.MemoryStorage {
		say("storage is memory: a restart of the server loses what is queued; it can only be made anew, with file storage")
	}
	if have.PersistMode == jetstream.AsyncPersistMode {
		say("persist_mode is async: what was acknowledged may be lost; set default")
	}
	if want.Name == topology.DeadLetterStream && (have.MaxAge > 0 || have.MaxMsgsPerSubject > 0) {
		say("max_age is %s and max_msgs_per_subject %d: dead letters go before anybody has read them; set 0 and -1", have.MaxAge, have.MaxMsgsPerSubject)
	}
	if info.Cluster != nil && info.Cluster.Leader == "" {
		say("it has no leader: it takes and gives nothing now")
	}
	return found
}
