//go:build !race

package semantic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/events"
	"github.com/echomind/sync/contract/proto/gen/publicpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
	"github.com/echomind/sync/testonly/testkit"
)

// told are the messages of the event stream.
func (f *flow) told() (all []*jetstream.RawStreamMsg) {
	f.t.Helper()
	stream, err := f.js.Stream(ctx, topology.EventStream)
	require.NoError(f.t, err)
	state := stream.CachedInfo().State
	for seq := max(state.FirstSeq, 1); seq <= state.LastSeq; seq++ {
		msg, err := stream.GetMsg(ctx, seq)
		require.NoError(f.t, err)
		all = append(all, msg)
	}
	return all
}

// toldOf are a connector's events, as their subjects say them.
func (f *flow) toldOf(connector int32) (all []string) {
	f.t.Helper()
	for _, msg := range f.told() {
		e, err := events.Read(msg.Header, msg.Data)
		require.NoError(f.t, err)
		if e.Connector.GetConnectorId() == connector || e.Run.GetConnectorId() == connector {
			all = append(all, strings.TrimPrefix(msg.Subject, "events."))
		}
	}
	return all
}

// once fails the test unless each event is in the stream once.
func (f *flow) once() {
	f.t.Helper()
	seen := map[string]bool{}
	for _, msg := range f.told() {
		id := msg.Header.Get("Nats-Msg-Id")
		require.False(f.t, seen[id], "event %s is there twice", id)
		seen[id] = true
	}
}

func inAnHour() time.Time { return time.Now().Add(time.Hour) }

func (f *flow) waiting() []dbgen.UnpublishedEventsRow {
	f.t.Helper()
	p := f.newPublisher()
	p.until = math.MaxInt64
	rows, err := p.read(ctx)
	require.NoError(f.t, err)
	return rows
}

// publishesAll has a publisher go on until nothing waits.
func (f *flow) publishesAll(p *publisher) {
	f.t.Helper()
	testkit.Eventually(f.t, soon, func() error {
		_, _, _, err := p.look(ctx)
		if n := len(f.waiting()); err == nil && n > 0 {
			err = fmt.Errorf("%d events wait", n)
		}
		return err
	})
}

// A sync of a connector, as its events say it.
var aSync = []string{"connector.file.added", "connector.file.pending", "connector.file.syncing", "run.file.completed", "connector.file.active"}

func TestWhatBecomesOfAConnectorAndItsRunIsToldInOrderAsCloudEvents(t *testing.T) {
	f := newFlow(t)
	c := f.synced(map[string]string{"a": "x"})
	f.publishesAll(f.newPublisher())
	require.Equal(t, aSync, f.toldOf(c.connector))
	f.once()
	for _, msg := range f.told() {
		if msg.Subject != "events.run.file.completed" {
			continue
		}
		for name, value := range map[string]string{
			"ce-specversion": "1.0", "ce-id": c.session.String(), "Nats-Msg-Id": c.session.String(), "ce-source": "/echomind", "ce-type": "echomind.run.completed",
			"ce-subject": fmt.Sprint(c.connector), "ce-datacontenttype": "application/json",
		} {
			require.Equal(t, []string{value}, msg.Header[name], name)
		}
		e, err := events.Read(msg.Header, msg.Data)
		require.NoError(t, err)
		require.EqualValues(t, 1, e.Run.DocumentsProcessed)
		require.Equal(t, "new", e.Run.Trigger)
		require.Equal(t, e.Run.CompletedAt.AsTime(), e.Time.UTC())
		return
	}
	t.Error("no verdict was told")
}

