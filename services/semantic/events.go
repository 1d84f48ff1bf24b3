package semantic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

const (
	// eventPage is how many events are published at once.
	eventPage = 1000
	// eventPause is the time between two looks for events, where the last found less than a page.
	eventPause = 200 * time.Millisecond
	// eventLease is how long after its last look a publisher keeps its turn; it sends for half of it, so that one that was frozen sends nothing behind what
	// another has sent since.
	eventLease = 10 * time.Second
	// eventRounds is how many events of a connector are published of a full page: what lies behind is another's, and waits for it.
	eventRounds = 64
	// eventsNoted is how many events a publisher removes until it has the outbox's empty beginning noted, which else is done each lookInterval.
	eventsNoted = 1 << 14
	// eventTimeout bounds how long a round waits for its acknowledgements.
	eventTimeout = 5 * time.Second
)

// eventPauses are the pauses while Postgres or the broker is away, or another process publishes.
var eventPauses = repeat.Pauses{First: eventPause, Last: 2 * time.Second}

// errHeld says that events are published and not removed: they are published again, and the stream refuses the repeats of its last minutes.
var errHeld = errors.New("events are published that another transaction holds")

// publisher publishes what moves have written down: each event of a connector once the one before is acknowledged. Two publishers at the same
// time save nothing and break nothing: no event of a connector is in the stream before an earlier one, whoever publishes, and a repeat has its id.
type publisher struct {
	id      uuid.UUID
	queries *dbgen.Queries
	stream  jetstream.JetStream
	metrics *metrics
	log     *slog.Logger
	// page is how many events it publishes at once.
	page int32
	// patience bounds how long it waits for acknowledgements.
	patience time.Duration
	// after is the event behind which the next page begins, held are connectors of which an earlier one is left: a round goes on behind what
	// it could not publish or remove, up to until, and the next begins with the oldest again. What was written later may be behind a move whose event
	// was not committed yet when the round has passed its number.
	after, until int64
	held         map[int32]bool
	// cut says that the round has left events that nothing is wrong with, for those behind.
	cut bool
	// unnoted is how many events it has removed since it had the outbox's empty beginning noted.
	unnoted int
}

func (s *Semantic) newPublisher() *publisher {
	return &publisher{id: uuid.New(), queries: s.queries, stream: s.servers.Stream, metrics: s.metrics, log: s.log, page: eventPage, patience: eventTimeout, held: map[int32]bool{}}
}

// publishEvents publishes events until ctx ends.
func (s *Semantic) publishEvents(ctx context.Context) error {
	p := s.newPublisher()
	defer p.giveTurnBack(ctx)
	tries, removed := 0, 0                   // pauses in a row before which there was trouble and nothing was published; events removed since the last pause
	bad, sound, warned := false, true, false // since the last pause, in this round, and of which a round was not sound
	for ctx.Err() == nil {
		n, again, mine, err := p.look(ctx)
		removed, bad, sound = removed+n, bad || err != nil || !mine, sound && err == nil
		if err != nil && ctx.Err() == nil && !warned {
			warned = true
			p.log.Warn("events wait; they are kept, and published later", "err", err)
		}
		if p.after == 0 { // the round is over
			warned, sound = warned && !sound, true
		}
		if again {
			continue
		}
		if tries++; !bad || removed > 0 {
			tries = 1
		}
		removed, bad = 0, false
		_ = repeat.Sleep(ctx, eventPauses.After(tries))
	}
	return nil
}

