package db_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/testonly/movestest"
)

const addOf = `INSERT INTO connectors (name, type, user_id) SELECT 'docs', 'web', $1::int FROM generate_series(1, $2::int)`

// bounded sets how many connectors an owner may have; owner 0 is everybody.
func (b *base) bounded(owner, most int) {
	b.Helper()
	b.exec(`INSERT INTO owner_quotas (user_id, max_connectors) VALUES ($1, $2)
		ON CONFLICT (user_id) DO UPDATE SET max_connectors = EXCLUDED.max_connectors`, owner, most)
}

const perOwner = "connectors_per_owner"

func TestAnOwnerHasNoMoreConnectorsThanTheQuota(t *testing.T) {
	b := newBase(t)
	b.bounded(0, 3)
	b.exec(addOf, 1, 2)
	b.refused(perOwner, addOf, 1, 2)
	b.exec(addOf, 1, 1)
	b.refused(perOwner, addOf, 1, 1)
	b.exec(addOf, 2, 3) // each has as many
	b.refused(perOwner, `INSERT INTO connectors (name, type, user_id) VALUES ('a', 'web', 3), ('b', 'web', 2)`)

	b.exec(`DELETE FROM connectors WHERE id = (SELECT min(id) FROM connectors WHERE user_id = 1)`)
	b.exec(addOf, 1, 1)
	b.refused(perOwner, `UPDATE connectors SET user_id = 1 WHERE id = (SELECT min(id) FROM connectors WHERE user_id = 2)`)
	b.exec(`UPDATE connectors SET user_id = 4 WHERE user_id = 2`)
	b.exec(addOf, 2, 3)
	b.refused(perOwner, addOf, 4, 1)
	if n := one[int](b, `SELECT count(*) FROM (SELECT user_id, count(*) FROM connectors GROUP BY 1 EXCEPT
		SELECT user_id, sum(connectors) FROM owner_counts GROUP BY 1) differs`); n != 0 {
		t.Errorf("%d owners are counted wrong", n)
	}
}

func TestTheRefusalNamesOwnerNumbersAndTheWayOut(t *testing.T) {
	b := newBase(t)
	b.bounded(0, 2)
	_, err := b.conn.Exec(t.Context(), addOf, 7, 5)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Message != "user_id 7: would have 5 connectors, and may have 2" ||
		!strings.Contains(pg.Hint, "max_connectors of this user_id in owner_quotas") || pg.Code != "23514" {
		t.Errorf("%+v", pg)
	}
}

func TestTheOperatorGivesAnOwnerAnotherQuota(t *testing.T) {
	b := newBase(t)
	if n := one[int](b, `SELECT max_connectors FROM owner_quotas WHERE user_id = 0`); n != 10000 {
		t.Errorf("%d are allowed", n)
	}
	b.bounded(0, 2)
	b.bounded(1, 5)
	b.bounded(2, 0)
	b.exec(`INSERT INTO owner_quotas (user_id, max_concurrent_syncs) VALUES (3, 1)`)
	b.exec(addOf, 1, 5)
	b.refused(perOwner, addOf, 1, 1)
	b.exec(addOf, 2, 50)
	b.refused(perOwner, addOf, 3, 3) // what its row leaves out is as for everybody
	b.bounded(1, 3)                  // what is there stays, and moves
	id := one[int32](b, `SELECT min(id) FROM connectors WHERE user_id = 1`)
	b.exec(`UPDATE connectors SET refresh_freq_minutes = 60, name = 'other' WHERE id = $1`, id)
	b.complete(id)
	b.exec(`DELETE FROM owner_quotas`)
	b.exec(addOf, 1, 20)
}