func TestAConnectorThatIsStaleAndFreshAgainIsToldAsACloudEventWithoutAMove(t *testing.T) {
	f := newFlow(t)
	until := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	for _, what := range []string{events.Stale, events.Recovered} {
		f.exec(`INSERT INTO status_events (connector_id, type, was, status, freshness, fresh_until) VALUES (7, 'web', 'ERROR', 'ERROR', $1, $2)`, what, until)
	}
	f.publishesAll(f.newPublisher())
	var ids []string
	for _, msg := range f.told() {
		if msg.Header.Get("ce-subject") != "7" {
			continue
		}
		want := []string{events.Stale, events.Recovered}[len(ids)]
		require.Equal(t, "events.connector.web."+want, msg.Subject)
		require.Equal(t, "echomind.connector."+want, msg.Header.Get("ce-type"))
		e, err := events.Read(msg.Header, msg.Data)
		require.NoError(t, err)
		require.Equal(t, want, e.Connector.Freshness)
		require.Equal(t, until, e.Connector.FreshUntil.AsTime())
		require.Equal(t, publicpb.ConnectorStatus_CONNECTOR_STATUS_ERROR, e.Connector.Status)
		require.False(t, e.IsDeletion())
		ids = append(ids, e.ID)
	}
	require.Len(t, ids, 2)
	require.NotEqual(t, ids[0], ids[1])
}

func TestAProcessThatDiesBetweenPublishingAndRemovingTellsNothingTwice(t *testing.T) {
	f := newFlow(t)
	c := f.synced(map[string]string{"a": "x"})
	dies := f.newPublisher()
	rows := f.waiting()
	done, err := dies.publish(ctx, rows, inAnHour())
	require.NoError(t, err)
	require.Len(t, done, len(rows))
	require.Len(t, f.waiting(), len(rows), "nothing is removed")

	f.publishesAll(f.newPublisher())
	require.Equal(t, aSync, f.toldOf(c.connector))
	f.once()
}

func TestAPublisherThatWasFrozenBehindItsTurnSendsNothing(t *testing.T) {
	f := newFlow(t)
	f.synced(map[string]string{"a": "x"})
	done, err := f.newPublisher().publish(ctx, f.waiting(), time.Now())
	require.NoError(t, err)
	require.Empty(t, done)
	require.Empty(t, f.told())
}

func TestTwoPublishersAtOnceTellEachEventOnceAndInOrder(t *testing.T) {
	f := newFlow(t)
	var all []trip
	for range 20 {
		c := f.synced(map[string]string{"a": "x"})
		all = append(all, c)
	}
	ended := make(chan error)
	for range 2 {
		p := f.newPublisher()
		go func() {
			rows, err := p.read(ctx)
			if err == nil {
				_, err = p.publish(ctx, rows, inAnHour())
			}
			ended <- err
		}()
	}
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
	f.publishesAll(f.newPublisher())
	f.once()
	for _, c := range all {
		require.Equal(t, aSync, f.toldOf(c.connector))
	}
}

func TestOfTwoProcessesOnePublishesAndTheOtherTakesOverAtItsStop(t *testing.T) {
	f := newFlow(t)
	one, other := f.newPublisher(), f.newPublisher()
	_, _, mine, err := one.look(ctx)
	require.NoError(t, err)
	require.True(t, mine)
	_, _, mine, err = other.look(ctx)
	require.NoError(t, err)
	require.False(t, mine)
	one.giveTurnBack(ctx)
	_, _, mine, err = other.look(ctx)
	require.NoError(t, err)
	require.True(t, mine)
}

func TestEventsWaitWhileNATSIsAwayAndCome(t *testing.T) {
	f := newFlow(t)
	c := f.synced(map[string]string{"a": "x"})
	require.NoError(t, f.broker.Stop(ctx))
	p := f.newPublisher()
	n := len(f.waiting())
	away, cancel := context.WithTimeout(ctx, time.Second) // who waits no longer for an acknowledgement
	defer cancel()
	done, _ := p.publish(away, f.waiting(), inAnHour())
	require.Empty(t, done)
	require.Len(t, f.waiting(), n)

	require.NoError(t, f.broker.Restart(false))
	f.publishesAll(p)
	require.Equal(t, aSync, f.toldOf(c.connector))
	f.once()
}

func TestAStreamThatIsGoneIsMadeAgainAndTheEventsCome(t *testing.T) {
	f := newFlow(t)
	c := f.synced(map[string]string{"a": "x"})
	require.NoError(t, f.js.DeleteStream(ctx, topology.EventStream))
	f.publishesAll(f.newPublisher())
	require.Equal(t, aSync, f.toldOf(c.connector))
}

