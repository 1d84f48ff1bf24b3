package db_test

import (
	"fmt"
	"testing"

	"github.com/echomind/sync/testonly/movestest"
)

// refuse has a sync of a connector end because of settings with this hash, and returns the connector.
func (b *base) refuse(id int32, reach string) int32 {
	b.Helper()
	try := movestest.Syncing(b, b.conn, id)
	b.moves("true", `SELECT moves.fail_refused($1, $2, 'not in an allowed root', $3)`, try.Run, try.ID, reach)
	return id
}

// refusing adds a connector that settings with this hash have refused.
func (b *base) refusing(reach string) int32 {
	b.Helper()
	return b.refuse(one[int32](b, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) VALUES ('notes', 'file', 1, 60) RETURNING id`), reach)
}

// retry is what a service with settings of this hash has tried again.
func (b *base) retry(reach string) int {
	b.Helper()
	return one[int](b, `SELECT retried FROM moves.retry_by_owner('file', $1, 200, 100)`, reach)
}

const (
	rests     = `c.status = 'ERROR' AND c.next_sync_at IS NULL`
	isRetried = `c.status = 'ERROR' AND c.next_sync_at <= clock_timestamp() AND c.due_reason = 'retry'`
)

func TestOtherSettingsTryARefusedConnectorAgainOnceAndTheSameNever(t *testing.T) {
	b := newBase(t)
	id := b.refusing("aa")
	b.holds(id, rests+` AND c.failure_count = 0 AND r.reason = 'permanent failure' AND r.error_message = 'not in an allowed root'`)
	if n := b.retry("aa"); n != 0 {
		t.Errorf("the same settings have tried %d again", n)
	}
	if n := b.retry("bb"); n != 1 {
		t.Errorf("other settings have tried %d again, want 1", n)
	}
	b.holds(id, isRetried+` AND c.failure_count = 0`)
	if n := b.retry("bb"); n != 0 {
		t.Errorf("it is due, and is tried again %d times", n)
	}
	b.refuse(id, "bb")
	for _, reach := range []string{"bb", "aa", "bb"} {
		if n := b.retry(reach); n != 0 {
			t.Errorf("both have refused it, and %s tries it again", reach)
		}
	}
	b.holds(id, rests+` AND c.failure_count = 0`)
	if n := b.retry("cc"); n != 1 {
		t.Errorf("a third one tries %d again, want 1", n)
	}
}

func TestWhatOtherSettingsTryAgainIsAudited(t *testing.T) {
	b := newBase(t)
	id := b.refusing("aa")
	b.retry("bb")
	entry := one[string](b, `SELECT concat_ws(' ', action, connector_id = $1, before ->> 'reach', after ->> 'reach', after ->> 'why') FROM audit WHERE object_id = $1::text AND action LIKE 'connectors.retry%'`, id)
	if want := "connectors.retry_refused t aa bb service restart with other roots or address ranges"; entry != want {
		t.Errorf("the audit says %q, want %q", entry, want)
	}
}

func TestARefusalIsNotTheFailureThatSwitchesAConnectorOff(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*base, int32)
		count  int
	}{
		"with one try": {func(b *base, id int32) { b.exec(`UPDATE connectors SET max_retries = 1 WHERE id = $1`, id) }, 0},
		"after four failures of five": {func(b *base, id int32) {
			for range 4 {
				try := movestest.Syncing(b, b.conn, id)
				b.moves("true", `SELECT moves.fail($1, $2, 'transient', 'the share does not answer')`, try.Run, try.ID)
			}
		}, 4},
		"with fewer tries than it has failed": {func(b *base, id int32) {
			movestest.Force(b, b.conn, `UPDATE connectors SET failure_count = 4, max_retries = 2 WHERE id = $1`, id)
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBase(t)
			id := one[int32](b, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) VALUES ('notes', 'file', 1, 60) RETURNING id`)
			c.before(b, id)
			b.refuse(id, "aa") // the service was restarted without its roots
			b.holds(id, rests+fmt.Sprintf(` AND c.failure_count = %d AND c.status_message = 'not in an allowed root'`, c.count))
			b.retry("bb") // and again, with them
			b.holds(id, isRetried+fmt.Sprintf(` AND c.failure_count = %d`, c.count))
			b.retry("bb")
			b.complete(id)
			b.holds(id, `c.status = 'ACTIVE' AND c.failure_count = 0`)
		})
	}
}

