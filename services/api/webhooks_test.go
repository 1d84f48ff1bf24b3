package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/testonly/movestest"
)

func TestAConnectorThatFailsIsToldOnceAndOnceItIsWellAgain(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r, id := w.receiver(), w.source()
	h := w.mine().hook(map[string]any{"name": "ops", "url": r.URL + "/in?x=1"})
	w.tell()
	require.Empty(t, r.took(), "all is well")
	w.is(id, "ERROR")
	w.tell()
	got := r.took()
	require.Len(t, got, 1)
	m := got[0]
	require.Equal(t, "connector.failed", m.body.Type)
	require.Equal(t, id, m.body.Data.ConnectorID)
	require.Equal(t, "the board", m.body.Data.Name)
	require.Equal(t, "web", m.body.Data.ConnectorType)
	require.Equal(t, "failed", m.body.Data.State)
	require.Equal(t, "the site does not answer", m.body.Data.Message)
	require.Equal(t, fmt.Sprintf("https://sync.example/sources/%d", id), m.body.Data.URL)
	require.Equal(t, "application/json", m.header.Get("Content-Type"))
	require.True(t, carriesSignature(m, h.secret))
	require.False(t, carriesSignature(m, "whsec_AAAA"))
	w.tell()
	require.Empty(t, r.took(), "it is failed still")
	movestest.Force(t, w.conn, `UPDATE connectors SET status = 'ACTIVE' WHERE id = $1`, id) // handed back; its failure is not over
	w.tell()
	require.Empty(t, r.took(), "its try goes on")
	w.is(id, "ACTIVE")
	w.tell()
	require.Equal(t, []string{"connector.recovered"}, r.types())
	w.tell()
	require.Empty(t, r.took())
	all := h.deliveries()
	require.Len(t, all, 2)
	require.Equal(t, "delivered", all[0]["state"])
	require.EqualValues(t, 1, all[0]["tries"])
	require.EqualValues(t, 200, all[0]["last_status"])
}

func TestAConnectorInFlightIsWhatItWasSaidToBe(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r, id := w.receiver(), w.source()
	w.mine().hook(map[string]any{"url": r.URL})
	w.exec(`SELECT moves.disable($1, 'enough')`, id)
	w.tell()
	require.Equal(t, []string{"connector.disabled"}, r.types())
	w.exec(`SELECT moves.enable($1)`, id)
	w.exec(`SELECT moves.trigger_sync($1)`, id)
	movestest.Claim(w, w.conn, id)
	w.tell()
	require.Empty(t, r.took(), "it waits for a worker")
}

func TestALateConnectorIsToldAndSoIsEachOtherLookOfIt(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r, id := w.receiver(), w.source()
	w.mine().hook(map[string]any{"url": r.URL})
	w.exec(`UPDATE connectors SET fresh_within_minutes = 60 WHERE id = $1`, id)
	w.tell()
	require.Empty(t, r.took())
	movestest.Force(t, w.conn, `UPDATE connectors SET last_sync_at = clock_timestamp() - interval '2 hours' WHERE id = $1`, id)
	w.tell()
	require.Equal(t, []string{"connector.stale"}, r.types())
	w.is(id, "ERROR")
	w.tell()
	require.Equal(t, []string{"connector.failed"}, r.types())
	w.exec(`SELECT moves.disable($1, 'enough')`, id)
	w.tell()
	require.Equal(t, []string{"connector.disabled"}, r.types())
	w.exec(`SELECT moves.enable($1)`, id)
	w.is(id, "ACTIVE")
	w.tell()
	require.Equal(t, []string{"connector.recovered"}, r.types())
}

func TestAWebhookIsToldOfItsEventsAndItsConnectorAlone(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r, quiet := w.receiver(), w.receiver()
	one, other := w.source(), w.source()
	me := w.mine()
	me.hook(map[string]any{"url": r.URL, "connector_id": one})
	me.hook(map[string]any{"url": quiet.URL, "events": []string{"disabled", "recovered"}})
	w.is(one, "ERROR")
	w.is(other, "ERROR")
	w.tell()
	require.Equal(t, []string{"connector.failed"}, r.types())
	w.is(one, "ACTIVE")
	w.is(other, "ACTIVE")
	w.tell()
	require.Equal(t, []string{"connector.recovered"}, r.types())
	require.Empty(t, quiet.took(), "what was not told to be failed has not recovered")
	me.refused(422, "invalid", me.do("POST", "/webhooks", map[string]any{"url": r.URL, "events": []string{"recovered"}}))
	others := one0(w, `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'web', 8) RETURNING id`)
	me.refused(422, "invalid", me.do("POST", "/webhooks", map[string]any{"url": r.URL, "connector_id": others}))
}