func TestWhoAddsAConnectorWaitsForNobodyElsesTransaction(t *testing.T) {
	b := newBase(t)
	b.bounded(0, 4)
	b.exec(addOf, 1, 1)
	other := b.other()
	other.exec(`BEGIN`)
	other.exec(addOf, 1, 1)
	other.exec(`DELETE FROM connectors WHERE id = (SELECT min(id) FROM connectors)`)
	b.exec(`SET statement_timeout = '5s'`)
	b.exec(addOf, 1, 1)
	other.exec(`COMMIT`)
	b.exec(addOf, 1, 2)
	b.refused(perOwner, addOf, 1, 1)
	if n := one[int](b, `SELECT sum(connectors) FROM owner_counts WHERE user_id = 1`); n != 4 {
		t.Errorf("%d are counted", n)
	}
	if n := one[int](b, `SELECT count(*) FROM owner_counts`); n > 2 {
		t.Errorf("two transactions at once made %d rows of an owner", n)
	}
}

// As tools do that read first and write then.
func TestATransactionOfAStricterIsolationAddsAndEndsWhateverOthersDo(t *testing.T) {
	b := newBase(t)
	first, second := b.in("SYNCING"), b.in("SYNCING")
	b.exec(`INSERT INTO waiting_types SELECT name, true FROM connector_types ON CONFLICT (name) DO UPDATE SET waits = true`)
	user := b.other()
	user.exec(`BEGIN ISOLATION LEVEL REPEATABLE READ`)
	user.exec(`SELECT count(*) FROM connectors`)
	b.exec(addOf, 1, 1)
	b.exec(`SELECT moves.disable($1)`, first) // takes the flag down
	user.exec(addOf, 1, 1)
	user.exec(`SELECT moves.disable($1)`, second)
	user.exec(`COMMIT`)
	b.exec(addOf, 1, 1)
	if n := one[int](b, `SELECT sum(connectors) FROM owner_counts WHERE user_id = 1`); n != 5 {
		t.Errorf("%d are counted of 5", n)
	}
	if n := one[int](b, `SELECT count(*) FROM owner_counts WHERE user_id = 1`); n != 1 {
		t.Errorf("its count is in %d rows", n)
	}
}

func TestNothingIsCountedOfConnectorsThatAreAllTruncated(t *testing.T) {
	b := newBase(t)
	b.bounded(0, 3)
	b.exec(addOf, 1, 3)
	b.exec(`TRUNCATE connectors CASCADE`)
	b.exec(addOf, 1, 3)
	b.refused(perOwner, addOf, 1, 1)
}

func TestARefusedInsertIsNotCounted(t *testing.T) {
	b := newBase(t)
	b.bounded(0, 2)
	for range 3 {
		b.refused(perOwner, addOf, 1, 3)
	}
	b.exec(addOf, 1, 2)
}

// A connector that is moved has its owner from before: no move counts anything.
func TestMovesDoNotCountConnectors(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	before := one[string](b, `SELECT (xmin, ctid)::text FROM owner_counts WHERE user_id = 1`)
	b.complete(id)
	movestest.Syncing(t, b.conn, id)
	b.exec(`SELECT moves.disable($1)`, id)
	b.exec(`SELECT moves.enable($1)`, id)
	if after := one[string](b, `SELECT (xmin, ctid)::text FROM owner_counts WHERE user_id = 1`); after != before {
		t.Error("the count was written")
	}
}

// Promise 4: what its new viewers may not see is gone, and still it does not stand there without a word.
func TestWhatIsOffOrHasFailedSaysSoToItsNewOwner(t *testing.T) {
	b := newBase(t)
	for _, change := range []string{`user_id = 8`, `scope = 'org'`, `type = 'file'`} {
		off, failed := b.connector(), b.connector()
		b.exec(`SELECT moves.disable($1, 'leaks private.example')`, off)
		try := b.syncing(failed)
		b.exec(`SELECT moves.fail($1, $2, 'transient', 'cannot read private.example')`, try.Run, try.ID)
		b.exec(`UPDATE connectors SET `+change+` WHERE id IN ($1, $2)`, off, failed)
		b.holds(off, `c.status = 'DISABLED' AND c.status_message = 'disabled before its type, user or scope changed'`)
		b.holds(failed, `c.status = 'ERROR' AND c.status_message = 'failed before its type, user or scope changed' AND c.next_sync_at <= clock_timestamp()`)
		b.exec(`DELETE FROM connectors`)
	}
}
