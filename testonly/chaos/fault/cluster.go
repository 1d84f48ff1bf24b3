package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/testonly/chaos/world"
)

const (
	// minority is how long a cluster has no majority: longer than what a call may take.
	minority = 8 * time.Second
	// alone is how long a server hears nobody that leads, or has led: longer than until something is taken for lost.
	alone = 12 * time.Second
)

// Cluster are the faults of a world with three nats-servers. Nothing that was acknowledged may be lost by them: each waits
// until every server has everything again, so that the next one finds a majority that has.
func Cluster() []Fault {
	return []Fault{
		{Name: "the leader of the sync stream killed", Long: true, Inject: func(ctx context.Context, f *Field) error {
			return f.killLeader(ctx, topology.SyncStream)
		}},
		{Name: "the leader of the document stream killed", Long: true, Inject: func(ctx context.Context, f *Field) error {
			return f.killLeader(ctx, topology.DocumentStream)
		}},
		{Name: "two of three nats-servers killed", Long: true, Inject: func(ctx context.Context, f *Field) error {
			return f.cluster(ctx, topology.DocumentStream, func(leader *world.NATSServer, others []*world.NATSServer) error {
				killed := []*world.NATSServer{leader, others[f.Rand.IntN(len(others))]}
				for _, s := range killed {
					s.Kill()
				}
				sleep(ctx, minority)
				return f.World.NATS.StartSome(context.WithoutCancel(ctx), killed...)
			})
		}},
		{Name: "a leader that hears nobody", Long: true, Inject: func(ctx context.Context, f *Field) error {
			return f.cluster(ctx, topology.DocumentStream, func(_ *world.NATSServer, others []*world.NATSServer) error {
				freezeAll(others)
				defer thawAll(others)
				sleep(ctx, alone)
				return nil
			})
		}},
		{Name: "a leader of before that comes back alone", Long: true, Inject: func(ctx context.Context, f *Field) error {
			return f.cluster(ctx, topology.DocumentStream, func(leader *world.NATSServer, others []*world.NATSServer) error {
				defer leader.Thaw()
				leader.Freeze()
				if err := f.succeeded(ctx, topology.DocumentStream, leader); err != nil {
					return err
				}
				sleep(ctx, f.short()) // what the others take now the leader of before has never heard of
				freezeAll(others)
				defer thawAll(others)
				leader.Thaw()
				sleep(ctx, alone)
				return nil
			})
		}},
	}
}

// NamedOfCluster are those of a cluster whose name contains a part, or one of several between bars; all where there is none.
func NamedOfCluster(parts string) []Fault {
	if some := named(Cluster(), parts); len(some) > 0 {
		return some
	}
	return Cluster()
}

func freezeAll(servers []*world.NATSServer) {
	for _, s := range servers {
		s.Freeze()
	}
}

func thawAll(servers []*world.NATSServer) {
	for _, s := range servers {
		s.Thaw()
	}
}

// killLeader kills who leads a stream, and starts it again when another has been elected.
func (f *Field) killLeader(ctx context.Context, stream string) error {
	return f.cluster(ctx, stream, func(leader *world.NATSServer, _ []*world.NATSServer) error {
		leader.Kill()
		err := f.succeeded(ctx, stream, leader)
		return errors.Join(err, f.World.NATS.StartSome(context.WithoutCancel(ctx), leader))
	})
}

// succeeded waits until another than the leader of before leads a stream.
func (f *Field) succeeded(ctx context.Context, stream string, before *world.NATSServer) error {
	return untilAnswered(ctx, func(ctx context.Context) error {
		now, _, err := f.World.Leader(ctx, stream)
		if err == nil && now == before {
			err = fmt.Errorf("%s still leads %s", before.Name(), stream)
		}
		return err
	})
}

// cluster does something to the servers while no other fault does, and returns when each has everything again.
func (f *Field) cluster(ctx context.Context, stream string, do func(leader *world.NATSServer, others []*world.NATSServer) error) error {
	natsServer.Lock()
	defer natsServer.Unlock()
	leader, others, err := f.leader(ctx, stream)
	if err != nil {
		return err
	}
	f.Log.Info("the cluster", "stream", stream, "leader", leader.Name())
	if err := do(leader, others); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), serverTimeout,
		fmt.Errorf("the servers do not have everything within %s", serverTimeout))
	defer cancel()
	return f.World.Replicated(ctx)
}

func (f *Field) leader(ctx context.Context, stream string) (leader *world.NATSServer, others []*world.NATSServer, err error) {
	err = untilAnswered(ctx, func(ctx context.Context) error {
		leader, others, err = f.World.Leader(ctx, stream)
		return err
	})
	return leader, others, err
}