func one0(w *telling, sql string) int32 { return one[int32](w.world, sql) }

func TestWhoLosesSightOfAConnectorIsToldNoMoreOfIt(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r, silent := w.receiver(), w.receiver()
	id := one0(w, `INSERT INTO connectors (name, type, user_id, scope, scope_id) VALUES ('x', 'web', 8, 'group', 'g') RETURNING id`)
	w.exec(`INSERT INTO group_members VALUES (7, 'g', false)`)
	me := w.mine()
	me.hook(map[string]any{"url": r.URL})
	h := me.hook(map[string]any{"url": silent.URL})
	silent.fails(500)
	w.is(id, "ERROR")
	w.tell()
	require.Equal(t, []string{"connector.failed"}, r.types())
	require.Len(t, silent.took(), 1)
	w.exec(`DELETE FROM group_members`)
	w.send()
	require.Empty(t, silent.took(), "what waited is not sent")
	require.Equal(t, "dropped", h.deliveries()[0]["state"])
	w.is(id, "ACTIVE")
	w.tell()
	require.Empty(t, r.took())
	require.Zero(t, one0(w, `SELECT count(*)::integer FROM webhook_states`))
	w.is(id, "ERROR")
	w.exec(`INSERT INTO group_members VALUES (7, 'g', false)`)
	w.tell()
	require.Equal(t, []string{"connector.failed"}, r.types(), "it is told once more, from now on")
	w.exec(`INSERT INTO removed_users VALUES (7)`)
	w.is(id, "ACTIVE")
	w.tell()
	require.Empty(t, r.took(), "who was removed sees nothing")
}

func TestARoleCountsForAWebhookAsLongAsItCountsForItsMaker(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r := w.receiver()
	theirs := one0(w, `INSERT INTO connectors (name, type, user_id) VALUES ('theirs', 'web', 8) RETURNING id`)
	boss := w.as(7, identity.Superadmin)
	h := boss.hook(map[string]any{"url": r.URL})
	w.is(theirs, "ERROR")
	w.tell()
	require.Equal(t, []string{"connector.failed"}, r.types())
	require.Equal(t, "superadmin", h.get(h.path)["role_now"])
	w.exec(`UPDATE access_tokens SET revoked_at = clock_timestamp()`)
	w.is(theirs, "ACTIVE")
	w.tell()
	require.Empty(t, r.took(), "the token that said so is over")
	require.Equal(t, "user", w.mine().get(h.path)["role_now"])
	w.exec(`INSERT INTO users VALUES (7, 'superadmin')`)
	w.is(theirs, "ERROR")
	w.tell()
	require.Equal(t, []string{"connector.failed"}, r.types())
}

func TestAFailedDeliveryIsTriedAgainUnderItsIdAsItsReceiverAsks(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r, id := w.receiver(), w.source()
	h := w.mine().hook(map[string]any{"url": r.URL})
	r.fails(503, "Retry-After", "1000")
	w.is(id, "ERROR")
	w.tell()
	first := r.took()
	require.Len(t, first, 1)
	d := h.deliveries()[0]
	require.Equal(t, "pending", d["state"])
	require.EqualValues(t, 503, d["last_status"])
	require.Contains(t, d["last_error"], "answered 503: sorry")
	require.NotContains(t, d["last_error"], "hunter2")
	require.NotContains(t, d["last_error"], "second")
	require.True(t, one[bool](w.world, `SELECT next_at BETWEEN last_try_at + interval '999 seconds' AND last_try_at + interval '1001 seconds' FROM webhook_deliveries`))
	require.NoError(t, w.service.Send(t.Context()))
	w.service.Wait()
	require.Empty(t, r.took(), "it is not time")
	r.fails(302, "Location", r.URL+"/elsewhere")
	w.send()
	require.Len(t, r.took(), 1, "a redirect is not followed")
	r.answers(nil)
	w.send()
	last := r.took()
	require.Len(t, last, 1)
	require.Equal(t, first[0].id(), last[0].id())
	require.Equal(t, first[0].raw, last[0].raw)
	require.True(t, carriesSignature(last[0], h.secret))
	require.EqualValues(t, 3, h.deliveries()[0]["tries"])
	w.is(id, "ACTIVE")
	r.fails(500)
	w.look()
	for range 12 {
		w.send()
	}
	require.Len(t, r.took(), 10, "the tries are over")
	require.Equal(t, "failed", h.deliveries()[0]["state"])
	r.answers(nil)
	again := h.do("POST", fmt.Sprintf("%s/deliveries/%.0f/replay", h.path, h.deliveries()[0]["id"]), nil)
	require.Equal(t, http.StatusAccepted, again.status, again.text)
	w.send()
	require.Equal(t, []string{"connector.recovered"}, r.types())
}

