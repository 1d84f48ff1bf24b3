//go:build !race

package db_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
)

// listFilters are filters as lists have them: the arguments of api.list_connectors, and what they mean.
var listFilters = []struct{ args, means string }{
	{`NULL, NULL, NULL, NULL, NULL, NULL, false`, `true`},
	{`'web', NULL, NULL, NULL, NULL, NULL, false`, `type = 'web'`},
	{`'word_count', NULL, NULL, NULL, NULL, NULL, false`, `type = 'word_count'`},
	{`NULL, 'C7', NULL, NULL, NULL, NULL, false`, `name LIKE '%c7%'`},
	{`NULL, '', NULL, NULL, NULL, NULL, false`, `true`},
	{`NULL, NULL, 'DISABLED', NULL, NULL, NULL, false`, `status = 'DISABLED'`},
	{`NULL, NULL, 'ERROR', NULL, NULL, NULL, false`, `status = 'ERROR'`},
	{`NULL, NULL, 'SYNCING', NULL, NULL, NULL, false`, `status = 'SYNCING'`},
	{`NULL, 'c', 'SYNCING', 3, NULL, NULL, true`, `status = 'SYNCING' AND user_id = 3 AND coalesce(last_sync_at, created_at) + make_interval(mins => fresh_within_minutes) < clock_timestamp()`},
	{`NULL, NULL, 'ACTIVE', NULL, NULL, NULL, false`, `status = 'ACTIVE'`},
	{`'web', NULL, 'ERROR', NULL, 'group', 'g2', false`, `type = 'web' AND status = 'ERROR' AND scope = 'group' AND scope_id = 'g2'`},
	{`NULL, 'c', 'DISABLED', 3, NULL, NULL, true`, `status = 'DISABLED' AND user_id = 3 AND coalesce(last_sync_at, created_at) + make_interval(mins => fresh_within_minutes) < clock_timestamp()`},
	{`NULL, NULL, NULL, 3, NULL, NULL, false`, `user_id = 3`},
	{`NULL, NULL, NULL, 3, 'user', NULL, false`, `user_id = 3 AND scope = 'user'`},
	{`NULL, NULL, NULL, NULL, 'user', NULL, false`, `scope = 'user'`},
	{`NULL, NULL, NULL, NULL, 'group', NULL, false`, `scope = 'group'`},
	{`NULL, NULL, NULL, NULL, 'group', 'g2', false`, `scope = 'group' AND scope_id = 'g2'`},
	{`NULL, NULL, NULL, NULL, NULL, 'g2', false`, `scope_id = 'g2'`},
	{`NULL, NULL, NULL, NULL, 'org', NULL, false`, `scope = 'org'`},
	{`NULL, NULL, NULL, NULL, 'system', NULL, false`, `scope = 'system'`},
	{`NULL, NULL, NULL, NULL, NULL, NULL, true`, `coalesce(last_sync_at, created_at) + make_interval(mins => fresh_within_minutes) < clock_timestamp()`},
	{`'web', 'c', NULL, 3, NULL, NULL, true`, `type = 'web' AND user_id = 3 AND coalesce(last_sync_at, created_at) + make_interval(mins => fresh_within_minutes) < clock_timestamp()`},
}

