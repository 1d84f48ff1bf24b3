package api_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/testonly/movestest"
)

// pass looks as the loop does: at connectors, and at webhooks whose turn it is.
func (w *telling) pass() {
	w.Helper()
	w.exec(`UPDATE webhook_looks SET next_at = '-infinity'`)
	require.NoError(w, w.service.Look(w.Context()))
}

// looksAt is when a webhook is looked at next.
func (w *telling) looksAt(h webhook) time.Time {
	w.Helper()
	return one[time.Time](w.world, `SELECT look_at FROM webhook_turns WHERE webhook_id = $1`, h.id)
}

// held is a transaction that holds the turn of a webhook until it is released.
func (w *telling) held(h webhook) (release func()) {
	w.Helper()
	tx, err := w.other().Begin(w.Context())
	require.NoError(w, err)
	_, err = tx.Exec(w.Context(), `SELECT FROM webhook_turns WHERE webhook_id = $1 FOR UPDATE`, h.id)
	require.NoError(w, err)
	return func() { require.NoError(w, tx.Rollback(w.Context())) }
}

func TestEachWebhookThatMayTellOfAConnectorIsLookedAtWhenItFailsAndNoOther(t *testing.T) {
	t.Parallel()
	for place, adds := range map[string]string{
		"a user's":  `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'web', 7) RETURNING id`,
		"a group's": `INSERT INTO connectors (name, type, user_id, scope, scope_id) VALUES ('x', 'web', 1, 'group', 'g') RETURNING id`,
		"all's":     `INSERT INTO connectors (name, type, user_id, scope) VALUES ('x', 'web', 1, 'org') RETURNING id`,
		"a job":     `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'letters', 1) RETURNING id`,
	} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			w := newTelling(t)
			w.exec(`INSERT INTO group_members VALUES (7, 'g', false)`)
			w.exec(`INSERT INTO connector_types (name, kind) VALUES ('letters', 'job')`)
			role := identity.User
			if place == "a job" {
				role = identity.Admin
			}
			told, too, not := w.receiver(), w.receiver(), w.receiver()
			sees := w.as(7, role).hook(map[string]any{"url": told.URL})
			w.as(9, identity.Superadmin).hook(map[string]any{"url": too.URL})
			other := w.as(8, identity.User)
			w.exec(`INSERT INTO connectors (name, type, user_id) VALUES ('of 8', 'web', 8)`)
			blind := other.hook(map[string]any{"url": not.URL, "connector_id": one0(w, `SELECT id FROM connectors WHERE name = 'of 8'`)})
			id := one0(w, adds)
			w.is(id, "ACTIVE")
			w.pass()
			require.Greater(t, time.Until(w.looksAt(sees)), 5*time.Minute, "nothing is to be looked at soon")
			before := w.looksAt(blind)

			w.is(id, "ERROR")
			w.pass()
			w.send()
			require.Equal(t, []string{"connector.failed"}, told.types())
			require.Equal(t, []string{"connector.failed"}, too.types())
			w.pass()
			w.send()
			require.Empty(t, told.types(), "it stands as it did")

			w.exec(`DELETE FROM webhook_deliveries`)
			w.is(id, "ACTIVE")
			w.pass()
			w.send()
			require.Equal(t, []string{"connector.recovered"}, told.types())
			require.Equal(t, []string{"connector.recovered"}, too.types())
			require.Zero(t, one0(w, `SELECT count(*)::integer FROM webhook_faults`), "what is well is forgotten")
			require.Empty(t, not.types())
			require.Equal(t, before, w.looksAt(blind), "it was not looked at")
		})
	}
}

func TestAConnectorThatIsWellAgainOnlyAfterFurtherTriesIsToldThen(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r, id := w.receiver(), w.source()
	w.mine().hook(map[string]any{"url": r.URL, "connector_id": id})
	w.pass()
	w.is(id, "ERROR")
	w.pass()
	w.send()
	require.Equal(t, []string{"connector.failed"}, r.types())
	movestest.Force(t, w.conn, `UPDATE connectors SET status = 'ACTIVE', status_message = NULL WHERE id = $1`, id)
	w.pass()
	w.send()
	require.Empty(t, r.types(), "its tries go on")
	w.is(id, "ACTIVE")
	w.pass()
	w.send()
	require.Equal(t, []string{"connector.recovered"}, r.types())
}

