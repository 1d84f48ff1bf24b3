package model

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/streams"
)

// pull takes up to n messages off a consumer of a stream.
func (w *world) pull(stream string, declared jetstream.ConsumerConfig, n int) []*held {
	w.tb.Helper()
	ctx, cancel := bounded()
	defer cancel()
	consumer, err := streams.EnsureConsumer(ctx, w.worker.servers.Stream, stream, declared)
	must(w.tb, "ensure a consumer", err)
	batch, err := consumer.FetchNoWait(n)
	must(w.tb, "pull", err)
	var all []*held
	for msg := range batch.Messages() {
		all = append(all, &held{Msg: msg})
		w.remember(msg)
	}
	return all
}

// remember keeps what was published, so that it can be said again later.
func (w *world) remember(msg jetstream.Msg) {
	again := nats.NewMsg(msg.Subject())
	again.Data = msg.Data()
	for key, values := range msg.Headers() {
		again.Header[key] = values
	}
	same := func(m *nats.Msg) bool { return m.Subject == again.Subject && string(m.Data) == string(again.Data) }
	if !slices.ContainsFunc(w.said, same) {
		w.said = append(w.said, again)
	}
}

// sayAgain publishes the bytes of an earlier message once more.
func (w *world) sayAgain(i int) {
	w.tb.Helper()
	w.publish(w.said[i])
}

// publish is a single publish; it reports false where no stream takes it.
func (w *world) publish(msg *nats.Msg) (uint64, bool) {
	w.tb.Helper()
	ctx, cancel := bounded()
	defer cancel()
	ack, err := w.worker.servers.Stream.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		return 0, false
	}
	must(w.tb, "publish", err)
	return ack.Sequence, true
}

// sayNonsense publishes what no service of ours sends.
func (w *world) sayNonsense(subject string) {
	w.tb.Helper()
	w.publish(&nats.Msg{Subject: subject, Data: []byte("\xff not a message")})
}

// eachQueued visits every message that a stream holds of a subject.
func (w *world) eachQueued(stream, subject string, visit func(*jetstream.RawStreamMsg)) {
	w.tb.Helper()
	ctx, cancel := bounded()
	defer cancel()
	s := w.stream(w.tb, stream)
	for seq := uint64(1); ; seq++ {
		msg, err := s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return
		}
		must(w.tb, "get a message", err)
		seq = msg.Sequence
		visit(msg)
	}
}

// queuedSessions are those with a trigger in the stream.
func (w *world) queuedSessions() []uuid.UUID {
	w.tb.Helper()
	sessions := []uuid.UUID{}
	w.eachQueued(topology.SyncStream, topology.SyncSubjects, func(msg *jetstream.RawStreamMsg) {
		if session, err := uuid.Parse(msg.Header.Get(topology.HeaderSession)); err == nil {
			sessions = append(sessions, session)
		}
	})
	return sessions
}

// wholeRuns are the open runs whose every message is stored, or in the stream in its place: not later than where
// the worker ended. A duplicate after that is no evidence that nothing was lost.
func (w *world) wholeRuns() []uuid.UUID {
	w.tb.Helper()
	now := w.look()
	there := map[uuid.UUID]map[int64]bool{}
	note := func(run uuid.UUID, no int64) {
		if there[run] == nil {
			there[run] = map[int64]bool{}
		}
		there[run][no] = true
	}
	w.eachQueued(topology.DocumentStream, topology.DocumentSubject, func(msg *jetstream.RawStreamMsg) {
		run, err := uuid.Parse(msg.Header.Get(topology.HeaderSession))
		try, tryErr := uuid.Parse(msg.Header.Get(topology.HeaderTry))
		no, noErr := strconv.ParseInt(msg.Header.Get(topology.HeaderNumber), 10, 64)
		r := now.runs[run]
		if errors.Join(err, tryErr, noErr) == nil && r.isOf(try) && r.DrainSeq != nil && int64(msg.Sequence) <= *r.DrainSeq {
			note(run, no)
		}
	})
	for _, m := range rows[countedRow](w, `SELECT r.id AS run, m.no FROM run_messages m JOIN open_runs r USING (try_id)
		UNION ALL SELECT id, 0 FROM open_runs WHERE total IS NOT NULL`) {
		note(m.Run, m.No)
	}
	last := int64(w.stream(w.tb, topology.DocumentStream).CachedInfo().State.LastSeq)
	var whole []uuid.UUID
	w.mu.Lock() // a handler of the kit may be at work
	defer w.mu.Unlock()
	for id, r := range now.runs {
		f := w.sessions[id]
		if r.Status == "running" && f != nil && int64(len(there[id])) == f.total+1 && r.DrainSeq != nil && *r.DrainSeq <= last {
			whole = append(whole, id)
		}
	}
	return whole
}

type countedRow struct {
	Run uuid.UUID
	No  int64
}

// lose drops one message of a stream, as a crash of the broker does with what it has not synced to disk.
func (w *world) lose(stream string, nth int) {
	w.tb.Helper()
	if msg := w.one(stream, nth); msg != nil {
		w.drop(stream, msg)
	}
}

// garble puts in the place of one document message another that nobody can read, under the same headers: what a
// worker of a later release may send to a semantic of an earlier one.
func (w *world) garble(nth int) {
	w.tb.Helper()
	msg := w.one(topology.DocumentStream, nth)
	if msg == nil {
		return
	}
	session, err := uuid.Parse(msg.Header.Get(topology.HeaderSession))
	if err != nil || msg.Header.Get(topology.HeaderNumber) == "0" {
		return
	}
	w.garbled[session] = true
	w.publish(&nats.Msg{Subject: msg.Subject, Header: msg.Header, Data: []byte("\xff of a later release")})
	w.drop(topology.DocumentStream, msg)
}

// one is some message that a stream holds; nil where it holds none.
func (w *world) one(stream string, nth int) *jetstream.RawStreamMsg {
	w.tb.Helper()
	var all []*jetstream.RawStreamMsg
	w.eachQueued(stream, ">", func(msg *jetstream.RawStreamMsg) { all = append(all, msg) })
	if len(all) == 0 {
		return nil
	}
	return all[nth%len(all)]
}

func (w *world) drop(stream string, msg *jetstream.RawStreamMsg) {
	w.tb.Helper()
	w.operate("drop a message", func(ctx context.Context) error {
		return w.stream(w.tb, stream).DeleteMsg(ctx, msg.Sequence)
	})
}

// purge drops everything that a stream holds.
func (w *world) purge(stream string) {
	w.tb.Helper()
	w.operate("purge "+stream, func(ctx context.Context) error { return w.stream(w.tb, stream).Purge(ctx) })
}

// wipe drops a stream with its consumers; its users make it again.
func (w *world) wipe(stream string) {
	w.tb.Helper()
	w.operate("wipe "+stream, func(ctx context.Context) error { return w.streamsHeld.DeleteStream(ctx, stream) })
}

// forgetConsumer drops a consumer with what it knows about deliveries.
func (w *world) forgetConsumer(stream, consumer string) {
	w.tb.Helper()
	w.operate("forget "+consumer, func(ctx context.Context) error {
		return w.streamsHeld.DeleteConsumer(ctx, stream, consumer)
	})
}

// operate ignores that something is gone already.
func (w *world) operate(what string, do func(context.Context) error) {
	w.tb.Helper()
	ctx, cancel := bounded()
	defer cancel()
	err := do(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) {
		return
	}
	must(w.tb, what, err)
}
