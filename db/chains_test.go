package db_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/testonly/testkit"
)

// manual are connectors of user 1 that nothing runs but a trigger.
func (b *base) manual(n int) []int32 {
	b.Helper()
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = one[int32](b, `INSERT INTO connectors (name, type, user_id) VALUES ('docs', 'web', 1) RETURNING id`)
	}
	return ids
}

const runAfter = `INSERT INTO run_after (connector_id, upstream_id) VALUES ($1, $2)`

// refuses fails the test unless a statement is refused with these words.
func (b *base) refuses(words, sql string, args ...any) {
	b.Helper()
	if _, err := b.conn.Exec(b.Context(), sql, args...); err == nil || !strings.Contains(err.Error(), words) {
		b.Errorf("%s %v: %v, want %s", sql, args, err, words)
	}
}

func TestACycleIsRefusedWithItsConnectors(t *testing.T) {
	b := newBase(t)
	ids := b.manual(4)
	b.exec(runAfter, ids[1], ids[0])
	b.exec(runAfter, ids[2], ids[1])
	b.exec(runAfter, ids[3], ids[0])
	b.refuses(fmt.Sprintf("a connector would run after itself: %d after %d after %d after %d", ids[0], ids[2], ids[1], ids[0]), runAfter, ids[0], ids[2])
	b.refuses("run_after_not_itself", runAfter, ids[0], ids[0])
	b.exec(runAfter, ids[2], ids[3])
	b.exec(`DELETE FROM run_after`)
	// Many rows at once: with a cycle among them, and as long a chain without one.
	more := b.manual(200)
	chain := `INSERT INTO run_after (connector_id, upstream_id) SELECT a, b FROM unnest($1::integer[], $2::integer[]) k(a, b)`
	b.refuses("would run after itself", chain, more, append(more[1:], more[0]))
	b.exec(chain, more[:199], more[1:])
	b.refuses("would run after itself", runAfter, more[199], more[0])
	if n := one[int](b, `SELECT count(*) FROM run_after`); n != 199 {
		t.Errorf("%d rows, want 199", n)
	}
}

func TestTwoWritersDoNotCloseHalfOfACycleEach(t *testing.T) {
	b := newBase(t)
	ids := b.manual(2)
	other, err := pgx.ConnectConfig(t.Context(), b.conn.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(t.Context()) }()
	tx, err := b.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), runAfter, ids[0], ids[1]); err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 1)
	go func() {
		_, err := other.Exec(t.Context(), runAfter, ids[1], ids[0])
		refused <- err
	}()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; err == nil || !strings.Contains(err.Error(), "would run after itself") {
		t.Errorf("%v, want a refusal", err)
	}
	stricter, err := b.conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stricter.Rollback(t.Context()) }()
	if _, err := stricter.Exec(t.Context(), runAfter, ids[1], ids[0]); err == nil || !strings.Contains(err.Error(), "read committed") {
		t.Errorf("%v, want a refusal of what might not see the other", err)
	}
}

func TestNobodyRunsAfterAConnectorThatItsOwnerDoesNotSee(t *testing.T) {
	b := newBase(t)
	mine := b.manual(2)
	add := func(scope, values string) int32 {
		return one[int32](b, `INSERT INTO connectors (name, type, user_id, scope, scope_id) VALUES ('c', 'web', 2, `+scope+`, `+values+`) RETURNING id`)
	}
	theirs, everybodys, group, others := add(`'user'`, `NULL`), add(`'org'`, `NULL`), add(`'group'`, `'ours'`), add(`'group'`, `'theirs'`)
	b.exec(`INSERT INTO users (user_id) VALUES (1), (2)`)
	b.exec(`INSERT INTO group_members (user_id, group_id) VALUES (1, 'ours')`)
	for _, id := range []int32{theirs, others, 1_000_000} {
		b.refuses(fmt.Sprintf("upstream_id is %d, which does not exist, or which the owner of connector \"docs\" does not see", id), runAfter, mine[0], id)
	}
	b.refuses("connector_id is 1000000, which does not exist", runAfter, 1_000_000, mine[0])
	for _, id := range []int32{mine[1], everybodys, group} {
		b.exec(runAfter, mine[0], id)
	}
	b.refuses("cannot be changed", `UPDATE run_after SET upstream_id = $1 WHERE upstream_id = $2`, theirs, group)
}

