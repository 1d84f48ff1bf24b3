package api_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/events"
	"github.com/echomind/sync/contract/proto/gen/publicpb"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
)

// More is told than lies between a service and somebody who does not read. A user has one stream here.
func TestWhoDoesNotReadAStreamIsCutOffAndHoldsNobody(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t, func(c *api.Config) { c.MaxWatchers = 11 })
	me, other, id := b.as(7, identity.User), b.as(8, identity.User), b.connector(8, "org")
	b.openStream(&http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			err = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		}
		return c, err
	}}}, "/api/v1/events", "Authorization", "Bearer "+me.token)
	reads := b.openStream(http.DefaultClient, "/api/v1/events", "Authorization", "Bearer "+other.token)
	reads.lines.Buffer(nil, 1<<20)
	reads.read()
	for range 100 {
		b.publish(events.Event{ID: uuid.NewString(), Time: time.Now(), Run: &publicpb.RunEvent{ConnectorId: id, Type: "web", Verdict: "failed", Reason: strings.Repeat("x", 128<<10)}})
	}
	require.Len(t, reads.until(b.tells(id)), 100)
	b.admits(me.token, "who does not read still has the place")
}

func TestAQuietStreamTellsItsPlaceFromTimeToTime(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	s := b.as(7, identity.User).watch("")
	began := s.last
	b.tells(b.connector(8, "user"))
	h := s.read()
	require.Equal(t, heard{id: s.last}, h)
	require.NotEqual(t, began, s.last, "behind what somebody else is told")
}
