package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/repeat"
)

// lockKey is "echomind" in ASCII. The space of single keys is another than that of the claim's pairs; a lock is seen by
// one database only.
const lockKey = 0x6563686f6d696e64

// Pace is how often the advisory lock is looked after.
type Pace struct {
	// Poll is the time between two tries of a standby.
	Poll time.Duration
	// Heartbeat is the time between two signs of life of the leader. A broken connection is noticed without one.
	Heartbeat time.Duration
	// Answer bounds every question.
	Answer time.Duration
	// IdleTimeout is when the server ends the session of a leader that has fallen silent, frozen or cut off. It is
	// longer than Heartbeat and Answer together, so that the leader gives up before another is elected.
	IdleTimeout time.Duration
}

// DefaultPace notices a dead process at once and elects another within a second; a frozen or cut off one within 16 s.
var DefaultPace = Pace{Poll: time.Second, Heartbeat: 5 * time.Second, Answer: 5 * time.Second, IdleTimeout: 15 * time.Second}

// postgres holds the election through a session advisory lock.
type postgres struct {
	candidate *Candidate
	url       string
	pace      Pace
}

// Postgres elects who holds an advisory lock. url must not lead through a transaction pooler: the lock belongs to a
// session. The server frees it as soon as the session ends, which it does itself with one that has fallen silent.
func Postgres(candidate *Candidate, url string, pace Pace) Elector {
	return &postgres{candidate, url, pace}
}

func (p *postgres) Run(ctx context.Context, work Work) error {
	for ctx.Err() == nil {
		conn, err := p.elected(ctx)
		p.candidate.Report(err)
		pause := p.pace.Poll
		if conn != nil {
			lost, failed := p.term(ctx, conn, work)
			if failed != nil {
				return failed
			}
			if lost {
				pause *= 2 // the others have been waiting: they go first
			}
		}
		_ = repeat.Sleep(ctx, pause)
	}
	return nil
}

// elected waits for the lock on a connection of its own, which it returns with it. A connection is kept between two
// tries. It returns nil at the end of ctx.
func (p *postgres) elected(ctx context.Context) (*pgx.Conn, error) {
	conn, err := deadline.Get(ctx, "leader.connect", p.pace.Answer, p.connect)
	if err != nil {
		return nil, unlessEnded(ctx, fmt.Errorf("connect for the leader lock: %w", err))
	}
	for {
		var mine bool
		err := deadline.Do(ctx, "leader.lock", p.pace.Answer, func(ctx context.Context) error {
			return conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(lockKey)).Scan(&mine)
		})
		if err == nil && mine {
			return conn, nil
		}
		if err == nil {
			p.candidate.Report(nil)
			if repeat.Sleep(ctx, p.pace.Poll) == nil {
				continue
			}
		}
		p.close(conn)
		return nil, unlessEnded(ctx, err)
	}
}

func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// connect sets the session up so that the server ends it where this process has fallen silent.
func (p *postgres) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(p.url)
	if err != nil {
		return nil, fmt.Errorf("read DATABASE_DIRECT_URL: %w", err)
	}
	cfg.RuntimeParams["application_name"] = "echomind-scheduler-leader"
	// The extended protocol's prepared statements are of no use to three statements.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	// A statement, since poolers refuse these names as startup parameters. Keepalives find the machine that is gone while
	// the server waits for a lock's answer to be taken; an idle session ends by its timeout.
	_, err = conn.Exec(ctx, `SELECT set_config('idle_session_timeout', $1, false), set_config('tcp_keepalives_idle', '5', false),
		set_config('tcp_keepalives_interval', '2', false), set_config('tcp_keepalives_count', '3', false),
		set_config('tcp_user_timeout', $1, false)`, fmt.Sprintf("%dms", p.pace.IdleTimeout.Milliseconds()))
	if err != nil {
		p.close(conn)
		return nil, fmt.Errorf("set the session's timeouts: %w", err)
	}
	return conn, nil
}

// term runs work until it returns, which it is asked to when the lock may be lost or ctx ends. Then it gives the lock
// back.
func (p *postgres) term(ctx context.Context, conn *pgx.Conn, work Work) (lost bool, failed error) {
	working, end := context.WithCancelCause(ctx)
	// The lock is held on for as long as the work goes on, even where ctx has ended.
	holding, release := context.WithCancel(context.WithoutCancel(ctx))
	held := make(chan struct{})
	go func() {
		defer close(held)
		p.hold(holding, conn, func(why error) { end(fmt.Errorf("%w: %w", ErrLost, why)) })
	}()
	failed = p.candidate.Lead(working, work)
	lost = errors.Is(context.Cause(working), ErrLost)
	end(nil)
	release()
	<-held
	if !lost {
		// Closing frees the lock too, but only once the server has read of it.
		_ = deadline.Do(context.WithoutCancel(ctx), "leader.unlock", p.pace.Answer, func(ctx context.Context) error {
			_, err := conn.Exec(ctx, "SELECT pg_advisory_unlock($1)", int64(lockKey))
			return err
		})
	}
	p.close(conn)
	return lost, failed
}

// hold sends heartbeats until ctx ends, or tells why the lock may be lost.
func (p *postgres) hold(ctx context.Context, conn *pgx.Conn, lost func(error)) {
	// A process that was frozen must not believe in itself until its next heartbeat has failed: this timer has passed
	// when it wakes up.
	silence := &deadline.Error{Name: "leader.heartbeat", After: p.pace.Heartbeat + p.pace.Answer}
	silent := time.AfterFunc(silence.After, func() { lost(silence) })
	defer silent.Stop()
	for {
		// Waiting reads the connection, so that a broken one is noticed at once.
		waiting, cancel := context.WithTimeout(ctx, p.pace.Heartbeat)
		_, err := conn.WaitForNotification(waiting)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			lost(fmt.Errorf("the connection that holds the lock: %w", err))
			return
		}
		begun := time.Now()
		if err := p.heartbeat(ctx, conn); err != nil {
			if ctx.Err() == nil {
				lost(err)
			}
			return
		}
		silent.Reset(silence.After - time.Since(begun))
	}
}

// errPooled is what a transaction pooler does: the session is another one than that which took the lock.
var errPooled = errors.New("the session does not hold the lock: DATABASE_DIRECT_URL leads through a transaction pooler, " +
	"or somebody else has freed it")

func (p *postgres) heartbeat(ctx context.Context, conn *pgx.Conn) error {
	var mine bool
	err := deadline.Do(ctx, "leader.heartbeat", p.pace.Answer, func(ctx context.Context) error {
		// A single key is kept in two halves; objsubid 1 tells it from a pair.
		return conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
			AND granted AND objsubid = 1 AND classid::bigint << 32 | objid::bigint = $1)`, int64(lockKey)).Scan(&mine)
	})
	if err == nil && !mine {
		err = errPooled
	}
	return err
}

// close never waits for a server that has fallen silent.
func (p *postgres) close(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
