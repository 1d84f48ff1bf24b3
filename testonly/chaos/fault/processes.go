package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/testonly/chaos/world"
)

const (
	// armedFor is how long a fail point waits for somebody to come by.
	armedFor = 45 * time.Second
	// freeze is longer than a lease, an acknowledgement's wait, and the scheduler's own leadership.
	freeze = 16 * time.Second
)

// points are the named lines on which processes die. A message that is to be on its way needs a moment to get there.
// What nobody does of his own accord is provoked.
var points = []struct {
	name, line, order string
	provoke           func(context.Context, *Field) error
}{
	{"scheduler.claiming", "between claim and commit", "kill", nil},
	{"scheduler.claimed", "between commit and publish", "kill", nil},
	{"scheduler.published", "after publish, before ack", "kill 20ms", nil},
	{"scheduler.rescued", "between rescue and publish", "kill", killWorkers},
	{"scheduler.redispatched", "between redispatch and publish", "kill", destroyTriggers},
	{"worker.picked_up", "between pick-up and its ack", "kill", nil},
	{"worker.acknowledged", "between pick-up and fetch", "kill", nil},
	{"worker.fetching", "mid-fetch", "kill", nil},
	{"worker.fetched", "after the last document, before sync completed", "kill", nil},
	{"worker.completed", "between sync completed and drain", "kill", nil},
	{"worker.skipping", "before a run without documents ends", "kill", nil},
	{"worker.skipped", "after a run without documents has ended", "kill", nil},
	{"semantic.storing", "between storing and counting", "kill", nil},
	{"semantic.stored", "between counting and completion", "kill", nil},
	{"semantic.indexed", "between indexing and its commit", "kill", nil},
	{"semantic.handled", "between completion and ack", "kill", nil},
	{"semantic.events_published", "between publishing events and removing them", "kill", nil},
	{"api.changing", "between a request's change and its commit", "kill", nil},
	{"api.changed", "between a request's commit and its answer", "kill", nil},
	{"api.batch", "between a batch of an operation and its being noted", "kill", nil},
	{"api.batch_noted", "after a batch of an operation is noted", "kill", nil},
}

func processes() []Fault {
	var all []Fault
	for _, service := range []string{"scheduler", "synthetic", "chunker", "semantic", "api"} {
		worker := service == "synthetic" || service == "chunker"
		all = append(all,
			Fault{Name: "kill -9 " + service, Loses: Loss{Workers: worker}, Inject: func(ctx context.Context, f *Field) error {
				for range 3 {
					f.one(service).Kill()
					sleep(ctx, f.short())
				}
				return nil
			}},
			Fault{Name: "SIGTERM " + service, Inject: func(ctx context.Context, f *Field) error {
				f.one(service).Terminate()
				sleep(ctx, f.short())
				return nil
			}},
			Fault{Name: "freeze " + service, Loses: Loss{Workers: worker}, Long: true, Inject: func(ctx context.Context, f *Field) error {
				p := f.one(service)
				p.Freeze()
				defer p.Thaw()
				sleep(ctx, freeze)
				return nil
			}},
		)
	}
	for _, p := range points {
		all = append(all, Fault{
			Name: "kill -9 " + p.line, Loses: Loss{Workers: p.provoke != nil || p.name[:7] == "worker."}, Long: p.provoke != nil,
			Inject: func(ctx context.Context, f *Field) error { return f.arm(ctx, p.name, p.order, p.provoke) },
		})
	}
	return append(all,
		Fault{Name: "no semantic at all", Long: true, Inject: func(ctx context.Context, f *Field) error {
			var stopping sync.WaitGroup
			for _, p := range f.World.Named("semantic") {
				stopping.Go(p.Stop)
				defer p.Start(context.WithoutCancel(ctx))
			}
			stopping.Wait()
			sleep(ctx, f.Long)
			return nil
		}},
		Fault{Name: "the embedder refuses", Long: true, Inject: func(ctx context.Context, f *Field) error {
			point := filepath.Join(f.World.Failpoints, "semantic.embedder")
			if err := os.WriteFile(point, []byte("error"), 0o644); err != nil {
				return wrap("arm a fail point", err)
			}
			sleep(ctx, f.Long)
			err := os.Remove(point)
			if errors.Is(err, os.ErrNotExist) {
				err = nil // the world was healed meanwhile
			}
			return err
		}},
		Fault{Name: "three more schedulers, none elected", Long: true, Inject: func(ctx context.Context, f *Field) error {
			return f.schedulers(ctx, "", "", "")
		}},
		Fault{Name: "schedulers whose clocks are 10 minutes off", Long: true, Inject: func(ctx context.Context, f *Field) error {
			return f.schedulers(ctx, "CHAOS_CLOCK_SECONDS=600", "CHAOS_CLOCK_SECONDS=-600")
		}},
	)
}

func killWorkers(_ context.Context, f *Field) error {
	for _, p := range f.World.Named("synthetic") {
		p.Kill()
	}
	return nil
}

// destroyTriggers purges what waits to be picked up for as long as it takes to hit something.
func destroyTriggers(ctx context.Context, f *Field) error {
	for range 10 {
		if err := f.purge(ctx, topology.SyncStream); err != nil {
			return err
		}
		sleep(ctx, 200*time.Millisecond)
	}
	return nil
}

// arm lets the next process that comes by a fail point die there.
func (f *Field) arm(ctx context.Context, point, order string, provoke func(context.Context, *Field) error) error {
	defer armed(point)()
	file := filepath.Join(f.World.Failpoints, point)
	if err := os.WriteFile(file, []byte(order), 0o644); err != nil {
		return wrap("arm a fail point", err)
	}
	if provoke != nil {
		if err := provoke(ctx, f); err != nil {
			return err
		}
	}
	for until := time.Now().Add(armedFor); time.Now().Before(until) && ctx.Err() == nil; sleep(ctx, 100*time.Millisecond) {
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			return nil
		}
	}
	if err := os.Remove(file); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("%w %s within %s", ErrNobody, point, armedFor)
}

// ErrNobody says that no process came by a fail point while it was armed.
var ErrNobody = errors.New("nobody came by")

// schedulers runs more schedulers without election beside those that have one.
func (f *Field) schedulers(ctx context.Context, envs ...string) error {
	ctx, cancel := context.WithTimeout(ctx, f.Long)
	defer cancel()
	var running sync.WaitGroup
	problems := make(chan error, len(envs))
	for i, env := range envs {
		program := world.Program{
			Name: fmt.Sprintf("extra-scheduler-%d", i), Binary: "scheduler",
			Env: append([]string{"SCHEDULER_LEADER_ELECTION=none"}, env),
		}
		running.Go(func() { problems <- f.Extra(ctx, program) })
	}
	running.Wait()
	close(problems)
	var all error
	for err := range problems {
		all = errors.Join(all, err)
	}
	return all
}
