package model

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/internal/connect"
)

// process is a service's process: its connections, and whether it is alive. It lives on after a death as the
// process that was started in its place.
type process struct {
	name    string
	servers *connect.Servers
	log     *slog.Logger
	life    atomic.Pointer[life]
	// mute: the answer to the next statement with this text in it is lost, and the connection with it.
	mute atomic.Pointer[string]
	// fatal: the process dies before the next statement with this text in it.
	fatal atomic.Pointer[string]
}

// life is a process between a start and a death. Its events are statements and acknowledgements.
type life struct {
	left atomic.Int64
	dead atomic.Bool
	end  context.CancelFunc
}

// immortal is a number of events that nothing reaches.
const immortal = 1 << 30

var errDead = errors.New("the process is dead")

// event reports whether the process is still alive to do one thing more.
func (l *life) event() bool {
	if l.left.Add(-1) < 0 && !l.dead.Swap(true) {
		l.end()
	}
	return !l.dead.Load()
}

// live runs work in the process, which dies before it can do more than the given number of things.
func (p *process) live(events int, work func(context.Context, *life)) (died bool) {
	ctx, cancel := bounded()
	defer cancel()
	l := &life{end: cancel}
	l.left.Store(int64(events))
	p.life.Store(l)
	defer p.life.Store(nil)
	work(ctx, l)
	return l.dead.Load()
}

var gone = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func (p *process) alive(ctx context.Context) context.Context {
	if l := p.life.Load(); l != nil && !l.event() {
		return gone
	}
	return ctx
}

// TraceQueryStart lets a dead process send nothing.
func (p *process) TraceQueryStart(ctx context.Context, c *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	return p.sends(ctx, c, q.SQL)
}

// TraceBatchStart is the same for statements that are sent together: one event.
func (p *process) TraceBatchStart(ctx context.Context, c *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	var all strings.Builder
	for _, q := range b.Batch.QueuedQueries {
		all.WriteString(q.SQL)
	}
	return p.sends(ctx, c, all.String())
}

func (p *process) sends(ctx context.Context, c *pgx.Conn, sql string) context.Context {
	if text := p.mute.Load(); text != nil && strings.Contains(sql, *text) && p.mute.CompareAndSwap(text, nil) {
		c.PgConn().Conn().(*wire).armed.Store(true)
	}
	if text := p.fatal.Load(); text != nil && strings.Contains(sql, *text) && p.fatal.CompareAndSwap(text, nil) {
		p.life.Load().left.Store(0)
	}
	return p.alive(ctx)
}

// TraceBatchQuery is part of pgx.BatchTracer.
func (*process) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd is part of pgx.BatchTracer.
func (*process) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TraceQueryEnd is part of pgx.QueryTracer.
func (*process) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceCopyFromStart lets a dead process send nothing.
func (p *process) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	return p.alive(ctx)
}

// TraceCopyFromEnd is part of pgx.CopyFromTracer.
func (*process) TraceCopyFromEnd(context.Context, *pgx.Conn, pgx.TraceCopyFromEndData) {}

// loseAnswer makes the answer to the next statement that contains text get lost after it has taken effect.
func (p *process) loseAnswer(text string) { p.mute.Store(&text) }

func (*process) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: conn}, nil
}

// wire is a connection to Postgres that can break after a statement arrived and before its answer did.
type wire struct {
	net.Conn
	armed, breaking atomic.Bool
}

// Write notices the statement itself: Bind, or a simple Query; what is before is its preparation.
func (w *wire) Write(data []byte) (int, error) {
	if len(data) > 0 && (data[0] == 'B' || data[0] == 'Q') && w.armed.Swap(false) {
		w.breaking.Store(true)
	}
	return w.Conn.Write(data)
}

func (w *wire) Read(into []byte) (int, error) {
	n, err := w.Conn.Read(into) // the answer came, so the statement has taken effect
	if n > 0 && w.breaking.Load() {
		return 0, errors.Join(io.ErrUnexpectedEOF, w.Close())
	}
	return n, err
}

// held is a message that somebody pulled and has not acknowledged.
type held struct {
	jetstream.Msg
	life *life
	done bool
}

// Ack acknowledges for good, as far as the holder lives.
func (h *held) Ack() error {
	if h.life != nil && !h.life.event() {
		return errDead
	}
	// A consumer that was made anew does not answer for what its predecessor delivered.
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	h.done = true
	err := h.Msg.DoubleAck(ctx)
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// DoubleAck is Ack.
func (h *held) DoubleAck(context.Context) error { return h.Ack() }

// Nak says nothing: letGo hands the message back in any case.
func (h *held) Nak() error { return nil }

// NakWithDelay says nothing: no history waits for time to pass.
func (h *held) NakWithDelay(time.Duration) error { return nil }

// letGo stands for the time after which the broker delivers a message again whose holder gave no sign of life.
func (h *held) letGo() {
	if !h.done {
		h.done = true
		_ = h.Msg.Nak() // its stream may be gone, and it with it
	}
}

// logbook keeps what no history may make a service say.
type logbook struct {
	mu      sync.Mutex
	defects []string
}

// unexpected are messages that only a defect, not an outage or a death, brings about.
var unexpected = []string{
	"a message could not be handled; it is tried again",
	"a dead letter is not counted; it is delivered again",
	"a claimed type has no subject; its constraint is gone",
	"the handler panicked; the sync fails and is tried again",
	"draining is not written down; the run completes, or is rescued, without it",
}

func (b *logbook) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.defects = nil
}

func (b *logbook) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.defects
}

// recorder is a slog.Handler that writes defects into the book.
type recorder struct {
	book    *logbook
	process *process
}

// Enabled is part of slog.Handler.
func (*recorder) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle is part of slog.Handler.
func (r *recorder) Handle(_ context.Context, record slog.Record) error {
	if l := r.process.life.Load(); l != nil && l.dead.Load() {
		return nil // its last words
	}
	for _, text := range unexpected {
		if record.Message != text {
			continue
		}
		line := r.process.name + ": " + record.Message
		record.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
		r.book.mu.Lock()
		r.book.defects = append(r.book.defects, line)
		r.book.mu.Unlock()
	}
	return nil
}

// WithAttrs is part of slog.Handler.
func (r *recorder) WithAttrs([]slog.Attr) slog.Handler { return r }

// WithGroup is part of slog.Handler.
func (r *recorder) WithGroup(string) slog.Handler { return r }
