package api_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/testonly/testkit"
)

func TestNothingThatWaitsIsSentToWhoDoesNotSeeItAnyMore(t *testing.T) {
	t.Parallel()
	for how, takes := range map[string]string{"left the group": `DELETE FROM group_members`, "was removed": `INSERT INTO removed_users VALUES (7)`} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newTelling(t)
			r := w.receiver()
			w.exec(`INSERT INTO group_members VALUES (7, 'g', false)`)
			w.mine().hook(map[string]any{"url": r.URL})
			for range 10 {
				w.is(one0(w, `INSERT INTO connectors (name, type, user_id, scope, scope_id) VALUES ('secret plan', 'web', 8, 'group', 'g') RETURNING id`), "ERROR")
			}
			w.look()
			w.exec(takes)
			w.send()
			require.Empty(t, r.took())
		})
	}
}

func TestWhatAWebhookIsNotToldOfIsNoRecovery(t *testing.T) {
	t.Parallel()
	for name, events := range map[string][2][]string{
		"from the start": {{"failed", "recovered"}, nil}, "since a change": {{"failed", "disabled", "recovered"}, {"disabled", "recovered"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTelling(t)
			r, id := w.receiver(), w.source()
			h := w.mine().hook(map[string]any{"url": r.URL, "events": events[0]})
			w.is(id, "ERROR")
			w.tell()
			require.Equal(t, []string{"connector.failed"}, r.types())
			if events[1] != nil {
				require.Equal(t, http.StatusOK, h.do("PATCH", h.path, map[string]any{"events": events[1]}, "If-Match", "*").status)
			} else {
				w.exec(`SELECT moves.disable($1, 'enough')`, id)
			}
			w.tell()
			require.Empty(t, r.types())
			w.is(id, "ACTIVE")
			w.tell()
			require.Equal(t, []string{"connector.recovered"}, r.types())
		})
	}
}

// other is another connection.
func (w *telling) other() *pgx.Conn {
	w.Helper()
	conn, err := pgx.Connect(w.Context(), w.url)
	require.NoError(w, err)
	w.Cleanup(func() { _ = conn.Close(w.Context()) })
	return conn
}

// deleted is a transaction that has deleted a connector and does not end.
func (w *telling) deleted(id int32) {
	w.Helper()
	tx, err := w.other().Begin(w.Context())
	require.NoError(w, err)
	_, err = tx.Exec(w.Context(), `DELETE FROM connectors WHERE id = $1`, id)
	require.NoError(w, err)
	w.Cleanup(func() { _ = tx.Rollback(w.Context()) })
}

func TestATransactionThatStandsKeepsNoOthersWebhookFromBeingTold(t *testing.T) {
	t.Parallel()
	for status, told := range map[string]string{"ERROR": "still failed", "ACTIVE": "well again"} {
		t.Run(told, func(t *testing.T) {
			t.Parallel()
			w := newTelling(t)
			mine, theirs := w.receiver(), w.receiver()
			id := w.source()
			w.mine().hook(map[string]any{"url": mine.URL})
			w.as(8, identity.User).hook(map[string]any{"url": theirs.URL})
			w.is(id, "ERROR")
			w.tell()
			w.is(id, status)
			w.exec(`SELECT moves.disable($1, 'enough')`, one0(w, `INSERT INTO connectors (name, type, user_id) VALUES ('of 8', 'web', 8) RETURNING id`))
			w.deleted(id)
			w.tell()
			require.Equal(t, []string{"connector.disabled"}, theirs.types())
		})
	}
}

func TestADeletionThatStandsKeepsNothingElseOfAWebhookFromBeingToldAndIsToldWhereItIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r := w.receiver()
	held, well, failed := w.source(), w.source(), w.source()
	w.mine().hook(map[string]any{"url": r.URL})
	w.is(held, "ERROR")
	w.is(well, "ERROR")
	w.tell()
	require.Len(t, r.types(), 2)
	w.is(held, "ACTIVE")
	w.is(well, "ACTIVE")
	w.is(failed, "ERROR")
	tx, err := w.other().Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `DELETE FROM connectors WHERE id = $1`, held)
	require.NoError(t, err)
	w.tell()
	require.ElementsMatch(t, []string{"connector.recovered", "connector.failed"}, r.types())
	require.True(t, one[bool](w.world, `SELECT look_at < clock_timestamp() + interval '16 seconds' AND NOT is_called FROM webhook_turns`), "it is looked at again soon, and not at once for ever")
	require.NoError(t, tx.Rollback(t.Context()))
	w.tell()
	require.Equal(t, []string{"connector.recovered"}, r.types())
	require.Equal(t, failed, one[int32](w.world, `SELECT connector_id FROM webhook_states`))
}