// Page by page, whoever asks, in either order, with every filter, however little one page looks at: what api.connectors shows, once, in its order.
func TestAListHasWhatItsViewerSeesOnceAndInItsOrder(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'source')`)
	b.exec(`INSERT INTO connectors (name, type, user_id, scope, scope_id, status, fresh_within_minutes, last_sync_at)
		SELECT 'c' || n, CASE WHEN n % 11 = 0 THEN 'word_count' WHEN n % 3 = 0 THEN 'file' ELSE 'web' END, 1 + n % 5, k.scope, CASE WHEN k.scope = 'group' THEN 'g' || n % 4 END,
			CASE WHEN n % 13 = 0 THEN 'DISABLED' ELSE 'ACTIVE' END, CASE WHEN n % 2 = 0 THEN 60 END, CASE WHEN n % 7 > 0 THEN now() - n * interval '1 minute' END
		FROM generate_series(1, 300) n, LATERAL (SELECT (ARRAY['user', 'group', 'org', 'user'])[1 + n % 4] AS scope) k`)
	b.exec(`UPDATE connector_types SET kind = 'job' WHERE name = 'word_count'`) // by hand: who sees its connectors changes
	b.exec(`UPDATE connectors SET scope = 'group', scope_id = 'g2' WHERE id % 17 = 0`)
	b.exec(`UPDATE connectors SET scope = 'org', scope_id = NULL WHERE id % 19 = 0`)
	b.exec(`UPDATE connectors SET user_id = 3 WHERE id % 23 = 0`)
	b.exec(`UPDATE connectors SET type = 'file' WHERE id % 31 = 0`)
	b.exec(`UPDATE connectors SET type = 'web' WHERE id % 37 = 0`)
	b.exec(`SET echomind.moving = 'on'`)
	b.exec(`UPDATE connectors SET status = 'ERROR' WHERE id % 5 = 0`)
	b.exec(`UPDATE connectors SET status = CASE status WHEN 'ERROR' THEN 'DISABLED' ELSE 'ACTIVE' END WHERE id % 3 = 0`)
	b.exec(`UPDATE connectors SET status = 'SYNCING', run_id = gen_random_uuid() WHERE id % 7 = 0`)
	b.exec(`RESET echomind.moving`)
	b.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version)
		SELECT run_id, id, user_id, type, 'schedule', now(), now(), now(), 1 FROM connectors WHERE run_id IS NOT NULL`)
	b.exec(`DELETE FROM connectors WHERE id % 29 = 0`)
	for _, who := range []identity.Who{
		{UserID: 3, Role: identity.User},
		{UserID: 3, Role: identity.User, Groups: []string{"g1", "g2", "g9"}},
		{UserID: 77, Role: identity.User, Groups: []string{"g2"}},
		{UserID: 3, Role: identity.Admin, Groups: []string{"g0"}},
		{UserID: 3, Role: identity.Superadmin},
	} {
		for _, f := range listFilters {
			for by, order := range map[bool]string{false: "id", true: "(SELECT f.fresh_until FROM api.by_freshness f WHERE f.id = connectors.id), id"} {
				b.serves(who, func(tx pgx.Tx) {
					rows, err := tx.Query(t.Context(), `SELECT id FROM api.connectors WHERE `+f.means+` ORDER BY `+order)
					if err != nil {
						t.Fatal(err)
					}
					want, err := pgx.CollectRows(rows, pgx.RowTo[int32])
					if err != nil {
						t.Fatal(err)
					}
					page, look := 1+rand.IntN(30), 1+rand.IntN([]int{100, 1000}[rand.IntN(2)])
					got := walked(t, tx, by, page, look, f.args)
					if !slices.Equal(got, want) {
						t.Errorf("%s of user %d in %v, by freshness %v, filter %s, pages of %d that look at %d: %v, want %v", who.Role, who.UserID, who.Groups, by, f.args, page, look, got, want)
					}
				})
			}
		}
	}
}

func TestNothingIsListedOfConnectorsThatWereTruncated(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'c', 'web', 7 FROM generate_series(1, 60)`)
	b.exec(`TRUNCATE connectors`)
	b.serves(identity.Who{UserID: 7, Role: identity.User}, func(tx pgx.Tx) {
		if listed := walked(t, tx, false, 50, 100, listFilters[0].args); listed != nil {
			t.Errorf("%v are listed", listed)
		}
	})
}

// A page token says the place in JSON, which has no year of five digits.
func TestNoPlaceByFreshnessIsBeyondTheLastMomentOfAConnector(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO connectors (name, type, user_id, created_at, fresh_within_minutes) VALUES ('a', 'web', 7, '9999-01-01 00:00+00', NULL), ('b', 'web', 7, '9999-01-01 00:00+00', 60)`)
	if last := one[string](b, `SELECT to_char(max(fresh_until) AT TIME ZONE 'UTC', 'YYYY') FROM connector_freshness`); last != "9999" {
		t.Errorf("one is at the year %s", last)
	}
}

