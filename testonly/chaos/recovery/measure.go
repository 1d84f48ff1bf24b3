package recovery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/testonly/chaos/world"
)

// Types of connectors: with long fetches, with quick ones, with nobody who picks them up.
const (
	typeLong  = "long"
	typeQuick = "quick"
	typeIdle  = "idle"
)

const (
	// measureTimeout ends a measurement that leads nowhere.
	measureTimeout = 5 * time.Minute
	// natsAway is longer than what NATS clients take for a hiccup.
	natsAway = 10 * time.Second
	pending  = 5000
)

// lab is a world under measurement.
type lab struct{ *world.World }

func (l *lab) addTypes(ctx context.Context) error {
	_, err := l.Pool.Exec(ctx, `INSERT INTO connector_types (name, max_concurrent_syncs)
		SELECT unnest($1::text[]), 0 ON CONFLICT (name) DO UPDATE SET max_concurrent_syncs = 0`,
		[]string{typeLong, typeQuick, typeIdle})
	return wrap("add the types", err)
}

// add makes n connectors that sync once, at once.
func (l *lab) add(ctx context.Context, connectorType string, n, milliseconds int) ([]int32, error) {
	rows, err := l.Pool.Query(ctx, `
		INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes)
		SELECT $1 || ' ' || i, $1, 1,
			jsonb_build_object('seed', i, 'documents', 10, 'changes', 1, 'milliseconds', $3::int, 'mode', 'delta'), 0
		FROM generate_series(1, $2) i RETURNING id`, connectorType, n, milliseconds)
	if err != nil {
		return nil, wrap("add connectors", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	return ids, wrap("add connectors", err)
}

// remove deletes connectors, so that the next measurement begins with none.
func (l *lab) remove(ctx context.Context, ids []int32) error {
	_, err := l.Pool.Exec(ctx, `DELETE FROM connectors WHERE id = ANY($1)`, ids)
	return wrap("delete connectors", err)
}

// until polls a question until its answer is true and returns how long that took.
func (l *lab) until(ctx context.Context, what, query string, args ...any) (time.Duration, error) {
	return l.wait(ctx, what, func(ctx context.Context) (bool, error) {
		var yes bool
		err := l.Pool.QueryRow(ctx, query, args...).Scan(&yes)
		return yes, err
	})
}

func (l *lab) wait(ctx context.Context, what string, ask func(context.Context) (bool, error)) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, measureTimeout, fmt.Errorf("waited for %s in vain for %s", what, measureTimeout))
	defer cancel()
	began := time.Now()
	for {
		yes, err := ask(ctx)
		if yes && err == nil {
			return time.Since(began), nil
		}
		select {
		case <-ctx.Done():
			return 0, errors.Join(context.Cause(ctx), err)
		case <-time.After(poll):
		}
	}
}

// leader is the scheduler that says it leads.
func (l *lab) leader(ctx context.Context) *world.Process {
	for _, p := range l.Named("scheduler") {
		if ready, says := p.Ready(ctx); ready && strings.Contains(says, "leader") && !strings.Contains(says, "standby") {
			return p
		}
	}
	return nil
}

func (l *lab) awaitLeader(ctx context.Context) error {
	_, err := l.wait(ctx, "a leader and a standby", func(ctx context.Context) (bool, error) {
		standby := 0
		for _, p := range l.Named("scheduler") {
			if ready, says := p.Ready(ctx); ready && strings.Contains(says, "standby") {
				standby++
			}
		}
		return l.leader(ctx) != nil && standby == 1, nil
	})
	return err
}