// blind is a webhook that was told of a connector which its owner does not see any more.
func (w *telling) blind() (connector int32, h webhook) {
	w.Helper()
	connector = one0(w, `INSERT INTO connectors (name, type, user_id, scope, scope_id) VALUES ('x', 'web', 8, 'group', 'g') RETURNING id`)
	w.exec(`INSERT INTO group_members VALUES (7, 'g', false)`)
	h = w.mine().hook(map[string]any{"url": w.receiver().URL})
	w.is(connector, "ERROR")
	w.look()
	require.EqualValues(w, 1, one0(w, `SELECT count(*)::integer FROM webhook_states`))
	w.exec(`DELETE FROM group_members`)
	w.exec(`UPDATE webhook_turns SET look_at = clock_timestamp()`)
	return connector, h
}

func TestALookHoldsNoConnectorThatItsOwnerDoesNotSeeAnyMore(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	id, h := w.blind()
	tx, err := w.other().Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT api.next_look()`)
	require.NoError(t, err)
	tag, err := tx.Exec(t.Context(), `SELECT * FROM api.look_webhook($1, '15 minutes', 200)`, h.id)
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected(), "it is to be forgotten")
	w.exec(`SET lock_timeout = '100ms'`)
	w.exec(`DELETE FROM connectors WHERE id = $1`, id)
	require.NoError(t, tx.Rollback(t.Context()))
}

func TestALookForgetsNoConnectorThatSomebodyDeletesAndHasTheOthersTold(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	id, _ := w.blind()
	failed := w.source()
	w.is(failed, "ERROR")
	w.deleted(id)
	w.look()
	require.EqualValues(t, 1, one[int32](w.world, `SELECT count(*)::integer FROM webhook_deliveries WHERE connector_id = $1`, failed))
}

func TestAServiceThatStandsStillBetweenTellingAndCommittingHoldsADeletionForASecond(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	proxy, vanishing := w.behindProxy()
	id := w.source()
	w.mine().hook(map[string]any{"url": w.receiver().URL})
	w.is(id, "ERROR")
	w.look()
	w.is(id, "ACTIVE") // its row is deleted when that is told
	w.exec(`UPDATE webhook_looks SET next_at = '-infinity'`)
	w.exec(`UPDATE webhook_turns SET look_at = clock_timestamp()`)
	told := make(chan struct{})
	var once sync.Once
	proxy.Withhold(func(_ net.Conn, block []byte) bool {
		if !bytes.Contains(block, []byte("msg_")) {
			return false
		}
		once.Do(func() { close(told) })
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- vanishing.Look(ctx) }()
	<-told
	w.exec(fmt.Sprintf(`SET lock_timeout = '%ds'`, int(testkit.Patience(2*time.Second).Seconds()))) // as a deletion's of the API, here
	w.exec(`DELETE FROM connectors WHERE id = $1`, id)
	cancel()
	require.Error(t, <-ended)
}

func TestAnAnswerOfTheAddressOfBeforeSaysNothingOfAWebhook(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	old, fresh := w.receiver(), w.receiver()
	h := w.mine().hook(map[string]any{"url": old.URL})
	w.is(w.source(), "ERROR")
	w.look()
	came, goes := make(chan struct{}), make(chan struct{})
	old.answers(func(rw http.ResponseWriter, _ *http.Request) {
		close(came)
		<-goes
		rw.WriteHeader(http.StatusGone)
	})
	require.NoError(t, w.service.Send(t.Context()))
	<-came
	require.Equal(t, http.StatusOK, h.do("PATCH", h.path, map[string]any{"url": fresh.URL}, "If-Match", "*").status)
	close(goes)
	w.service.Wait()
	require.Equal(t, true, h.get(h.path)["enabled"])
	w.tell()
	require.Equal(t, []string{"connector.failed"}, fresh.types())
}

// What waits for an address that was wrong is not told anew: who gives another one would wait for the next try of the old one, a day at the longest.
func TestWhatWaitsIsSentAtOnceToAnotherAddress(t *testing.T) {
	t.Parallel()
	for name, isUnderWay := range map[string]bool{"it waits for its next try": false, "it is being tried": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTelling(t)
			old, fresh := w.receiver(), w.receiver()
			h := w.mine().hook(map[string]any{"url": old.URL})
			w.is(w.source(), "ERROR")
			w.look()
			w.exec(`UPDATE webhook_deliveries SET tries = 6`)
			came, goes := make(chan struct{}), make(chan struct{})
			old.answers(func(rw http.ResponseWriter, _ *http.Request) {
				close(came)
				<-goes
				rw.WriteHeader(http.StatusInternalServerError)
			})
			require.NoError(t, w.service.Send(t.Context()))
			<-came
			if !isUnderWay {
				close(goes)
				w.service.Wait()
			}
			require.Equal(t, http.StatusOK, h.do("PATCH", h.path, map[string]any{"url": fresh.URL}, "If-Match", "*").status)
			if isUnderWay {
				close(goes)
				w.service.Wait()
			}
			require.NoError(t, w.service.Send(t.Context()))
			w.service.Wait()
			require.Equal(t, []string{"connector.failed"}, fresh.types())
		})
	}
}

func TestAWebhookIsSentToByOneSenderHoweverOftenItIsTested(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r := w.receiver()
	h := w.mine().hook(map[string]any{"url": r.URL})
	came, goes := make(chan struct{}, 100), make(chan struct{})
	r.answers(func(http.ResponseWriter, *http.Request) {
		came <- struct{}{}
		<-goes
	})
	require.Equal(t, http.StatusAccepted, h.do("POST", h.path+"/test", nil).status)
	require.NoError(t, w.service.Send(t.Context()))
	<-came
	for range 5 {
		require.Equal(t, http.StatusAccepted, h.do("POST", h.path+"/test", nil).status)
		require.NoError(t, w.service.Send(t.Context()))
	}
	require.Empty(t, came, "it is sent to already")
	require.Len(t, r.took(), 1)
	close(goes)
	w.service.Wait()
	w.send()
	w.send()
	require.Len(t, r.took(), 5)
}

func TestAWebhookIsLookedAtThoughTheClockWasAhead(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r, id := w.receiver(), w.source()
	w.mine().hook(map[string]any{"url": r.URL})
	w.look()
	w.exec(`UPDATE webhook_turns SET look_at = look_at + interval '1 day'`)
	w.exec(`UPDATE webhook_looks SET next_at = next_at + interval '1 day'`)
	w.is(id, "ERROR")
	require.NoError(t, w.service.Look(t.Context()))
	w.send()
	require.Equal(t, []string{"connector.failed"}, r.types())
}

func TestATokenThatMayNotReadHasNothingToldByAWebhook(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	writes := w.as(7, identity.User, identity.Write)
	refused := writes.do("POST", "/webhooks", map[string]any{"url": "https://receiver.example/"})
	require.Equal(t, http.StatusForbidden, refused.status)
	h := w.mine().hook(map[string]any{"url": w.receiver().URL})
	require.Equal(t, http.StatusForbidden, writes.do("PATCH", h.path, map[string]any{"url": "https://receiver.example/"}, "If-Match", "*").status)
}

func TestAWebhookWhoseLookFailsKeepsNoOtherFromBeingTold(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	bad, good := w.receiver(), w.receiver()
	me := w.mine()
	h := me.hook(map[string]any{"url": bad.URL})
	me.hook(map[string]any{"url": good.URL})
	w.exec(fmt.Sprintf(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'never'; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON webhook_states FOR EACH ROW WHEN (NEW.webhook_id = %d) EXECUTE FUNCTION refuse()`, h.id))
	w.is(w.source(), "ERROR")
	w.exec(`UPDATE webhook_looks SET next_at = '-infinity'`)
	w.exec(`UPDATE webhook_turns SET look_at = clock_timestamp() - make_interval(hours => 2 - (webhook_id = $1)::integer)`, h.id)
	require.NoError(t, w.service.Look(t.Context()))
	require.True(t, one[bool](w.world, `SELECT look_at > clock_timestamp() - interval '30 minutes' FROM webhook_turns WHERE webhook_id = $1`, h.id), "it is looked at again")
	w.send()
	require.Equal(t, []string{"connector.failed"}, good.types())
	require.Empty(t, bad.types())
}

