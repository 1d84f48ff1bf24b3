package db_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/echomind/sync/testonly/movestest"
)

func (b *base) refusingOf(user int, reach string) int32 {
	b.Helper()
	return b.refuse(one[int32](b, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) VALUES ('notes', 'file', $1, 60) RETURNING id`, user), reach)
}

// retryFew is what a service has tried again that has at most ten of the type due and not begun, one of each owner.
func (b *base) retryFew() int {
	b.Helper()
	return one[int](b, `SELECT retried FROM moves.retry_by_owner('file', 'bb', 200, 10)`)
}

func TestWhatHoldsSomeOwnersConnectorsHoldsNobodyElsesRetriesUp(t *testing.T) {
	none := func(*base) {}
	const isDue = ` FROM connectors WHERE next_sync_at <= clock_timestamp() AND user_id <= 10`
	beginOne := func(b *base, places int) { // of each owner: it reads for hours
		b.exec(`UPDATE connector_types SET max_concurrent_syncs = $1 WHERE name = 'file'`, places)
		for owner := 1; owner <= 10; owner++ {
			movestest.Syncing(b, b.conn, one[int32](b, `SELECT max(id) FROM connectors WHERE user_id = $1`, owner))
		}
	}
	for name, c := range map[string]struct {
		hold, look func(*base) // look is what the scheduler does of it each time
	}{
		"a blackout window": {none, func(b *base) {
			b.exec(`SELECT moves.hold_blackout((SELECT coalesce(jsonb_agg(jsonb_build_object('id', id, 'asked', false, 'until', clock_timestamp() + interval '7 days', 'blackout', 'b',
				'version', 1, 'spread', 600)), '[]')` + isDue + `))`)
		}},
		"a full key": {none, func(b *base) {
			movestest.Force(b, b.conn, `UPDATE connectors SET waits_for_key = 'nas' WHERE id IN (SELECT id`+isDue+`)`)
		}},
		"a quota of places": {func(b *base) {
			b.exec(`INSERT INTO owner_quotas (user_id, max_concurrent_syncs) SELECT generate_series(1, 10), 1`)
			beginOne(b, 50)
		}, func(b *base) {
			b.moves("0", `SELECT count(*) FROM moves.lock_due('file', 50, 50) WHERE user_id <= 10`)
		}},
		"an owner's share of the places": {func(b *base) { beginOne(b, 20) }, func(b *base) {
			b.moves("0", `SELECT count(*) FROM moves.lock_due('file', 20, 50, share => 5) WHERE user_id <= 10`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBase(t)
			for i := range 30 {
				b.refusingOf(1+i%10, "aa")
			}
			if n := b.retryFew(); n != 10 {
				t.Fatalf("%d are tried again at first, want 10", n)
			}
			c.hold(b)
			other := b.refusingOf(11, "aa")
			for range 5 {
				c.look(b)
				b.retryFew()
			}
			b.holds(other, isRetried)
		})
	}
}

func TestOwnersWhoWaitForPlacesHaveNoMoreAndMoreTriedAgain(t *testing.T) {
	b := newBase(t)
	b.exec(`UPDATE connector_types SET max_concurrent_syncs = 2 WHERE name = 'file'`)
	for i := range 15 {
		b.refusingOf(1+i%3, "aa")
	}
	b.retryFew()
	for owner := 1; owner <= 2; owner++ {
		movestest.Syncing(b, b.conn, one[int32](b, `SELECT max(id) FROM connectors WHERE user_id = $1`, owner))
	}
	for range 10 {
		b.moves("0", `SELECT count(*) FROM moves.lock_due('file', 2, 50)`)
		b.retryFew()
	}
	if n := one[int](b, `SELECT max(n) FROM (SELECT count(*) AS n FROM connectors WHERE next_sync_at IS NOT NULL GROUP BY user_id) o`); n != 1 {
		t.Errorf("%d of an owner are due and not begun, want a tenth of ten", n)
	}
}

// The places of a capped type go from owner to owner, and so do retries.
func TestInACappedTypeRetriesGoFromOwnerToOwner(t *testing.T) {
	b := newBase(t)
	b.exec(`UPDATE connector_types SET max_concurrent_syncs = 2 WHERE name = 'file'`)
	for range 15 {
		b.refusingOf(1, "aa")
	}
	other := b.refusingOf(2, "aa")
	for begun, look := 0, 0; begun <= 5 && look < 20; look++ {
		b.retryFew()
		for _, id := range one[[]int32](b, `SELECT coalesce(array_agg(id), '{}') FROM moves.lock_due('file', 2, 50)`) {
			if id == other {
				return
			}
			b.complete(id)
			begun++
		}
	}
	t.Error("owner 2's connector is not claimed, behind more than five of owner 1")
}

// Each place that comes free is another owner's, also where only one at a time does.
func TestWhereFewMayWaitEachOwnerHasATurn(t *testing.T) {
	b := newBase(t)
	for i := range 12 {
		b.refusingOf(1+i/3, "aa")
	}
	at := struct {
		reach     string
		owner, id int32
	}{}
	var owners []int32
	for range 8 {
		if err := b.conn.QueryRow(t.Context(), `SELECT next_reach, next_owner, next_id FROM moves.retry_by_owner('file', 'bb', 200, 1, $1, $2, $3)`, at.reach, at.id, at.owner).Scan(&at.reach, &at.owner, &at.id); err != nil {
			t.Fatal(err)
		}
		for _, id := range one[[]int32](b, `SELECT coalesce(array_agg(id), '{}') FROM connectors WHERE next_sync_at IS NOT NULL`) {
			owners = append(owners, one[int32](b, `SELECT user_id FROM connectors WHERE id = $1`, id))
			b.complete(id)
			movestest.Force(t, b.conn, `UPDATE connectors SET next_sync_at = NULL, due_reason = NULL, slot_at = NULL WHERE id = $1`, id)
		}
	}
	if want := []int32{1, 2, 3, 4, 1, 2, 3, 4}; !slices.Equal(owners, want) {
		t.Errorf("the turns were those of %v, want %v", owners, want)
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
	b.exec(`INSERT INTO refused_connectors (connector_id, user_id, type, config_version, over_at, reach, refused_by)
		SELECT c.id, c.id % 20, c.type, c.config_version, c.over_at, 'aa', '{aa}' FROM connectors c WHERE c.id <> $1 AND c.over_at IS NOT NULL`, seed)
	var workers []*base
	for i := range 4 {
		w := connectTo(t, b.url)
		w.exec(`BEGIN`)
		one[int](w, `SELECT retried FROM moves.retry_by_owner('file', 'bb', 200, 100, 'aa', 0, $1)`, i*5) // each is at its own place
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

// Workers of a release before migration 39 go on during a rollout.
func TestNeitherWayToTryAgainReadsAllThatWasRefused(t *testing.T) {
	b := newBase(t)
	b.exec(`SET session_replication_role = replica`)
	b.exec(`INSERT INTO refused_connectors (connector_id, user_id, type, config_version, over_at, reach, refused_by)
		SELECT g, g % 500 + 1, 'file', 1, clock_timestamp(), 'aa', '{aa}' FROM generate_series(1, 50000) g`)
	b.exec(`SET session_replication_role = origin`)
	b.exec(`ANALYZE refused_connectors`)
	for _, call := range []string{`moves.retry_refused('file', 'bb', 20, 100, 'aa', 1000)`, `moves.retry_by_owner('file', 'bb', 20, 100, 'aa', 1000, 7)`} {
		if n := one[int](b, `SELECT count(*) FROM refused_connectors`); n < 49900 {
			t.Fatalf("%d are left", n)
		}
		plan := one[string](b, `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM `+call)
		var read []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		if err := json.Unmarshal([]byte(plan), &read); err != nil {
			t.Fatal(err)
		}
		if n := read[0].Plan.Hit + read[0].Plan.Read; n > 5000 {
			t.Errorf("%s reads %d buffers", call, n)
		}
	}
}