func TestSystemJobsRunAfterEachOtherByTheirAdministratorsAlone(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO connector_types (name, kind, system, max_concurrent_syncs) VALUES ('sweep_a', 'job', true, 0), ('sweep_b', 'job', true, 0)`)
	add := `INSERT INTO connectors (name, type, scope) VALUES ('c', $1, 'system') RETURNING id`
	first, second := one[int32](b, add, "sweep_a"), one[int32](b, add, "sweep_b")
	mine := b.manual(1)[0]
	b.refuses("does not see", runAfter, mine, first)
	b.refuses("does not see", runAfter, first, mine)
	b.exec(`SET ROLE echomind_console`)
	b.refuses("administrators alone", runAfter, second, first)
	b.exec(`RESET ROLE`)
	b.exec(runAfter, second, first)
	b.exec(`SET ROLE echomind_console`)
	b.refuses("administrators alone", `UPDATE run_after SET timeout_minutes = 5`)
	b.refuses("administrators alone", `DELETE FROM run_after`)
	b.exec(`RESET ROLE`)
	b.exec(`DELETE FROM run_after`)
}

func TestAConnectorRunsAfterAThousandOthersAtMost(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'c', 'web', 1 FROM generate_series(1, 1002)`)
	b.refuses("more than 1000 others", `INSERT INTO run_after (connector_id, upstream_id) SELECT 1, i FROM generate_series(2, 1002) i`)
	b.refuses("more than 1000 connectors would run after connector 1", `INSERT INTO run_after (connector_id, upstream_id) SELECT i, 1 FROM generate_series(2, 1002) i`)
}

func TestADeletedConnectorLeavesItsChain(t *testing.T) {
	b := newBase(t)
	ids := b.manual(3)
	b.exec(runAfter, ids[1], ids[0])
	b.exec(runAfter, ids[2], ids[1])
	b.holds(ids[1], `c.follows AND c.followed AND NOT c.asks_upstreams AND c.due_at IS NULL`)
	b.exec(`DELETE FROM connectors WHERE id = $1`, ids[1])
	b.exec(`SELECT moves.hand_on($1, 0, 100)`, ids[1])
	b.exec(`SELECT moves.have_told($1, 0, 'gone', (SELECT tell_at FROM upstream_ends WHERE connector_id = $1), '{}')`, ids[1])
	if got := one[string](b, `SELECT (SELECT count(*) FROM run_after) || ' ' || (SELECT string_agg(connector_id::text, ',') FROM upstream_ends) || ' '
			|| (SELECT string_agg(connector_id::text, ',') FROM followers)`); got != fmt.Sprintf("0 %d %d", ids[0], ids[2]) {
		t.Errorf("left are %s", got)
	}
}

func TestATruncateLeavesNothingOfChains(t *testing.T) {
	b := newBase(t)
	ids := b.manual(3)
	b.exec(runAfter, ids[1], ids[0])
	b.exec(runAfter, ids[2], ids[1])
	b.exec(`TRUNCATE connectors`)
	for _, table := range []string{"run_after", "upstream_ends", "upstream_uses", "followers"} {
		if n := one[int](b, `SELECT count(*) FROM `+table); n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
}

func TestACycleAmongThousandsOfRowsIsFoundInOnePass(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO owner_quotas (user_id, max_connectors) VALUES (1, 30000)`)
	b.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'c', 'web', 1 FROM generate_series(1, 2001)`)
	b.exec(`INSERT INTO run_after (connector_id, upstream_id) SELECT i + 1, i FROM generate_series(1, 2000) i`)
	if !one[bool](b, `SELECT moves.cycle_of(array_agg(connector_id)) IS NULL FROM run_after`) {
		t.Error("a chain is a cycle")
	}
	read, _ := b.explained(`SELECT moves.cycle_of(array_agg(connector_id)) FROM run_after`, nil)
	if t.Logf("a cycle among 2,000 rows is looked for in %d buffers", read); read > 20*2000 { // where each step looks at all that is left, many times as many
		t.Errorf("a cycle is looked for among 2,000 rows in %d buffers, want at most 20 for each row", read)
	}
	b.refuses("a connector would run after itself: 1 after 2001 after 2000 after 1999 after", runAfter, 1, 2001)
	b.exec(runAfter, 2001, 1)
}

