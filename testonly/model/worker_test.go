package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	sdkwire "github.com/echomind/sync/contract/wire"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/worker"
)

// fetch is what a run saw of its source.
type fetch struct {
	connector *connector
	seen      *snapshot
	total     int64 // how many messages it has numbered, once it is done
	// checkpoints are the numbers of its checkpoints, by their cursors.
	checkpoints map[int]int64
}

// trip is a worker at work on one trigger. Its steps are the kit's, in the kit's order.
type trip struct {
	trigger      *held
	request      *internalpb.ConnectorSyncRequest
	try          lifecycle.Try
	worker       uuid.UUID // the process that it is in the hands of, with others; none for a subscriber that keeps no lease
	pickedUp     bool
	acknowledged bool
	fetched      bool
	total        int64
	unchanged    int64
	newState     *structpb.Struct
	unsent       []*nats.Msg
	place        uint64    // of what was published last
	last         *nats.Msg // sync completed
	lastSeq      uint64
	over         bool // no step is left; what it knows may still wake up
}

func (t *trip) String() string {
	return fmt.Sprintf("trip of c%d (run %.8s, try %.8s)", t.request.GetConnectorId(), t.try.Run, t.try.ID)
}

// receive lets a worker with a free slot pull a trigger. It reports false where none is queued.
func (w *world) receive(kind string) *trip {
	w.tb.Helper()
	declared, err := topology.SyncConsumer(kind)
	must(w.tb, "declare a consumer", err)
	for _, h := range w.pull(topology.SyncStream, declared, 1) {
		t := &trip{trigger: h, request: &internalpb.ConnectorSyncRequest{}, worker: w.nextWorker()}
		t.try.ID = uuid.New()
		err := proto.Unmarshal(h.Data(), t.request)
		if err == nil {
			t.try.Run, err = uuid.Parse(t.request.ChunkingSession)
		}
		if err != nil { // the kit makes a dead letter of it
			must(w.tb, "give a message up", h.Ack())
			continue
		}
		w.trips = append(w.trips, t)
		return t
	}
	return nil
}

// nextWorker is who receives the next trigger: each in turn, and then a subscriber of another team's that keeps no lease.
func (w *world) nextWorker() uuid.UUID {
	turn := w.received % (crewSize + 1)
	w.received++
	if turn == crewSize {
		return uuid.Nil
	}
	return w.crew[turn]
}

// step takes a trip one step on. pick says which of the messages that are left is published next.
func (w *world) step(t *trip, pick int) {
	w.tb.Helper()
	switch {
	case t.over:
	case !t.pickedUp:
		w.pickUp(t)
	case !t.acknowledged:
		t.acknowledged = true
		must(w.tb, "acknowledge a trigger", t.trigger.Ack())
	case !t.fetched:
		w.fetch(t, pick)
	case t.total == 0 && t.worker != uuid.Nil:
		w.skip(t)
	case len(t.unsent) > 0:
		i := pick % len(t.unsent)
		w.send(t, i)
	case t.lastSeq == 0:
		t.lastSeq, _ = w.publish(t.last)
	default:
		w.drain(t)
		t.over = true
	}
}

// send publishes a message that is left, and says whether the stream has taken it.
func (w *world) send(t *trip, i int) bool {
	w.tb.Helper()
	place, taken := w.publish(t.unsent[i])
	if taken {
		t.place, t.unsent = place, slices.Delete(t.unsent, i, i+1)
	}
	return taken
}

// finish takes a trip through all its steps.
func (w *world) finish(t *trip) {
	w.tb.Helper()
	for !t.over {
		w.step(t, 0)
	}
}

// finishFetching takes a trip up to the step before draining.
func (w *world) finishFetching(t *trip) {
	w.tb.Helper()
	for !t.over && t.lastSeq == 0 {
		w.step(t, 0)
	}
}

func (w *world) pickUp(t *trip) {
	w.tb.Helper()
	before := w.look().connector(t.request.ConnectorId)
	err := w.move(func(ctx context.Context) error { return w.take(ctx, t) })
	if w.allowed("pick-up", t, err, before.is("PENDING", t.try.Run)) {
		t.pickedUp = true
		w.foreign[t.try.Run] = t.worker == uuid.Nil
		delete(w.asked, t.request.ConnectorId)
		return
	}
	must(w.tb, "acknowledge old news", t.trigger.Ack())
	t.over = true
}

