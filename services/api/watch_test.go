package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/events"
	"github.com/echomind/sync/contract/proto/gen/publicpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/testkit"
)

// broadcast is a world with a stream of events, which the test writes as semantic does.
type broadcast struct {
	*world
	js jetstream.JetStream
}

func newBroadcast(t *testing.T, change ...func(*api.Config)) broadcast {
	t.Helper()
	return newBroadcastAt(t, testkit.NATS(t).URL(), change...)
}

// newBroadcastAt is newBroadcast beside a server that the test stops.
func newBroadcastAt(t *testing.T, url string, change ...func(*api.Config)) broadcast {
	t.Helper()
	js := testkit.JetStream(t, url)
	require.NoError(t, streams.EnsureStreams(t.Context(), js))
	return broadcast{newWorld(t, append(change, func(c *api.Config) { c.NATSURL = url })...), js}
}

// tells publishes that a connector's run has ended now, or at another time, and returns the event's id.
func (b broadcast) tells(connector int32, at ...time.Time) string {
	b.Helper()
	e := events.Event{ID: uuid.NewString(), Time: time.Now(), Run: &publicpb.RunEvent{ConnectorId: connector, Type: "web", Verdict: "completed"}}
	if len(at) > 0 {
		e.Time = at[0]
	}
	b.publish(e)
	return e.ID
}

func (b broadcast) publish(e events.Event) {
	b.Helper()
	msg, err := e.Message()
	require.NoError(b, err)
	_, err = b.js.PublishMsg(b.Context(), msg)
	require.NoError(b, err)
}

// heard is what a stream has told.
type heard struct{ kind, id, event, data string }

// stream is one that is open.
type stream struct {
	*testing.T
	lines *bufio.Scanner
	close context.CancelFunc
	last  string // the id that a browser would go on behind
}

func (c caller) watch(query string, headers ...string) *stream {
	c.Helper()
	return c.watchAt(http.DefaultClient, "/api/v1/events"+query, append(headers, "Authorization", "Bearer "+c.token)...)
}

func (c *world) openStream(client *http.Client, path string, headers ...string) *stream {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	c.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server.URL+path, nil)
	require.NoError(c, err)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answered, err := client.Do(r)
	require.NoError(c, err)
	c.Cleanup(func() { _ = answered.Body.Close() })
	require.Equal(c, http.StatusOK, answered.StatusCode)
	require.Equal(c, "text/event-stream", answered.Header.Get("Content-Type"))
	return &stream{c.T, bufio.NewScanner(answered.Body), cancel, ""}
}

// watchAt opens a stream that begins at a place.
func (c *world) watchAt(client *http.Client, path string, headers ...string) *stream {
	c.Helper()
	s := c.openStream(client, path, headers...)
	begins := s.read()
	require.Equal(c, heard{id: s.last}, begins) // what it begins with
	require.NotEmpty(c, s.last)
	return s
}

// next is what is told next, behind the places that a quiet stream tells; empty where the stream has ended.
func (s *stream) next() heard {
	s.Helper()
	for {
		if h := s.read(); h.kind != "" || h.id == "" {
			return h
		}
	}
}

// read reads one event, as https://html.spec.whatwg.org/multipage/server-sent-events.html says; empty where the stream has ended.
func (s *stream) read() (h heard) {
	s.Helper()
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "":
			if h.data != "" {
				var e struct{ ID, SpecVersion, Time string }
				require.NoError(s, json.Unmarshal([]byte(h.data), &e), h.data)
				h.event = e.ID
			}
			return h
		case "id":
			h.id, s.last = value, value
		case "event":
			h.kind = value
		case "data":
			h.data = value
		}
	}
	return heard{}
}

// until reads up to an event, and returns those before it.
func (s *stream) until(event string) (before []string) {
	s.Helper()
	for {
		h := s.next()
		require.NotEmpty(s, h.id, "the stream has ended before %s; it told %v", event, before)
		if h.event == event {
			return before
		}
		before = append(before, h.kind+h.event)
	}
}

// admits waits until there is a place for another stream of somebody's.
func (b broadcast) admits(token, otherwise string) {
	b.Helper()
	require.Eventually(b, func() bool {
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.server.URL+"/api/v1/events", nil)
		require.NoError(b, err)
		r.Header.Set("Authorization", "Bearer "+token)
		answered, err := http.DefaultClient.Do(r)
		require.NoError(b, err)
		defer func() { _ = answered.Body.Close() }()
		return answered.StatusCode == http.StatusOK
	}, time.Minute, 10*time.Millisecond, otherwise)
}

func (b broadcast) connector(owner int32, scope string) int32 {
	b.Helper()
	return one[int32](b.world, `INSERT INTO connectors (name, type, user_id, scope) VALUES ('x', 'web', $1, $2) RETURNING id`, owner, scope)
}

