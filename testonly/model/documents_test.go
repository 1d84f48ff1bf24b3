package model

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/contract/topology"
)

func cursorState(cursor int) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{"cursor": structpb.NewNumberValue(float64(cursor))}}
}

// documents takes up to n messages off the document stream.
func (w *world) documents(n int) []*held {
	w.tb.Helper()
	return w.pull(topology.DocumentStream, topology.DocumentConsumer(), n)
}

// handle hands messages to one semantic, which dies before it can do more than the given number of things. What it
// has not acknowledged then is delivered again.
func (w *world) handle(i, events int, batch []*held) {
	w.tb.Helper()
	w.read(i, events, batch)
	for _, h := range batch {
		h.letGo()
	}
}

// handleBoth hands messages to both at once: those of an odd place to the one, the others to the other.
func (w *world) handleBoth(events int, batch []*held) {
	w.tb.Helper()
	var shares [2][]*held
	for i, h := range batch {
		shares[i%2] = append(shares[i%2], h)
	}
	var both sync.WaitGroup
	for i, share := range shares {
		both.Go(func() { w.read(i, events, share) })
	}
	both.Wait()
	for _, h := range batch {
		h.letGo()
	}
}

func (w *world) read(i, events int, batch []*held) {
	died := w.semantic[i].live(events, func(ctx context.Context, l *life) {
		msgs := make([]jetstream.Msg, len(batch))
		for n, h := range batch {
			h.life = l
			msgs[n] = h
		}
		w.readers[i].Handle(ctx, msgs)
	})
	if died {
		w.startSemantic(i)
	}
}

// completeStored, advanceStored, abandon, failLost, sweep and keepLedger are semantic's housekeeping.
func (w *world) completeStored(i, events int) {
	w.tb.Helper()
	w.maintain(i, events, "complete stored runs", w.readers[i].CompleteStored)
}

func (w *world) advanceStored(i, events int) {
	w.tb.Helper()
	w.maintain(i, events, "pass checkpoints", w.readers[i].AdvanceStored)
}

func (w *world) abandon(i, events int) {
	w.tb.Helper()
	w.maintain(i, events, "abandon what is lost again", w.readers[i].Abandon)
}

func (w *world) failLost(i, events int) {
	w.tb.Helper()
	whole := w.wholeRuns()
	w.maintain(i, events, "fail what is lost in transit", w.readers[i].FailLostInTransit)
	now := w.look()
	for _, id := range whole {
		if r := now.runs[id]; r.Status != "running" {
			w.fatalf("promise 3: %s was failed though every message of it is stored or queued", r)
		}
	}
}

// sweep lets the time pass for which a sweep that died holds what it has taken, and sweeps.
func (w *world) sweep(i, events int) {
	w.tb.Helper()
	w.exec(w.tb, `UPDATE unswept_runs SET next_at = clock_timestamp()`)
	w.exec(w.tb, `UPDATE deleted_connectors SET next_at = clock_timestamp()`)
	w.maintain(i, events, "sweep", func(ctx context.Context) error {
		done, err := w.readers[i].SweepDeletedConnectors(ctx, time.Now().Add(time.Minute))
		return errors.Join(errors.Join(done.Held...), err, w.readers[i].Sweep(ctx), w.readers[i].SweepChunks(ctx))
	})
}

func (w *world) keepLedger(i, events int) {
	w.tb.Helper()
	w.maintain(i, events, "keep the ledger", func(ctx context.Context) error {
		_, err := w.readers[i].KeepLedger(ctx, time.Now().Add(time.Minute))
		return err
	})
}

func (w *world) maintain(i, events int, what string, do func(context.Context) error) {
	w.tb.Helper()
	var err error
	if w.semantic[i].live(events, func(ctx context.Context, _ *life) { err = do(ctx) }) {
		w.startSemantic(i)
		return
	}
	must(w.tb, what, err)
}
