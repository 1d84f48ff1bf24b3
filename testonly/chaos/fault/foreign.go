package fault

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/testonly/chaos/world"
)

// TypeForeign is the type of connectors that another team's subscriber serves.
const TypeForeign = "foreign"

// Subscriber is another team's: it keeps no lease, stores what it fetches itself, and has no more rights than its role. It
// does what it should until it is told to make mistakes.
type Subscriber struct {
	world *world.World
	rng   *rand.Rand
	log   *slog.Logger
	wrong atomic.Int32
}

// NewSubscriber makes one.
func NewSubscriber(w *world.World, seed uint64, log *slog.Logger) *Subscriber {
	return &Subscriber{world: w, rng: rand.New(rand.NewPCG(seed, 4)), log: log}
}

// Run serves triggers until ctx ends; whatever is away is waited for.
func (s *Subscriber) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.serve(ctx); err != nil && ctx.Err() == nil {
			s.log.Info("the subscriber begins anew", "err", err)
		}
		sleep(ctx, 500*time.Millisecond)
	}
}

func (s *Subscriber) serve(ctx context.Context) error {
	db, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer hangUp(ctx, db)
	cfg, err := topology.SyncConsumer(TypeForeign)
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	consumer, err := s.world.Stream.CreateOrUpdateConsumer(asking, topology.SyncStream, cfg)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		batch, err := consumer.Fetch(5, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			return err
		}
		for msg := range batch.Messages() {
			if err := s.handle(ctx, db, msg); err != nil {
				return err
			}
		}
		if err := batch.Error(); err != nil {
			return err
		}
	}
	return nil
}

// connect takes the role of subscribers.
func (s *Subscriber) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(s.world.Postgres.URL())
	if err != nil {
		return nil, errors.New("the URL of Postgres cannot be read")
	}
	cfg.RuntimeParams["role"] = "echomind_subscriber"
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	return pgx.ConnectConfig(ctx, cfg)
}

func (s *Subscriber) handle(ctx context.Context, db *pgx.Conn, msg jetstream.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	request := &internalpb.ConnectorSyncRequest{}
	run, err := uuid.Nil, proto.Unmarshal(msg.Data(), request)
	if err == nil {
		run, err = uuid.Parse(request.ChunkingSession)
	}
	if err != nil {
		return msg.Term() // nobody can read it
	}
	try := uuid.New()
	var mine bool
	err = db.QueryRow(ctx, `SELECT moves.pick_up($1, $2, $3)`, request.ConnectorId, run, try).Scan(&mine)
	if err != nil {
		return err // it comes again
	}
	if s.wrong.Load() > 0 {
		s.mistake(ctx, db, run, try)
		if s.rng.IntN(3) == 0 {
			return nil // it forgets the message, and the run
		}
	}
	if mine {
		if _, err := db.Exec(ctx, `SELECT moves.finish($1, $2, jsonb_build_object('at', $3::text))`, run, try, try.String()); err != nil && db.IsClosed() {
			return err
		}
	}
	return msg.Ack()
}