// walked is what api.list_connectors lists, page by page.
func walked(t *testing.T, tx pgx.Tx, byFreshness bool, page, look int, filter string) (ids []int32) {
	t.Helper()
	after, id := "-infinity", int32(0)
	for range 2000 {
		rows, err := tx.Query(t.Context(), fmt.Sprintf(`SELECT connector_id, coalesce(fresh_until, 'infinity')::text, is_end FROM api.list_connectors(%v, '%s', %d, %d, %d, %s)`, byFreshness, after, id, page, look, filter))
		if err != nil {
			t.Fatal(err)
		}
		n, isEnd := 0, false
		for rows.Next() {
			if err := rows.Scan(&id, &after, &isEnd); err != nil {
				t.Fatal(err)
			}
			if !isEnd {
				n++
				ids = append(ids, id)
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if n < page && !isEnd {
			return ids
		}
	}
	t.Fatal("the pages do not end")
	return nil
}

// Where everybody sees 20,000, and so does each member of a group: a page reads a page of each, and a filter up to as many as it looks at.
func TestAPageReadsAPageOfEachThatItsViewerBelongsTo(t *testing.T) {
	b := newBase(t)
	b.exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at
	b.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	b.exec(`INSERT INTO connectors (name, type, user_id, scope, scope_id, last_sync_at, status)
		SELECT 'c', CASE WHEN n % 100 = 0 THEN 'word_count' ELSE 'web' END, 10 + n % 1000, k.scope, CASE WHEN k.scope = 'group' THEN 'g' || n / 3 % 2 END, now() - n * interval '1 second',
			CASE WHEN n > 59900 THEN 'ERROR' ELSE 'ACTIVE' END
		FROM generate_series(1, 60000) n, LATERAL (SELECT (ARRAY['user', 'group', 'org'])[1 + n % 3] AS scope) k`)
	b.exec(`INSERT INTO connector_freshness SELECT id, type, last_sync_at + make_interval(mins => 52560000), api.webhook_place(type, user_id, scope, scope_id) FROM connectors`)
	b.exec(`INSERT INTO connector_faults SELECT id, status, api.webhook_place(type, user_id, scope, scope_id), last_sync_at + make_interval(mins => 52560000) FROM connectors WHERE at_fault`)
	b.exec(`SET session_replication_role = 'origin'`)
	b.exec(`VACUUM ANALYZE connectors, connector_freshness, connector_faults`)
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprint("team-", i)
	}
	for _, who := range []identity.Who{
		{UserID: 7, Role: identity.User},
		{UserID: 50, Role: identity.User, Groups: []string{"g0", "g1"}},
		{UserID: 50, Role: identity.Admin, Groups: []string{"g0", "g1"}},
		{UserID: 50, Role: identity.Superadmin},
		{UserID: 50, Role: identity.User, Groups: many},
	} {
		b.serves(who, func(tx pgx.Tx) {
			for call, most := range map[string]int64{
				`(false, '-infinity', 0, 51, 20000, NULL, NULL, NULL, NULL, NULL, NULL, false)`:              120 + 6*int64(len(who.Groups)),
				`(true, '-infinity', 0, 51, 10000, NULL, NULL, NULL, NULL, NULL, NULL, false)`:               120 + 6*int64(len(who.Groups)),
				`(true, '-infinity', 0, 51, 10000, NULL, NULL, NULL, NULL, NULL, NULL, true)`:                120 + 6*int64(len(who.Groups)),
				`(false, '-infinity', 0, 51, 20000, NULL, NULL, 'ERROR', NULL, NULL, NULL, false)`:           120 + 6*int64(len(who.Groups)),
				`(true, '-infinity', 0, 51, 10000, NULL, NULL, 'ERROR', NULL, NULL, NULL, false)`:            120 + 6*int64(len(who.Groups)),
				`(false, '-infinity', 0, 51, 20000, NULL, NULL, 'DISABLED', NULL, NULL, NULL, true)`:         120 + 6*int64(len(who.Groups)),
				`(false, '-infinity', 0, 51, 20000, NULL, NULL, 'SYNCING', NULL, NULL, NULL, false)`:         120 + 6*int64(len(who.Groups)),
				`(true, '-infinity', 0, 51, 10000, 'web', NULL, 'PENDING', NULL, NULL, NULL, false)`:         120 + 6*int64(len(who.Groups)),
				`(true, '-infinity', 0, 51, 10000, 'web', 'c', 'ERROR', NULL, NULL, NULL, false)`:            600 + 6*int64(len(who.Groups)),
				`(false, '-infinity', 0, 51, 20000, NULL, 'nowhere', NULL, NULL, NULL, NULL, false)`:         90_000,
				`(true, '-infinity', 0, 51, 10000, NULL, 'nowhere', NULL, NULL, NULL, NULL, false)`:          45_000,
				`(false, '-infinity', 0, 51, 20000, 'file', 'c', NULL, NULL, NULL, NULL, false)`:             1000 + 6*int64(len(who.Groups)), // of another type, which their places say
				`(true, '-infinity', 0, 51, 10000, 'file', 'c', NULL, NULL, NULL, NULL, false)`:              1000 + 6*int64(len(who.Groups)),
				`(true, '-infinity', 0, 51, 10000, NULL, NULL, NULL, NULL, 'group', 'g1', false)`:            1500,
				`(false, '-infinity', 0, 51, 20000, NULL, NULL, NULL, 50, 'user', NULL, false)`:              2500, // all jobs, each by its key
				`(false, '-infinity', 0, 51, 20000, 'web', NULL, 'INACTIVE', NULL, 'org', 'nowhere', false)`: 90_000,
			} {
				if n, plan := buffersOf(t, tx, `SELECT * FROM api.list_connectors`+call); n > most {
					t.Errorf("%s in %d groups: %s reads %d buffers, want at most %d:\n%s", who.Role, len(who.Groups), call, n, most, plan)
				} else {
					t.Logf("%s in %d groups: %d buffers: %s", who.Role, len(who.Groups), n, call)
				}
			}
		})
	}
}

// Very many in flight, of which a page is found soon: by number it reads no more of them than that.
func TestAPageByNumberOfThoseInFlightReadsNoFurtherThanItsEnd(t *testing.T) {
	b := newBase(t)
	b.exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at
	b.exec(`INSERT INTO connectors (name, type, user_id, scope, status, run_id) SELECT 'c', 'web', 1, 'org', CASE WHEN n % 2 = 0 THEN 'SYNCING' ELSE 'ACTIVE' END, CASE WHEN n % 2 = 0 THEN gen_random_uuid() END
		FROM generate_series(1, 10000) n`)
	b.exec(`INSERT INTO connector_freshness SELECT id, type, created_at, 'org' FROM connectors`)
	b.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version)
		SELECT run_id, id, user_id, type, 'schedule', now(), now(), now(), 1 FROM connectors WHERE run_id IS NOT NULL`)
	b.exec(`SET session_replication_role = 'origin'`)
	b.exec(`VACUUM ANALYZE connectors, connector_freshness, open_runs`)
	for _, role := range []identity.Role{identity.User, identity.Superadmin} {
		b.serves(identity.Who{UserID: 7, Role: role}, func(tx pgx.Tx) {
			for _, after := range []int{0, 5000} {
				call := fmt.Sprintf(`SELECT * FROM api.list_connectors(false, '-infinity', %d, 51, 5000, NULL, NULL, 'SYNCING', NULL, NULL, NULL, false)`, after)
				if n, plan := buffersOf(t, tx, call); n > 2000 {
					t.Errorf("%s: %s reads %d buffers:\n%s", role, call, n, plan)
				}
			}
		})
	}
}

// Who is in many groups of many each: a page looks at as many of all together as of one, and by number reads the index alone.
func TestAPageOfManyGroupsLooksAtNoMoreThanOfOne(t *testing.T) {
	b := newBase(t)
	b.exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at
	b.exec(`INSERT INTO connectors (name, type, user_id, scope, scope_id, last_sync_at) SELECT 'c', 'web', 9, 'group', 'team-' || n % 200, now() - n * interval '1 second' FROM generate_series(1, 40000) n`)
	b.exec(`INSERT INTO connector_freshness SELECT id, type, last_sync_at + make_interval(mins => 52560000), api.webhook_place(type, user_id, scope, scope_id) FROM connectors`)
	b.exec(`INSERT INTO connector_faults SELECT id, status, api.webhook_place(type, user_id, scope, scope_id), last_sync_at + make_interval(mins => 52560000) FROM connectors WHERE at_fault`)
	b.exec(`SET session_replication_role = 'origin'`)
	b.exec(`VACUUM ANALYZE connectors, connector_freshness, connector_faults`)
	groups := make([]string, 200)
	for i := range groups {
		groups[i] = fmt.Sprint("team-", i)
	}
	b.serves(identity.Who{UserID: 7, Role: identity.User, Groups: groups}, func(tx pgx.Tx) {
		for call, most := range map[string]int64{
			`(false, '-infinity', 0, 501, 2000, NULL, 'nowhere', NULL, NULL, NULL, NULL, false)`: 12_000,
			`(true, '-infinity', 0, 501, 2000, NULL, 'nowhere', NULL, NULL, NULL, NULL, false)`:  12_000,
			`(false, '-infinity', 0, 4900, 2000, 'file', NULL, NULL, NULL, NULL, NULL, false)`:   12_000,
		} {
			if n, plan := buffersOf(t, tx, `SELECT * FROM api.list_connectors`+call); n > most {
				t.Errorf("%s reads %d buffers, want at most %d:\n%s", call, n, most, plan)
			} else {
				t.Logf("%d buffers: %s", n, call)
			}
		}
		for _, byFreshness := range []bool{false, true} {
			ids := walked(t, tx, byFreshness, 501, 2000, `NULL, NULL, NULL, NULL, NULL, NULL, false`)
			slices.Sort(ids)
			if n := len(slices.Compact(ids)); n != 40_000 || len(ids) != n {
				t.Errorf("by freshness %v: %d of 40,000 on the pages, %d different ones", byFreshness, len(ids), n)
			}
		}
	})
	b.exec(`UPDATE connector_freshness SET fresh_until = fresh_until`) // nothing is vacuumed since: each entry that is looked at costs a page
	b.serves(identity.Who{UserID: 7, Role: identity.User, Groups: groups}, func(tx pgx.Tx) {
		for _, call := range []string{`(false, '-infinity', 0, 501, 2000,`, `(true, '-infinity', 0, 501, 2000,`, `(false, '-infinity', 0, 151, 2000,`, `(true, '-infinity', 0, 151, 2000,`} {
			if n, plan := buffersOf(t, tx, `SELECT * FROM api.list_connectors`+call+` NULL, NULL, NULL, NULL, NULL, NULL, false)`); n > 15_000 {
				t.Errorf("%s: a long page reads %d buffers:\n%s", call, n, plan)
			} else {
				t.Logf("%s: %d buffers", call, n)
			}
		}
	})
}

// A group is added at once, and nobody has analyzed since: each of its connectors is read by its key.
func TestAPageOfAGroupThatIsNewerThanStatisticsReadsItOnce(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO connectors (name, type, user_id) VALUES ('c', 'web', 9)`)
	b.exec(`ANALYZE connectors, connector_freshness`)
	b.exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at
	b.exec(`INSERT INTO connectors (name, type, user_id, scope, scope_id, last_sync_at) SELECT 'c', 'web', 9, 'group', 'new', now() FROM generate_series(1, 2000) n`)
	b.exec(`INSERT INTO connector_freshness SELECT id, type, last_sync_at + make_interval(mins => 52560000), api.webhook_place(type, user_id, scope, scope_id) FROM connectors WHERE scope = 'group'`)
	b.exec(`SET session_replication_role = 'origin'`)
	b.serves(identity.Who{UserID: 7, Role: identity.User, Groups: []string{"new"}}, func(tx pgx.Tx) {
		if n, plan := buffersOf(t, tx, `SELECT * FROM api.list_connectors(false, '-infinity', 0, 51, 20000, 'file', NULL, NULL, NULL, 'group', 'new', false)`); n > 20_000 {
			t.Errorf("it reads %d buffers, want at most 20000:\n%s", n, plan)
		} else {
			t.Logf("%d buffers", n)
		}
	})
}

// Statistics are of a time when everybody saw all that there was: by them, each group sees as many, and the index of all would do, which has what others see between them.
func TestAPageOfGroupsThatAreNewerThanStatisticsReadsNothingOfOthers(t *testing.T) {
	b := newBase(t)
	b.exec(`ALTER TABLE connector_freshness SET (autovacuum_enabled = off)`)
	b.exec(`ALTER TABLE connector_faults SET (autovacuum_enabled = off)`)
	fill := func(what string) {
		b.exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at
		b.exec(`WITH added AS (INSERT INTO connectors (name, type, user_id, scope, status, last_sync_at) ` + what + ` RETURNING *),
			at_fault AS (INSERT INTO connector_faults SELECT id, status, api.webhook_place(type, user_id, scope, scope_id), last_sync_at + make_interval(mins => 52560000) FROM added WHERE at_fault)
			INSERT INTO connector_freshness SELECT id, type, last_sync_at + make_interval(mins => 52560000), api.webhook_place(type, user_id, scope, scope_id) FROM added`)
		b.exec(`SET session_replication_role = 'origin'`)
	}
	fill(`SELECT 'c', 'web', 9, 'org', CASE WHEN n > 9997 THEN 'ERROR' ELSE 'ACTIVE' END, now() - n * interval '1 second' FROM generate_series(1, 10000) n`)
	b.exec(`ANALYZE connectors, connector_freshness, connector_faults`)
	fill(`SELECT 'c', 'web', 10 + n % 100, 'user', CASE WHEN n % 2 = 0 THEN 'ERROR' ELSE 'ACTIVE' END, now() - n * interval '1 second' FROM generate_series(1, 20000) n`)
	groups := make([]string, 20)
	for i := range groups {
		groups[i] = fmt.Sprint("team-", i)
	}
	b.serves(identity.Who{UserID: 7, Role: identity.User, Groups: groups}, func(tx pgx.Tx) {
		for call, most := range map[string]int64{
			`(false, '-infinity', 0, 51, 20000, NULL, NULL, NULL, NULL, NULL, NULL, false)`:      300,
			`(true, '-infinity', 0, 51, 10000, NULL, NULL, NULL, NULL, NULL, NULL, false)`:       300,
			`(false, '-infinity', 0, 51, 20000, NULL, NULL, 'ERROR', NULL, NULL, NULL, false)`:   300,
			`(true, '-infinity', 0, 51, 10000, NULL, NULL, 'ERROR', NULL, NULL, NULL, true)`:     300,
			`(true, '-infinity', 0, 51, 10000, NULL, NULL, 'DISABLED', NULL, NULL, NULL, false)`: 300,
			`(false, '-infinity', 0, 51, 2000, NULL, 'nowhere', NULL, NULL, NULL, NULL, false)`:  1500,
			`(true, '-infinity', 0, 51, 2000, NULL, 'nowhere', NULL, NULL, NULL, NULL, false)`:   1500,
		} {
			if n, plan := buffersOf(t, tx, `SELECT * FROM api.list_connectors`+call); n > most {
				t.Errorf("%s reads %d buffers, want at most %d:\n%s", call, n, most, plan)
			} else {
				t.Logf("%d buffers: %s", n, call)
			}
		}
	})
}

// In the order of freshness none is late behind one that is not.
func TestAListOfLateOnesEndsWhereTheLastIsLate(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO connectors (name, type, user_id, fresh_within_minutes, last_sync_at) SELECT 'c', 'web', 7, 60, now() - CASE WHEN n <= 5 THEN interval '2 hours' ELSE interval '1 minute' END FROM generate_series(1, 60) n`)
	for _, who := range []identity.Who{{UserID: 7, Role: identity.User}, {UserID: 1, Role: identity.Superadmin}} {
		b.serves(who, func(tx pgx.Tx) {
			for filter, most := range map[string]int{`NULL, 'nowhere', NULL, NULL, NULL, NULL, true`: 0, `'web', NULL, NULL, NULL, NULL, NULL, true`: 5} {
				listed := one[int](b, `SELECT count(*) FROM api.list_connectors(true, '-infinity', 0, 10, 20, `+filter+`)`)
				if listed != most {
					t.Errorf("%s, filter %s: %d rows, want %d and no end of what was looked at", who.Role, filter, listed, most)
				}
			}
		})
	}
}