func TestWhileMuchWaitsForAWebhookNothingMoreIsWrittenForIt(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r := w.receiver()
	h := w.mine().hook(map[string]any{"url": r.URL})
	w.exec(`INSERT INTO webhook_deliveries (webhook_id, message_id, type, body, next_at) SELECT $1, 'msg_' || repeat('a', 20), 'connector.failed', '{}', clock_timestamp() FROM generate_series(1, 800)`, h.id)
	w.is(w.source(), "ERROR")
	w.look()
	require.EqualValues(t, 800, one0(w, `SELECT count(*)::integer FROM webhook_deliveries`))
	w.exec(`DELETE FROM webhook_deliveries`)
	w.tell()
	require.Equal(t, []string{"connector.failed"}, r.types())
}

func TestWhatAWebhookIsNotToldOfAnyMoreIsNotSent(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r := w.receiver()
	h := w.mine().hook(map[string]any{"url": r.URL})
	first, second := w.source(), w.source()
	w.is(first, "ERROR")
	w.exec(`SELECT moves.disable($1, 'enough')`, second)
	w.look()
	require.Equal(t, http.StatusAccepted, h.do("POST", h.path+"/test", nil).status)
	require.Equal(t, http.StatusOK, h.do("PATCH", h.path, map[string]any{"events": []string{"disabled", "recovered"}}, "If-Match", "*").status)
	require.EqualValues(t, first, h.get(h.path + "/deliveries?state=dropped")["deliveries"].([]any)[0].(map[string]any)["connector_id"])
	w.send()
	require.ElementsMatch(t, []string{"connector.disabled", "webhook.test"}, r.types())
}