// mistakes are what a subscriber may get wrong, about a run of its own ($1, $2) or one of another's ($3). Each is refused,
// or costs no more than the run that it was made on.
var mistakes = []string{
	// Its own run.
	`SELECT moves.fail($1, $2, 'transient', 'the subscriber gives up')`,
	`SELECT moves.fail($1, $2, 'permanent', repeat('x', 100000))`,
	`SELECT moves.fail($1, $2, 'too_long', NULL)`,
	`SELECT moves.fail($1, $2, NULL, NULL)`,
	`SELECT moves.finish($1, $2, '[]')`,
	`SELECT moves.finish($1, $2), moves.finish($1, $2), moves.fail($1, $2, 'transient', 'after the end')`,
	`SELECT moves.release($1, $2), moves.release($1, $2)`,
	`SELECT moves.waits($1, $2, '-1 s', NULL), moves.postpone($1, $2, '1 ms', 'its own source asks to wait')`,
	`SELECT moves.drain($1, $2, 9223372036854775807), moves.drain($1, $2, -1)`,
	`SELECT moves.cut($1, $2, 9223372036854775807, 1, NULL), moves.cut($1, $2, 0, 0, '')`,
	`SELECT moves.cut($1, $2, 1, 1, 'its own source asks to wait', '-1 s'), moves.waits($1, $2, '1 h', 'and again')`,
	`SELECT moves.hold($1, $2), pg_sleep(17)`,
	`SELECT moves.pick_up(r.connector_id, r.id, gen_random_uuid(), gen_random_uuid(), '1 hour') FROM open_runs r WHERE r.id = $1`,
	// Leases that it should not keep.
	`SELECT moves.heartbeat(gen_random_uuid(), '1 second', ARRAY[$1::uuid], ARRAY[$2::uuid])`,
	`SELECT moves.heartbeat(gen_random_uuid(), '-1 hour', '{}', '{}')`,
	`SELECT moves.heartbeat(NULL, NULL, NULL, NULL)`,
	// Runs of others: it has not their try.
	`SELECT moves.fail($3, $2, 'permanent', 'not mine')`,
	`SELECT moves.finish($3, $2, '{"version": 99}')`,
	`SELECT moves.drain($3, $2, 1)`,
	`SELECT moves.cut($3, $2, 1, 1, 'not mine'), moves.cut($3, $2, 1, 1, 'not mine', '1 h')`,
	`SELECT moves.hold($3, $2)`,
	`SELECT moves.release($3, $2)`,
	`SELECT moves.postpone($3, $2, '1 h', 'not mine'), moves.waits($3, $2, '1 h', 'not mine')`,
	`SELECT moves.pick_up(r.connector_id, r.id, $2) FROM open_runs r WHERE r.id = $3 AND r.picked_up_at IS NOT NULL`,
	`SELECT moves.pick_up(1, $3, $2)`,
	// What it has no right to.
	`SELECT set_config('echomind.moving', 'on', false)`,
	`UPDATE connectors SET status = 'ACTIVE', state = '{"version": 99}'`,
	`UPDATE open_runs SET try_id = $2 WHERE id = $3`,
	`DELETE FROM documents`,
	`DELETE FROM workers`,
	`SELECT moves.disable(id) FROM connectors`,
	`SELECT moves.end_runs(ARRAY[$3::uuid], 'completed', 'so it is')`,
	`SELECT moves.put(array_agg(c)) FROM connectors c`,
}

// mistake makes one, in a transaction of its own.
func (s *Subscriber) mistake(ctx context.Context, db *pgx.Conn, run, try uuid.UUID) {
	sql := mistakes[s.rng.IntN(len(mistakes))]
	other := uuid.New()
	_ = db.QueryRow(ctx, `SELECT id FROM open_runs WHERE type <> $1 AND picked_up_at IS NOT NULL ORDER BY random() LIMIT 1`, TypeForeign).Scan(&other)
	_, err := db.Exec(ctx, fmt.Sprintf(`DO $do$ BEGIN EXECUTE %s USING '%s'::uuid, '%s'::uuid, '%s'::uuid; END $do$`,
		quoted(sql), run, try, other))
	s.log.Debug("a mistake of the subscriber", "sql", sql, "err", err)
}

func quoted(sql string) string { return "$sql$" + sql + "$sql$" }

func foreign() []Fault {
	return []Fault{
		{Name: "a subscriber that makes every mistake", Long: true, Inject: func(ctx context.Context, f *Field) error {
			f.Subscriber.wrong.Add(1)
			defer f.Subscriber.wrong.Add(-1)
			for until := time.Now().Add(f.Long); time.Now().Before(until) && ctx.Err() == nil; sleep(ctx, time.Second) {
				trying, cancel := context.WithTimeout(ctx, tryTimeout)
				_, err := f.World.Pool.Exec(trying, `SELECT moves.trigger_sync(id) FROM connectors WHERE type = $1 AND status <> 'DISABLED'`, TypeForeign)
				cancel()
				if err != nil && ctx.Err() == nil {
					f.Log.Debug("a user has to wait", "err", err)
				}
			}
			return nil
		}},
	}
}