func (w *world) take(ctx context.Context, t *trip) error {
	if t.worker != uuid.Nil {
		return w.moves.PickUp(ctx, t.request.ConnectorId, t.try, t.worker, leaseTime)
	}
	var taken bool
	err := w.worker.servers.Pool.QueryRow(ctx, `SELECT moves.pick_up($1, $2, $3)`,
		t.request.ConnectorId, t.try.Run, t.try.ID).Scan(&taken)
	if err == nil && !taken {
		err = lifecycle.ErrFenced
	}
	return err
}

// fetch reads what is stored and what the source has, and numbers the messages that make the one the other, in the order
// of the source's changes. pick says where checkpoints go between them.
func (w *world) fetch(t *trip, pick int) {
	w.tb.Helper()
	c := w.byID(t.request.ConnectorId)
	folder, _ := t.request.Config.AsMap()["folder"].(string)
	cursor, _ := t.request.State.AsMap()["cursor"].(float64)
	f := &fetch{connector: c, seen: c.folderOf(folder).snapshot(), total: -1, checkpoints: map[int]int64{}}
	w.sessions[t.try.Run] = f
	p := f.seen.source.fetch(w.known(t), int(cursor), c.kind == feed)
	w.numberInOrder(t, f, int(cursor), pick, w.sendings(t, f, p))
	reason := ""
	if t.total == 0 { // of the kit, Skip says it
		reason = "nothing had changed"
	}
	t.unchanged, t.newState = int64(p.unchanged), cursorState(f.seen.cursor)
	t.last = w.envelop(t, &internalpb.DocumentProcessRequest{Body: &internalpb.DocumentProcessRequest_Completed{
		Completed: &internalpb.SyncCompleted{
			Total: t.total, NewState: t.newState, ListingWhole: true, Unchanged: t.unchanged,
			Reason: reason,
		},
	}})
	t.fetched, f.total = true, t.total
}

// put numbers the parts of a document: one chunk each.
func (w *world) put(t *trip, s *source, d document) {
	doc := s.offer(d)
	if doc.Err != "" {
		w.number(t, part(doc, 1, func(p *internalpb.DocumentPart) { p.Error = doc.Err }))
		return
	}
	first := t.total + 1
	for i, c := range doc.Chunks {
		w.number(t, part(doc, int32(len(doc.Chunks)), func(p *internalpb.DocumentPart) {
			p.FirstNo, p.FirstChunk = first, int32(i)
			p.Chunks = []*internalpb.Chunk{{Text: c.Text, Start: c.Start, End: c.End}}
		}))
	}
}

func part(d worker.Document, parts int32, fill func(*internalpb.DocumentPart)) *internalpb.DocumentProcessRequest {
	p := &internalpb.DocumentPart{
		SourceId: d.SourceID, Title: d.Title, Url: d.URL, MediaType: d.MediaType, ContentHash: d.ContentHash,
		VersionToken: d.VersionToken, Parts: parts, ChunkCount: int32(len(d.Chunks)),
	}
	fill(p)
	return &internalpb.DocumentProcessRequest{Body: &internalpb.DocumentProcessRequest_Part{Part: p}}
}

// number gives a message its number and queues it for publishing.
func (w *world) number(t *trip, m *internalpb.DocumentProcessRequest) {
	w.tb.Helper()
	t.total++
	m.Number = t.total
	if p := m.GetPart(); p != nil && p.FirstNo == 0 {
		p.FirstNo = m.Number
	}
	t.unsent = append(t.unsent, w.envelop(t, m))
}

func (w *world) envelop(t *trip, m *internalpb.DocumentProcessRequest) *nats.Msg {
	w.tb.Helper()
	m.ConnectorId, m.ConfigVersion = t.request.ConnectorId, t.request.ConfigVersion
	m.ChunkingSession, m.Try = t.request.ChunkingSession, t.try.ID.String()
	data, err := proto.Marshal(m)
	must(w.tb, "encode a document", err)
	msg := nats.NewMsg(topology.DocumentSubject)
	msg.Data = data
	msg.Header.Set(topology.HeaderSession, m.ChunkingSession)
	msg.Header.Set(topology.HeaderTry, m.Try)
	msg.Header.Set(topology.HeaderNumber, fmt.Sprint(m.Number))
	return msg
}