func TestAConnectorThatIsLateWithoutAnyMoveIsTold(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r, id := w.receiver(), w.source()
	w.mine().hook(map[string]any{"url": r.URL})
	w.exec(`UPDATE connectors SET fresh_within_minutes = 60 WHERE id = $1`, id)
	w.pass()
	movestest.Force(t, w.conn, `UPDATE connectors SET last_sync_at = clock_timestamp() - interval '2 hours' WHERE id = $1`, id)
	w.pass()
	w.send()
	require.Equal(t, []string{"connector.stale"}, r.types())
}

func TestAWebhookThatIsCalledInTheMiddleOfItsComparisonIsComparedAnew(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r, id := w.receiver(), w.source()
	h := w.mine().hook(map[string]any{"url": r.URL})
	w.pass()
	w.exec(`UPDATE webhook_turns SET after_state = $2 + 1, after_fault = $2 + 1, look_at = clock_timestamp() WHERE webhook_id = $1`, h.id, id)
	w.is(id, "ERROR")
	w.pass()
	w.send()
	require.Equal(t, []string{"connector.failed"}, r.types())
}

func TestAWebhookThatSomebodyHoldsHoldsNoPassUpAndIsToldAfterwards(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	bad, good := w.receiver(), w.receiver()
	me, id := w.mine(), w.source()
	h := me.hook(map[string]any{"url": bad.URL})
	me.hook(map[string]any{"url": good.URL})
	w.pass()
	w.is(id, "ERROR")
	release := w.held(h)
	w.exec(`UPDATE webhook_turns SET look_at = clock_timestamp() WHERE webhook_id <> $1`, h.id)
	w.pass()
	require.NoError(t, w.service.Send(t.Context()))
	w.service.Wait()
	require.Equal(t, []string{"connector.failed"}, good.types())
	w.exec(`SELECT api.postpone_look($1, interval '1 day')`, h.id)
	release()
	w.pass()
	w.send()
	require.Equal(t, []string{"connector.failed"}, bad.types(), "it was called again")
	require.Empty(t, good.types(), "and told once")
}

func TestAWebhookIsPassedOverInALookThatSomebodyHolds(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r, id := w.receiver(), w.source()
	me := w.mine()
	h := me.hook(map[string]any{"url": w.receiver().URL})
	me.hook(map[string]any{"url": r.URL})
	defer w.held(h)()
	w.is(id, "ERROR")
	w.pass()
	require.NoError(t, w.service.Send(t.Context()))
	w.service.Wait()
	require.Equal(t, []string{"connector.failed"}, r.types())
}

func TestAStopThatCutsOffAllThatIsSentGivesTheWebhookBack(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r := w.receiver()
	h := w.mine().hook(map[string]any{"url": r.URL})
	w.is(w.source(), "ERROR")
	w.look()
	ctx, stop := w.begun()
	defer stop()
	r.answers(func(_ http.ResponseWriter, q *http.Request) {
		stop()
		<-q.Context().Done()
	})
	require.NoError(t, w.service.Send(ctx))
	w.service.Wait()
	require.EqualValues(t, 0, h.deliveries()[0]["tries"], "it was no try")
	r.answers(nil)
	r.took()
	after := w.teller(w.key, "127.0.0.0/8")
	require.NoError(t, after.Send(t.Context()))
	after.Wait()
	require.Equal(t, []string{"connector.failed"}, r.types(), "nobody waits for its lease to end")
}