func TestAnErrorThatOnlyTheUserCanMendIsLeftAloneByOtherSettings(t *testing.T) {
	for what, since := range map[string]func(*base, int32){
		"another permanent failure": func(b *base, id int32) {
			try := movestest.Syncing(b, b.conn, id)
			b.moves("true", `SELECT moves.fail($1, $2, 'permanent', 'no such folder')`, try.Run, try.ID)
		},
		"disabled": func(b *base, id int32) { b.moves("true", `SELECT moves.disable($1, 'moved')`, id) },
		"deleted":  func(b *base, id int32) { b.exec(`DELETE FROM connectors WHERE id = $1`, id) },
		"a transient failure": func(b *base, id int32) {
			try := movestest.Syncing(b, b.conn, id)
			b.moves("true", `SELECT moves.fail($1, $2, 'transient', 'away')`, try.Run, try.ID)
		},
		"a sync that is asked for": func(b *base, id int32) { b.exec(`SELECT moves.trigger_sync($1)`, id) },
		"another configuration": func(b *base, id int32) {
			b.exec(`UPDATE connectors SET config = '{"url": "file:///b"}' WHERE id = $1`, id)
		},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBase(t)
			id := b.refusing("aa")
			since(b, id)
			before := b.everything(id)
			if n := b.retry("bb"); n != 0 {
				t.Errorf("it is tried again")
			}
			if after := b.everything(id); after != before {
				t.Errorf("%s\nbecame\n%s", before, after)
			}
		})
	}
}

func TestAPermanentFailureThatIsNoRefusalIsLeftAloneByOtherSettings(t *testing.T) {
	b := newBase(t)
	id := one[int32](b, `INSERT INTO connectors (name, type, user_id) VALUES ('notes', 'file', 1) RETURNING id`)
	try := movestest.Syncing(b, b.conn, id)
	b.moves("true", `SELECT moves.fail($1, $2, 'permanent', 'url: is not a folder')`, try.Run, try.ID)
	if n := b.retry("bb"); n != 0 {
		t.Error("it is tried again")
	}
	b.holds(id, rests)
}

func TestOfManyRefusedConnectorsFewAreDueAndNotBegunAtOnce(t *testing.T) {
	b := newBase(t)
	for i := range 7 {
		b.refusingOf(1+i, "aa")
	}
	b.refusingOf(8, "cc")
	at, due := struct {
		reach     string
		owner, id int32
	}{}, 0
	look := func() (n int) {
		if err := b.conn.QueryRow(t.Context(), `SELECT retried, next_reach, next_owner, next_id FROM moves.retry_by_owner('file', 'bb', 2, 3, $1, $2, $3)`, at.reach, at.id, at.owner).Scan(&n, &at.reach, &at.owner, &at.id); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got := fmt.Sprint(look(), look(), look(), look()); got != "2 1 0 0" {
		t.Errorf("looks have tried %s again, want 2 1 0 0: three may wait for their sync to begin", got)
	}
	for due < 8 { // each that begins makes room for one more
		id := one[int32](b, `SELECT id FROM connectors WHERE next_sync_at IS NOT NULL ORDER BY id LIMIT 1`)
		movestest.Syncing(b, b.conn, id)
		due++
		look()
		if n := one[int](b, `SELECT count(*) FROM connectors WHERE next_sync_at IS NOT NULL`); n > 3 {
			t.Fatalf("%d are due and not begun", n)
		}
		if due < 8 && one[int](b, `SELECT count(*) FROM connectors WHERE next_sync_at IS NOT NULL`) == 0 {
			t.Fatalf("after %d none is due any more", due)
		}
	}
}

func TestWhatTheOldSettingsRefuseOnceMoreDuringARolloutIsTriedAgainAfterAWhile(t *testing.T) {
	b := newBase(t)
	id := b.refusing("aa")
	b.retry("bb")
	b.refuse(id, "aa") // a process that is to be replaced was faster
	if n := b.retry("bb"); n != 0 {
		t.Error("it is tried again at once: two kinds of processes would do so for ever")
	}
	movestest.Force(t, b.conn, `UPDATE refused_connectors SET not_before = clock_timestamp() WHERE connector_id = $1 AND not_before > clock_timestamp() + interval '50 s'`, id)
	if n := b.retry("bb"); n != 1 {
		t.Error("it is not tried again")
	}
	b.holds(id, isRetried)
}

func TestThePauseOfARolloutIsForTheSettingsThatHadItTried(t *testing.T) {
	b := newBase(t)
	id := b.refusing("aa")
	for range 3 {
		movestest.Force(t, b.conn, `UPDATE refused_connectors SET not_before = '-infinity'`)
		b.retry("bb")
		b.refuse(id, "aa")
	}
	if n := b.retry("bb"); n != 0 {
		t.Error("it is tried again at once")
	}
	if n := b.retry("cc"); n != 1 { // a third restart
		t.Error("other settings wait for the pause of those before them")
	}
	b.refuse(id, "aa")
	if n := b.retry("cc"); n != 0 {
		t.Error("these try it again at once, too")
	}
}

func TestAConnectorThatSomebodyHoldsIsTriedAgainByTheNextLook(t *testing.T) {
	b := newBase(t)
	id := b.refusing("aa")
	other := connectTo(t, b.url)
	other.exec(`BEGIN`)
	other.exec(`SELECT FROM connectors WHERE id = $1 FOR UPDATE`, id)
	if n := b.retry("bb"); n != 0 {
		t.Error("it is tried again while somebody holds it")
	}
	other.exec(`ROLLBACK`)
	if n := b.retry("bb"); n != 1 {
		t.Error("it is not tried again")
	}
}
