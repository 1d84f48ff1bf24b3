package api_test

import (
	"fmt"
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
	require.Empty(t, s.until(b.tells(open)))
}

func TestANumberThatNoConnectorHasIsNoFilter(t *testing.T) {
	t.Parallel()
	w := newBroadcast(t)
	for _, bad := range []string{"3000000000", "0", "-1"} {
		w.as(7, identity.User).refused(422, "invalid", w.as(7, identity.User).do("GET", "/events?connectors="+bad, nil))
	}
}