// look publishes a page of events, the oldest of the round, and removes those that are acknowledged. It returns how many it has removed, whether
// to look again at once, and whether it was this publisher's turn. An error says that some are left. A round goes on behind those, unless a server
// is away.
func (p *publisher) look(ctx context.Context) (removed int, again, mine bool, err error) {
	until := time.Now().Add(eventLease / 2)
	newest, err := deadline.Get(ctx, "semantic.events_turn", queryTimeout, func(ctx context.Context) (int64, error) {
		return p.queries.TakeTurnToPublish(ctx, dbgen.TakeTurnToPublishParams{Publisher: p.id, Lease: eventLease})
	})
	if err != nil || newest == 0 {
		p.beginRound()
		return 0, false, false, err
	}
	if p.after == 0 {
		p.until = newest
	}
	rows, err := p.read(ctx)
	if err != nil {
		return 0, false, true, err
	}
	done, problem := p.publish(ctx, rows, until)
	failpoint.At("semantic.events_published")
	removed, err = p.remove(ctx, done)
	again = (problem == nil || answered(problem)) && (err == nil || errors.Is(err, errHeld))
	err = errors.Join(problem, err)
	switch {
	case len(rows) < int(p.page):
		again = p.cut && err == nil
		p.beginRound()
	case len(done) < len(rows), errors.Is(err, errHeld):
		p.after = *rows[len(rows)-1].No
	}
	return removed, again, true, err
}

func (p *publisher) beginRound() {
	p.after, p.cut = 0, false
	clear(p.held)
}

func (p *publisher) read(ctx context.Context) ([]dbgen.UnpublishedEventsRow, error) {
	rows, err := deadline.Get(ctx, "semantic.unpublished_events", queryTimeout, func(ctx context.Context) ([]dbgen.UnpublishedEventsRow, error) {
		return p.queries.UnpublishedEvents(ctx, dbgen.UnpublishedEventsParams{Page: p.page, After: p.after, Until: p.until})
	})
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return rows, nil
}

// remove removes events that the broker has, also where ctx has ended: else they would be published again. It returns how many it has removed.
func (p *publisher) remove(ctx context.Context, nos []int64) (int, error) {
	if len(nos) == 0 {
		return 0, nil
	}
	gone, err := deadline.Get(context.WithoutCancel(ctx), "semantic.remove_events", queryTimeout, func(ctx context.Context) (dbgen.RemoveEventsRow, error) {
		return p.queries.RemoveEvents(ctx, nos)
	})
	if err != nil {
		return 0, fmt.Errorf("remove published events: %w", err)
	}
	removed := int(gone.Status + gone.Verdicts)
	if removed < len(nos) {
		err = errHeld
	}
	if p.unnoted += removed; p.unnoted >= eventsNoted {
		p.unnoted = 0
		if err := noteEmptyEvents(ctx, p.queries); err != nil {
			return removed, err
		}
	}
	return removed, err
}

// noteEmptyEvents notes where the outbox begins, so that no look passes by the rows that have left it.
func noteEmptyEvents(ctx context.Context, queries *dbgen.Queries) error {
	_, err := deadline.Get(ctx, "semantic.note_empty_events", queryTimeout, queries.NoteEmptyEvents)
	if err != nil {
		return fmt.Errorf("note where events begin: %w", err)
	}
	return nil
}

func (p *publisher) giveTurnBack(ctx context.Context) {
	err := deadline.Do(context.WithoutCancel(ctx), "semantic.events_turn", queryTimeout, func(ctx context.Context) error {
		_, err := p.queries.TakeTurnToPublish(ctx, dbgen.TakeTurnToPublishParams{Publisher: p.id})
		return err
	})
	if err != nil {
		p.log.Debug("the turn to publish events was not given back; it is over in seconds", "err", err)
	}
}

