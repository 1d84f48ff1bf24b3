package db_test

import (
	"fmt"
	"testing"

	"github.com/echomind/sync/testonly/movestest"
)

// mostCalled is how many webhooks a page of the finder calls at most, where few see each source by itself.
const mostCalled = 1000

// webhooksOfUsers adds webhooks, one each of users from 1001 on, that are compared, and called by nobody since.
func (b *base) webhooksOfUsers(n int) {
	b.Helper()
	b.exec(`SET session_replication_role = replica`) // their triggers take a minute
	b.exec(`INSERT INTO webhooks (user_id, role, url, events, secret) SELECT 1000 + g, 'user', 'https://example.org/', '{failed,recovered}', 'enc:v1:k:abc' FROM generate_series(1, $1::int) g ORDER BY g`, n)
	b.exec(`INSERT INTO webhook_turns (webhook_id, look_at) SELECT id, clock_timestamp() + interval '15 minutes' FROM webhooks`)
	b.exec(`SET session_replication_role = origin`)
}

// lateAndFailed adds a connector that has failed, and is late.
func (b *base) lateAndFailed(user int, scope, group string) int32 {
	b.Helper()
	id := one[int32](b, `INSERT INTO connectors (name, type, user_id, scope, scope_id, fresh_within_minutes) VALUES ('handbook', 'web', $1, $2, nullif($3, ''), 60) RETURNING id`, user, scope, group)
	movestest.Force(b, b.conn, `UPDATE connectors SET status = 'ERROR', failure_count = 1, next_sync_at = NULL, due_reason = NULL, last_sync_at = clock_timestamp() - interval '1 day' WHERE id = $1`, id)
	return id
}

// looks has the finder take pages until its look is over. Calls of many may be left.
func (b *base) looks() {
	b.Helper()
	b.exec(`UPDATE webhook_looks SET next_at = '-infinity'`)
	for one[bool](b, `SELECT next_at <= clock_timestamp() FROM webhook_looks`) {
		b.exec(`SELECT api.note_faults('15 s', 500)`)
	}
}

const countCalled = `SELECT count(*) FROM webhook_turns WHERE is_called`

// rounds has the finder take pages until nothing is left of a look and of calls of many, and says how many webhooks were called. No page calls more than mostCalled.
func (b *base) rounds() int {
	b.Helper()
	b.exec(`UPDATE webhook_looks SET next_at = '-infinity'`)
	called := one[int](b, countCalled)
	for more := true; more; {
		more = one[bool](b, `SELECT api.note_faults('15 s', 500)`)
		now := one[int](b, countCalled)
		if now-called > mostCalled {
			b.Fatalf("a page called %d webhooks, want at most %d", now-called, mostCalled)
		}
		called = now
	}
	return called
}

func TestEveryWebhookIsCalledOfASourceOfTheOrganisationAndNoPageCallsMoreThanAThousand(t *testing.T) {
	b := newBase(t)
	b.webhooksOfUsers(3500)
	id := b.lateAndFailed(1, "org", "")
	if got := b.rounds(); got != 3500 {
		t.Errorf("%d are called, want 3500", got)
	}
	b.compared()
	if got := b.rounds(); got != 0 {
		t.Errorf("it stands as it did, and %d are called", got)
	}
	movestest.Force(t, b.conn, `UPDATE connectors SET status = 'ACTIVE', failure_count = 0, last_sync_at = clock_timestamp() WHERE id = $1`, id)
	if got := b.rounds(); got != 3500 {
		t.Errorf("%d are called of its recovery, want 3500", got)
	}
	if got := one[int](b, `SELECT (SELECT count(*) FROM webhook_rounds) + (SELECT count(*) FROM webhook_faults) + (SELECT count(*) FROM webhook_calls)`); got != 0 {
		t.Errorf("%d rows are left of what is over", got)
	}
}

func TestOneSourceOfTheOrganisationHoldsNoOtherSourcesTurnUpHoweverManyWebhooksThereAre(t *testing.T) {
	b := newBase(t)
	b.webhooksOfUsers(40_000)
	b.lateAndFailed(1, "org", "")
	b.looks()
	mine := b.lateAndFailed(31_000, "user", "")
	b.looks()
	if !one[bool](b, `SELECT EXISTS (SELECT FROM webhook_rounds)`) {
		t.Fatalf("the round is over: this shows nothing")
	}
	if got := one[int](b, `SELECT w.user_id FROM webhook_turns n JOIN webhooks w ON w.id = n.webhook_id ORDER BY n.look_at LIMIT 1`); got != 31_000 {
		t.Errorf("the webhook of user %d is looked at first, want that of the source's owner", got)
	}
	if !one[bool](b, `SELECT EXISTS (SELECT FROM stale_connectors WHERE connector_id = $1)`, mine) {
		t.Errorf("no event says that it is stale")
	}
}

func TestWhatHasComeOfDeliveriesIsWrittenWhileManyWebhooksAreCalled(t *testing.T) {
	b := newBase(t)
	b.webhooksOfUsers(3500)
	b.lateAndFailed(1, "org", "")
	b.exec(`UPDATE webhook_looks SET next_at = '-infinity'`)
	looker := connectTo(t, b.url)
	for more := true; more; {
		looker.exec(`BEGIN`)
		more = one[bool](looker, `SELECT api.note_faults('15 s', 500)`)
		if free := one[int](b, `SELECT count(*) FROM (SELECT FROM webhook_turns FOR UPDATE SKIP LOCKED) n`); free < 3500-mostCalled {
			t.Fatalf("a page holds %d webhooks, want at most %d", 3500-free, mostCalled)
		}
		looker.exec(`COMMIT`)
	}
	if got := one[int](b, countCalled); got != 3500 {
		t.Errorf("%d are called, want 3500", got)
	}
}