func TestWhoAnswersGoneIsSwitchedOffAndToldAnewOnceItIsOn(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r, id := w.receiver(), w.source()
	h := w.mine().hook(map[string]any{"url": r.URL})
	r.fails(410)
	w.is(id, "ERROR")
	w.tell()
	require.Len(t, r.took(), 1)
	is := h.get(h.path)
	require.Equal(t, false, is["enabled"])
	require.Contains(t, is["disabled_reason"], "410 Gone")
	w.tell()
	require.Empty(t, r.took())
	r.answers(nil)
	on := h.do("PATCH", h.path, map[string]any{"enabled": true}, "If-Match", "*")
	require.Equal(t, http.StatusOK, on.status, on.text)
	require.Nil(t, on.body["disabled_reason"])
	w.tell()
	require.Equal(t, []string{"connector.failed"}, r.types())
}

func TestAWebhookOfWhichEverythingFailsForDaysIsSwitchedOff(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r, id := w.receiver(), w.source()
	h := w.mine().hook(map[string]any{"url": r.URL})
	r.fails(500)
	w.is(id, "ERROR")
	w.tell()
	require.NotNil(t, h.get(h.path)["failing_since"])
	back := func(since, last string) {
		w.exec(`UPDATE webhook_turns SET failing_since = clock_timestamp() - $1::interval, last_failed_at = clock_timestamp() - $2::interval`, since, last)
	}
	back("20 days", "3 days")
	w.send()
	require.Equal(t, true, h.get(h.path)["enabled"], "failures that lie apart are no long failure")
	back("119 hours", "20 hours")
	w.send()
	require.Equal(t, true, h.get(h.path)["enabled"])
	back("121 hours", "20 hours")
	w.send()
	is := h.get(h.path)
	require.Equal(t, false, is["enabled"])
	require.Contains(t, is["disabled_reason"], "nothing has arrived since 20")
	require.Contains(t, is["disabled_reason"], "answered 500")
	require.Equal(t, "dropped", h.deliveries()[0]["state"])
	require.Equal(t, "webhooks.update", one[string](w.world, `SELECT action FROM audit WHERE after ? 'disabled_reason' AND source = 'sql'`))
}

func TestPrivateAddressesAndURLsWithoutTLSAreRefused(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	strict := newWorld(t)
	me := strict.as(7, identity.User)
	for _, url := range []string{
		"http://example.org/", "https://127.0.0.1/", "https://[::1]/", "https://10.0.0.1:8443/x", "https://169.254.169.254/latest", "https://user:pw@example.org/", "https://example.org/#x", "ftp://example.org", "example.org",
		"https://", "https://exa mple.org/", "https://example.org/" + strings.Repeat("x", 1999),
	} {
		r := me.do("POST", "/webhooks", map[string]any{"url": url})
		me.refused(422, "invalid", r)
		require.NotContains(t, r.text, "pw@")
	}
	require.Equal(t, http.StatusCreated, me.do("POST", "/webhooks", map[string]any{"url": "https://example.org/hooks?key=x"}).status)
	// Names are looked up when something is sent.
	r, id := w.receiver(), w.source()
	_, port, _ := strings.Cut(strings.TrimPrefix(r.URL, "http://"), ":")
	h := w.mine().hook(map[string]any{"url": "https://localhost:" + port + "/"})
	w.service = w.teller(w.key)
	w.is(id, "ERROR")
	w.tell()
	require.Empty(t, r.took())
	require.Contains(t, h.deliveries()[0]["last_error"], `"localhost" has no public address`)
	require.Contains(t, h.deliveries()[0]["last_error"], "API_WEBHOOK_ALLOW_CIDRS")
	w.service = w.teller(w.key, "10.0.0.0/8")
	w.exec(`UPDATE webhooks SET url = $1`, r.URL)
	w.send()
	require.Empty(t, r.took())
	require.Contains(t, h.deliveries()[0]["last_error"], "127.0.0.1 is refused")
}