func workerKilled(ctx context.Context, l *lab) (time.Duration, error) {
	ids, err := l.add(ctx, typeLong, 1, 60_000)
	if err != nil {
		return 0, err
	}
	var run uuid.UUID
	if _, err := l.until(ctx, "documents of the first try", `SELECT EXISTS (SELECT 1 FROM open_runs
		WHERE connector_id = $1 AND stored > 0)`, ids[0]); err != nil {
		return 0, err
	}
	if err := l.Pool.QueryRow(ctx, `SELECT run_id FROM connectors WHERE id = $1`, ids[0]).Scan(&run); err != nil {
		return 0, wrap("read the run", err)
	}
	for _, p := range l.Named("worker") {
		p.Kill() // nobody tells from outside which of them has it
	}
	took, err := l.until(ctx, "the next try", `SELECT status = 'SYNCING' AND run_id <> $2 FROM connectors WHERE id = $1`,
		ids[0], run)
	return took, errors.Join(err, l.remove(ctx, ids))
}

func leaderKilled(ctx context.Context, l *lab) (time.Duration, error) {
	if err := l.awaitLeader(ctx); err != nil {
		return 0, err
	}
	leader := l.leader(ctx)
	if leader == nil {
		return 0, errors.New("nobody leads")
	}
	// Its successor, not the one that is started again, is measured.
	leader.Kill()
	ids, err := l.add(ctx, typeIdle, 1, 0)
	if err != nil {
		return 0, err
	}
	took, err := l.until(ctx, "a dispatch", `SELECT status = 'PENDING' FROM connectors WHERE id = $1`, ids[0])
	return took, errors.Join(err, l.remove(ctx, ids), l.purge(ctx))
}

func messageLost(ctx context.Context, l *lab) (time.Duration, error) {
	ids, err := l.add(ctx, typeIdle, 1, 0)
	if err != nil {
		return 0, err
	}
	if _, err := l.wait(ctx, "the message", func(ctx context.Context) (bool, error) {
		n, err := l.queued(ctx)
		return n == 1, err
	}); err != nil {
		return 0, err
	}
	if err := l.purge(ctx); err != nil {
		return 0, err
	}
	took, err := l.wait(ctx, "the message again", func(ctx context.Context) (bool, error) {
		n, err := l.queued(ctx)
		return n == 1, err
	})
	return took, errors.Join(err, l.remove(ctx, ids), l.purge(ctx))
}

func storageWiped(ctx context.Context, l *lab) (time.Duration, error) {
	ids, err := l.add(ctx, typeIdle, pending, 0)
	if err != nil {
		return 0, err
	}
	all := func(ctx context.Context) (bool, error) {
		n, err := l.queued(ctx)
		return n >= pending, err
	}
	if _, err := l.wait(ctx, "all messages", all); err != nil {
		return 0, err
	}
	l.NATS.Kill()
	if err := l.NATS.Wipe(); err != nil {
		return 0, err
	}
	if err := l.NATS.Start(ctx); err != nil {
		return 0, err
	}
	took, err := l.wait(ctx, "all messages again", all)
	return took, errors.Join(err, l.remove(ctx, ids), l.purge(ctx))
}

func natsBack(ctx context.Context, l *lab) (time.Duration, error) {
	l.NATS.Kill()
	ids, err := l.add(ctx, typeIdle, 1, 0)
	if err != nil {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(natsAway):
	}
	if err := l.NATS.Start(ctx); err != nil {
		return 0, err
	}
	took, err := l.wait(ctx, "a message", func(ctx context.Context) (bool, error) {
		n, err := l.queued(ctx)
		return n == 1, err
	})
	return took, errors.Join(err, l.remove(ctx, ids), l.purge(ctx))
}

func (l *lab) queued(ctx context.Context) (uint64, error) {
	stream, err := l.Stream.Stream(ctx, topology.SyncStream)
	if err != nil {
		return 0, err
	}
	return stream.CachedInfo().State.Msgs, nil
}

func (l *lab) purge(ctx context.Context) error {
	stream, err := l.Stream.Stream(ctx, topology.SyncStream)
	if err != nil {
		return wrap("find the stream", err)
	}
	return wrap("purge the stream", stream.Purge(ctx))
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