func TestOfManyEdgesACycleIsNamedAndNothingElse(t *testing.T) {
	b := newBase(t)
	for name, c := range map[string]struct{ befores, afters, want string }{
		"none":                             {`{1,1,2,3}`, `{2,3,4,4}`, ""},
		"two":                              {`{1,2}`, `{2,1}`, "1 2 1"},
		"what comes before it, and after":  {`{9,1,2,3,3}`, `{1,2,3,1,4}`, "1 3 2 1"},
		"the lowest comes after the cycle": {`{5,6,6,1}`, `{6,5,1,2}`, "6 5 6"},
		"two of them":                      {`{1,2,7,8}`, `{2,1,8,7}`, "1 2 1"},
		"two ways to the same":             {`{1,1,2,3,4}`, `{2,3,4,4,1}`, "1 4 2 1"},
	} {
		if got := one[string](b, `SELECT coalesce(array_to_string(moves.cycle_among($1::integer[], $2::integer[]), ' '), '')`, c.befores, c.afters); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// held returns when another's statement waits for a lock.
func (b *base) held(other *base) {
	b.Helper()
	watcher := b.other()
	testkit.Eventually(b.T, 10*time.Second, func() error {
		if !one[bool](watcher, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock')`, other.conn.PgConn().PID()) {
			return errors.New("it does not wait")
		}
		return nil
	})
}

// Whoever deletes a connector has its lock, and then waits for its rows of run_after: who has these waits for no connector.
func TestAWriterOfAChainWaitsForNoConnector(t *testing.T) {
	b := newBase(t)
	ids := b.manual(3)
	b.exec(runAfter, ids[2], ids[0])
	b.exec(runAfter, ids[2], ids[1])
	deleting := connectTo(t, b.url)
	deleting.exec(`BEGIN`)
	deleting.exec(`SELECT FROM connectors WHERE id = $1 FOR UPDATE`, ids[2])
	b.exec(`BEGIN`)
	b.exec(`UPDATE run_after SET timeout_minutes = 5 WHERE upstream_id = $1`, ids[0])
	b.exec(`DELETE FROM run_after WHERE upstream_id = $1`, ids[1])
	deleted := make(chan error, 1)
	go func() {
		_, err := deleting.conn.Exec(context.Background(), `DELETE FROM connectors WHERE id = $1`, ids[2])
		deleted <- err
	}()
	b.held(deleting)
	b.exec(`COMMIT`)
	if err := <-deleted; err != nil {
		t.Error(err)
	}
	deleting.exec(`COMMIT`)
	if n := one[int](b, `SELECT count(*) FROM run_after`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// Two that change rows in several statements, each the other's first row last, would wait in a circle.
func TestTwoWritersOfChainsDoNotWaitInACircle(t *testing.T) {
	b := newBase(t)
	ids := b.manual(3)
	b.exec(runAfter, ids[1], ids[0])
	b.exec(runAfter, ids[2], ids[0])
	const change = `UPDATE run_after SET timeout_minutes = 5 WHERE connector_id = $1`
	b.exec(`BEGIN`)
	b.exec(change, ids[1])
	other := connectTo(t, b.url)
	done := make(chan error, 1)
	go func() {
		for _, id := range []int32{ids[2], ids[1]} {
			if _, err := other.conn.Exec(context.Background(), change, id); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	b.held(other)
	b.exec(change, ids[2])
	b.exec(`COMMIT`)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