func TestAnEventIsToldToWhoSeesItsConnector(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	b.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	b.exec(`INSERT INTO connector_types (name, kind, system, max_concurrent_syncs) VALUES ('tidy', 'job', true, 0)`)
	all := map[identity.Ownership]int32{}
	for _, of := range []identity.Ownership{
		{UserID: 7, Scope: "user"}, {UserID: 8, Scope: "user"}, {UserID: 8, Scope: "group", GroupID: "g"}, {UserID: 7, Scope: "group", GroupID: "h"},
		{UserID: 8, Scope: "org"}, {UserID: 7, Scope: "user", System: true}, {UserID: 8, Scope: "org", System: true}, {Scope: "system", System: true},
	} {
		all[of] = b.something(of).id
	}
	open := b.connector(8, "org")
	for _, role := range identity.Roles {
		for _, groups := range [][]string{nil, {"g"}} {
			b.exec(`DELETE FROM group_members`)
			for _, g := range groups {
				b.exec(`INSERT INTO group_members VALUES (7, $1)`, g)
			}
			who := identity.Who{UserID: 7, Role: role, Groups: groups}
			s := b.as(7, role).watch("")
			ids := map[identity.Ownership]string{}
			for of, connector := range all {
				ids[of] = b.tells(connector)
			}
			before := s.until(b.tells(open))
			for of, id := range ids {
				require.Equal(t, who.Sees(of), strings.Contains(fmt.Sprint(before), "run"+id), "%+v hears of %+v", who, of)
			}
			s.close()
		}
	}
}

func TestAStreamGoesOnBehindItsLastEventAtEveryReplica(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(7, identity.User), b.connector(7, "user")
	hidden := b.connector(8, "user")
	s := me.watch("")
	first := b.tells(id)
	s.until(first)
	s.close()
	var want []string
	for range 3 {
		b.tells(hidden)
		want = append(want, "run"+b.tells(id))
	}
	other := caller{b.replica(func(c *api.Config) { c.NATSURL = b.js.Conn().ConnectedUrl() }), me.token}
	for _, c := range []caller{me, other} {
		again := c.watch("", "Last-Event-ID", s.last)
		require.Equal(t, want, again.until(b.tells(id))[:3])
		again.close()
	}
}

func TestWhoIsFarBehindIsToldEverythingInOrder(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(7, identity.User), b.connector(7, "user")
	s := me.watch("")
	s.until(b.tells(id))
	s.close()
	var want []string
	for range 250 {
		want = append(want, "run"+b.tells(id))
	}
	require.Equal(t, want, me.watch("", "Last-Event-ID", s.last).until(b.tells(id)))
}

func TestWhoComesBackTooLateIsToldToBeginAnew(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(7, identity.User), b.connector(7, "user")
	s := me.watch("")
	s.until(b.tells(id))
	s.close()
	behind := func(last string) {
		t.Helper()
		again := me.watch("", "Last-Event-ID", last)
		require.Equal(t, "reset", again.next().kind)
		require.Empty(t, again.until(b.tells(id)))
		again.close()
	}
	behind("nonsense")
	behind("ffffffffffffffff-1-0")
	stream, err := b.js.Stream(t.Context(), topology.EventStream)
	require.NoError(t, err)
	b.tells(id)
	require.NoError(t, stream.Purge(t.Context()))
	open := b.as(7, identity.User).watch("")
	require.NoError(t, b.js.DeleteStream(t.Context(), topology.EventStream))
	require.NoError(t, streams.EnsureStreams(t.Context(), b.js))
	require.Equal(t, "reset", open.next().kind, "the stream is another, and begins at 1")
	open.until(b.tells(id))
	behind(s.last)
}

func TestWhatAConnectorDidBeforeItsHandoverIsToldToNobodyNew(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	id, open := b.connector(8, "user"), b.connector(8, "org")
	super := b.as(1, identity.Superadmin)
	s := super.watch("")
	s.until(b.tells(open))
	s.close()
	b.tells(id, time.Now().Add(-time.Minute))
	require.Equal(t, 200, super.do("PATCH", fmt.Sprintf("/connectors/%d", id), map[string]any{"user_id": 7}, "If-Match", "*").status)
	later := b.tells(id, time.Now().Add(time.Minute))
	require.Empty(t, b.as(7, identity.User).watch("", "Last-Event-ID", s.last).until(later))
	require.Len(t, super.watch("", "Last-Event-ID", s.last).until(later), 1)
}

func TestThatAConnectorIsDeletedIsToldToWhoSawItThen(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	mine, given, others, open := b.connector(7, "user"), b.connector(7, "user"), b.connector(8, "user"), b.connector(8, "org")
	b.tells(mine)
	all := []int32{mine, given, others}
	me, query := b.as(7, identity.User), fmt.Sprintf("?connectors=%d,%d,%d,%d", mine, given, others, open)
	over := me.watch(query)
	over.until(b.tells(open))
	over.close()
	before := []*stream{me.watch(""), me.watch(query), b.as(8, identity.User).watch(""), b.as(1, identity.Superadmin).watch("")}
	b.exec(`UPDATE connectors SET user_id = 8 WHERE id = $1`, given)
	b.exec(`DELETE FROM connectors WHERE id <> $1`, open)
	goesOn := me.watch(query, "Last-Event-ID", over.last)
	var gone []string
	for _, id := range all {
		e := events.Event{ID: uuid.NewString(), Time: time.Now(), Connector: &publicpb.ConnectorEvent{ConnectorId: id, Type: "web", Was: publicpb.ConnectorStatus_CONNECTOR_STATUS_ACTIVE}}
		b.publish(e)
		gone = append(gone, "connector"+e.ID)
	}
	last := b.tells(open)
	for i, want := range [][]string{gone[:1], gone[:1], gone[1:], gone} {
		require.Equal(t, want, before[i].until(last))
	}
	require.Equal(t, gone[:1], goesOn.until(last))
	require.Equal(t, gone[:1], me.watch(query, "Last-Event-ID", over.last).until(last))
}