func TestAStreamThatIsGoneIsMadeAgainThoughSomebodyListensToItsSubjects(t *testing.T) {
	f := newFlow(t)
	nc, err := nats.Connect(f.broker.URL())
	require.NoError(t, err)
	defer nc.Close()
	_, err = nc.Subscribe("events.>", func(*nats.Msg) {})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	c := f.synced(map[string]string{"a": "x"})
	require.NoError(t, f.js.DeleteStream(ctx, topology.EventStream))
	p := f.newPublisher()
	p.patience = time.Millisecond
	_, _, _, err = p.look(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	p.patience = eventTimeout
	f.publishesAll(p)
	require.Equal(t, aSync, f.toldOf(c.connector))
}

func TestAnEventThatIsRefusedHoldsUpItsConnectorAndNoOther(t *testing.T) {
	f := newFlow(t)
	// A stream that takes only one of the two types.
	require.NoError(t, f.js.DeleteStream(ctx, topology.EventStream))
	declared := topology.Streams(0, 0, 1<<20)[3]
	declared.Subjects = []string{"events.connector.file.*", "events.run.file.*"}
	_, err := f.js.CreateStream(ctx, declared)
	require.NoError(t, err)
	free := f.synced(map[string]string{"a": "x"})
	held := f.synced(map[string]string{"a": "x"}, "type = 'web'")
	p := f.newPublisher()
	_, _, _, err = p.look(ctx)
	require.Error(t, err)
	require.Equal(t, aSync, f.toldOf(free.connector))
	for _, row := range f.waiting() {
		require.Equal(t, held.connector, *row.ConnectorID)
	}

	declared.Subjects = topology.Streams(0, 0, 0)[3].Subjects
	_, err = f.js.UpdateStream(ctx, declared)
	require.NoError(t, err)
	f.publishesAll(p)
	require.Equal(t, []string{"run.web.completed", "connector.web.active"}, f.toldOf(held.connector)[len(f.toldOf(held.connector))-2:])
	f.once()
}

func TestMoreRefusedEventsOfAConnectorThanAPageHoldUpNoOther(t *testing.T) {
	f := newFlow(t)
	require.NoError(t, f.js.DeleteStream(ctx, topology.EventStream))
	declared := topology.Streams(0, 0, 0)[3]
	declared.Subjects = []string{"events.connector.file.*", "events.run.file.*"}
	_, err := f.js.CreateStream(ctx, declared)
	require.NoError(t, err)
	held := f.connector("type = 'web'")
	for range 10 {
		f.exec(`SELECT moves.disable($1, 'off')`, held.connector)
		f.exec(`SELECT moves.enable($1)`, held.connector)
	}
	free := f.synced(map[string]string{"a": "x"})
	p := f.newPublisher()
	p.page = 7
	testkit.Eventually(t, soon, func() error {
		_, _, _, err := p.look(ctx)
		if told := f.toldOf(free.connector); len(told) < len(aSync) {
			return fmt.Errorf("told are %v: %w", told, err)
		}
		return nil
	})
	require.Equal(t, aSync, f.toldOf(free.connector))
	require.Equal(t, []string{"connector.file.added"}, f.toldOf(held.connector), "it was of another type then")

	declared.Subjects = topology.Streams(0, 0, 0)[3].Subjects
	_, err = f.js.UpdateStream(ctx, declared)
	require.NoError(t, err)
	f.publishesAll(p)
	told := f.toldOf(held.connector)
	require.Len(t, told, 21)
	for i, what := range told[1:] {
		require.Equal(t, []string{"connector.web.disabled", "connector.web.active"}[i%2], what)
	}
	f.once()
}

func TestARoundPassesByRefusedConnectorsWithoutAPause(t *testing.T) {
	f := newFlow(t)
	p := f.newPublisher()
	f.publishesAll(p)
	require.NoError(t, f.js.DeleteStream(ctx, topology.EventStream))
	declared := topology.Streams(0, 0, 0)[3]
	declared.Subjects = []string{"events.connector.file.*"}
	_, err := f.js.CreateStream(ctx, declared)
	require.NoError(t, err)
	f.exec(`INSERT INTO status_events (connector_id, type, was, status) SELECT g, 'web', 'ACTIVE', 'DISABLED' FROM generate_series(100, 120) g`)
	free := f.connector()
	p.page = 7
	for range 3 {
		_, again, _, err := p.look(ctx)
		require.ErrorIs(t, err, jetstream.ErrNoStreamResponse)
		require.True(t, again)
	}
	_, again, _, err := p.look(ctx)
	require.NoError(t, err)
	require.False(t, again, "the round is over")
	require.Equal(t, []string{"connector.file.added"}, f.toldOf(free.connector))
}

func TestARefusalIsAnAnswerAndSilenceIsNone(t *testing.T) {
	silence, refusal := &deadline.Error{}, &jetstream.APIError{}
	require.True(t, answered(refusal))
	require.True(t, answered(jetstream.ErrNoStreamResponse))
	require.False(t, answered(nats.ErrConnectionClosed))
	require.False(t, answered(errors.Join(jetstream.ErrNoStreamResponse, silence)), "nor does the broker say what streams there are")
	require.Equal(t, silence, worse(refusal, silence))
	require.Equal(t, silence, worse(silence, refusal))
	require.Equal(t, refusal, worse(nil, refusal))
	require.Equal(t, refusal, worse(refusal, nil))
}

func TestAnothersEventWaitsForFewOfABusyConnector(t *testing.T) {
	f := newFlow(t)
	p := f.newPublisher()
	f.publishesAll(p)
	f.exec(`INSERT INTO status_events (connector_id, type, was, status) SELECT 100, 'web', 'ACTIVE', 'DISABLED' FROM generate_series(1, 200)`)
	other := f.connector()
	p.page = 100
	for i, want := range []int{eventRounds, 0, 1, eventRounds, 0, 200 - 2*eventRounds} {
		removed, again, _, err := p.look(ctx)
		require.NoError(t, err)
		require.Equal(t, want, removed)
		require.Equal(t, i < 5, again)
		if i == 2 {
			require.Equal(t, []string{"connector.file.added"}, f.toldOf(other.connector))
		}
	}
	require.Empty(t, f.waiting())
}

func TestAMoveThatIsCommittedBehindWhereARoundIsComesBeforeALaterOneOfItsConnector(t *testing.T) {
	f := newFlow(t)
	late, busy := f.connector(), f.connector()
	p := f.newPublisher()
	f.publishesAll(p)
	tx, err := f.pool.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT moves.disable($1, 'off')`, late.connector)
	require.NoError(t, err)
	for range 20 {
		f.exec(`SELECT moves.disable($1, 'off')`, busy.connector)
		f.exec(`SELECT moves.enable($1)`, busy.connector)
	}
	p.page, p.held[busy.connector] = 17, true // it is full, and nothing of it can be published
	_, again, _, err := p.look(ctx)
	require.NoError(t, err)
	require.True(t, again)
	require.Positive(t, p.after)
	require.NoError(t, tx.Commit(ctx))
	f.exec(`SELECT moves.enable($1)`, late.connector)
	f.publishesAll(p)
	require.Equal(t, []string{"connector.file.added", "connector.file.disabled", "connector.file.active"}, f.toldOf(late.connector))
	require.Len(t, f.toldOf(busy.connector), 41)
	f.once()
}

func TestEventsThatAnotherTransactionHoldsHoldUpNoOther(t *testing.T) {
	f := newFlow(t)
	p := f.newPublisher()
	f.publishesAll(p)
	f.exec(`INSERT INTO status_events (connector_id, type, was, status) SELECT g, 'web', 'ACTIVE', 'DISABLED' FROM generate_series(100, 120) g`)
	tx, err := f.pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	_, err = tx.Exec(ctx, `SELECT FROM status_events ORDER BY no LIMIT 14 FOR UPDATE`)
	require.NoError(t, err)
	c := f.connector()
	p.page = 7
	for _, want := range []struct {
		removed int
		err     error
	}{{0, errHeld}, {0, errHeld}, {7, nil}, {1, nil}, {0, errHeld}} {
		removed, _, _, err := p.look(ctx)
		require.ErrorIs(t, err, want.err)
		require.Equal(t, want.removed, removed)
	}
	require.Equal(t, []string{"connector.file.added"}, f.toldOf(c.connector))
	require.Len(t, f.waiting(), 14)
	require.NoError(t, tx.Rollback(ctx))
	f.publishesAll(p)
	f.once()
}

func TestWhereTheOutboxBeginsIsNotedEachTimeThatManyEventsHaveLeftIt(t *testing.T) {
	f := newFlow(t)
	noted := func() int {
		return len(many[int64](f.fixture, `SELECT noted_no FROM event_publisher WHERE noted_no IS NOT NULL`))
	}
	f.connector()
	p := f.newPublisher()
	p.unnoted = eventsNoted - 2
	f.publishesAll(p)
	require.Zero(t, noted())
	f.connector()
	f.publishesAll(p)
	require.Equal(t, 1, noted())
	require.Zero(t, p.unnoted)
}

func TestAFullStreamMakesRoomForNewEvents(t *testing.T) {
	f := newFlow(t)
	declared := topology.Streams(0, 0, 4096)[3]
	_, err := f.js.UpdateStream(ctx, declared)
	require.NoError(t, err)
	var last trip
	for range 5 {
		last = f.synced(map[string]string{"a": "x"})
	}
	f.publishesAll(f.newPublisher())
	told := f.toldOf(last.connector)
	require.Equal(t, "connector.file.active", told[len(told)-1])
	require.Less(t, len(f.told()), 25)
}

func TestMoreEventsOfAConnectorThanAPageComeInOrder(t *testing.T) {
	f := newFlow(t)
	c := f.connector()
	for range 16 {
		f.exec(`SELECT moves.disable($1, 'off')`, c.connector)
		f.exec(`SELECT moves.enable($1)`, c.connector)
	}
	p := f.newPublisher()
	p.page = 7
	f.publishesAll(p)
	told := f.toldOf(c.connector)
	require.Len(t, told, 1+2*16)
	for i, what := range told[1:] {
		require.Equal(t, []string{"connector.file.disabled", "connector.file.active"}[i%2], what)
	}
}

func TestTheServicePublishesAndMeasuresWhatWaits(t *testing.T) {
	f := newFlow(t)
	c := f.synced(map[string]string{"a": "x"})
	require.NoError(t, inTime(f.KeepEvents))
	var waiting dto.Metric
	require.NoError(t, f.metrics.eventsWaiting.Write(&waiting))
	require.Positive(t, waiting.GetGauge().GetValue())
	stop := f.runs()
	testkit.Eventually(t, soon, func() error {
		if told := f.toldOf(c.connector); len(told) != len(aSync) {
			return fmt.Errorf("%q", told)
		}
		return nil
	})
	stop()
}

func TestAReasonInSomebodysOwnWordsIsNotTold(t *testing.T) {
	f := newFlow(t)
	c := f.syncing()
	m := c.completed(0)
	m.GetCompleted().Reason = "nothing new in Patient Smith's folder"
	c.stores(m)
	require.Equal(t, "skipped", c.verdict())
	f.publishesAll(f.newPublisher())
	found := false
	for _, msg := range f.told() {
		require.NotContains(t, string(msg.Data), "Smith")
		if e, err := events.Read(msg.Header, msg.Data); err == nil && e.Run != nil {
			require.Equal(t, events.Other, e.Run.Reason)
			found = true
		}
	}
	require.True(t, found)
}

func TestAVerdictThatTheLedgerHasDroppedHoldsUpNothing(t *testing.T) {
	f := newFlow(t)
	f.exec(`INSERT INTO verdict_events (run_id, completed_at) VALUES (gen_random_uuid(), clock_timestamp())`)
	c := f.synced(map[string]string{"a": "x"})
	f.publishesAll(f.newPublisher())
	require.Equal(t, aSync, f.toldOf(c.connector))
}

func TestStatusesHaveTheirNumbersOnTheWire(t *testing.T) {
	for number, name := range publicpb.ConnectorStatus_name {
		if number != 0 {
			require.EqualValues(t, number, statusOf(strings.TrimPrefix(name, "CONNECTOR_STATUS_")))
		}
	}
}