// known is what the kit's Run.Known reads.
func (w *world) known(t *trip) map[string]worker.Known {
	w.tb.Helper()
	ctx, cancel := bounded()
	defer cancel()
	rows, err := w.worker.servers.Pool.Query(ctx, `
		SELECT source_id, CASE WHEN config_version = $2 THEN version_token ELSE '' END,
			CASE WHEN config_version = $2 THEN content_hash ELSE '' END
		FROM documents WHERE connector_id = $1 AND status IN ('stored', 'failed')`,
		t.request.ConnectorId, t.request.ConfigVersion)
	must(w.tb, "read known documents", err)
	defer rows.Close()
	known := map[string]worker.Known{}
	for rows.Next() {
		var name string
		var k worker.Known
		must(w.tb, "read a known document", rows.Scan(&name, &k.VersionToken, &k.ContentHash))
		known[name] = k
	}
	must(w.tb, "read known documents", rows.Err())
	return known
}

// drain gives up the lease. Where the run is complete, or somebody else's, nothing may happen.
func (w *world) drain(t *trip) {
	w.tb.Helper()
	before := w.look().connector(t.request.ConnectorId)
	err := w.move(func(ctx context.Context) error { return w.moves.Drain(ctx, t.try, t.lastSeq) })
	w.allowed("draining", t, err, before.heldBy(t) && before.DrainSeq == nil)
}

// skip ends a run that has sent nothing. Nothing is asked of semantic.
func (w *world) skip(t *trip) {
	w.tb.Helper()
	state, err := sdkwire.JSON(t.newState)
	must(w.tb, "encode a state", err)
	before := w.look().connector(t.request.ConnectorId)
	err = w.move(func(ctx context.Context) error {
		return w.moves.Skip(ctx, t.try, state, "nothing had changed", t.unchanged)
	})
	w.allowed("a skip", t, err, before.heldBy(t))
	t.over = true
}

// cut ends a fetch that takes too long, or is to wait: what it has numbered up to a number, or further where it has published more, is
// published, and the rest is never sent. A connector whose run has passed a checkpoint counts no failure for it.
func (w *world) cut(t *trip, sent int, isToWait bool) {
	w.tb.Helper()
	last := int64(sent)
	unsent := map[int64]bool{}
	for _, m := range t.unsent {
		unsent[numberOf(w, m)] = true
	}
	for no := t.total; no > last; no-- {
		if !unsent[no] {
			last = no
		}
	}
	t.unsent = slices.DeleteFunc(t.unsent, func(m *nats.Msg) bool { return numberOf(w, m) > last })
	w.stream(w.tb, topology.DocumentStream)
	for len(t.unsent) > 0 {
		w.send(t, 0)
	}
	before := w.look().connector(t.request.ConnectorId)
	err := w.move(func(ctx context.Context) error {
		if isToWait {
			return w.moves.PostponeWhenStored(ctx, t.try, last, t.place, time.Second, "the source asked us to wait")
		}
		return w.moves.Cut(ctx, t.try, last, t.place, lifecycle.TooLong, "it takes its time")
	})
	if w.allowed("a cut", t, err, before.heldBy(t) && before.DrainSeq == nil) {
		w.sessions[t.try.Run].total = last
	}
	t.over = true
}

func numberOf(w *world, m *nats.Msg) int64 {
	no, err := strconv.ParseInt(m.Header.Get(topology.HeaderNumber), 10, 64)
	must(w.tb, "read a number", err)
	return no
}