func TestAStreamOfOneConnectorTellsNothingOfAnother(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	one, another := b.connector(7, "user"), b.connector(7, "user")
	s := b.as(7, identity.User).watch(fmt.Sprint("?connectors=", one))
	b.tells(another)
	require.Empty(t, s.until(b.tells(one)))
}

func TestWhoWatchesAListIsToldWhatIsAddedToWhatTheySee(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	mine, shown, theirs := b.connector(7, "user"), b.connector(7, "user"), b.connector(8, "user")
	me := b.as(7, identity.User)
	list, none := me.watch(fmt.Sprint("?added=true&connectors=", shown)), me.watch("?added=true")
	added := func(connector int32) string {
		e := events.Event{ID: uuid.NewString(), Time: time.Now(), Connector: &publicpb.ConnectorEvent{ConnectorId: connector, Type: "web", Status: publicpb.ConnectorStatus_CONNECTOR_STATUS_ACTIVE}}
		b.publish(e)
		return e.ID
	}
	added(theirs)
	b.tells(mine)
	ended := b.tells(shown)
	is := added(mine)
	first, second := list.next(), list.next()
	require.Equal(t, []string{"run", ended, "connector", is}, []string{first.kind, first.event, second.kind, second.event})
	require.Contains(t, second.data, `"type":"echomind.connector.added"`)
	require.Equal(t, is, none.next().event, "and of no run")
}

func TestABrowserWatchesWithItsSession(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	id, other := b.connector(7, "user"), b.connector(8, "user")
	s := b.watchAt(&http.Client{Jar: b.as(7, identity.User).signedIn().client.Jar}, fmt.Sprintf("/events?connectors=%d,%d", id, other))
	b.tells(other)
	require.Empty(t, s.until(b.tells(id)))
}

func TestAStreamOutlivesTheTimeOfARequest(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t, func(c *api.Config) { c.RequestSeconds = 5 })
	id := b.connector(7, "user")
	s := b.as(7, identity.User).watch("")
	for began := time.Now(); time.Since(began) < 6*time.Second; {
		s.until(b.tells(id))
	}
}

func TestAStreamEndsWhereTheServiceStops(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me := b.as(7, identity.User)
	cfg := served(t, b.url, b.js.Conn().ConnectedUrl())
	ctx, stop := context.WithCancel(t.Context())
	addresses, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- api.RunAnd(ctx, cfg, connect.NewProcess(testkit.Logger(t)), func(addr string) { addresses <- addr })
	}()
	select {
	case address := <-addresses:
		b.server = &httptest.Server{URL: "http://" + address}
	case err := <-ended:
		t.Fatal(err)
	}
	s := caller{b.world, me.token}.watch("")
	stop()
	require.NoError(t, <-ended)
	require.Empty(t, s.next())
}

func TestNobodyHasAllStreams(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t, func(c *api.Config) { c.MaxWatchers = 11 })
	me, other := b.as(7, identity.User), b.as(8, identity.User)
	mine := me.watch("")
	refused := me.do("GET", "/events", nil)
	me.refused(http.StatusServiceUnavailable, "unavailable", refused)
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	other.watch("")
	mine.close()
	b.admits(me.token, "a place is free again where its stream has ended")
}

func TestWhileNATSIsAwayAStreamIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	me.refused(http.StatusServiceUnavailable, "unavailable", me.do("GET", "/events", nil))
}

func TestWhoWatchesTheQueueIsToldWhatBeginsAndEndsToWait(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	mine, theirs := b.connector(7, "user"), b.connector(8, "user")
	s := b.as(7, identity.User).watch("?waits=true")
	const active, pending, syncing = publicpb.ConnectorStatus_CONNECTOR_STATUS_ACTIVE, publicpb.ConnectorStatus_CONNECTOR_STATUS_PENDING, publicpb.ConnectorStatus_CONNECTOR_STATUS_SYNCING
	moves := func(connector int32, was, is publicpb.ConnectorStatus) string {
		e := events.Event{ID: uuid.NewString(), Time: time.Now(), Connector: &publicpb.ConnectorEvent{ConnectorId: connector, Type: "web", Was: was, Status: is}}
		b.publish(e)
		return "connector" + e.ID
	}
	moves(theirs, active, pending)
	want := []string{moves(mine, active, pending), moves(mine, pending, syncing)}
	b.tells(mine)
	moves(mine, syncing, active)
	want = append(want, moves(mine, active, pending))
	last := moves(mine, pending, active)
	require.Equal(t, want, s.until(strings.TrimPrefix(last, "connector")))
}
