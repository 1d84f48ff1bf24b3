package rest

import (
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/chaos/audit"
)

// person is somebody with one connector, whose replicas answer one after the other as the handlers do, and what the replicas were asked.
func person(t *testing.T, replicas ...http.HandlerFunc) (*Person, func() []*http.Request) {
	t.Helper()
	var mu sync.Mutex
	var asked []*http.Request
	serve := func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		answer := replicas[min(len(asked), len(replicas)-1)]
		asked = append(asked, r)
		mu.Unlock()
		answer(w, r)
	}
	var addresses []string
	for range 2 {
		server := httptest.NewServer(http.HandlerFunc(serve))
		t.Cleanup(server.Close)
		addresses = append(addresses, strings.TrimPrefix(server.URL, "http://"))
	}
	p := NewPerson(7, "token", "web", addresses, rand.New(rand.NewPCG(1, 1)), slog.New(slog.DiscardHandler))
	t.Cleanup(p.http.CloseIdleConnections)
	p.sources = []*source{{id: 12, name: "before"}}
	return p, func() []*http.Request {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(asked)
	}
}

func says(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// dies ends the connection without an answer.
func dies(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func TestAChangeWithoutAnAnswerIsRepeatedWithItsKeyAtTheOtherReplica(t *testing.T) {
	p, seen := person(t, dies, says(http.StatusServiceUnavailable, "", "Retry-After", "1"), says(http.StatusAccepted, "{}"))
	p.sync(t.Context(), p.sources[0])
	require.Len(t, p.record.Asked, 1)
	made := p.record.Asked[0]
	require.Equal(t, audit.Done, made.Outcome)
	require.Equal(t, "connectors.sync", made.Action)
	require.Len(t, made.Requests, len(seen()))
	ids, hosts := map[string]bool{}, map[string]bool{}
	for i, r := range seen() {
		require.Equal(t, made.Name, r.Header.Get("Idempotency-Key"))
		require.Equal(t, made.Requests[i], r.Header.Get("X-Request-Id"))
		ids[r.Header.Get("X-Request-Id")], hosts[r.Host] = true, true
	}
	require.Len(t, ids, len(seen()))
	require.Len(t, hosts, 2)
	require.Empty(t, p.record.Wrong)
	require.Equal(t, 2, p.record.Answers)
}

func TestARefusalCountsAsOneOnlyOfTheFirstTry(t *testing.T) {
	p, _ := person(t, says(http.StatusConflict, "{}"))
	p.sync(t.Context(), p.sources[0])
	require.Equal(t, audit.Refused, p.record.Asked[0].Outcome)
	p, _ = person(t, dies, says(http.StatusConflict, "{}"))
	p.sync(t.Context(), p.sources[0])
	require.Equal(t, audit.Unknown, p.record.Asked[0].Outcome)
}

func TestADefectIsWrittenDown(t *testing.T) {
	for name, wrong := range map[string]http.HandlerFunc{
		"a 500": says(http.StatusInternalServerError, "a defect"), "a 503 that does not say when to come again": says(http.StatusServiceUnavailable, "a defect"),
		"a 401": says(http.StatusUnauthorized, "a defect"), "a 404 of what everybody has": says(http.StatusNotFound, "a defect"),
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := person(t, wrong)
			_, ok := p.read(t.Context(), http.MethodGet, "/me", nil)
			require.False(t, ok)
			require.Len(t, p.record.Wrong, 1)
			require.Contains(t, p.record.Wrong[0], "a defect")
		})
	}
}

func TestAnUpdateWithoutAnAnswerIsMadeWhereTheConnectorHasItsName(t *testing.T) {
	for name, want := range map[string]audit.Outcome{"over REST 7-1.": audit.Done, "another": audit.Unknown} {
		t.Run(name, func(t *testing.T) {
			p, seen := person(t, says(http.StatusOK, `{"name": "before"}`, "ETag", `"1"`), dies, says(http.StatusPreconditionFailed, "{}"), says(http.StatusOK, `{"name": "`+name+`"}`, "ETag", `"2"`))
			p.update(t.Context(), p.sources[0])
			require.Equal(t, want, p.record.Asked[0].Outcome)
			require.Equal(t, want == audit.Done, len(p.sources) == 1, "one whose state nobody knows is left alone")
			require.Equal(t, `"1"`, seen()[2].Header.Get("If-Match"))
		})
	}
}

func TestADeletionWithoutAnAnswerIsMadeWhereTheConnectorIsGone(t *testing.T) {
	p, _ := person(t, says(http.StatusOK, `{"name": "before"}`, "ETag", `"1"`), dies, says(http.StatusNotFound, "{}"))
	p.delete(t.Context(), p.sources[0])
	require.Equal(t, audit.Done, p.record.Asked[0].Outcome)
	require.Empty(t, p.sources)
}

func TestAnOperationIsFollowedUntilItHasEnded(t *testing.T) {
	p, _ := person(t, says(http.StatusOK, `{"confirm": "yes"}`), says(http.StatusAccepted, `{"id": 3}`), says(http.StatusOK, `{"ended_at": null}`), says(http.StatusOK, `{"ended_at": "2026-02-06T18:00:00Z"}`))
	p.actOnMany(t.Context(), p.sources[0])
	require.Equal(t, "operations.create", p.record.Asked[0].Action)
	require.EqualValues(t, 3, p.many.open)
	p.actOnMany(t.Context(), p.sources[0])
	require.EqualValues(t, 3, p.many.open)
	p.actOnMany(t.Context(), p.sources[0])
	require.Zero(t, p.many.open)
	require.Len(t, p.record.Asked, 1)
}