func TestASecretThatDoesNotOpenIsNoFailureOfTheReceiver(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r := w.receiver()
	h := w.mine().hook(map[string]any{"url": r.URL})
	w.is(w.source(), "ERROR")
	w.look()
	fresh, err := secret.NewKey()
	require.NoError(t, err)
	without := w.teller(fresh, "127.0.0.0/8")
	w.hurry()
	require.NoError(t, without.Send(t.Context()))
	without.Wait()
	require.Nil(t, h.get(h.path)["failing_since"])
	d := h.deliveries()[0]
	require.EqualValues(t, 0, d["tries"])
	require.Contains(t, d["last_error"], "its secret cannot be opened")
	w.send()
	require.Equal(t, []string{"connector.failed"}, r.types())
}

func TestWhatWasWithheldIsSentOnceTheSecretIsRotated(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r := w.receiver()
	h := w.mine().hook(map[string]any{"url": r.URL})
	w.is(w.source(), "ERROR")
	w.look()
	fresh, err := secret.NewKey()
	require.NoError(t, err)
	without := w.teller(fresh, "127.0.0.0/8")
	require.NoError(t, without.Send(t.Context()))
	without.Wait()
	require.Contains(t, h.deliveries()[0]["last_error"], "rotate it")
	require.Equal(t, http.StatusOK, h.do("POST", h.path+"/secret", nil).status)
	require.NoError(t, w.service.Send(t.Context()))
	w.service.Wait()
	require.Equal(t, []string{"connector.failed"}, r.types())
}

func TestAStopCountsNoTryThatItCutsOff(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r := w.receiver()
	h := w.mine().hook(map[string]any{"url": r.URL})
	w.is(w.source(), "ERROR")
	w.is(w.source(), "ERROR")
	w.look()
	ctx, stop := w.begun()
	defer stop()
	var came atomic.Int32
	answered := make(chan struct{})
	r.answers(func(rw http.ResponseWriter, q *http.Request) {
		if came.Add(1) == 2 {
			<-answered
			stop()
			<-q.Context().Done()
			return
		}
		conn, _, err := http.NewResponseController(rw).Hijack()
		if assert.NoError(t, err) {
			_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn) // until the sender has its answer
			_ = conn.Close()
		}
		close(answered)
	})
	w.hurry()
	require.NoError(t, w.service.Send(ctx))
	w.service.Wait()
	states := map[string]float64{}
	for _, d := range h.deliveries() {
		states[d["state"].(string)] += d["tries"].(float64)
	}
	require.Equal(t, map[string]float64{"delivered": 1, "pending": 0}, states)
}
