package db_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/internal/identity"
)

// A user signs in, known or not, with any number of others, on statistics and plans of a quiet time.
func TestASignInReadsWhatIsTheirs(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO identities (issuer, subject, user_id) SELECT 'https://id.example', 'q' || n, n FROM generate_series(300001, 300060) n`)
	b.exec(`INSERT INTO removed_users SELECT n FROM generate_series(400001, 400060) n`)
	b.exec(`INSERT INTO users SELECT n, 'admin' FROM generate_series(300001, 300060) n`)
	b.exec(`INSERT INTO group_members SELECT n, 'g', false FROM generate_series(300001, 300060) n`)
	for _, table := range []string{"identities", "removed_users", "users", "group_members"} {
		b.exec(`ALTER TABLE ` + table + ` SET (autovacuum_enabled = false)`) // the plans stay those of a quiet time
		b.exec(`ANALYZE ` + table)
	}
	once := func(subject string, named any) int64 {
		t.Helper()
		text := one[string](b, `EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) SELECT * FROM api.sign_in('https://id.example', $1, $2::integer, 'admin', 10000, 'r')`, subject, named)
		_, shared, _ := strings.Cut(text, `"Shared Hit Blocks": `)
		return leading(shared)
	}
	// The least of three: what another database does to the catalogue's shared tables has this connection read it again, which is no part of a sign-in.
	plan := func(subject string, named any) int64 {
		t.Helper()
		if subject == "s70" {
			return min(once(subject, named), once(subject, named), once(subject, named))
		}
		return min(once(subject+"1", named), once(subject+"2", named), once(subject+"3", named))
	}
	b.exec(`SET plan_cache_mode = 'force_generic_plan'`)
	once("s0", nil)
	other := connectTo(t, b.url)
	other.exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at; a session that says this plans all anew
	other.exec(`INSERT INTO identities (issuer, subject, user_id) SELECT 'https://id.example', 's' || n, n FROM generate_series(1, 30000) n`)
	other.exec(`INSERT INTO removed_users SELECT 200000 + n FROM generate_series(1, 10000) n`)
	other.exec(`INSERT INTO users SELECT n, 'admin' FROM generate_series(1, 20000) n`)
	other.exec(`INSERT INTO group_members SELECT n % 20000 + 1, 'g' || n, false FROM generate_series(1, 30000) n`)
	for name, read := range map[string]int64{"a known one": plan("s70", nil), "one of no user's": plan("x", 200001), "a named one": plan("y", 7), "a new one": plan("z", nil)} {
		if read > 60 {
			t.Errorf("%s reads %d buffers", name, read)
		} else {
			t.Logf("%s reads %d buffers", name, read)
		}
	}
}

// A request that has begun before its user was removed makes no token; one that they had made by then counts no more.
func TestARemovedUserWhomAnIssuerHasSignedInMakesNoToken(t *testing.T) {
	b := newBase(t)
	who := identity.Who{UserID: 7, Issuer: "https://id.example", Subject: "s", Role: identity.User, Scopes: []identity.Scope{identity.Read, identity.Write}}
	makes := func() error {
		b.Helper()
		b.exec(`BEGIN`)
		b.exec(`SELECT set_config('echomind.request', $1, true)`, identity.Request{Who: who}.Setting())
		_, err := b.conn.Exec(b.Context(), `SELECT api.create_token(7, '', 'user', '{read,write}', sha256('s'), NULL)`)
		if err != nil {
			b.exec(`ROLLBACK`)
			return err
		}
		b.exec(`COMMIT`)
		return nil
	}
	if err := makes(); err != nil {
		t.Fatal(err)
	}
	b.exec(`INSERT INTO removed_users VALUES (7)`)
	if n := one[int](b, `SELECT count(*) FROM access_tokens WHERE revoked_at IS NULL`); n != 0 {
		t.Errorf("%d tokens count", n)
	}
	var pg *pgconn.PgError
	if err := makes(); !errors.As(err, &pg) || pg.ConstraintName != "access_tokens_rights" {
		t.Errorf("a token was made: %v", err)
	}
}