func TestTwoReplicasAtOnceTellEverythingOnce(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r := w.receiver()
	me := w.mine()
	for range 2 {
		me.hook(map[string]any{"url": r.URL})
	}
	w.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'x' || i, 'web', 7 FROM generate_series(1, 250) i`)
	movestest.Force(t, w.conn, `UPDATE connectors SET status = 'ERROR', failure_count = 1 WHERE user_id = 7`)
	w.exec(`UPDATE webhook_looks SET next_at = '-infinity'`)
	var replicas sync.WaitGroup
	for range 2 {
		s := w.teller(w.key, "127.0.0.0/8")
		replicas.Go(func() {
			for range 5 {
				if err := s.Look(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	replicas.Wait()
	w.look()
	require.EqualValues(t, 2*250, one0(w, `SELECT count(*)::integer FROM webhook_deliveries`))
	require.EqualValues(t, 2*250, one0(w, `SELECT count(DISTINCT (webhook_id, connector_id))::integer FROM webhook_deliveries`))
}

func TestWhatWasSentAndNotWrittenIsSentAgainUnderItsId(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r, id := w.receiver(), w.source()
	h := w.mine().hook(map[string]any{"url": r.URL})
	w.is(id, "ERROR")
	w.look()
	w.exec(`CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'its sender is dead'; END $$;
		CREATE TRIGGER die BEFORE UPDATE ON webhook_turns FOR EACH ROW WHEN (NEW.sending_until < OLD.sending_until) EXECUTE FUNCTION die()`)
	w.hurry()
	require.NoError(t, w.service.Send(t.Context()))
	w.service.Wait()
	w.exec(`DROP TRIGGER die ON webhook_turns`)
	first := r.took()
	require.Len(t, first, 1)
	require.Equal(t, "pending", h.deliveries()[0]["state"])
	require.EqualValues(t, 0, h.deliveries()[0]["tries"])
	other := w.teller(w.key, "127.0.0.0/8")
	require.NoError(t, other.Send(t.Context()))
	other.Wait()
	require.Empty(t, r.took(), "it is the first one's until its lease is over")
	w.hurry()
	require.NoError(t, other.Send(t.Context()))
	other.Wait()
	last := r.took()
	require.Len(t, last, 1)
	require.Equal(t, first[0].id(), last[0].id())
	require.Equal(t, "delivered", h.deliveries()[0]["state"])
}

func TestAReceiverThatHangsDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	dead, alive := w.receiver(), w.receiver()
	me := w.mine()
	me.hook(map[string]any{"url": dead.URL})
	me.hook(map[string]any{"url": alive.URL})
	let, isReleased := make(chan struct{}), sync.Once{}
	release := func() { isReleased.Do(func() { close(let) }) }
	defer release()
	var arrived, hanging, most atomic.Int32
	dead.answers(func(http.ResponseWriter, *http.Request) {
		most.Store(max(most.Load(), hanging.Add(1)))
		<-let
		hanging.Add(-1)
	})
	alive.answers(func(http.ResponseWriter, *http.Request) { arrived.Add(1) })
	for range 6 {
		w.is(w.source(), "ERROR")
	}
	w.look()
	require.Eventually(t, func() bool {
		return w.service.Send(t.Context()) == nil && arrived.Load() == 6
	}, time.Minute, 10*time.Millisecond)
	require.LessOrEqual(t, most.Load(), int32(4), "of one webhook so many are sent at once")
	release()
	w.service.Wait()
}
