package api_test

import (
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
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