func TestACallOfManyThatComesAgainInTheMiddleOfItsRoundReachesAllOnceMoreAndStandsOnce(t *testing.T) {
	b := newBase(t)
	b.webhooksOfUsers(3500)
	b.lateAndFailed(1, "org", "")
	b.exec(`UPDATE webhook_looks SET next_at = '-infinity'`)
	for one[int](b, countCalled) == 0 {
		b.exec(`SELECT api.note_faults('15 s', 500)`)
	}
	second := b.lateAndFailed(2, "org", "")
	b.exec(`UPDATE webhook_looks SET phase = 0, after_type = '', after_id = 0`)
	for !one[bool](b, `SELECT EXISTS (SELECT FROM webhook_faults WHERE connector_id = $1)`, second) {
		b.exec(`SELECT api.note_faults('15 s', 500)`)
	}
	if got := one[string](b, `SELECT concat_ws(' ', string_agg(reach, ' '), bool_and(after_id > 0)) FROM webhook_rounds`); got != "org t" {
		t.Errorf("calls of many are %q, want org, from the middle on", got)
	}
	b.compared() // as if nobody had been called yet
	if got := b.rounds(); got != 3500 {
		t.Errorf("%d are called after the call came again, want 3500", got)
	}
}

func TestOfManyWebhooksThoseAreCalledThatACallReaches(t *testing.T) {
	for reach, c := range map[string]struct {
		prepare, fails string
		want           int
	}{
		"a large group's":         {`INSERT INTO group_members (user_id, group_id) SELECT 1000 + g, 'g' FROM generate_series(2, 3000, 2) g`, "group", 1500},
		"one that many are about": {`UPDATE webhooks SET connector_id = 7 WHERE user_id % 2 = 0`, "org", 3500},
		"many superadmins'":       {`UPDATE webhooks SET role = 'superadmin' WHERE user_id % 2 = 0`, "user", 1750},
	} {
		t.Run(reach, func(t *testing.T) {
			b := newBase(t)
			b.webhooksOfUsers(3500)
			b.exec(c.prepare)
			b.exec(`DELETE FROM webhook_calls`)
			b.compared()
			group := ""
			if c.fails == "group" {
				group = "g"
			}
			id := b.lateAndFailed(1, c.fails, group)
			b.exec(`UPDATE webhooks SET connector_id = $1 WHERE connector_id = 7`, id)
			b.exec(`DELETE FROM webhook_calls`)
			b.compared()
			if got := b.rounds(); got != c.want {
				t.Errorf("%d are called, want %d", got, c.want)
			}
			if got := fmt.Sprint(one[int](b, `SELECT count(*) FROM webhook_rounds`)); got != "0" {
				t.Errorf("%s calls of many are left", got)
			}
		})
	}
}

func TestNoPageHasMoreThanAThousandWebhooksLookedAtEarlierBecauseTheClockHasSteppedBack(t *testing.T) {
	b := newBase(t)
	b.webhooksOfUsers(2500)
	b.exec(`UPDATE webhook_turns SET look_at = clock_timestamp() + interval '1 day'`)
	b.exec(`UPDATE webhook_looks SET next_at = '-infinity'`)
	for left, pages := 2500, 0; left > 0; pages++ {
		b.exec(`SELECT api.note_faults('15 s', 500)`)
		now := one[int](b, `SELECT count(*) FROM webhook_turns WHERE look_at > clock_timestamp() + interval '1 hour'`)
		if left-now > mostCalled || pages == 10 {
			t.Fatalf("page %d: %d are left of %d", pages, now, left)
		}
		left = now
	}
}

func TestOfManyPlacesThatFailAtOnceEachWebhookIsCalledAndNoPageCallsMoreThanAThousand(t *testing.T) {
	b := newBase(t)
	b.webhooksOfUsers(3000)
	b.exec(`INSERT INTO group_members (user_id, group_id) SELECT 1000 + g, 'g' || g % 60 FROM generate_series(1, 3000) g`)
	for i := range 60 {
		b.lateAndFailed(1, "group", fmt.Sprint("g", i))
	}
	if got := b.rounds(); got != 3000 {
		t.Errorf("%d are called, want 3000", got)
	}
}

func TestAWebhookThatSomebodyHoldsInACallOfManyEndsTheRoundAndIsCalledOnceItIsFree(t *testing.T) {
	b := newBase(t)
	b.webhooksOfUsers(1500)
	b.lateAndFailed(1, "org", "")
	other := connectTo(t, b.url)
	other.exec(`BEGIN`)
	other.exec(`SELECT FROM webhook_turns ORDER BY webhook_id LIMIT 1 FOR UPDATE`)
	if got := b.rounds(); got != 1499 {
		t.Errorf("%d are called, want 1499", got)
	}
	other.exec(`COMMIT`)
	if got := b.rounds(); got != 1500 {
		t.Errorf("%d are called, want 1500", got)
	}
}