func TestASenderThatWakesLateEndsNobodyElsesLease(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	r := w.receiver()
	h := w.mine().hook(map[string]any{"url": r.URL})
	w.is(w.source(), "ERROR")
	w.look()
	came, first, second := make(chan struct{}), make(chan struct{}), make(chan struct{})
	wakeFirst, wakeSecond := sync.OnceFunc(func() { close(first) }), sync.OnceFunc(func() { close(second) })
	t.Cleanup(wakeFirst)
	t.Cleanup(wakeSecond)
	blocks := func(until chan struct{}, status int) {
		r.answers(func(rw http.ResponseWriter, _ *http.Request) {
			came <- struct{}{}
			<-until
			rw.WriteHeader(status)
		})
	}
	blocks(first, http.StatusInternalServerError)
	require.NoError(t, w.service.Send(t.Context()))
	<-came
	w.hurry() // its lease is over
	blocks(second, http.StatusOK)
	next := w.teller(w.key, "127.0.0.0/8")
	require.NoError(t, next.Send(t.Context()))
	<-came
	wakeFirst()
	w.service.Wait()
	require.True(t, one[bool](w.world, `SELECT sending_until > clock_timestamp() AND send_at > clock_timestamp() FROM webhook_turns WHERE webhook_id = $1`, h.id), "it is the next one's")
	require.EqualValues(t, 0, h.deliveries()[0]["tries"])
	wakeSecond()
	next.Wait()
	require.Equal(t, "delivered", h.deliveries()[0]["state"])
}

func TestAWebhookThatCannotBeClaimedKeepsNoOtherFromBeingSentTo(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	bad, good := w.receiver(), w.receiver()
	me := w.mine()
	h := me.hook(map[string]any{"url": bad.URL})
	me.hook(map[string]any{"url": good.URL})
	w.is(w.source(), "ERROR")
	w.look()
	w.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'never'; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON webhook_turns FOR EACH ROW WHEN (NEW.webhook_id = ` + h.path[len("/webhooks/"):] + ` AND NEW.sending_until > OLD.sending_until) EXECUTE FUNCTION refuse()`)
	w.exec(`UPDATE webhook_turns SET send_at = send_at - interval '1 hour' WHERE webhook_id = $1`, h.id)
	require.NoError(t, w.service.Send(t.Context()))
	w.service.Wait()
	require.Equal(t, []string{"connector.failed"}, good.types())
	require.Empty(t, bad.types())
	require.True(t, one[bool](w.world, `SELECT send_at > clock_timestamp() FROM webhook_turns WHERE webhook_id = $1`, h.id), "it is tried again later")
	w.exec(`DROP TRIGGER refuse ON webhook_turns`)
	w.send()
	require.Equal(t, []string{"connector.failed"}, bad.types())
}

// A look compares a page of what was told, and one of what is at fault.
func TestNothingThatWaitsGivesWayToWhatOneLookFinds(t *testing.T) {
	t.Parallel()
	w := newTelling(t)
	h := w.mine().hook(map[string]any{"url": w.receiver().URL})
	w.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'c', 'web', 7 FROM generate_series(1, 400)`)
	stands := func(status string, failures, from, through int) {
		movestest.Force(w, w.conn, `UPDATE connectors SET status = $1, failure_count = $2, next_sync_at = NULL, due_reason = NULL, run_id = NULL FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM connectors) k
			WHERE k.id = connectors.id AND k.n BETWEEN $3 AND $4`, status, failures, from, through)
	}
	stands("ERROR", 1, 1, 200)
	stands("ACTIVE", 0, 201, 400)
	w.look()
	require.EqualValues(t, 200, one[int32](w.world, `SELECT count(*)::integer FROM webhook_deliveries`))
	w.exec(`INSERT INTO webhook_deliveries (webhook_id, message_id, type, body, next_at) SELECT $1, 'msg_' || lpad(n::text, 20, '0'), 'webhook.test', '{}', clock_timestamp() FROM generate_series(1, 599) n`, h.id)
	stands("ACTIVE", 0, 1, 200)
	stands("ERROR", 1, 201, 400)
	w.look()
	require.Zero(t, one[int32](w.world, `SELECT count(*)::integer FROM webhook_deliveries WHERE state = 'dropped'`))
}
