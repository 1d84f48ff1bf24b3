package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/echomind/sync/contract/events"
	"github.com/echomind/sync/contract/proto/gen/publicpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/testkit"
)

func TestWhereTheBrokerHasLostItsLastEventsWhoWatchesIsToldToBeginAnew(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	b := newBroadcastAt(t, server.URL())
	me, id := b.as(7, identity.User), b.connector(7, "user")
	s := me.watch("")
	s.until(b.tells(id))
	require.NoError(t, server.RestartAsKilled(topology.EventStream, func() error {
		var last string
		for range 5 {
			last = b.tells(id)
		}
		s.until(last)
		return nil
	}))
	lost := s.last
	var last string
	for range 8 { // the first take the numbers of those that are lost
		last = b.tells(id)
	}
	require.Equal(t, "reset", s.next().kind)
	again := me.watch("", "Last-Event-ID", lost)
	require.Equal(t, "reset", again.next().kind)
	require.NotEmpty(t, last)
	again.until(b.tells(id))
}

func TestAfterAResetNothingOfBeforeIsTold(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	b := newBroadcastAt(t, server.URL())
	me, id := b.as(7, identity.User), b.connector(7, "user")
	var all []*stream
	for range 6 {
		all = append(all, me.watch(""))
	}
	b.tellsMany(id, 2000)
	require.NoError(t, server.RestartAsKilled(topology.EventStream, func() error {
		last := b.tells(id)
		for _, s := range all {
			s.until(last)
		}
		return nil
	}))
	want := []string{b.tells(id), b.tells(id)} // the first has the number of the one that is lost
	for _, s := range all {
		require.Equal(t, "reset", s.next().kind)
	}
	last := b.tells(id)
	for _, s := range all {
		for _, e := range s.until(last) {
			require.Contains(t, want, strings.TrimPrefix(e, "run"))
		}
	}
}

func TestWhoBeginsFromNowOnIsToldNothingOfBefore(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(7, identity.User), b.connector(7, "user")
	me.watch("").close()
	b.tellsMany(id, 1000)
	streams := make(chan *stream, 4)
	for range cap(streams) {
		go func() { streams <- me.watch("") }()
	}
	all := []*stream{<-streams, <-streams, <-streams, <-streams}
	last := b.tells(id)
	for _, s := range all {
		require.Empty(t, s.until(last))
	}
}

// tellsMany publishes so many events, as fast as the server takes them.
func (b broadcast) tellsMany(connector int32, n int) {
	b.Helper()
	for range n {
		e := events.Event{ID: uuid.NewString(), Time: time.Now(), Run: &publicpb.RunEvent{ConnectorId: connector, Type: "web", Verdict: "completed"}}
		msg, err := e.Message()
		require.NoError(b, err)
		_, err = b.js.PublishMsgAsync(msg)
		require.NoError(b, err)
	}
	select {
	case <-b.js.PublishAsyncComplete():
	case <-b.Context().Done():
	}
}

func TestWhoComesFromAReplicaThatIsAheadMissesNothingAndHearsNothingTwice(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(7, identity.User), b.connector(7, "user")
	other := caller{b.replica(func(c *api.Config) { c.NATSURL = b.js.Conn().ConnectedUrl() }), me.token}
	s := me.watch("")
	for range 3 {
		other.watch("").close() // it has looked just now
		s.until(b.tells(id))
		last := s.last
		require.Empty(t, other.watch("", "Last-Event-ID", last).until(b.tells(id)))
	}
}

func TestTheEndOfARunThatBeganBeforeAHandoverIsNotToldToTheNewOwner(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	id, open := b.connector(8, "user"), b.connector(8, "org")
	began := time.Now()
	super, me := b.as(1, identity.Superadmin), b.as(7, identity.User)
	s := me.watch("")
	require.Equal(t, 200, super.do("PATCH", fmt.Sprintf("/connectors/%d", id), map[string]any{"user_id": 7}, "If-Match", "*").status)
	b.publish(events.Event{ID: uuid.NewString(), Time: time.Now().Add(time.Minute), Run: &publicpb.RunEvent{
		ConnectorId: id, Type: "web", Verdict: "superseded", StartedAt: timestamppb.New(began)}})
	b.publish(events.Event{ID: uuid.NewString(), Time: time.Now().Add(time.Minute), Run: &publicpb.RunEvent{ // slots of the former owner's, counted afterwards
		ConnectorId: id, Type: "web", Verdict: "missed", Slot: timestamppb.New(began.Add(-time.Hour)), SlotLast: timestamppb.New(began), Slots: 60, StartedAt: timestamppb.New(time.Now().Add(time.Minute))}})
	require.Empty(t, s.until(b.tells(open)))
}

func TestANumberThatNoConnectorHasIsNoFilter(t *testing.T) {
	t.Parallel()
	w := newBroadcast(t)
	for _, bad := range []string{"3000000000", "0", "-1"} {
		w.as(7, identity.User).refused(422, "invalid", w.as(7, identity.User).do("GET", "/events?connectors="+bad, nil))
	}
}