// publish publishes events in rounds: in each the next one of every connector. One that is not acknowledged holds up those behind it of its
// connector, and no other's. It returns the numbers of those that may be removed, and holds the connectors of the others for the rest of the round.
// It begins none after until; of a full page it begins eventRounds.
func (p *publisher) publish(ctx context.Context, rows []dbgen.UnpublishedEventsRow, until time.Time) (done []int64, problem error) {
	full := len(rows) == int(p.page)
	for i := 0; len(rows) > 0 && ctx.Err() == nil && time.Now().Before(until) && (i < eventRounds || !full); i++ {
		var later []dbgen.UnpublishedEventsRow
		var sent []sentEvent
		begun := map[int32]bool{}
		for _, row := range rows {
			if row.ConnectorID == nil {
				p.log.Warn("the ledger has dropped a verdict before its event could be published", "run", row.RunID)
				p.metrics.events.WithLabelValues(asForgotten).Inc()
				done = append(done, *row.No)
				continue
			}
			connector := *row.ConnectorID
			switch {
			case p.held[connector]:
			case begun[connector]:
				later = append(later, row)
			default:
				begun[connector] = true
				future, err := p.send(row)
				if err != nil {
					p.held[connector], problem = true, worse(problem, err)
					p.metrics.events.WithLabelValues(asUnacknowledged).Inc()
					continue
				}
				sent = append(sent, sentEvent{*row.No, connector, future})
			}
		}
		acknowledged, err := p.land(ctx, sent)
		rows, done, problem = later, append(done, acknowledged...), worse(problem, err)
	}
	p.cut = p.cut || full && len(rows) > 0
	for _, row := range rows {
		if row.ConnectorID != nil {
			p.held[*row.ConnectorID] = true
		}
	}
	// Where somebody else listens to the subjects of a stream that is gone, no answer comes at all.
	var late *deadline.Error
	if ctx.Err() == nil && (errors.Is(problem, jetstream.ErrNoStreamResponse) || errors.As(problem, &late)) {
		problem = errors.Join(problem, streams.EnsureStreams(ctx, p.stream))
	}
	return done, problem
}

// answered says of a problem that the broker is there: it has refused an event, or has no stream for it.
func answered(problem error) bool {
	var late *deadline.Error
	var refused *jetstream.APIError
	return !errors.As(problem, &late) && (errors.Is(problem, jetstream.ErrNoStreamResponse) || errors.As(problem, &refused))
}

// worse is the first of two problems, or the second where only that has had no answer.
func worse(first, second error) error {
	if first == nil || second != nil && answered(first) && !answered(second) {
		return second
	}
	return first
}

// sentEvent is an event that waits for its acknowledgement.
type sentEvent struct {
	no        int64
	connector int32
	future    jetstream.PubAckFuture
}

func (p *publisher) send(row dbgen.UnpublishedEventsRow) (jetstream.PubAckFuture, error) {
	msg, err := eventOf(row).Message()
	if err != nil {
		return nil, err
	}
	return p.stream.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0))
}

// land waits for the acknowledgements of what was sent, and holds the connectors of which one did not come. It returns the worst problem.
func (p *publisher) land(ctx context.Context, sent []sentEvent) (done []int64, problem error) {
	late, cancel := context.WithTimeoutCause(ctx, p.patience, &deadline.Error{Name: "semantic.publish_events", After: p.patience})
	defer cancel()
	for _, s := range sent {
		var err error
		select {
		case <-s.future.Ok():
		case err = <-s.future.Err():
		case <-late.Done():
			err = context.Cause(late)
		}
		if err == nil {
			done = append(done, s.no)
			continue
		}
		p.held[s.connector], problem = true, worse(problem, err)
	}
	p.metrics.events.WithLabelValues(asPublished).Add(float64(len(done)))
	p.metrics.events.WithLabelValues(asUnacknowledged).Add(float64(len(sent) - len(done)))
	return done, problem
}

// KeepEvents empties what published events have left, notes where those begin that wait, and measures these.
func (s *Semantic) KeepEvents(ctx context.Context) error {
	_, err := deadline.Get(ctx, "semantic.clear_events", queryTimeout, s.queries.ClearEvents)
	problem := errors.Join(err, noteEmptyEvents(ctx, s.queries))
	waiting, err := deadline.Get(ctx, "semantic.events_waiting", queryTimeout, s.queries.EventsWaiting)
	if err != nil {
		return errors.Join(problem, fmt.Errorf("ask for waiting events: %w", err))
	}
	dropped, err := deadline.Get(ctx, "semantic.dropped_events", queryTimeout, s.queries.DroppedEvents)
	if err != nil {
		return errors.Join(problem, fmt.Errorf("ask for dropped events: %w", err))
	}
	s.metrics.eventsWaiting.Set(float64(waiting.Events))
	s.metrics.eventsAge.Set(waiting.Age)
	s.metrics.eventsDropped.WithLabelValues("status").Set(float64(dropped.Status))
	s.metrics.eventsDropped.WithLabelValues("verdict").Set(float64(dropped.Verdicts))
	return problem
}
