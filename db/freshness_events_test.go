package db_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/echomind/sync/testonly/movestest"
)

// finds has the one finder of late connectors look once at all.
func (b *base) finds() {
	b.Helper()
	b.exec(`UPDATE webhook_looks SET next_at = '-infinity'`)
	for one[bool](b, `SELECT api.note_faults('15 s', 2)`) {
	}
}

// freshness are the events of freshness that wait, in their order.
func (b *base) freshness() string {
	b.Helper()
	return one[string](b, `SELECT coalesce(string_agg(connector_id || ' ' || reason, ', ' ORDER BY no), '') FROM moves.unpublished_events(10000) WHERE NOT is_verdict AND reason IS NOT NULL`)
}

func (b *base) syncedAgo(id int32, ago string) {
	b.Helper()
	movestest.Force(b, b.conn, `UPDATE connectors SET status = 'ACTIVE', last_sync_at = clock_timestamp() - $2::interval, next_sync_at = NULL, due_reason = NULL WHERE id = $1`, id, ago)
}

// freshSources adds connectors that are to be fresh within an hour, and are.
func (b *base) freshSources(n int) (ids []int32) {
	b.Helper()
	for range n {
		id := one[int32](b, `INSERT INTO connectors (name, type, user_id, fresh_within_minutes) VALUES ('notes', 'file', 1, 60) RETURNING id`)
		b.syncedAgo(id, "1 minute")
		ids = append(ids, id)
	}
	return ids
}

func TestAConnectorThatBecomesStaleAndFreshAgainIsOneEventEachWithoutAnyWebhook(t *testing.T) {
	b := newBase(t)
	id := b.freshSources(1)[0]
	b.finds()
	if got := b.freshness(); got != "" {
		t.Fatalf("a fresh connector has events: %s", got)
	}
	b.syncedAgo(id, "2 hours")
	b.finds()
	b.finds()
	if got, want := b.freshness(), fmt.Sprint(id, " stale"); got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	b.syncedAgo(id, "1 second")
	b.finds()
	b.finds()
	if got, want := b.freshness(), fmt.Sprintf("%[1]d stale, %[1]d recovered", id); got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	if until := one[bool](b, `SELECT bool_and(slot = c.last_sync_at + interval '1 hour' AND e.was = e.status) FROM moves.unpublished_events(10000) e JOIN connectors c ON c.id = e.connector_id WHERE e.reason = 'recovered'`); !until {
		t.Error("the event does not say until when it is fresh")
	}
	b.syncedAgo(id, "2 hours")
	b.finds()
	b.exec(`UPDATE connectors SET fresh_within_minutes = NULL WHERE id = $1`, id)
	b.finds()
	if got := b.freshness(); strings.Count(got, "stale") != 2 || !strings.HasSuffix(got, fmt.Sprint(id, " recovered")) {
		t.Errorf("nobody wants it fresh any more, and the events are %q", got)
	}
}

func TestOneFinderTellsWebhooksAndEvents(t *testing.T) {
	b := newBase(t)
	b.exec(strings.Replace(aWebhook, "{failed}", "{stale}", 1))
	ids := b.freshSources(5)
	for _, id := range ids {
		b.syncedAgo(id, "2 hours")
	}
	b.finds()
	if n := one[int](b, `SELECT count(*) FROM webhook_faults`); n != 5 {
		t.Errorf("it has found %d for webhooks, want 5", n)
	}
	if got := b.freshness(); strings.Count(got, "stale") != 5 {
		t.Errorf("it has told of %q, want each once", got)
	}
}

func TestAConnectorThatSomebodyHoldsIsToldOfByTheNextLookBehindItsMove(t *testing.T) {
	b := newBase(t)
	ids := b.freshSources(2)
	for _, id := range ids {
		b.syncedAgo(id, "2 hours")
	}
	other := connectTo(t, b.url)
	other.exec(`BEGIN`)
	other.exec(`SELECT moves.disable($1, 'x')`, ids[0])
	b.finds()
	if got, want := b.freshness(), fmt.Sprint(ids[1], " stale"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	other.exec(`COMMIT`)
	b.finds()
	if got, want := b.freshness(), fmt.Sprint(ids[1], " stale"); got != want {
		t.Errorf("one is switched off: got %q, want %q", got, want)
	}
	b.exec(`SELECT moves.enable($1)`, ids[0])
	b.finds()
	if got, want := b.freshness(), fmt.Sprintf("%d stale, %d stale", ids[1], ids[0]); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOfADeletedConnectorNothingIsToldAndNothingIsLeft(t *testing.T) {
	b := newBase(t)
	id := b.freshSources(1)[0]
	b.syncedAgo(id, "2 hours")
	b.finds()
	b.exec(`DELETE FROM connectors WHERE id = $1`, id)
	b.finds()
	if got, want := b.freshness(), fmt.Sprint(id, " stale"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := one[int](b, `SELECT count(*) FROM stale_connectors`); n != 0 {
		t.Errorf("%d are kept", n)
	}
}

func TestManyThatBecomeStaleWhileEventsWaitAreToldLaterAndDriveOutNone(t *testing.T) {
	b := newBase(t)
	ids := b.freshSources(3)
	b.exec(`INSERT INTO status_events (connector_id, type, was, status) SELECT 1, 'web', 'ACTIVE', 'DISABLED' FROM generate_series(1, 20000)`)
	for _, id := range ids {
		b.syncedAgo(id, "2 hours")
	}
	b.finds()
	if n := one[int](b, `SELECT count(*) FROM stale_connectors`); n != 0 {
		t.Errorf("%d are told of while 20,000 events wait", n)
	}
	b.exec(`TRUNCATE status_events`)
	b.finds()
	if got := b.freshness(); strings.Count(got, "stale") != 3 {
		t.Errorf("got %q, want three", got)
	}
}

func TestAConnectorIsNotToldToBeFreshAgainForOneThatHadItsNumber(t *testing.T) {
	b := newBase(t)
	id := b.freshSources(1)[0]
	b.syncedAgo(id, "2 hours")
	b.finds()
	b.exec(`DELETE FROM connectors WHERE id = $1`, id)
	b.exec(`INSERT INTO connectors (id, name, type, user_id, fresh_within_minutes) VALUES ($1, 'notes', 'file', 1, 60)`, id)
	b.finds()
	if got := b.freshness(); got != fmt.Sprint(id, " stale") {
		t.Errorf("one that was just added: %s", got)
	}
	b.syncedAgo(id, "90 minutes")
	b.finds()
	if n := one[int](b, `SELECT count(*) FROM stale_connectors`); n != 1 {
		t.Errorf("%d are stale, want the new one", n)
	}
}