// renew sends the heartbeat of a trip's worker, at whatever time it wakes up. It names every run that the worker knows of.
func (w *world) renew(t *trip) {
	w.tb.Helper()
	before := w.look()
	var tries []lifecycle.Try
	named := w.tripsThat(func(o *trip) bool { return o.worker == t.worker && o.pickedUp })
	for _, o := range named {
		tries = append(tries, o.try)
	}
	var lost []lifecycle.Try
	err := w.move(func(ctx context.Context) (err error) {
		lost, err = w.moves.Heartbeat(ctx, t.worker, leaseTime, tries)
		return err
	})
	must(w.tb, "heartbeat", err)
	for _, o := range named {
		isLost := slices.Contains(lost, o.try)
		if isLost == before.connector(o.request.ConnectorId).leasedBy(o) {
			w.fatalf("the heartbeat says of %s that it is lost = %t; before: %s", o, isLost, before.connector(o.request.ConnectorId))
		}
		o.over = o.over || isLost
	}
	for _, r := range w.look().runs {
		known := slices.ContainsFunc(named, func(o *trip) bool { return r.isOf(o.try.ID) })
		if r.WorkerID != nil && *r.WorkerID == t.worker && !known && !w.justPickedUp(r) {
			w.fatalf("promise 3: %s is kept by a worker that knows nothing of it", r)
		}
	}
}

// justPickedUp says whether a worker may have a run that its heartbeat, already on its way, does not know yet.
func (w *world) justPickedUp(r runRow) bool { return time.Since(*r.PickedUpAt) < leaseTime }

// forget lets a worker go on for longer than a lease without a run of its own, whose end it could not write down.
func (w *world) forget(t *trip) {
	w.tb.Helper()
	w.exec(w.tb, `UPDATE open_runs SET picked_up_at = picked_up_at - interval '2 hours' WHERE try_id = $1`, t.try.ID)
	t.trigger.letGo()
	w.trips = slices.DeleteFunc(w.trips, func(o *trip) bool { return o == t })
}

// pickUpAgain repeats a pick-up whose answer was lost: it must say yes as long as the lease is its own.
func (w *world) pickUpAgain(t *trip) {
	w.tb.Helper()
	before := w.look().connector(t.request.ConnectorId)
	err := w.move(func(ctx context.Context) error { return w.take(ctx, t) })
	w.allowed("a repeated pick-up", t, err, before.leasedBy(t))
}

func (w *world) fail(t *trip, kind lifecycle.Failure) {
	w.tb.Helper()
	before := w.look().connector(t.request.ConnectorId)
	err := w.move(func(ctx context.Context) error { return w.moves.Fail(ctx, t.try, kind, "the source refused") })
	w.allowed("failure", t, err, before.heldBy(t))
	t.over = true
}

func (w *world) release(t *trip) {
	w.tb.Helper()
	before := w.look().connector(t.request.ConnectorId)
	err := w.move(func(ctx context.Context) error { return w.moves.Release(ctx, t.try) })
	w.allowed("release", t, err, before.heldBy(t) || before.is("PENDING", t.try.Run))
	t.over = true
}

func (w *world) postpone(t *trip) {
	w.tb.Helper()
	before := w.look().connector(t.request.ConnectorId)
	err := w.move(func(ctx context.Context) error {
		return w.moves.Postpone(ctx, t.try, time.Second, "the source asked us to wait")
	})
	w.allowed("postponement", t, err, before.heldBy(t))
	t.over = true
}

// die ends a trip's worker process with all its trips; what it had not acknowledged goes to another one.
func (w *world) die(t *trip) {
	dies := func(o *trip) bool { return o == t || o.worker == t.worker && t.worker != uuid.Nil }
	for _, o := range w.tripsThat(dies) {
		o.trigger.letGo()
	}
	w.trips = slices.DeleteFunc(w.trips, dies)
	for i, id := range w.crew {
		if id == t.worker {
			w.crew[i] = uuid.New()
		}
	}
}

func (w *world) move(do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return do(ctx)
}

// allowed checks that a move was made exactly where the run is the try's.
func (w *world) allowed(what string, t *trip, err error, expected bool) bool {
	w.tb.Helper()
	switch {
	case err != nil && !errors.Is(err, lifecycle.ErrFenced):
		w.fatalf("%s: %v", what, err)
	case expected && err != nil:
		w.fatalf("%s of %s was refused though the run is its own", what, t)
	case !expected && err == nil:
		w.fatalf("%s of %s was allowed though the run is not its own any more", what, t)
	}
	return err == nil
}
