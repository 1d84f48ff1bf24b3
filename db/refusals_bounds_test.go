package db_test

import (
	"fmt"
	"testing"

	"github.com/echomind/sync/testonly/movestest"
)

func (b *base) refusingOf(user int, reach string) int32 {
	b.Helper()
	return b.refuse(one[int32](b, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) VALUES ('notes', 'file', $1, 60) RETURNING id`, user), reach)
}

func TestWhatHoldsOneOwnersConnectorsHoldsNobodyElsesRetriesUp(t *testing.T) {
	for name, hold := range map[string]func(*base){
		"a blackout window": func(b *base) {
			b.exec(`SELECT moves.hold_blackout((SELECT jsonb_agg(jsonb_build_object('id', id, 'asked', false, 'until', clock_timestamp() + interval '7 days', 'blackout', 'b',
				'version', 1, 'spread', 600)) FROM connectors WHERE user_id = 1))`)
		},
		"a full key": func(b *base) {
			movestest.Force(b, b.conn, `UPDATE connectors SET waits_for_key = 'nas' WHERE user_id = 1`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBase(t)
			for range 100 {
				b.refusingOf(1, "aa")
			}
			other := b.refusingOf(2, "aa")
			if n := b.retry("bb"); n != 100 {
				t.Fatalf("%d are tried again at first, want 100", n)
			}
			hold(b)
			for range 20 {
				b.retry("bb")
			}
			b.holds(other, isRetried)
		})
	}
}

func TestManySettingsThatAllRefuseAConnectorTryItEverMoreSeldom(t *testing.T) {
	b := newBase(t)
	const settings = 17 // more than are remembered
	id, tries := b.refusing("00"), 0
	for range 5 {
		for i := range settings {
			reach := fmt.Sprintf("%02x", i)
			if b.retry(reach) == 1 {
				tries++
				b.refuse(id, reach)
			}
		}
	}
	if tries > 2*settings {
		t.Errorf("%d tries by %d settings", tries, settings)
	}
}

func TestNothingIsKeptOfARefusedConnectorThatIsDeleted(t *testing.T) {
	b := newBase(t)
	b.exec(`DELETE FROM connectors WHERE id = $1`, b.refusing("aa"))
	if n := one[int](b, `SELECT count(*) FROM refused_connectors`); n != 0 {
		t.Errorf("%d rows stay", n)
	}
}

func TestManyWorkersAtOnceTryNoMoreAgainThanOne(t *testing.T) {
	b := newBase(t)
	seed := b.refusing("aa")
	movestest.Multiply(t, b.conn, 2000)
	b.exec(`INSERT INTO refused_connectors (connector_id, type, config_version, over_at, reach, refused_by)
		SELECT c.id, c.type, c.config_version, c.over_at, 'aa', '{aa}' FROM connectors c WHERE c.id <> $1 AND c.over_at IS NOT NULL`, seed)
	var workers []*base
	for i := range 4 {
		w := connectTo(t, b.url)
		w.exec(`BEGIN`)
		one[int](w, `SELECT retried FROM moves.retry_refused('file', 'bb', 200, 100, 'aa', $1)`, i*200) // each is at its own place
		workers = append(workers, w)
	}
	for _, w := range workers {
		w.exec(`COMMIT`)
	}
	if n := one[int](b, `SELECT count(*) FROM connectors WHERE next_sync_at IS NOT NULL`); n != 100 {
		t.Errorf("%d are due and not begun, want 100", n)
	}
}

func TestASyncBetweenTwoRefusalsEndsTheirPause(t *testing.T) {
	b := newBase(t)
	id := b.refusing("aa")
	for range 3 {
		movestest.Force(t, b.conn, `UPDATE refused_connectors SET not_before = '-infinity'`)
		b.retry("bb")
		b.complete(id)
		b.refuse(id, "aa")
	}
	if n := one[int](b, `SELECT again FROM refused_connectors`); n > 1 {
		t.Errorf("%d refusals count, want those since its last sync", n)
	}
}
