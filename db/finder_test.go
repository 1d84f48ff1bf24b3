package db_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/echomind/sync/testonly/movestest"
)

// failedSources adds connectors of user 1 that have failed.
func (b *base) failedSources(n int) {
	b.Helper()
	for range n {
		id := one[int32](b, `INSERT INTO connectors (name, type, user_id) VALUES ('notes', 'file', 1) RETURNING id`)
		movestest.Force(b, b.conn, `UPDATE connectors SET status = 'ERROR', failure_count = 1, next_sync_at = NULL, due_reason = NULL WHERE id = $1`, id)
	}
}

// anotherWebhook has the id 2.
var anotherWebhook = strings.Replace(aWebhook, "VALUES (1,", "VALUES (2,", 1)

// compared has every webhook stand as if it were compared, and called by nobody since.
func (b *base) compared() {
	b.Helper()
	b.exec(`UPDATE webhook_turns SET look_at = clock_timestamp() + interval '15 minutes', is_called = false`)
}

// called are the webhooks whose turn it is.
func (b *base) called() string {
	b.Helper()
	return one[string](b, `SELECT coalesce(string_agg(webhook_id::text, ' ' ORDER BY webhook_id), '') FROM webhook_turns WHERE look_at <= clock_timestamp()`)
}

func TestAWebhookThatIsMadeWhileAPageOfTheFinderIsNotCommittedIsCalledByTheNextLook(t *testing.T) {
	b := newBase(t)
	b.exec(aWebhook)
	b.failedSources(1)
	b.exec(`UPDATE webhook_looks SET next_at = '-infinity'`)
	other := connectTo(t, b.url)
	other.exec(`BEGIN`)
	other.exec(`SELECT api.note_faults('15 s', 500)`)
	b.exec(anotherWebhook)
	b.exec(`UPDATE webhook_turns SET look_at = clock_timestamp() + interval '15 minutes' WHERE webhook_id = 2`) // compared, without what is not committed
	other.exec(`COMMIT`)
	b.finds()
	if got := b.called(); !strings.HasSuffix(got, "2") {
		t.Errorf("called are %q, want 2 among them", got)
	}
	b.compared()
	b.finds()
	if got := b.called(); got != "" {
		t.Errorf("nothing is new, and called are %q", got)
	}
}

func TestAWebhookThatSomebodyHoldsHasNothingWrittenAnewAndIsCalledOnceItIsFree(t *testing.T) {
	b := newBase(t)
	b.exec(aWebhook)
	b.exec(anotherWebhook)
	b.finds()
	b.compared()
	b.failedSources(3)
	other := connectTo(t, b.url)
	other.exec(`BEGIN`)
	other.exec(`SELECT FROM webhook_turns WHERE webhook_id = 1 FOR UPDATE`)
	b.finds()
	if got := b.called(); got != "2" {
		t.Errorf("called are %q, want 2", got)
	}
	const written = `SELECT string_agg(connector_id || ' ' || xmin, ', ' ORDER BY connector_id) FROM webhook_faults`
	before := one[string](b, written)
	b.exec(`UPDATE webhook_turns SET look_at = clock_timestamp() + interval '15 minutes', is_called = false WHERE webhook_id = 2`)
	b.finds()
	if after := one[string](b, written); after != before {
		t.Errorf("written anew: %s, before %s", after, before)
	}
	if got := b.called(); got != "" {
		t.Errorf("called again are %q", got)
	}
	other.exec(`COMMIT`)
	b.finds()
	if got := b.called(); got != "1" {
		t.Errorf("called are %q, want 1", got)
	}
	if n := one[int](b, `SELECT count(*) FROM webhook_calls`); n != 0 {
		t.Errorf("%d calls are left", n)
	}
}

func TestTheFinderGoesOnWithinAMinuteThoughTheClockHasSteppedBack(t *testing.T) {
	b := newBase(t)
	id := b.freshSources(1)[0]
	b.syncedAgo(id, "2 hours")
	b.exec(`UPDATE webhook_looks SET next_at = clock_timestamp() + interval '61 seconds'`)
	for one[bool](b, `SELECT api.note_faults('15 s', 500)`) {
	}
	if got, want := b.freshness(), fmt.Sprint(id, " stale"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheAuditOfManyDeadLettersIsBoundedAndNamesEachOfThem(t *testing.T) {
	b := newBase(t)
	id := one[int32](b, `INSERT INTO connectors (name, type, user_id) VALUES ('notes', 'file', 1) RETURNING id`)
	b.exec(`SELECT moves.note_letters('deadletters.drop', array_agg(g), array_agg(repeat('s', 5000)), array_agg(repeat('d', 5000)), $1) FROM generate_series(1, 1000) g`, id)
	got := one[string](b, `SELECT concat_ws(' ', count(*), sum(octet_length(before::text)) < 200000, count(*) FILTER (WHERE before ->> 'source_ids' = to_jsonb(ARRAY[repeat('d', 512)])::text))
		FROM audit WHERE action = 'deadletters.drop'`)
	if want := "101 t 100"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	got = one[string](b, `SELECT concat_ws(' ', object_id, before ->> 'letters', jsonb_array_length(before -> 'ids'), before -> 'ids' ->> -1, connector_id = $1) FROM audit WHERE before ? 'letters'`, id)
	if want := "101 900 900 1000 t"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAWebhookThatIsChangedAgainAndAgainIsCalledOnce(t *testing.T) {
	b := newBase(t)
	b.exec(aWebhook)
	for i := range 10 {
		b.exec(`UPDATE webhooks SET url = 'https://example.org/' || $1::int`, i)
		b.exec(`UPDATE webhooks SET enabled = $1`, i%2 == 0)
	}
	b.exec(`UPDATE webhooks SET enabled = true`)
	if n := one[int](b, `SELECT count(*) FROM webhook_calls`); n > 2 {
		t.Errorf("%d calls wait of one webhook", n)
	}
}

func TestAWebhookThatIsSwitchedOnWhileAPageOfTheFinderIsNotCommittedIsCalledByTheNextLook(t *testing.T) {
	b := newBase(t)
	b.exec(aWebhook)
	b.exec(anotherWebhook)
	b.exec(`UPDATE webhooks SET enabled = false WHERE id = 2`)
	b.failedSources(1)
	b.exec(`UPDATE webhook_looks SET next_at = '-infinity'`)
	other := connectTo(t, b.url)
	other.exec(`BEGIN`)
	other.exec(`SELECT api.note_faults('15 s', 500)`)
	b.exec(`UPDATE webhooks SET enabled = true WHERE id = 2`)
	b.exec(`UPDATE webhook_turns SET look_at = clock_timestamp() + interval '15 minutes' WHERE webhook_id = 2`) // compared, without what is not committed
	other.exec(`COMMIT`)
	b.finds()
	if got := b.called(); !strings.HasSuffix(got, "2") {
		t.Errorf("called are %q, want 2 among them", got)
	}
}
