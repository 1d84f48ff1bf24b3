package fault

import (
	"context"
	"errors"
	"slices"
	"time"
)

const (
	// Stepped is by how much Postgres's clock steps: longer than a lease, a grace and a minute's slot.
	Stepped = time.Minute
	// steppedNATS is by how much NATS's clock steps: longer than an acknowledgement's wait, a lease and a grace of the short form.
	steppedNATS = 20 * time.Second
)

// Matrix are all faults, also those that need a world of their own.
func Matrix() []Fault { return slices.Concat(All(), []Fault{Clock(), Failover()}, Cluster()) }

// Clock is the fault of a world in which Postgres's clock can be set.
func Clock() Fault {
	return Fault{
		Name: "Postgres's clock steps ahead and back", Loses: Loss{Workers: true, Clock: true}, Long: true,
		Inject: func(ctx context.Context, f *Field) error { return f.stepClock(ctx, Stepped, f.World.SetClock) },
	}
}

// stepNATS steps the clock of one nats-server.
func stepNATS(ctx context.Context, f *Field) error {
	servers := f.World.NATS.Servers
	return f.stepClock(ctx, steppedNATS, servers[f.Rand.IntN(len(servers))].SetClock)
}

// stepClock steps a clock ahead and back, three times.
func (f *Field) stepClock(ctx context.Context, by time.Duration, set func(time.Duration) error) error {
	for range 3 {
		if err := set(by); err != nil {
			return err
		}
		sleep(ctx, f.short())
		if err := set(0); err != nil {
			return err
		}
		sleep(ctx, f.short())
	}
	return nil
}

// Failover is the fault of a world with a replica: no other may kill Postgres there.
func Failover() Fault {
	return Fault{
		Name: "a failover that loses the last commits", Loses: Loss{Workers: true, Messages: true}, Long: true,
		Inject: func(ctx context.Context, f *Field) error {
			lost, err := f.World.Failover(ctx)
			if err == nil && lost <= 0 {
				err = errors.New("nothing was lost")
			}
			f.Log.Info("the replica serves", "lost_bytes", lost, "err", err)
			return err
		},
	}
}
